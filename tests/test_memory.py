import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.mark.slow
def test_the_peak_memory_of_a_large_fit_is_below_one_gigabyte():
    # 40,000 x 20,000 with a million observed: the dense matrix alone would take three.
    run = [sys.executable, "-c", "from benchmarks.memory import fit; fit()"]
    answer = subprocess.run(run, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    megabytes, sweeps, _ = map(float, answer.split())
    assert sweeps == 3
    assert 100 < megabytes < 1000

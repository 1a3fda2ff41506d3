"""The code of CONTRIBUTING.md runs, in a process of its own: it adds to registries."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]


def test_the_code_of_the_page_runs():
    runner = ROOT / "docs" / "_ext" / "run_examples.py"
    done = subprocess.run(
        [sys.executable, runner, ROOT / "CONTRIBUTING.md"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr

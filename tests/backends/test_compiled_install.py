"""Whether compiled kernels serve, and what is left without them."""

import subprocess
import sys
from importlib.util import find_spec

import pytest

from reference import random_matrix
from tribit import Observations, pn
from tribit.backends import compiled, make_backend
from tribit.backends.sparse import SparseBackend
from tribit.model.links import Probit

needs_numba = pytest.mark.skipif(
    find_spec("numba") is None, reason='needs compiled kernels: pip install "tribit[fast]"'
)


def test_the_environment_and_the_number_of_entries_decide(monkeypatch):
    monkeypatch.setattr(compiled, "are_available", lambda: True)
    few, many = compiled.MIN_ENTRIES - 1, compiled.MIN_ENTRIES
    monkeypatch.delenv(compiled.VARIABLE, raising=False)
    assert [compiled.kernels_for(few), compiled.kernels_for(many)] == [False, True]
    monkeypatch.setenv(compiled.VARIABLE, "1")
    assert compiled.kernels_for(few)
    monkeypatch.setenv(compiled.VARIABLE, "0")
    assert not compiled.kernels_for(many)


def in_a_process(code, folder):
    done = subprocess.run(
        [sys.executable, "-W", "always", "-c", code],
        capture_output=True,
        text=True,
        check=False,
        cwd=folder,
    )
    assert done.returncode == 0, done.stderr
    return done


FIT = """
import os, sys
sys.path.insert(0, os.getcwd())
os.environ["TRIBIT_COMPILED"] = "1"
import numpy as np
from tribit import BinaryMatrixCompletion
A = np.random.default_rng(0).choice([-1, 0, 1], (30, 20))
for _ in range(2):
    fixed = {"l2_intercept": 1.0, "search": False}
    BinaryMatrixCompletion(rank=2, l2=1.0, random_state=0, **fixed).fit(A)
print("fitted")
"""


def test_a_numba_that_cannot_be_imported_is_said_once_and_left_out(tmp_path):
    (tmp_path / "numba.py").write_text("raise ImportError('needs another NumPy')")
    done = in_a_process(FIT, tmp_path)
    assert done.stdout == "fitted\n"
    assert "Traceback" not in done.stderr
    assert done.stderr.count("Numba is installed but cannot be used (ImportError") == 1
    assert "needs another NumPy" in done.stderr


def test_without_numba_there_is_nothing_to_say(tmp_path):
    missing = "import sys; sys.modules['numba'] = None\n"
    done = in_a_process(missing + FIT, tmp_path)
    assert done.stdout == "fitted\n"
    assert "Numba" not in done.stderr


@needs_numba
def test_links_without_a_kernel_are_left_to_numpy(monkeypatch):
    monkeypatch.setenv(compiled.VARIABLE, "1")
    seen = Observations.from_matrix(random_matrix((30, 20), observed=0.5))
    made = make_backend(seen, Probit(1.0), pn(), dtype="float64", n_jobs=1)
    assert isinstance(made, SparseBackend)


@needs_numba
@pytest.mark.parametrize("moment", ["no folder", "disk full"])
def test_a_kernel_whose_file_cannot_be_written_runs_all_the_same(moment, monkeypatch):
    from numba.core import caching

    from tribit.backends.compiled.jit import kernel as decorate

    def refuse(*_):
        raise OSError("nothing can be written")

    if moment == "no folder":
        monkeypatch.setattr(caching._CacheLocator, "ensure_cache_path", refuse)
    else:
        monkeypatch.setattr(caching.IndexDataCacheFile, "save", refuse)

    def doubled(x):
        return 2 * x

    assert decorate()(doubled)(21) == 42

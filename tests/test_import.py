import subprocess
import sys

import pytest

import tribit
import tribit.selection


def python(code):
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout.split()


def test_importing_tribit_loads_nothing_heavy_and_nothing_else_of_its_own():
    modules = python("import sys, tribit; print(*sys.modules)")
    assert [name for name in modules if name.startswith("tribit")] == ["tribit"]
    for name in (
        "torch",
        "dask",
        "matplotlib",
        "numba",
        "pandas",
        "sklearn",
        "scipy",
        "numpy",
        "rich",
    ):
        assert name not in modules


def test_the_estimator_brings_in_no_extra_and_a_model_of_few_entries_no_numba_then_a_star_all_names(
    tmp_path,
):
    modules = python(
        "import sys, tribit\n"
        "tribit.BinaryMatrixCompletion; tribit.load\n"
        "print(*sys.modules, 'and then')\n"
        "import numpy\n"
        "A = numpy.random.default_rng(0).choice([-1, 0, 1], (30, 20))\n"
        f"path = {str(tmp_path / 'model.tribit')!r}\n"
        "tribit.BinaryMatrixCompletion(rank=2, l2=1.0, gammas=(1, 0, 0)).fit(A).save(path)\n"
        "tribit.load(path).predict_proba([0], [1])\n"
        "print(*sys.modules, 'at last')\n"
        "from tribit import *\n"
        "print(*dir())"
    )
    modules, names = modules[: modules.index("at")], modules[modules.index("last") + 1 :]
    assert set(tribit.__all__) <= set(names)
    imported = modules[: modules.index("and")]
    assert "sklearn" in imported
    for name in ("torch", "dask", "matplotlib", "numba"):  # scikit-learn itself loads pandas
        assert name not in imported
    assert "numba" not in modules


def test_the_help_of_the_command_line_does_not_wait_for_the_library():
    modules = python("import sys, tribit.cli; print(*sys.modules)")
    for name in ("sklearn", "scipy", "pandas", "matplotlib"):
        assert name not in modules


@pytest.mark.parametrize("name", tribit.__all__)
def test_every_public_name_resolves(name):
    assert getattr(tribit, name).__module__.startswith("tribit.")
    assert getattr(tribit, name).__name__ == name
    assert name in dir(tribit)


@pytest.mark.parametrize("name", tribit.selection.__all__)
def test_every_public_name_of_the_search_resolves(name):
    assert name in dir(tribit.selection)
    assert getattr(tribit.selection, name) is not None


def test_dir_before_anything_is_used():
    names = python("import tribit; print(*dir(tribit))")
    assert set(tribit.__all__) <= set(names)


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="No tribit attribute NoSuchName"):
        tribit.NoSuchName  # noqa: B018
    with pytest.raises(ImportError, match="cannot import name 'NoSuchName' from 'tribit'"):
        from tribit import NoSuchName  # noqa: F401


def test_the_version_is_that_of_the_distribution():
    from importlib.metadata import version

    assert tribit.__version__ == version("tribit")

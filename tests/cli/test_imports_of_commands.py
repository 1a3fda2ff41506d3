"""What a command imports: a question to a saved recommender needs NumPy and a little of SciPy."""

import json
import subprocess
import sys

import numpy as np
import pytest

from tribit import BinaryMatrixCompletion, Observations, Recommender

#: Packages that take long to import, and those that a plain ``pip install tribit`` does not bring.
HEAVY = ("sklearn", "scipy.stats", "scipy.optimize", "joblib")
EXTRAS = ("pandas", "polars", "matplotlib", "mpltern", "pooch", "dask", "distributed")
EXTRAS += ("starlette", "uvicorn", "prometheus_client", "numba", "torch", "triton")

#: Runs the command line where imports of some packages raise an error, and a search for them finds nothing.
BLOCKED = """
import sys
blocked, arguments = sys.argv[1].split(","), sys.argv[2:]
class Blocked:
    def find_spec(self, name, path=None, target=None):
        if any(name == each or name.startswith(each + ".") for each in blocked):
            raise ModuleNotFoundError(f"blocked: {name}", name=name)
sys.meta_path.insert(0, Blocked())
sys.argv = ["tribit", *arguments]
from tribit.__main__ import main
main()
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A saved recommender whose model has factors and implicit features, and a table of pairs."""
    folder = tmp_path_factory.mktemp("start")
    labels = np.random.default_rng(0).choice([-1, 0, 1], (30, 20))
    i, j = np.nonzero(labels)
    ids = {"row_ids": [f"u{n}" for n in range(30)], "column_ids": [f"i{n}" for n in range(20)]}
    seen = Observations.from_pairs(i, j, labels[i, j], shape=labels.shape, **ids)
    model = BinaryMatrixCompletion(
        (1, 0, 0), rank=2, l2=1.0, implicit_features=True, random_state=0
    )
    Recommender(model, random_state=0).fit(seen).save(folder / "model.tribit")
    (folder / "pairs.csv").write_text("row,column\nu3,i8\nu3,i2\n")
    test = "".join(f"u{a},i{b},{1 - 2 * (a % 2)}\n" for a, b in np.argwhere(labels == 0)[::9])
    (folder / "test.csv").write_text(f"row,column,label\n{test}")
    (folder / "new.csv").write_text("row,column,label\nnew,i1,1\nnew,i2,-1\n")
    return folder


def run(folder, blocked, *arguments):
    return subprocess.run(
        [sys.executable, "-c", BLOCKED, ",".join(blocked), *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize(
    "arguments",
    [
        "recommend model.tribit --for u3 --json",
        "recommend model.tribit --for nobody --json",
        "predict model.tribit pairs.csv --json",
        "similar model.tribit --column i8 --json",
        "explain model.tribit u3 i8 --json",
        "info model.tribit --json",
    ],
)
def test_a_question_imports_neither_scikit_learn_nor_a_package_of_an_extra(folder, arguments):
    done = run(folder, (*HEAVY, *EXTRAS, "pyarrow"), *arguments.split())
    assert done.returncode == 0, done.stderr
    free = run(folder, ("nothing",), *arguments.split())
    assert json.loads(done.stdout) == json.loads(free.stdout)


@pytest.mark.parametrize(
    "arguments",
    [
        "recommend model.tribit --for new --new new.csv",
        "evaluate model.tribit test.csv",
        "report model.tribit -o report.html",
        "update model.tribit new.csv -o new.tribit",
        "fit new.csv -o small.tribit --no-search --quiet",
    ],
)
def test_other_commands_need_no_package_of_an_extra_but_a_picture(folder, arguments):
    done = run(folder, EXTRAS, *arguments.split())
    assert done.returncode == 0, done.stderr


def test_a_recommender_imports_nothing_heavy_but_what_scikit_learn_imports():
    def modules(statement):
        code = f"{statement}; import sys; print(*sys.modules)"
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
        return {name.decode() for name in done.stdout.split()}

    added = modules("from tribit import Recommender") - modules("import sklearn.base")
    packages = {name.split(".")[0] for name in added}
    heavy = {*EXTRAS, "pandas", "pyarrow", "rich", "typer", "jinja2", "asyncio", "multiprocessing"}
    assert not packages & heavy
    assert not [name for name in added if name.startswith("sklearn.") and "_" not in name]
    assert not {"scipy.stats", "scipy.optimize", "scipy.interpolate", "scipy.integrate"} & added

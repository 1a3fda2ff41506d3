"""Examples of docstrings: they run, and every name of the reference has one."""

import doctest
import importlib
import inspect
import re
import runpy
import warnings
from pathlib import Path

import matplotlib as mpl
import pytest

ROOT = Path(__file__).parents[1]
CHECKER = runpy.run_path(ROOT / "docs" / "_ext" / "run_examples.py")["NumberChecker"]()
SOURCES = [
    path for path in sorted((ROOT / "src").rglob("*.py")) if ">>> " in path.read_text("utf-8")
]
LISTED = re.compile(r"^\.\. autosummary::\n((?:   .*\n|\n)+)", re.MULTILINE)
#: Names of the reference, without ``tribit.``.
NAMES = [
    line.strip()
    for page in sorted((ROOT / "docs" / "reference").glob("*.md"))
    for block in LISTED.findall(page.read_text("utf-8"))
    for line in block.splitlines()
    if line.strip() and not line.strip().startswith(":")
]


def object_of(name):
    found = importlib.import_module("tribit")
    parts = name.split(".")
    for n, part in enumerate(parts, 1):
        if not hasattr(found, part):
            importlib.import_module(".".join(["tribit", *parts[:n]]))
        found = getattr(found, part)
    return found


def test_every_name_of_the_reference_has_an_example():
    assert len(NAMES) > 200
    assert [name for name in NAMES if ">>> " not in (inspect.getdoc(object_of(name)) or "")] == []


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.stem)
def test_examples_run(path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # examples write files
    mpl.use("Agg")
    name = ".".join(path.relative_to(ROOT / "src").with_suffix("").parts)
    module = importlib.import_module(name.removesuffix(".__init__"))
    flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    runner = doctest.DocTestRunner(checker=CHECKER, optionflags=flags, verbose=False)
    report = []
    for test in doctest.DocTestFinder(exclude_empty=True).find(module):
        with warnings.catch_warnings():
            runner.run(test, out=report.append)
    assert runner.summarize(verbose=False).failed == 0, "".join(report)

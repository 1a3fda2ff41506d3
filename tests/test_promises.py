"""Every line of the page of promises names a test that there is and that a usual run or ``make test-slow`` runs."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs/promises.md").read_text(encoding="utf-8")
LINES = [
    line
    for line in PAGE.splitlines()
    if line.startswith("| ") and not line.startswith("| promise |")
]


@pytest.mark.parametrize("line", LINES)
def test_a_promise_names_tests_that_there_are(line):
    named = re.findall(r"`(tests/[\w/]+\.py)::(test_\w+)`", line)
    assert named
    for path, name in named:
        tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
        found = [each.name for each in tree.body if isinstance(each, ast.FunctionDef)]
        assert found.count(name) == 1, f"{path} has no {name}"


def test_promises_have_a_test_each():
    assert len(LINES) >= 30
    assert len(set(LINES)) == len(LINES)

"""The mutation runner: a change at each place that a run reads, and nowhere else."""

import ast

import pytest
from benchmarks import mutants

TEXT = '''"""Docstring 1 < 2."""
from typing import TYPE_CHECKING
if TYPE_CHECKING:
    one = 1

def f(x: "1 + 1", é=0.5) -> "2 < 3":
    """Docstring."""
    if é < x and not x:
        raise ValueError(f"{1 + x}")
    g(x)
    return é + x
'''
CHANGES = {
    ("0.5", "1.0"),
    ("é < x and not x", "(é < x or not x)"),
    ("é < x", "é <= x"),
    ("not x", "(x)"),
    ("g(x)", "pass"),
    ("return é + x", "return None"),
    ("é + x", "(é - x)"),
}


@pytest.fixture
def source(tmp_path, monkeypatch):
    monkeypatch.setattr(mutants, "SOURCE", tmp_path)
    path = tmp_path / "one.py"
    path.write_text(TEXT, encoding="utf-8")
    return path


def test_mutants_by_hand(source):
    found = mutants.mutants(source)
    assert {(each.old, each.new) for each in found} == CHANGES
    assert len(found) == len(CHANGES)
    for each in found:
        changed = each.text().decode()
        assert ast.dump(ast.parse(changed)) != ast.dump(ast.parse(TEXT))
        assert len(changed) == len(TEXT) - len(each.old) + len(each.new)
    (sign,) = (each for each in found if each.old == "é + x")
    assert (sign.line, sign.place) == (11, "one.py: `return é + x`")


def test_every_reason_is_of_a_mutant_that_there_is():
    paths = [*mutants.SOURCE.glob("*.py")]
    paths += [
        each
        for part in ("metrics", "model", "ranking", "selection", "solvers", "uncertainty")
        for each in (mutants.SOURCE / part).glob("*.py")
    ]
    known = {each.key for path in paths for each in mutants.mutants(path)}
    assert not mutants.REASONS.keys() - known

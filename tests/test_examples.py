"""The examples of the gallery, without running them: ``make docs`` does that."""

import ast
import importlib.util
import sys
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))


def order():
    path = ROOT / "docs" / "_ext" / "gallery_order.py"
    specification = importlib.util.spec_from_file_location("gallery_order", path)
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module.ORDER


def test_the_gallery_has_a_place_for_each_example():
    assert len(EXAMPLES) >= 8
    assert sorted(order()) == [path.name for path in EXAMPLES]


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_opens_with_a_title_and_shows_something(path):
    tree = ast.parse(path.read_text(encoding="utf-8"))
    title, rule = ast.get_docstring(tree).splitlines()[:2]
    assert rule == "=" * len(title)
    called = {ast.unparse(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}
    assert "pyplot.show" in called
    # A block that ends in an expression shows it, as a notebook does.
    assert "print" in called or ".head()" in path.read_text(encoding="utf-8")


@pytest.mark.parametrize("task", ["ratings", "test", "votes", "purchases", "benchmark"])
def test_the_example_of_a_task_is_short(task):
    tree = ast.parse((ROOT / "examples" / f"plot_{task}.py").read_text(encoding="utf-8"))
    imports = (ast.Import, ast.ImportFrom)
    statements = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.stmt) and not isinstance(node, imports)
    ]
    assert len(statements) - 2 < 15  # without the docstring and pyplot.show()


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_imports_what_there_is(path):
    tree = ast.parse(path.read_text(encoding="utf-8"))
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    ours = [node for node in imports if node.module.split(".")[0] == "tribit"]
    assert ours
    for node in ours:
        module = import_module(node.module)
        for name in node.names:
            place = f"{node.module}.{name.name}"
            assert hasattr(module, name.name) or importlib.util.find_spec(place), place
    known = {*sys.stdlib_module_names, "numpy", "scipy", "pandas", "matplotlib", "tribit"}
    assert {node.module.split(".")[0] for node in imports} <= known

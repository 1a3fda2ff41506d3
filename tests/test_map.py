"""The map of CONTRIBUTING.md has a row for each package, and a word on each of its modules."""

from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "tribit"
MAP = (ROOT / "CONTRIBUTING.md").read_text().split("## The map")[1].split("\n## ")[0]
MODULES = [
    path.relative_to(SOURCE)
    for path in sorted(SOURCE.rglob("*.py"))
    if path.name not in ("__init__.py", "__main__.py")
]


@pytest.mark.parametrize("module", MODULES, ids=str)
def test_the_row_of_its_package_names_a_module(module):
    room = f"`{module.parent}/`" if module.parent.name else f"`{module.name}`"
    # A package within a package has a row of its own, or is told of in the row of the outer one.
    rooms = [room, f"`{module.parts[0]}/`"]
    rows = [row for each in rooms for row in MAP.splitlines() if row.split(" | ")[0].count(each)]
    assert rows, f"no row for {room}"
    assert f"`{module.name}`" in rows[0]


def test_every_module_that_the_map_names_is_there():
    names = {word for word in MAP.split("`")[1::2] if word.endswith(".py") and "/" not in word}
    assert names <= {module.name for module in MODULES} | {"__init__.py"}


def test_tests_follow_the_tree():
    tests = ROOT / "tests"
    folders = {path.parent.relative_to(tests) for path in tests.rglob("test_*.py")}
    # What needs a browser or a GPU, and the fuzzers, which `make` knows by these folders.
    apart = {Path("browser"), Path("gpu"), Path("torture")}
    assert not [folder for folder in folders - apart if not (SOURCE / folder).is_dir()]

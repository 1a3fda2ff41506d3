"""The map of CONTRIBUTING.md has a short row for each package, in the order of the layers, and names what there is."""

import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "tribit"
#: Most characters of a row.
WIDEST_ROW = 125
PACKAGES = [path.parent.relative_to(SOURCE) for path in sorted(SOURCE.rglob("__init__.py"))][1:]
MODULES = [path for path in SOURCE.glob("*.py") if not path.name.startswith("__")]
ROOMS = [f"{folder.as_posix()}/" for folder in PACKAGES] + [path.name for path in MODULES]


def rows():
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    table = text.split("## The map")[1].split("| folder | what is there |")[1].split("\n\n")[0]
    return [row for row in table.splitlines() if row.startswith("| `")]


def names(text):
    return text.split("`")[1::2]


def rooms(row):
    return names(row.split(" | ")[0])


@pytest.mark.parametrize("room", ROOMS)
def test_a_package_has_one_row(room):
    assert sum(room in rooms(row) for row in rows()) == 1


def test_rows_are_short_and_name_what_there_is():
    for row in rows():
        assert len(row) <= WIDEST_ROW, row
        for room in rooms(row):
            assert room in ROOMS, row
        folder = SOURCE / rooms(row)[0]
        modules = [name for name in names(row.split(" | ")[1]) if name.endswith(".py")]
        assert not [name for name in modules if not (folder / name).is_file()], row


def test_rows_are_in_the_order_of_the_layers():
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    (contract,) = (
        each for each in settings["tool"]["importlinter"]["contracts"] if each["type"] == "layers"
    )
    layers = [
        {name.strip().removeprefix("tribit.") for name in layer.split("|")}
        for layer in reversed(contract["layers"])
    ]
    heights = [
        next(height for height, layer in enumerate(layers) if room in layer)
        for row in rows()
        for room in [rooms(row)[0].removesuffix(".py").split("/")[0]]
    ]
    assert heights == sorted(heights)


def test_tests_follow_the_tree():
    tests = ROOT / "tests"
    folders = {path.parent.relative_to(tests) for path in tests.rglob("test_*.py")}
    # What needs a browser or a GPU, and the fuzzers, which `make` knows by these folders.
    apart = {Path("browser"), Path("gpu"), Path("torture")}
    assert not [
        folder
        for folder in folders - apart
        if not (SOURCE / folder).is_dir() and not (SOURCE / folder).with_suffix(".py").is_file()
    ]

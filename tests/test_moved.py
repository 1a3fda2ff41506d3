"""Modules that moved keep their old names for one version."""

import importlib
import subprocess
import sys
import warnings

import pytest

from tribit._moved import MOVED


@pytest.mark.parametrize(("old", "new"), MOVED.items())
def test_an_old_name_is_the_module_under_its_new_one(old, new):
    code = (
        "import warnings, importlib\n"
        "with warnings.catch_warnings(record=True) as caught:\n"
        "    warnings.simplefilter('always')\n"
        f"    old = importlib.import_module('tribit.{old}')\n"
        f"new = importlib.import_module('tribit.{new}')\n"
        "assert old is new, (old, new)\n"
        "assert new.__spec__.name == new.__name__\n"
        "told = [str(w.message) for w in caught if w.category is DeprecationWarning]\n"
        f"assert any('tribit.{new} since tribit 0.2' in text for text in told), told\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_what_is_inside_a_package_has_moved_with_it():
    with pytest.warns(
        DeprecationWarning, match=r"tribit\.finders\.like_finder is tribit\.recommend"
    ):
        old = importlib.import_module("tribit.finders.like_finder")
    assert old.LikeFinder.__module__ == "tribit.recommend.like_finder"


def test_a_name_that_never_was_is_not_found():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(ModuleNotFoundError, match="No module named"):
            importlib.import_module("tribit.nowhere")

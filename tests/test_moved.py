"""Names that changed keep their old form for one version."""

import importlib
import json
import subprocess
import sys
import warnings

import numpy as np
import pytest
from sklearn.base import clone

from tribit import BinaryMatrixCompletion
from tribit._moved import MOVED, PARAMETERS
from tribit.evaluation.ranking import ranking_report
from tribit.recommend import CandidateRanker

A = np.array([[1, 1, 0, -1], [1, 0, -1, -1], [0, -1, 1, 1], [-1, -1, 1, 0]])
FIXED = {"gammas": (1, 0, 0), "rank": 1, "l2": 1.0, "l2_intercept": 1.0, "random_state": 0}


#: Imports old names as a new interpreter does, before anything of tribit is loaded; what tribit imports itself stays.
IMPORT_THE_OLD = """
import functools, importlib, json, sys, traceback, warnings
from importlib.machinery import SourceFileLoader

SourceFileLoader.get_code = functools.cache(SourceFileLoader.get_code)  # loaded again, compiled once

def imported(old, new):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        module = importlib.import_module(f"tribit.{old}")
    expected = importlib.import_module(f"tribit.{new}")
    assert module is expected, (module, expected)
    assert expected.__spec__.name == expected.__name__
    told = [str(w.message) for w in caught if w.category is DeprecationWarning]
    assert any(f"tribit.{new} since tribit 0.2" in text for text in told), told

failures = {}
finders = list(sys.meta_path)
for old, new in json.load(sys.stdin).items():
    for name in [name for name in sys.modules if name.partition(".")[0] == "tribit"]:
        del sys.modules[name]
    sys.meta_path[:] = finders
    try:
        imported(old, new)
    except Exception:
        failures[old] = traceback.format_exc()
json.dump(failures, sys.stdout)
"""


@pytest.fixture(scope="module")
def failures():
    """The traceback of each old name that is not as it should be, from one process for all of them."""
    command = [sys.executable, "-c", IMPORT_THE_OLD]
    done = subprocess.run(
        command, input=json.dumps(MOVED), check=True, text=True, stdout=subprocess.PIPE
    )
    return json.loads(done.stdout)


@pytest.mark.parametrize("old", MOVED)
def test_an_old_name_is_the_module_under_its_new_one(old, failures):
    assert old not in failures, failures[old]


def test_what_is_inside_a_package_has_moved_with_it():
    with pytest.warns(
        DeprecationWarning, match=r"tribit\.finders\.scores is tribit\.recommend\.scores"
    ):
        old = importlib.import_module("tribit.finders.scores")
    assert old is importlib.import_module("tribit.recommend.scores")


@pytest.mark.parametrize(
    ("module", "old", "new"),
    [
        ("tribit.model.features", "MaskFeatures", "Features"),
        ("tribit.model.features", "ImplicitFeatures", "Features"),
        ("tribit.recommend", "LikeFinder", "CandidateRanker"),
        ("tribit.recommend", "Finder", "Ranker"),
        ("tribit.recommend.candidate_ranker", "LikeFinder", "CandidateRanker"),
    ],
)
def test_an_old_name_of_a_class_is_the_class(module, old, new):
    module = importlib.import_module(module)
    with pytest.warns(DeprecationWarning, match=rf"{old} is {new} since tribit 0\.2"):
        assert getattr(module, old) is getattr(module, new)
    with pytest.raises(AttributeError, match="has no attribute 'NoSuchName'"):
        _ = module.NoSuchName


def test_old_names_of_parameters_set_the_new_ones():
    with pytest.warns(FutureWarning, match="is (implicit_features|l2_implicit) since") as caught:
        model = BinaryMatrixCompletion(mask_features=True, l2_mask=2.0, **FIXED)
    assert len(caught) == 2
    assert {warning.filename for warning in caught} == {__file__}
    assert not PARAMETERS.keys() & model.get_params().keys()
    again = clone(model)
    assert (again.implicit_features, again.l2_implicit) == (True, 2.0)
    with pytest.warns(FutureWarning, match="l2_mask is l2_implicit"):
        assert again.set_params(l2_mask=3.0) is again
    with pytest.warns(FutureWarning, match="l2_mask is l2_implicit"):
        assert again.l2_mask == again.l2_implicit == 3.0
    with pytest.warns(FutureWarning, match="l2_mask is l2_implicit"):
        again.l2_mask = 4.0
    assert again.l2_implicit == 4.0
    with pytest.raises(TypeError, match="both were given: leave out l2_mask"):
        BinaryMatrixCompletion(l2_mask=1.0, l2_implicit=1.0)


def test_old_names_of_fitted_values_are_the_new_ones():
    model = BinaryMatrixCompletion(implicit_features=True, l2_implicit=2.0, **FIXED)
    assert not hasattr(model, "mask_features_")
    model.fit(A)
    with pytest.warns(FutureWarning, match="mask_features_ is implicit_features_"):
        assert model.mask_features_ is True
    with pytest.warns(FutureWarning, match="l2_mask_ is l2_implicit_"):
        assert model.l2_mask_ == 2.0


def test_the_old_name_of_a_ranker_is_taken_by_recommend_and_its_measures():
    model = BinaryMatrixCompletion(**FIXED, implicit_features=False).fit(A)
    ranker = CandidateRanker(random_state=0).fit(A)
    with pytest.warns(FutureWarning, match="finder is ranker"):
        lists = model.recommend([0, 1], 2, finder=ranker)
    np.testing.assert_array_equal(lists.scores, model.recommend([0, 1], 2, ranker=ranker).scores)
    held_out = (A == 0).astype(int)
    with pytest.warns(FutureWarning, match="finder is ranker"):
        report = ranking_report(model, A, held_out, 2, finder=ranker)
    assert report == ranking_report(model, A, held_out, 2, ranker=ranker)


def test_a_name_that_never_was_is_not_found():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(ModuleNotFoundError, match="No module named"):
            importlib.import_module("tribit.nowhere")

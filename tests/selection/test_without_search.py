"""``search=False``: the fit with every default, in Python and on the command line."""

import numpy as np
import pytest
from scipy.special import expit
from selection_data import low_rank, observed

from tribit import BinaryMatrixCompletion, InvalidTypeError, Recommender, load
from tribit.model.spec import CHOOSABLE
from tribit.propensity import row_column
from tribit.selection import search as search_module

A = low_rank((40, 30), density=0.5)
LIKES = np.maximum(A, 0)
FEATURES = np.random.default_rng(1).normal(size=(30, 2))
#: The defaults of a fit that chooses nothing, spelled out.
DEFAULTS = {
    "gammas": (1, 0, 0),
    "rank": 10,
    "l2": 5,
    "l2_power": 0,
    "l2_intercept": None,
    "radius": None,
    "alpha": None,
    "rho": None,
    "implicit_features": False,
    "l2_implicit": None,
    "activity_floor": (1, 1),
    "side_features": False,
    "l2_side": None,
    "calibration": None,
    "members": 1,
}
PARTS = ("row_factors_", "column_factors_", "row_intercepts_", "column_intercepts_")


@pytest.fixture(autouse=True)
def no_search(monkeypatch):
    def refuse(*_, **__):
        raise AssertionError("nothing is to be searched")

    monkeypatch.setattr(search_module, "choose", refuse)


def fitted(table=A, *, column_features=None, **parameters):
    model = BinaryMatrixCompletion(**parameters, n_jobs=1, random_state=3)
    return model.fit(table, column_features=column_features, zeros="unobserved")


def check_same(ours, theirs):
    """Check that two fits have the same bits, and that neither has searched."""
    for name in PARTS:
        np.testing.assert_array_equal(getattr(ours, name), getattr(theirs, name))
    assert ours.intercept_ == theirs.intercept_
    assert ours.objective_ == theirs.objective_
    assert ours.n_iter_ == theirs.n_iter_
    assert ours.spec_ == theirs.spec_
    for model in (ours, theirs):
        assert model.search_ is None
        assert model.calibration_ is None


@pytest.mark.parametrize(
    "parameters",
    [
        {},
        {"rank": 2},
        {"rank": 0},
        {"l2": 0.5, "l2_intercept": 2.0},
        {"intercept": False},
        {"gammas": (0.6, 0.2, 0.2)},
        {"gammas": (0.6, 0.2, 0.2), "radius": 1.0, "alpha": 0.9},
        {"implicit_features": True},
        {"implicit_features": True, "l2_implicit": 3.0},
        {"link": "probit", "solver": "lbfgs"},
        {"rank": 3, "members": 3},
        {"scoring": "auc", "n_candidates": 1, "max_time": 60.0},
    ],
    ids=str,
)
def test_every_auto_has_its_default_bit_for_bit(parameters):
    ours = fitted(search=False, **parameters)
    check_same(ours, fitted(**{**DEFAULTS, **parameters}))
    assert ours.n_members_ == 1  # there are no candidates to stack
    for name in {"rank", "l2", "l2_intercept"} & set(DEFAULTS):
        assert getattr(ours, f"{name}_") == parameters.get(name, DEFAULTS[name]), name


def test_the_defaults_are_those_of_all_that_may_be_chosen():
    assert set(DEFAULTS) == set(CHOOSABLE) | {"calibration", "members"}


def test_a_small_table_has_as_many_columns_as_it_may():
    check_same(fitted(A[:, :7], search=False), fitted(A[:, :7], **{**DEFAULTS, "rank": 7}))


def test_side_features_that_are_given_are_used():
    ours = fitted(search=False, column_features=FEATURES)
    check_same(ours, fitted(**{**DEFAULTS, "side_features": True}, column_features=FEATURES))
    assert ours.side_features_ is True


def test_one_label_alone_is_told_from_unseen_cells():
    given = {**DEFAULTS, "gammas": (0, 1, 0), "rho": 0.0}
    check_same(fitted(LIKES, search=False), fitted(LIKES, **given))


def test_a_name_of_rho_is_fitted_all_the_same():
    ours = fitted(search=False, rho="row-column", inverse_power=0.5)
    rho = row_column(observed(A))
    theirs = fitted(**{**DEFAULTS, "rho": rho}, inverse_power=0.5)
    np.testing.assert_allclose(ours.complete(), theirs.complete(), rtol=1e-6)


def test_probabilities_are_those_of_the_link():
    model = fitted(search=False)
    np.testing.assert_allclose(model.complete(), expit(model.complete("score")), rtol=1e-6)


@pytest.mark.parametrize("value", [None, "no", 2])
def test_a_switch_is_true_or_false(value):
    with pytest.raises(InvalidTypeError, match="search must be True or False"):
        fitted(search=value)


def test_the_parameter_survives_a_file(tmp_path):
    fitted(search=False).save(tmp_path / "model.tribit")
    copy = load(tmp_path / "model.tribit")
    assert copy.get_params()["search"] is False
    assert copy.search_ is None


@pytest.mark.usefixtures("short_trials")
def test_with_a_search_it_is_asked_for():
    with pytest.raises(AssertionError, match="nothing is to be searched"):
        fitted(search=True)


def test_on_the_command_line(run, tmp_path):
    i, j = np.nonzero(A)
    lines = [f"u{a},v{b},{A[a, b]}" for a, b in zip(i, j, strict=True)]
    table = tmp_path / "seen.csv"
    table.write_text("\n".join(["user,item,value", *lines]) + "\n")
    columns = ("--row", "user", "--column", "item", "--value", "value", "--random-state", "3")
    given = ("--gammas", "1", "0", "0", "--rank", "10", "--l2", "5", "--l2-intercept", "none")
    given += ("--radius", "none", "--implicit-features", "no", "--calibration", "none")
    given += ("--members", "1")
    models = []
    for name, options in (("off", ["--no-search"]), ("given", given)):
        out = tmp_path / f"{name}.tribit"
        code, _, err = run("fit", table, *columns, "--n-jobs", "1", "-o", out, *options)
        assert code == 0, err
        models.append(Recommender.load(out).model_)
    check_same(*models)
    assert models[0].search is False

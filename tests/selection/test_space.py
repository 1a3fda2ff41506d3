"""The search space: what is free for which parameters, and why there is nothing to search."""

from dataclasses import replace

import numpy as np
import pytest
from scripted_trials import EVERYTHING
from selection_data import low_rank, observed

from tribit import BinaryMatrixCompletion, InvalidInputError, TribitWarning
from tribit.data import features as side_features
from tribit.model.fitted import LIKE
from tribit.model.spec import ModelSpec
from tribit.propensity import row_column
from tribit.selection import space as module
from tribit.selection.space import MAX_MEMBERS, NOTHING_FREE, Criterion, SearchSpace
from tribit.solvers import LBFGS, Newton, ProjectedGradient, Solver

A = low_rank((40, 30), density=0.5)
LIKES, DISLIKES = np.maximum(A, 0), np.minimum(A, 0)
PN, MIXTURE = (1.0, 0.0, 0.0), (0.6, 0.2, 0.2)
FEATURES = np.random.default_rng(0).normal(size=(30, 2))
WITH_FEATURES = {"side_features", "l2_side"}
#: Names that are free where both labels were observed and there are no side features; alpha has no "auto" by default.
ALL = EVERYTHING - WITH_FEATURES - {"alpha"}
IMPLICIT = {"implicit_features", "l2_implicit", "activity_floor"}
BALL = {"gammas", "radius"}
#: Names beside implicit features that were asked for, and beside a mixture.
OF_FEATURED = ALL - BALL - {"implicit_features"}
OF_MIXTURES = ALL - {"gammas"} - IMPLICIT
#: Parameters that leave nothing open for the observed signs alone.
FIXED = {
    "gammas": PN,
    "rank": 2,
    "l2": 1.0,
    "l2_intercept": 1.0,
    "radius": None,
    "implicit_features": False,
}


class Undeclared(Solver):
    """A solver that says nothing of what it can keep."""

    max_iter = 10

    def minimise(self, *_):
        raise AssertionError("no space fits a model")


class Featureless(Undeclared):
    """A solver that keeps balls, no rows that share unknowns, and no model without factors."""

    min_rank = 2

    def refusal(self, model, constraints):  # noqa: ARG002
        return "no features" if model.shares_unknowns else None


def side_of(seen, features=FEATURES):
    return side_features.fit_side_features(seen.axes, None, features)[1]


def space_of(table=A, solver=None, *, features=False, **parameters):
    seen = observed(table)
    model = BinaryMatrixCompletion(**parameters)
    return SearchSpace.of(model, seen, solver, side_of(seen) if features else None)


# Free names


#: Parameters, the solver, the free names, the least rank and some of the user's own values.
OPEN = [
    ({}, None, ALL, 0, {"gammas": PN, "rank": 10, "l2": 5.0, "rho": None, "alpha": None}),
    ({"rank": 3}, None, ALL - {"rank"}, 0, {"rank": 3}),
    # A given penalty is that of every row.
    ({"l2": 2.0}, None, ALL - {"l2", "l2_power"}, 0, {"l2": 2.0, "l2_power": 0.0}),
    ({"l2": 2.0, "l2_power": 1}, None, ALL - {"l2", "l2_power"}, 0, {"l2_power": 1.0}),
    ({"alpha": "auto"}, None, ALL | {"alpha"}, 0, {"alpha": None}),
    # The ball of radius alpha keeps the bound on entries; beside a ball features are not tried.
    ({"alpha": 0.5}, None, ALL - IMPLICIT - {"radius"}, 0, {"alpha": 0.5, "radius": 0.5}),
    ({"alpha": 0.9, "radius": 0.8}, None, ALL - IMPLICIT - {"radius"}, 0, {"radius": 0.8}),
    ({"radius": 0.8}, None, ALL - IMPLICIT - {"radius"}, 0, {"radius": 0.8, "alpha": None}),
    ({"radius": None}, None, ALL - {"radius"}, 0, {"radius": None}),
    # Features that were asked for beside a ball have penalties to search.
    ({"radius": 0.8, "implicit_features": True}, None, OF_FEATURED, 0, {"radius": 0.8}),
    # Under PN a ball is not searched, and under a mixture features are not.
    ({"gammas": PN}, None, ALL - BALL, 0, {"gammas": PN, "radius": None}),
    ({"gammas": PN, "alpha": "auto"}, None, ALL - BALL, 0, {"alpha": None}),
    ({"gammas": MIXTURE}, None, OF_MIXTURES, 0, {"gammas": MIXTURE}),
    ({"gammas": MIXTURE, "alpha": "auto"}, None, OF_MIXTURES | {"alpha"}, 0, {"alpha": None}),
    ({"gammas": MIXTURE, "rank": 0}, None, {"radius", "l2_intercept"}, 0, {"rank": 0}),
    # Features that were asked for go with PN, unless a mixture was asked for too.
    ({"implicit_features": True}, None, OF_FEATURED, 0, {"implicit_features": True}),
    (
        {"implicit_features": True, "gammas": MIXTURE},
        None,
        OF_FEATURED | {"radius"},
        0,
        {"gammas": MIXTURE},
    ),
    ({"implicit_features": False}, None, ALL - IMPLICIT, 0, {"implicit_features": False}),
    # A model without factors has no ridge on them and no features; without intercepts it has factors.
    ({"rank": 0}, None, {"gammas", "radius", "l2_intercept"}, 0, {"rank": 0}),
    ({"rank": 0, "gammas": PN}, None, {"l2_intercept"}, 0, {"rank": 0}),
    ({"intercept": False}, None, ALL - {"l2_intercept"}, 1, {"intercept": False}),
    ({"intercept": False, "rank": 3}, None, ALL - {"l2_intercept", "rank"}, 0, {"rank": 3}),
    # What the solvers cannot keep is not searched.
    ({"norm": "trace"}, None, ALL - BALL, 0, {"norm": "trace"}),
    ({}, Newton(), ALL - IMPLICIT, 1, {}),
    ({}, ProjectedGradient(), ALL - IMPLICIT, 0, {}),
    ({}, LBFGS(), ALL - BALL, 0, {}),
    ({}, Undeclared(), ALL - IMPLICIT, 0, {}),
    ({}, Featureless(), ALL - IMPLICIT, 2, {}),
    ({"rank": 3}, Featureless(), ALL - IMPLICIT - {"rank"}, 0, {}),
    # The floor of activity is searched beside other parameters, and is no reason for a search.
    (FIXED | {"implicit_features": True}, None, {"l2_implicit", "activity_floor"}, 0, {}),
    (FIXED | {"implicit_features": True, "l2_implicit": 1.0}, None, set(), 0, {}),
    (FIXED, None, set(), 0, {}),
    ({"search": False}, None, set(), 0, {"gammas": PN, "rank": 10, "l2": 5.0}),
    ({"search": False, "calibration": "platt"}, None, set(), 0, {}),
]


@pytest.mark.parametrize(("parameters", "solver", "free", "min_rank", "values"), OPEN)
def test_what_is_free(parameters, solver, free, min_rank, values):
    space = space_of(**parameters, solver=solver)
    assert space.free == free
    assert space.min_rank == min_rank
    for name, value in values.items():
        assert getattr(space.base, name) == value, name
    assert space.skip_reason == (None if free else NOTHING_FREE)
    assert space.over(observed(A)).skip_reason == space.skip_reason
    assert (space.label, space.meaning) == (0, LIKE)


def test_a_calibrator_by_name_is_a_reason_for_a_search_with_nothing_free():
    space = space_of(**FIXED, calibration="platt")
    assert (space.free, space.skip_reason) == (frozenset(), None)
    assert space_of(**FIXED, calibration="identity").skip_reason == NOTHING_FREE


def test_what_a_search_cannot_keep_is_fitted_without_one():
    space = space_of(alpha=0.5, solver=ProjectedGradient())
    assert space.skip_reason == "the search cannot keep |X| <= alpha = 0.5"
    assert space.over(observed(A)).skip_reason == space.skip_reason
    assert (
        space.base.radius is None
    )  # the ball of that radius is the search's own way to keep the bound


def test_a_small_table_has_a_lower_first_rank():
    assert space_of(A[:, :7]).base.rank == 7


# Side features


@pytest.mark.parametrize(
    ("parameters", "added", "value"),
    [
        ({}, WITH_FEATURES, True),
        ({"side_features": False}, set(), False),
        ({"side_features": True, "gammas": PN}, {"l2_side"}, True),
        ({"side_features": True}, {"l2_side"}, True),
        ({"gammas": MIXTURE}, set(), False),
        ({"gammas": MIXTURE, "side_features": True}, {"l2_side"}, True),
    ],
)
def test_side_features_are_free_where_they_are_given(parameters, added, value):
    plain = {name: each for name, each in parameters.items() if name != "side_features"}
    without = space_of(**plain)
    space = space_of(features=True, **parameters)
    assert space.free & WITH_FEATURES == added
    assert space.base.side_features is value
    assert not without.free & WITH_FEATURES
    assert without.base.side_features is False
    asked = parameters.get("side_features") is True and "gammas" not in parameters
    # Features that were asked for go with PN.
    assert without.free - space.free == (BALL if asked else set())


@pytest.mark.parametrize("bound", [{"radius": 0.8}, {"alpha": 0.8}])
def test_beside_a_bound_side_features_are_left_out_unless_asked_for(bound):
    space = space_of(features=True, **bound)
    assert not space.free & WITH_FEATURES
    assert space.base.side_features is False
    assert space_of(features=True, side_features=True, radius=0.8).free >= {"l2_side"}


@pytest.mark.parametrize("table", [LIKES, DISLIKES])
def test_side_features_of_one_label_are_left_out_with_a_warning(table):
    with pytest.warns(TribitWarning, match="features of rows and columns are left out"):
        space = space_of(table, features=True)
    assert not space.free & WITH_FEATURES
    assert space.base.side_features is False
    asked = space_of(table, features=True, side_features=True)
    assert not asked.free & WITH_FEATURES
    assert asked.base.side_features is True


def test_side_features_that_are_not_given_are_refused():
    with pytest.raises(InvalidInputError, match="side_features=True needs features: give fit"):
        space_of(side_features=True)


# One label


@pytest.mark.parametrize(("table", "label"), [(LIKES, 1), (DISLIKES, -1)])
@pytest.mark.parametrize(
    ("parameters", "free", "rho"),
    [
        ({}, ALL - BALL, 0.0),
        ({"rho": 0.0, "rank": 4}, ALL - BALL - {"rank"}, 0.0),
        ({"implicit_features": False}, ALL - BALL - IMPLICIT, 0.0),
        # With a rho that the user knows PU is unbounded: it is searched in balls.
        ({"rho": 0.7}, OF_MIXTURES, 0.7),
        ({"target": "all"}, ALL - BALL, 0.0),
    ],
)
def test_one_label_alone_is_told_from_unseen_cells(table, label, parameters, free, rho):
    space = space_of(table, **parameters)
    assert space.base.gammas == ((0.0, 1.0, 0.0) if label > 0 else (0.0, 0.0, 1.0))
    assert (space.free, space.base.rho, space.label) == (free, rho, 0)
    there = space.over(observed(table))
    assert (there.label, there.skip_reason) == (label, None)
    assert there.free == space.free
    what = {
        (1, False): "a cell being seen and liked; pass rho for the probability of a like",
        (-1, False): "a cell not being seen and disliked; pass rho for the probability of a like",
        (1, True): "a like, if rho is the probability that a like goes unobserved",
        (-1, True): "a like, if rho is the probability that a dislike goes unobserved",
    }
    assert str(there.meaning) == what[label, "rho" in parameters and rho > 0.0]


def test_one_label_is_compared_by_probabilities():
    space = space_of(LIKES, scoring="error")
    assert space.criterion.scoring == "error"
    assert space.over(observed(LIKES)).criterion == replace(space.criterion, scoring="log_loss")
    assert space_of(scoring="error").over(observed(A)).criterion.scoring == "error"


# Criterion and rho


def test_the_criterion_is_the_user_s():
    chosen = {"scoring": "auc", "target": "all", "calibration": "isotonic", "members": 2}
    assert space_of(**chosen).criterion == Criterion(**chosen)
    assert space_of().criterion == Criterion(calibration="auto", members=MAX_MEMBERS)
    # A stack would multiply the rank that was asked for, unless a number of members is asked for too.
    assert space_of(rank=3).criterion.members == 1
    assert space_of(rank=3, members=2).criterion.members == 2
    assert space_of(search=False, **chosen).criterion.calibration is None


@pytest.mark.parametrize(
    ("parameters", "rho"),
    [
        ({}, None),
        ({"target": "all"}, "low-rank"),
        ({"inverse_power": 0.5}, "low-rank"),
        ({"rho": 0.4, "target": "all"}, 0.4),
        ({"rho": "row-column", "target": "all"}, "row-column"),
    ],
)
def test_rho_is_resolved_and_never_searched(parameters, rho):
    space = space_of(**parameters)
    assert space.base.rho == rho
    assert "rho" not in space.free


@pytest.mark.parametrize("target", ["observed", "all"])
def test_a_model_of_the_mask_is_fitted_once_and_weighs_held_out_entries_of_the_target_all(target):
    seen, parameters = observed(A), BinaryMatrixCompletion(rho="row-column", target=target)
    space = SearchSpace.of(parameters, seen, None, None)
    fitted = space.with_rho(seen, parameters, np.random.default_rng(0))
    np.testing.assert_allclose(
        fitted.base.rho.rho_at(seen.rows, seen.columns),
        row_column(seen).rho_at(seen.rows, seen.columns),
    )
    assert fitted.free == space.free
    if target == "observed":
        assert fitted.criterion.weights is None
    else:
        q = 1.0 - fitted.base.rho.rho_at(seen.rows, seen.columns)
        np.testing.assert_allclose(fitted.criterion.weights(seen), 1.0 / q)


# Reasons against a search


PN_ALONE = (
    "only {} were observed, which PN cannot separate; leave out gammas to compare them with the cells that were "
    "not seen"
)


def cells(likes, dislikes, size=300):
    labels = np.zeros(size, dtype=int)
    labels[:likes], labels[likes : likes + dislikes] = 1, -1
    return labels.reshape(20, -1)


@pytest.mark.parametrize(
    ("table", "parameters", "reason"),
    [
        (cells(80, 20), {}, None),
        (
            cells(79, 20),
            {},
            "79 likes and 20 dislikes are too few to hold any out (20 of each and 100 in all are needed)",
        ),
        (
            cells(81, 19),
            {},
            "81 likes and 19 dislikes are too few to hold any out (20 of each and 100 in all are needed)",
        ),
        (cells(100, 0), {}, None),
        (cells(99, 0), {}, "99 likes are too few to hold any out (100 are needed)"),
        (cells(0, 99), {}, "99 dislikes are too few to hold any out (100 are needed)"),
        (
            cells(300, 0),
            {},
            "every cell is one of the likes, so that there is nothing to compare them with",
        ),
        (
            cells(0, 300),
            {},
            "every cell is one of the dislikes, so that there is nothing to compare them with",
        ),
        (
            cells(150, 0),
            {"gammas": PN},
            PN_ALONE.format("likes"),
        ),
        (
            cells(0, 150),
            {"gammas": PN},
            PN_ALONE.format("dislikes"),
        ),
        (
            cells(150, 0),
            {"gammas": MIXTURE},
            "without rho one label alone says nothing of the other",
        ),
        (cells(150, 0), {"gammas": MIXTURE, "rho": 0.5}, None),
        (cells(150, 60), FIXED, NOTHING_FREE),
        (cells(10, 3), FIXED, NOTHING_FREE),
        (cells(10, 0), {"search": False}, NOTHING_FREE),
    ],
)
def test_every_reason_against_a_search(table, parameters, reason):
    space = space_of(table, **parameters).over(observed(table))
    assert (None if space.skip_reason is None else str(space.skip_reason)) == reason


def test_the_least_numbers_of_entries_are_constants(monkeypatch):
    monkeypatch.setattr(module, "MIN_ENTRIES", 20)
    monkeypatch.setattr(module, "MIN_ENTRIES_PER_LABEL", 5)
    monkeypatch.setattr(module, "MIN_ENTRIES_ALONE", 20)
    for table in (cells(15, 5), cells(20, 0), cells(0, 20)):
        assert space_of(table).over(observed(table)).skip_reason is None


# Refusals


@pytest.mark.parametrize(
    ("parameters", "match"),
    [
        ({}, "imputed stands in the place of PU and NU"),
        (
            {"gammas": MIXTURE},
            "With imputed nothing can be left to choose.*: pass rank, radius, l2",
        ),
        (
            FIXED | {"gammas": MIXTURE, "radius": 1.0, "calibration": "platt"},
            "With imputed nothing can be left to choose.*: pass calibration=None",
        ),
    ],
)
def test_with_an_imputed_model_nothing_is_free(parameters, match):
    with pytest.raises(InvalidInputError, match=match):
        space_of(**parameters, imputed=BinaryMatrixCompletion(**FIXED).fit(A))


@pytest.mark.parametrize(
    "parameters", [FIXED | {"gammas": MIXTURE, "radius": 1.0}, {"gammas": MIXTURE, "search": False}]
)
def test_an_imputed_model_goes_with_a_fit_that_searches_nothing(parameters):
    space = space_of(**parameters, imputed=BinaryMatrixCompletion(**FIXED).fit(A))
    assert space.skip_reason == NOTHING_FREE


@pytest.mark.parametrize(
    ("parameters", "solver", "match"),
    [
        ({"radius": 0.8, "implicit_features": False, "gammas": PN}, LBFGS(), "keeps no constraint"),
        ({"implicit_features": True}, Newton(), "cannot move these"),
        ({"gammas": MIXTURE, "rank": 2}, LBFGS(), "keeps no constraint"),
    ],
)
def test_what_the_solver_cannot_keep_is_refused(parameters, solver, match):
    with pytest.raises(InvalidInputError, match=match):
        space_of(**parameters, solver=solver)


# Settings of a space


def test_settings_keep_what_is_not_free():
    base = ModelSpec(rank=3, l2=2.0, gammas=MIXTURE)
    moved = replace(base, l2=7.0, radius=1.0)
    assert SearchSpace(base, frozenset({"l2", "radius"})).allows(moved)
    assert not SearchSpace(base, frozenset({"l2"})).allows(moved)
    assert not SearchSpace(base, EVERYTHING - {"gammas"}).allows(replace(base, gammas=PN))
    assert SearchSpace(base, EVERYTHING).allows(replace(base, rank=0))
    assert not SearchSpace(base, EVERYTHING, min_rank=1).allows(replace(base, rank=0))

import warnings

import numpy as np
import pytest

from tribit import (
    BinaryMatrixCompletion,
    EntryBound,
    InvalidInputError,
    Logistic,
    MaxNorm,
    Observations,
    Probit,
    TraceNorm,
    UnboundedRiskWarning,
    Unconstrained,
    UnknownRhoWarning,
)
from tribit.backends import Arithmetic
from tribit.model.spec import ModelSpec
from tribit.selection.problem import make_problem

A = np.array([[1, 0, -1, 0], [1, 1, 0, 0], [0, 0, 0, 0]])
MIXTURE = (0.5, 0.3, 0.2)


def problem(labels=A, **parameters):
    defaults = {
        "gammas": (1, 0, 0),
        "rho": None,
        "link": "logistic",
        "rank": 2,
        "radius": None,
        "norm": "max",
        "alpha": None,
        "l2": 1.0,
        "intercept": True,
    }
    kind = Arithmetic(backend=parameters.pop("backend", "exact"))
    given = {"arithmetic": kind, "generator": np.random.default_rng(0)}
    for name in given.keys() & parameters.keys():
        given[name] = parameters.pop(name)
    spec = ModelSpec(**{**defaults, **parameters})
    return make_problem(Observations.from_matrix(labels, zeros="unobserved"), spec, **given)


@pytest.mark.parametrize(
    ("parameters", "constraints"),
    [
        ({}, [Unconstrained()]),
        ({"radius": 2.0}, [MaxNorm(2.0)]),
        ({"radius": 2.0, "norm": "trace"}, [TraceNorm(2.0)]),
        ({"alpha": 0.5}, [Unconstrained(), EntryBound(0.5)]),
        ({"radius": 2.0, "alpha": 0.5}, [MaxNorm(2.0), EntryBound(0.5)]),
        ({"gammas": MIXTURE, "radius": 2.0}, [MaxNorm(2.0)]),
        ({"gammas": MIXTURE, "alpha": 0.5}, [Unconstrained(), EntryBound(0.5)]),
    ],
)
def test_constraints(parameters, constraints):
    made = problem(**parameters)
    assert made.constraints == constraints
    assert made.radius == parameters.get("radius")
    start = made.start.row_factors, made.start.column_factors
    assert start[0].shape == (3, 2)
    assert start[1].shape == (4, 2)
    assert all(constraint.gauge(*start) <= 1 + 1e-12 for constraint in constraints)
    assert any(part.any() for part in start)


@pytest.mark.parametrize(
    ("link", "radius"),
    [
        ("logistic", np.log(3)),
        (Logistic(7.0), np.log(3) / 7),
        (Probit(0.5), 0.6744897501960817 / 2),
    ],
)
def test_a_mixture_without_a_bound_is_given_three_to_one_odds(link, radius):
    made = problem(gammas=MIXTURE, link=link)
    assert made.radius == pytest.approx(radius, rel=1e-9)
    assert made.constraints == [MaxNorm(made.radius)]
    assert made.objective.intercept_bound == made.radius


def test_a_trace_norm_ball_needs_a_radius_where_a_ball_is_needed():
    # Not a max-norm ball instead: that is another model than the one that was asked for.
    with pytest.raises(InvalidInputError, match="radius"):
        problem(gammas=MIXTURE, norm="trace")


@pytest.mark.parametrize(
    ("parameters", "bound"),
    [
        ({}, np.inf),
        ({"radius": 2.0, "alpha": 0.5}, np.inf),
        ({"gammas": MIXTURE, "radius": 2.0}, 2.0),
        ({"gammas": MIXTURE, "radius": 2.0, "alpha": 0.5}, 0.5),
        ({"gammas": MIXTURE, "alpha": 0.5}, 0.5),
        # A bound on the sum of the singular values says little about one intercept.
        ({"gammas": MIXTURE, "radius": 50.0, "norm": "trace"}, np.log(3)),
        ({"gammas": MIXTURE, "radius": 50.0, "norm": "trace", "alpha": 0.5}, 0.5),
    ],
)
def test_intercepts_are_bounded_where_unobserved_entries_count(parameters, bound):
    assert problem(**parameters).objective.intercept_bound == pytest.approx(bound)


def test_rho():
    assert problem().rho == pytest.approx(1 - 4 / 12)
    assert problem(rho=0.25).rho == 0.25
    assert problem(rho=0.25).objective.risk.rho == 0.25
    assert problem(np.ones((2, 2)) - 2 * np.eye(2)).rho == 0.0


@pytest.mark.parametrize("gammas", [(1, 0, 0), MIXTURE])
def test_the_start_is_the_level_of_the_observed_likes(gammas):
    assert problem(gammas=gammas).start.intercept == pytest.approx(np.log(3), rel=1e-9)
    narrow = problem(gammas=gammas, link=Logistic(7.0))
    assert narrow.start.intercept == pytest.approx(np.log(3) / 7, rel=1e-9)
    assert problem(gammas=gammas, intercept=False).start.intercept == 0.0


@pytest.mark.parametrize("label", [1, -1])
@pytest.mark.parametrize(
    ("rho", "share"),
    # A third of the entries is observed; no share is believed to be 0 or 1.
    [(0.5, 2 / 3), (0.0, 1 / 3), (0, 1 / 3), (0.99, 0.99), (np.float32(0.5), 2 / 3)],
)
def test_the_start_of_likes_alone_is_what_rho_says_of_them(rho, share, label):
    made = problem(label * np.abs(A), gammas=MIXTURE, rho=rho)
    assert made.start.intercept == pytest.approx(label * np.log(share / (1 - share)), rel=1e-6)


@pytest.mark.parametrize(("label", "word"), [(1, "likes"), (-1, "dislikes")])
def test_likes_alone_without_rho_say_nothing(label, word):
    with pytest.warns(UnknownRhoWarning, match=word):
        made = problem(label * np.abs(A), gammas=MIXTURE)
    assert made.start.intercept == pytest.approx(0.0, abs=1e-9)


def test_what_was_not_seen_starts_at_zero_under_pn_alone():
    pn, mixture = problem().start, problem(gammas=MIXTURE).start
    assert not pn.row_factors[2].any()
    assert not pn.column_factors[3].any()
    assert pn.row_factors[:2].all()
    assert pn.column_factors[:3].all()
    assert mixture.row_factors.all()
    assert mixture.column_factors.all()


@pytest.mark.parametrize("intercept", [np.True_, np.False_])
def test_numpy_s_booleans_are_booleans(intercept):
    assert problem(intercept=intercept).objective.intercept is bool(intercept)


@pytest.mark.parametrize("rank", [1, 4, np.int32(3)])
def test_rank_may_be_up_to_the_larger_side(rank):
    assert problem(rank=rank).start.rank == rank


@pytest.mark.parametrize(
    ("parameters", "warns"),
    [
        ({}, True),
        ({"radius": 1.0}, True),  # the intercepts are outside the ball
        ({"intercept": False}, False),
        ({"intercept": False, "l2": 0.0}, True),
        ({"intercept": False, "l2": 0.0, "radius": 1.0}, False),
        ({"intercept": False, "l2": 0.0, "alpha": 1.0}, False),
        ({"gammas": MIXTURE, "rho": 0.5}, False),
    ],
)
@pytest.mark.parametrize(("label", "word"), [(1, "likes"), (-1, "dislikes")])
def test_one_label_alone_leaves_pn_without_a_minimum(parameters, warns, label, word):
    if warns:
        with pytest.warns(UnboundedRiskWarning, match=rf"^Only {word} were observed.*gammas"):
            problem(label * np.abs(A), **parameters)
    else:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            problem(label * np.abs(A), **parameters)


@pytest.mark.parametrize("gammas", [(1, 0, 0), MIXTURE])
def test_both_labels_do_not_warn(gammas):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        problem(gammas=gammas, l2=0.0)


def test_a_parameter_is_checked_before_the_data_are_touched():
    # The message of the first wrong one, whatever else is wrong.
    with pytest.raises(InvalidInputError, match="link must be one of"):
        problem(link="cauchy", rank=0)


@pytest.mark.parametrize(("gammas", "labels"), [((0, 0, 1), [[1, 1]]), ((0, 1, 0), [[-1, 0]])])
def test_a_risk_that_cannot_see_what_was_observed_is_refused(gammas, labels):
    with pytest.raises(InvalidInputError, match="and none were observed: give another risk weight"):
        BinaryMatrixCompletion(gammas, rho=0.5, rank=1).fit(labels)

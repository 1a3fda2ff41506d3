"""Checks of single parameters, and that the type of a number changes no bit of a fit."""

import inspect
import warnings
from fractions import Fraction
from functools import partial

import numpy as np
import pytest
from sklearn.base import clone

from tribit import (
    BinaryMatrixCompletion,
    InvalidInputError,
    InvalidTypeError,
    Logistic,
    Observations,
    Probit,
)
from tribit.checks import (
    check_between,
    check_choice,
    check_count,
    check_not_negative,
    check_positive,
    check_switch,
)
from tribit.model.calibration import Platt
from tribit.model.constraints import EntryBound, MaxNorm, Ridge, TraceNorm
from tribit.paper.systems import SYSTEMS
from tribit.propensity import low_rank, row_column
from tribit.ranking import CandidateRanker
from tribit.selection import trials
from tribit.solvers import ProjectedGradient
from tribit.solvers.augmented_lagrangian import AugmentedLagrangian

NUMBERS = (int, float, np.int8, np.int64, np.uint16, np.float16, np.float32, np.float64)
WHOLE = (int, np.int8, np.int64, np.uint16)

draws = np.random.default_rng(5)
A = draws.choice([-1, 0, 1], size=(18, 13), p=[0.25, 0.4, 0.35])
FEATURES = draws.normal(size=(18, 2))
SHORT = 4  #: iterations of a fit, and of a search for each candidate: a bit that differs does so from the first
#: Whether implicit features serve is searched for, among two candidates.
PLAIN = {
    "max_iter": SHORT,
    "gammas": (1.0, 0.0, 0.0),
    "rank": 2,
    "l2": 2.0,
    "l2_intercept": 1.0,
    "radius": None,
    "n_candidates": 2,
}
BALL = {**PLAIN, "gammas": (0.5, 0.25, 0.25), "radius": 1.0}
MASK = {**PLAIN, "implicit_features": True, "l2_implicit": 3.0}
SIDE = {**PLAIN, "implicit_features": False, "side_features": True}
GRADIENT = {**BALL, "intercept": False, "solver": "projected_gradient"}

#: Parameters of the estimator, a whole value of each, and the others it is fitted with.
PARAMETERS = [
    ("gammas", (1, 0, 0), PLAIN),
    ("gammas", (0, 1, 0), BALL),
    ("rho", 0, BALL),
    ("radius", 2, BALL),
    ("radius", 3, {**GRADIENT, "norm": "trace"}),
    ("alpha", 2, {**GRADIENT, "radius": 3.0}),
    ("alpha", 1, {**PLAIN, "gammas": (0.5, 0.25, 0.25), "radius": "auto"}),
    ("l2", 1, {**PLAIN, "l2_intercept": 0.5}),
    ("l2", 1, {**MASK, "l2_intercept": 0.5}),
    ("l2", 1, {**MASK, "l2_implicit": None}),
    ("l2", 1, GRADIENT),
    ("l2_power", 1, PLAIN),
    ("l2_intercept", 2, {**PLAIN, "l2": 0.5}),
    ("l2_intercept", 2, MASK),
    ("l2_implicit", 2, {**MASK, "l2": 0.5, "l2_intercept": 0.25}),
    ("l2_side", 2, SIDE),
    ("activity_floor", (1, 0), MASK),
    ("inverse_power", 1, {**PLAIN, "rho": "row-column"}),
    ("tol", 1, {**PLAIN, "max_iter": 100}),  # it ends this fit
    ("max_time", 100, PLAIN),
    ("like_at", 1, PLAIN),
    ("l2", 1, {"l2_intercept": 0.5, "n_candidates": 6, "max_iter": SHORT}),  # the rest is searched
]
COUNTS = [
    ("rank", 2, PLAIN),
    ("max_iter", 3, PLAIN),
    ("n_candidates", 3, {"max_iter": SHORT}),
    ("members", 2, {"n_candidates": 12, "max_iter": SHORT}),
    ("n_jobs", 2, PLAIN),
    ("random_state", 3, PLAIN),
]


def bits(model):
    parts = model.scores_.factors
    found = [parts.row_factors, parts.column_factors, parts.row_intercepts, parts.column_intercepts]
    found += [parts.intercept, getattr(model, "objective_", 0.0)]
    return [np.asarray(each).tobytes() for each in found]


def fitted(model, X=A):
    with warnings.catch_warnings(), pytest.MonkeyPatch.context() as patch:
        warnings.simplefilter("ignore")
        patch.setattr(trials, "MAX_SWEEPS", SHORT)
        features = (
            {"row_features": FEATURES} if getattr(model, "side_features", False) is True else {}
        )
        return clone(model).fit(X, **features)


def same_bits_as_float(make, value, kinds, plain, X=A):
    expected = bits(fitted(make(plain(value)), X))
    assert expected
    for kind in kinds:
        each = tuple(kind(part) for part in value) if isinstance(value, tuple) else kind(value)
        assert bits(fitted(make(each), X)) == expected, kind


@pytest.mark.parametrize(("name", "value", "others"), PARAMETERS)
def test_the_type_of_a_number_changes_no_bit(name, value, others):
    def make(each):
        return BinaryMatrixCompletion(**{"n_jobs": 1, **others, "random_state": 0, name: each})

    def plain(value):
        return tuple(map(float, value)) if isinstance(value, tuple) else float(value)

    same_bits_as_float(make, value, NUMBERS, plain)


@pytest.mark.parametrize(("name", "value", "others"), COUNTS)
def test_the_type_of_a_count_changes_no_bit(name, value, others):
    def make(each):
        return BinaryMatrixCompletion(**{"random_state": 0, **others, name: each})

    same_bits_as_float(make, value, WHOLE, int)


def test_the_type_of_a_half_life_changes_no_bit():
    observations = Observations.from_matrix(A)
    timed = observations.with_times(86_400 * np.arange(10_000, 10_000 + len(observations)))

    def make(each):
        return BinaryMatrixCompletion(**PLAIN, random_state=0, half_life=each)

    assert bits(fitted(make(20.0), timed)) != bits(fitted(make(None), timed))
    same_bits_as_float(make, 20, NUMBERS, float, timed)


def test_every_numeric_parameter_of_the_estimator_is_among_those():
    numeric = set()
    for name, parameter in inspect.signature(BinaryMatrixCompletion).parameters.items():
        if any(kind in str(parameter.annotation) for kind in ("int", "float")):
            numeric.add(name)
    covered = {name for name, _, _ in PARAMETERS + COUNTS}
    covered |= {"verbose", "random_state", "half_life"}
    assert numeric - covered == set()


#: The numeric parameters of the other systems, with a whole value that each of them takes.
SYSTEM_PARAMETERS = {
    "alpha": 2,
    "radius": 2,
    "l2": 2,
    "rho": 0,
    "eta": 1,
    "budget_share": 1,
    "budget": 4,
    "tol": 1,
}


@pytest.mark.parametrize(
    ("system", "name"),
    [
        (system, name)
        for system, kind in SYSTEMS.items()
        if system != "tribit"
        for name in kind().get_params()
        if name in SYSTEM_PARAMETERS
    ],
)
def test_the_type_of_a_number_changes_no_bit_of_another_system(system, name):
    needed = {"rank": 2, "max_iter": 8}
    kind = SYSTEMS[system]
    others = {key: value for key, value in needed.items() if key in kind().get_params()}
    if system == "pu" and name != "rho":
        others["rho"] = 0.5
    others |= {"random_state": 0} if "random_state" in kind().get_params() else {}
    value = SYSTEM_PARAMETERS[name]
    same_bits_as_float(lambda each: kind(**{**others, name: each}), value, NUMBERS, float)


@pytest.mark.parametrize("kind", NUMBERS)
@pytest.mark.parametrize(
    "made",
    [
        lambda n: MaxNorm(n).radius,
        lambda n: TraceNorm(n).radius,
        lambda n: EntryBound(n).alpha,
        lambda n: Ridge(n).l2,
        lambda n: Logistic(n).scale,
        lambda n: Probit(n).sigma,
        lambda n: ProjectedGradient(n).step,
        lambda n: AugmentedLagrangian(n).curvature,
        lambda n: Platt(n, 0.0).slope,
    ],
)
def test_objects_keep_numbers_as_floats(made, kind):
    assert type(made(kind(2))) is float
    assert made(kind(2)) == 2.0


@pytest.mark.parametrize("kind", NUMBERS)
@pytest.mark.parametrize("fit", [row_column, partial(low_rank, random_state=0)])
def test_models_of_the_mask_do_not_depend_on_the_type_of_l2(fit, kind, seen):
    expected, found = (fit(seen, l2=l2).rho_at(seen.rows, seen.columns) for l2 in (2.0, kind(2)))
    np.testing.assert_array_equal(found, expected)


def test_the_ranker_does_not_depend_on_the_type_of_l2(seen):
    found = [CandidateRanker(l2=l2, random_state=0).fit(seen).log_rates([0, 1]) for l2 in (8.0, 8)]
    np.testing.assert_array_equal(found[0], found[1])


@pytest.fixture
def seen():
    from tribit import Observations

    return Observations.from_matrix(A)


@pytest.mark.parametrize("value", [0, -1.0, np.inf, np.nan, True, "1", None, 1j, 10**400, [1.0]])
def test_what_is_no_positive_number_is_refused_in_one_sentence(value):
    with pytest.raises(
        InvalidInputError, match=r"^x must be a positive finite number; got .{1,40}$"
    ):
        check_positive("x", value)


@pytest.mark.parametrize("value", [-1e-300, -(10**400), np.inf, np.nan, False, "0", 0j])
def test_what_is_negative_or_no_number_is_refused(value):
    with pytest.raises(InvalidInputError, match=r"^x must be a finite number, at least 0; got "):
        check_not_negative("x", value)


def test_exact_numbers_are_numbers():
    assert check_positive("x", Fraction(1, 4)) == 0.25
    assert check_not_negative("x", np.float16(0)) == 0.0


@pytest.mark.parametrize(
    ("ends", "inside", "outside"),
    [
        ("[]", (0, 1), (-0.1, 1.1, np.nan)),
        ("[)", (0, 0.5), (1, np.nan)),
        ("(]", (1, 0.5), (0, np.inf)),
        ("()", (0.5, 1e-300), (0, 1)),
    ],
)
def test_intervals_have_their_ends(ends, inside, outside):
    for value in inside:
        assert check_between("x", value, 0.0, 1.0, ends=ends) == value
    for value in outside:
        with pytest.raises(InvalidInputError, match=f"^x, a share, must be in .0, 1{'.'}; got"):
            check_between("x", value, 0.0, 1.0, ends=ends, meaning="a share")
    with pytest.raises(InvalidTypeError, match="x must be a number in"):
        check_between("x", "0.5", 0.0, 1.0)


def test_counts_have_their_ends():
    assert check_count("n", np.int8(3), 1, 3) == 3
    assert type(check_count("n", np.int64(3))) is int
    with pytest.raises(InvalidInputError, match=r"^n must be a whole number, at least 1; got 0\.$"):
        check_count("n", 0)
    message = r"^n must be a whole number from 2 to 4, the columns; got 5\.$"
    with pytest.raises(InvalidInputError, match=message):
        check_count("n", 5, 2, 4, meaning="the columns")
    with pytest.raises(InvalidInputError, match="got a whole number of 16610 bits"):
        check_count("n", 10**5000, 1, 2)


def test_switches_and_choices():
    assert check_switch("on", np.bool_(True)) is True
    with pytest.raises(InvalidTypeError, match="on must be True or False; got 1"):
        check_switch("on", 1)
    assert check_choice("word", "a", ("a", "b")) == "a"
    with pytest.raises(InvalidInputError, match="word must be one of a, b; got 'c'"):
        check_choice("word", "c", ("a", "b"))

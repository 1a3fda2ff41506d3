"""A ball and a solver that are added to their registries are fitted with, or refused in one sentence."""

from dataclasses import dataclass, replace

import numpy as np
import pytest

from tribit import BinaryMatrixCompletion, InvalidInputError, Objective, load, pn
from tribit.backends.objective import features_of
from tribit.checks import check_positive
from tribit.data.observations import Observations
from tribit.model.constraints import NORMS, Constraint, MaxNorm
from tribit.model.factors import Factors
from tribit.model.links import Logistic
from tribit.model.spec import ModelSpec
from tribit.selection import search as search_module
from tribit.solvers import SOLVERS, Newton, ProjectedGradient, Solver, Stopping
from tribit.solvers.augmented_lagrangian import AugmentedLagrangian
from tribit.solvers.loop import Step, run

RNG = np.random.default_rng(0)
X = RNG.standard_normal((30, 2)) @ RNG.standard_normal((2, 25))
A = np.where(RNG.random(X.shape) < 0.5, np.sign(X + 0.5 * RNG.standard_normal(X.shape)), 0)
A = A.astype(int)
FIXED = {"rank": 2, "l2": 0.5, "l2_intercept": 1.0, "implicit_features": False, "random_state": 0}
MIXTURE = (0.6, 0.2, 0.2)


@dataclass(frozen=True)
class Box(Constraint):
    """``|U_il| <= radius`` and ``|V_jl| <= radius``: a set that declares nothing."""

    radius: float

    def __post_init__(self):
        check_positive("radius", self.radius)

    def project(self, U, V):
        return np.clip(U, -self.radius, self.radius), np.clip(V, -self.radius, self.radius)

    def gauge(self, U, V):
        return float(max(np.abs(U).max(), np.abs(V).max()) / self.radius) ** 2

    def start(self, shape, rank, generator):
        return self.project(*MaxNorm(self.radius**2).start(shape, rank, generator))


class Rows(MaxNorm):
    """``|u_i| <= radius``: the max-norm ball of the squared radius, declared by the radii of rows."""

    row_radius = inner_radius = entry_bound = property(lambda self: self.radius**2)

    def project(self, U, V):
        return MaxNorm(self.radius**2).project(U, V)

    def gauge(self, U, V):
        return MaxNorm(self.radius**2).gauge(U, V)


@dataclass(frozen=True)
class Descent(Solver):
    """Gradient descent with a fixed step, which declares nothing."""

    step: float = 0.02
    max_iter = 3000

    def minimise(self, objective, constraints, start, stopping, generator):  # noqa: ARG002
        def advance(factors):
            value, gradient = objective.gradient(factors)
            move = replace(gradient, intercept=0.0)
            parts = move.row_factors, move.column_factors, move.row_intercepts
            decrease = self.step * sum(float(np.vdot(part, part)) for part in parts)
            after = objective.normalise_intercepts(factors.plus(-self.step, move))
            return Step(factors, value, decrease, after)

        return run(advance, start, objective.value, stopping, objective.size)


class Careful(Descent):
    """The same, which says what it cannot keep, and keeps features."""

    searches_features = True

    def refusal(self, model, constraints):  # noqa: ARG002
        kept = [c for c in constraints if c.restricts]
        return f"Descent keeps no {kept[0]}: leave out radius." if kept else None


@pytest.fixture
def registered(monkeypatch):
    monkeypatch.setitem(NORMS, "box", Box)
    monkeypatch.setitem(NORMS, "rows", Rows)
    monkeypatch.setitem(SOLVERS, "descent", Descent)
    monkeypatch.setitem(SOLVERS, "careful", Careful)


@pytest.fixture
def no_search(monkeypatch):
    def refuse(*_, **__):
        raise AssertionError("the refusal comes before any search")

    monkeypatch.setattr(search_module, "choose", refuse)


def make(**settings):
    return BinaryMatrixCompletion(**{**FIXED, **settings})


@pytest.mark.usefixtures("registered")
def test_a_new_ball_is_kept_by_a_solver_that_can_and_survives_a_file(tmp_path):
    model = make(gammas=MIXTURE, norm="box", radius=0.4, solver="projected_gradient").fit(A)
    largest = max(np.abs(model.row_factors_).max(), np.abs(model.column_factors_).max())
    assert largest == pytest.approx(0.4, rel=1e-6)
    assert model.converged_
    model.save(tmp_path / "model")
    assert load(tmp_path / "model").spec_ == model.spec_


@pytest.mark.usefixtures("registered")
def test_a_new_ball_of_rows_is_kept_by_newton_like_the_built_in_one():
    ours = make(gammas=MIXTURE, norm="rows", radius=0.8).fit(A)
    built_in = make(gammas=MIXTURE, norm="max", radius=0.8**2).fit(A)
    np.testing.assert_array_equal(ours.row_factors_, built_in.row_factors_)
    assert ours.objective_ == built_in.objective_


@pytest.mark.usefixtures("registered")
def test_a_search_over_radii_is_made_in_a_new_ball_that_newton_keeps_and_in_no_other():
    rows = make(gammas="auto", norm="rows", radius="auto").fit(A)
    assert "mixture" in rows.search_.families()
    box = make(gammas="auto", norm="box", radius="auto").fit(A)
    assert "mixture" not in box.search_.families()


@pytest.mark.usefixtures("registered", "no_search")
@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"norm": "box", "radius": 1.0}, "newton solver moves one row .* cannot keep Box, which"),
        (
            {"norm": "box", "radius": 1.0, "solver": "lbfgs"},
            "keeps no constraint and was given Box",
        ),
        ({"norm": "box", "gammas": MIXTURE, "radius": "auto"}, "norm='box' .* needs a radius"),
        (
            {"norm": "rows", "radius": 2.0, "alpha": 3.0, "solver": "newton"},
            r"\|X\| <= alpha = 3 with radius = 4: pass",
        ),
        ({"radius": 2.0, "solver": "careful"}, r"Descent keeps no \|X\|_max <= radius = 2: leave"),
        ({"solver": "lbfgs", "gammas": MIXTURE, "radius": "auto"}, "keeps no constraint"),
        (
            {"solver": "newton", "implicit_features": True, "l2_implicit": "auto"},
            "cannot move these",
        ),
    ],
)
def test_what_cannot_be_kept_is_refused_in_one_sentence_before_any_search(settings, words):
    with pytest.raises(InvalidInputError, match=words) as caught:
        make(**{"l2": "auto", "gammas": (1, 0, 0), **settings}).fit(A)
    assert str(caught.value).endswith(".")
    assert str(caught.value).count(". ") == 0


@pytest.mark.usefixtures("registered")
@pytest.mark.parametrize("name", ["descent", "careful"])
@pytest.mark.usefixtures("short_trials")
def test_a_new_solver_fits_with_and_without_a_search(name, tmp_path):
    fast = make(gammas=(1, 0, 0), radius=None, solver="newton", dtype="float64").fit(A)
    slow = make(gammas=(1, 0, 0), radius=None, solver=name, dtype="float64", tol=1e-5).fit(A)
    assert slow.converged_
    assert slow.objective_ == pytest.approx(fast.objective_, rel=1e-2)
    slow.save(tmp_path / "model")
    assert load(tmp_path / "model").solver == name
    chosen = make(
        solver=name, implicit_features="auto", l2="auto", gammas="auto", radius="auto"
    ).fit(A)
    families = set(chosen.search_.families())
    # One that declares nothing is given balls, and no rows that share unknowns; the other says that it keeps no ball.
    assert ("implicit features" in families, "mixture" in families) == (
        (False, True) if name == "descent" else (True, False)
    )


@pytest.mark.parametrize("solver", [Newton(), ProjectedGradient(), AugmentedLagrangian()], ids=str)
def test_rows_that_share_unknowns_are_refused_by_solvers_of_rows(solver):
    seen = Observations.from_matrix(A)
    plain = Objective(seen, Logistic(), pn(), l2=1.0)
    objective = plain.with_features(features_of(ModelSpec(implicit_features=True), seen, None))
    start = objective.unknowns(Factors.of(*(np.zeros((size, 2)) for size in A.shape)))
    with pytest.raises(InvalidInputError, match="solver cannot move these: use solver='lbfgs'"):
        solver.minimise(objective, [], start, Stopping(3, 1e-3), RNG)

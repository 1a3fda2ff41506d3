"""What is "auto" in the estimator: chosen from the data, and everything else kept."""

import warnings
from dataclasses import dataclass, replace

import numpy as np
import pytest
from scipy.special import expit
from selection_data import low_rank, observed
from sklearn.base import clone

from tribit import (
    BinaryMatrixCompletion,
    InvalidInputError,
    InvalidTypeError,
    Logistic,
    Objective,
    Probit,
    Risk,
    TribitWarning,
    doubly_robust,
    evaluate,
    load,
)
from tribit.backends import Arithmetic, layout, tiles
from tribit.model.calibration import Isotonic, Platt, cross_fit_probabilities, platt
from tribit.model.spec import CHOOSABLE, ModelSpec
from tribit.propensity import row_column
from tribit.randomness import generator
from tribit.selection import refit, trials
from tribit.selection import search as search_module
from tribit.selection.folds import make_folds
from tribit.selection.problem import make_problem
from tribit.solvers import LBFGS, Newton, ProjectedGradient, Stopping, loop
from tribit.solvers.loop import INTERRUPTED
from tribit.uncertainty import laplace

PN, MIXTURE = (1.0, 0.0, 0.0), (0.6, 0.2, 0.2)
NOTHING = {
    "gammas": PN,
    "rank": 3,
    "radius": None,
    "l2": 2.0,
    "l2_intercept": 1.0,
    "implicit_features": False,
}
FITTED = ("row_factors_", "column_factors_", "row_intercepts_", "column_intercepts_")
A = low_rank((40, 30), density=0.5)
EXTRA_HALVED_AT = low_rank((9, 8), density=0.9)


def make(**parameters):
    return BinaryMatrixCompletion(**{"n_jobs": 1, "random_state": 0, **parameters})


@pytest.fixture(scope="module")
def model():
    return make().fit(A)


@pytest.fixture(scope="module")
def again(model):
    return clone(model).fit(A)


def entries(model):
    U, V = model.row_factors_, model.column_factors_
    X = U.astype(float) @ V.T.astype(float) + model.intercept_
    return X + model.row_intercepts_[:, None] + model.column_intercepts_


# What is fixed is kept


@pytest.mark.parametrize(
    "fixed",
    [
        {"gammas": PN},
        {"gammas": MIXTURE},
        {"rank": 3},
        {"rank": 0},
        {"rank": 0, "radius": 1.0},
        {"rank": 0, "gammas": MIXTURE},
        {"radius": 0.8},
        {"radius": None},
        {"radius": None, "gammas": MIXTURE},
        {"l2": 2.0},
        {"l2_intercept": 0.5},
        {"l2_intercept": None},
        {"l2": 1.0, "l2_intercept": None},
        {"implicit_features": False},
        {"implicit_features": True},
        {"implicit_features": True, "l2_implicit": 7.0},
        {"implicit_features": np.True_, "l2_implicit": None, "l2": 1.0},
        {"l2_implicit": 7.0},
        {"alpha": 1.0, "radius": 0.9},
        {"alpha": "auto", "gammas": MIXTURE},
        {"rank": 2, "l2": 1.0, "gammas": MIXTURE},
    ],
    ids=str,
)
@pytest.mark.usefixtures("short_trials")
def test_what_is_fixed_is_kept_and_the_rest_is_chosen(fixed):
    model = make(**fixed).fit(A)
    best = model.search_.best
    assert best is not None
    for name, value in fixed.items():
        if not isinstance(value, str):
            assert getattr(best.settings, name) == value, name
            if name != "radius" or value is not None:
                assert getattr(model, f"{name}_") == value, name
    for name in CHOOSABLE:
        if name not in ("rho", "radius"):
            assert getattr(model, f"{name}_") == getattr(best.settings, name), name
    if fixed.get("alpha") == "auto":
        assert model.alpha_ == model.radius_ == best.settings.radius
    assert model.get_params()["rank"] == fixed.get("rank", "auto")
    assert np.isfinite(model.complete()).all()
    assert model.converged_
    size = np.maximum(
        np.sum(model.row_factors_.astype(float) ** 2, axis=1).max(initial=0),
        np.sum(model.column_factors_.astype(float) ** 2, axis=1).max(initial=0),
    )
    assert model.radius_ is None or size <= model.radius_ * (1 + 1e-5)


def test_everything_is_chosen_by_default(model):
    assert model.search_.best is not None
    assert list(model.search_.families())[:2] == ["intercepts", "factors"]
    assert model.rank_ == model.row_factors_.shape[1]
    assert model.rho_ == pytest.approx(np.mean(A == 0))
    defaults = BinaryMatrixCompletion().get_params()
    assert {name for name in CHOOSABLE if defaults[name] == "auto"} == set(CHOOSABLE) - {"alpha"}


@pytest.mark.parametrize("solver", ["newton", Newton()])
@pytest.mark.usefixtures("short_trials")
def test_newton_is_given_what_it_can_fit(solver):
    model = make(solver=solver).fit(A)
    assert not model.implicit_features_
    assert model.rank_ > 0
    assert "implicit features" not in model.search_.families()


@pytest.mark.parametrize("solver", ["lbfgs", LBFGS(memory=5)])
@pytest.mark.usefixtures("short_trials")
def test_lbfgs_is_given_no_ball(solver):
    model = make(solver=solver).fit(A)
    assert model.gammas_ == PN
    assert model.radius_ is None
    assert "mixture" not in model.search_.families()
    assert "implicit features" in model.search_.families()


@pytest.mark.usefixtures("short_trials")
def test_projected_gradient_is_given_no_implicit_features():
    model = make(solver="projected_gradient").fit(A)
    assert not model.implicit_features_
    assert "mixture" in model.search_.families()
    grown = make(solver=ProjectedGradient(grow=True), gammas=PN).fit(A)
    assert grown.gammas_ == PN
    assert np.isfinite(grown.objective_)


@pytest.mark.usefixtures("short_trials")
def test_a_trace_norm_has_no_ball_unless_one_is_given():
    model = make(norm="trace").fit(A)
    assert model.gammas_ == PN
    assert model.radius_ is None
    given = make(norm="trace", radius=30.0, solver="projected_gradient").fit(A)
    assert given.search_.best is None
    assert given.search_.stop_reason == "the search cannot keep |X|_* <= radius = 30"
    assert given.radius_ == 30.0
    singular = np.linalg.svd(
        given.row_factors_.astype(float) @ given.column_factors_.T.astype(float), compute_uv=False
    )
    assert singular.sum() <= 30.0 * (1 + 1e-4)


def test_a_bound_that_no_ball_implies_is_left_to_projected_gradient():
    model = make(alpha=0.5, solver="projected_gradient").fit(A)
    assert model.search_.best is None
    assert "alpha" in str(model.search_)
    assert model.alpha_ == 0.5
    X = model.row_factors_.astype(float) @ model.column_factors_.T.astype(float)
    assert np.abs(X).max() <= 0.5 * (1 + 1e-5)


@pytest.mark.usefixtures("short_trials")
def test_without_intercepts_factors_are_chosen():
    model = make(intercept=False).fit(A)
    assert model.rank_ > 0
    assert model.intercept_ == 0.0
    assert not model.row_intercepts_.any()
    assert "intercepts" not in model.search_.families()


@pytest.mark.parametrize(
    "parameters", [{"rank": 0}, {"gammas": MIXTURE}, {"implicit_features": True}]
)
def test_what_nobody_reads_is_no_reason_for_a_search(parameters):
    # l2 and implicit features of rank 0, implicit features of a mixture; l2_implicit, radius and gammas of implicit
    # features.
    rest = {"l2_intercept": 1.0}
    if parameters != {"rank": 0}:
        rest |= {"rank": 2, "l2": 2.0}
    if "gammas" in parameters:
        rest |= {"radius": 1.0}
    elif "rank" in parameters:
        rest |= {"gammas": PN}
    else:
        rest |= {"l2_implicit": 3.0}
    assert make(**parameters, **rest).fit(A).search_ is None


# Nothing to choose


@pytest.mark.parametrize("gammas", [PN, MIXTURE])
def test_with_nothing_open_the_fit_is_the_one_that_the_parts_make(gammas):
    fixed = {**NOTHING, "gammas": gammas, "radius": None if gammas == PN else 1.0}
    model = make(**fixed, rho=None).fit(A)
    assert model.search_ is None
    assert model.calibration_ is None
    draws = generator(0)
    problem = make_problem(
        observed(A),
        ModelSpec(**fixed),
        arithmetic=Arithmetic(dtype="float32", n_jobs=1),
        generator=draws,
    )
    result = Newton().minimise(
        problem.objective, problem.constraints, problem.start, Stopping(100, model.tol), draws
    )
    factors = result.factors.astype("float32")
    np.testing.assert_array_equal(model.row_factors_, factors.row_factors)
    np.testing.assert_array_equal(model.column_factors_, factors.column_factors)
    np.testing.assert_array_equal(model.row_intercepts_, factors.row_intercepts)
    assert model.intercept_ == factors.intercept


def test_too_little_data_is_fitted_with_the_defaults():
    assert np.count_nonzero(EXTRA_HALVED_AT) < 100
    model = make().fit(EXTRA_HALVED_AT)
    assert model.search_.best is None
    assert "too few to hold any out" in model.search_.stop_reason
    assert (model.gammas_, model.rank_, model.l2_) == (PN, 8, 5.0)
    assert model.calibration_ is None
    fixed = {"gammas": PN, "rank": 8, "radius": None, "l2": 5.0, "l2_intercept": None}
    plain = make(**fixed, implicit_features=False).fit(EXTRA_HALVED_AT)
    assert plain.search_ is None
    np.testing.assert_array_equal(model.complete(), plain.complete())
    sparse_but_wide = low_rank((30, 20), density=0.1)
    assert make().fit(sparse_but_wide).rank_ == 10


# Randomness


def test_the_choice_depends_on_the_seed_and_not_on_the_threads(monkeypatch, model, again):
    for name in FITTED:
        np.testing.assert_array_equal(getattr(again, name), getattr(model, name))
    for module, name, size in (
        (tiles, "HEIGHT", 24),
        (tiles, "WIDTH", 24),
        (tiles, "PANELS_PER_SUM", 1),
        (layout, "BATCH_ENTRIES", 200),
    ):
        monkeypatch.setattr(module, name, size)
    models = [make(n_jobs=n).fit(A) for n in (1, 3)]
    for other in models[1:]:
        ours, theirs = (
            [(c.settings, c.score) for c in m.search_.candidates] for m in (models[0], other)
        )
        assert ours == theirs
        for name in FITTED:
            np.testing.assert_array_equal(getattr(other, name), getattr(models[0], name))
        assert other.objective_ == models[0].objective_
    different = make(random_state=1, n_candidates=2).fit(A)
    assert [c.score for c in different.search_.candidates] != [
        c.score for c in model.search_.candidates[:2]
    ]


def test_a_clone_chooses_again(model, again):
    copy = clone(model)
    assert not hasattr(copy, "search_")
    assert copy.gammas == "auto"
    assert str(again.search_.best.settings) == str(model.search_.best.settings)


# The last fit


@pytest.mark.parametrize(
    "fixed",
    [
        {},
        {"gammas": PN, "implicit_features": False},
        {"gammas": MIXTURE},
        {"gammas": MIXTURE, "l2": 0.5},
        {"rank": 0},
        {"implicit_features": True},
        {"radius": 0.8, "gammas": PN},
        {"intercept": False},
    ],
    ids=str,
)
def test_the_last_fit_ends_where_one_from_nothing_ends(fixed):
    labels = low_rank((40, 30), density=0.5, seed=1)
    options = {"tol": 1e-7, "dtype": "float64", "max_iter": 3000, "n_candidates": 24, "members": 1}
    model = make(**fixed, **options).fit(labels)
    assert model.search_.best is not None
    values = {name: getattr(model, f"{name}_") for name in CHOOSABLE}
    cold = make(**{**fixed, **values}, **options).fit(labels)
    assert cold.search_ is None
    assert model.objective_ == pytest.approx(cold.objective_, rel=1e-3)


def test_the_last_fit_begins_where_the_search_ended(monkeypatch):
    starts, minimise = [], refit.minimise_in_stages

    def spy(solver, objective, constraints, start, *rest):
        starts.append(start)
        return minimise(solver, objective, constraints, start, *rest)

    monkeypatch.setattr(refit, "minimise_in_stages", spy)
    fixed = {"gammas": PN, "rank": 0}
    model = make(**fixed).fit(A)
    cold = make(**fixed, l2_intercept=model.l2_intercept_).fit(A)
    assert cold.search_ is None
    warm, plain = starts
    end = model.search_.ends["intercepts"]
    np.testing.assert_array_equal(warm.row_intercepts, end.row_intercepts)
    assert not np.array_equal(warm.row_intercepts, plain.row_intercepts)
    assert model.objective_ == pytest.approx(cold.objective_, rel=1e-4)


# Interruptions and budgets


def test_the_keyboard_during_a_search_keeps_the_best_so_far(monkeypatch):
    calls = 0

    class Interrupted(Newton):
        def minimise(self, *arguments):
            nonlocal calls
            calls += 1
            result = super().minimise(*arguments)
            return replace(result, stop_reason=INTERRUPTED) if calls > 5 else result

    original = trials.default_solver

    def default_solver(settings):
        solver = original(settings)
        return Interrupted() if isinstance(solver, Newton) else solver

    monkeypatch.setattr(trials, "default_solver", default_solver)
    model = make().fit(A)
    assert model.search_.stop_reason == INTERRUPTED
    assert model.stop_reason_ == INTERRUPTED
    assert not model.converged_
    assert INTERRUPTED in str(model.search_)
    done = [c.settings.family for c in model.search_.candidates]
    assert done.count("factors") == 1
    assert model.search_.best.score == min(c.score for c in model.search_.candidates)
    assert np.isfinite(model.complete()).all()


@pytest.mark.filterwarnings("ignore:Interrupted:RuntimeWarning")
@pytest.mark.parametrize("first", [1, 4])
def test_a_second_press_of_the_keyboard_is_an_error(monkeypatch, first):
    """The first ends the search, the second the fit on all entries, or another fold of the first candidate."""
    calls = 0
    original = loop.run

    def interrupted(advance, *arguments, **options):
        nonlocal calls
        calls += 1
        press = calls >= first

        def advance_or_stop(factors):
            if press:
                raise KeyboardInterrupt
            return advance(factors)

        return original(advance_or_stop, *arguments, **options)

    for module in ("newton", "lbfgs"):
        monkeypatch.setattr(f"tribit.solvers.{module}.run", interrupted)
    with pytest.raises(KeyboardInterrupt):
        make().fit(A)
    assert calls == first + 1


def test_n_candidates_and_max_time_bound_the_search():
    model = make(n_candidates=3).fit(A)
    assert len(model.search_.candidates) == 3
    assert model.rank_ == 0
    quick = make(max_time=1e-6).fit(A)
    assert len(quick.search_.candidates) == 1
    assert quick.n_iter_ == 1
    assert np.isfinite(quick.complete()).all()


@pytest.mark.usefixtures("short_trials")
def test_a_callback_sees_the_last_fit_alone():
    seen = []
    model = make(callback=seen.append).fit(A)
    assert seen == model.history_
    assert len(seen) == model.n_iter_


# Which cells, and by which measure


@dataclass(frozen=True)
class ByColumn:
    """A user's own model of the mask, with an array in it."""

    rho: np.ndarray

    def rho_at(self, _, columns):
        return self.rho[columns]


def popular_and_rare(seed=0):
    """Return labels with no preferences in popular columns and strong ones in rare columns, and rho."""
    rng = np.random.default_rng(seed)
    shape, q = (80, 60), np.where(np.arange(60) < 30, 0.6, 0.06)
    strong = np.where(np.arange(60) < 30, 0.0, 4.0 * rng.choice([-1, 1], 60))
    labels = np.where(rng.random(shape) < expit(strong), 1, -1)
    return np.where(rng.random(shape) < q, labels, 0), ByColumn(1 - q)


def test_the_target_is_every_cell_alike_where_each_weighs_1_over_q():
    labels, rho = popular_and_rare()
    fixed = {"gammas": PN, "rank": 0, "rho": rho, "calibration": None}
    chosen, everywhere = (make(**fixed, target=t).fit(labels) for t in ("observed", "all"))
    q = 1 - rho.rho
    for model, weighted in ((chosen, False), (everywhere, True)):
        assert model.search_.target == model.target
        assert model.rho_ is rho
        x, y, w = model.search_.held_out
        if not weighted:
            np.testing.assert_array_equal(w, np.ones(x.size))
        else:
            assert set(np.round(w, 9)) == set(np.round(1 / np.unique(q), 9))
        losses = np.logaddexp(0, -y * x)
        assert model.search_.best.score == pytest.approx(np.sum(w * losses) / np.sum(w))
    # By hand: the weights are those of the columns of the held-out entries, fold after fold.
    folds = make_folds(observed(labels), None, generator(0))
    by_hand = np.concatenate([1 / q[fold.held_out.columns] for fold in folds])
    np.testing.assert_allclose(everywhere.search_.held_out[2], by_hand)
    mended = make(**{**fixed, "calibration": "platt"}, target="all").fit(labels)
    x, y, w = mended.search_.held_out
    assert mended.calibration_ == platt(x, y, w, link=Logistic())
    assert mended.calibration_ != platt(x, y, link=Logistic())
    # Most held-out entries are of popular columns, where intercepts are best shrunk to nothing.
    assert chosen.l2_intercept_ > everywhere.l2_intercept_


def test_the_target_of_all_cells_fits_a_model_of_the_mask():
    labels, _ = popular_and_rare()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = make(gammas=PN, rank=0, target="all").fit(labels)
    assert model.rho_.name == "low-rank"
    assert np.ptp(model.search_.held_out[2]) > 1.0
    named = make(gammas=PN, rank=0, target="all", rho="row-column").fit(labels)
    assert named.rho_.name == "row-column"
    plain = make(gammas=PN, rank=0, target="all", rho=0.7).fit(labels)
    assert np.ptp(plain.search_.held_out[2]) == 0.0
    assert plain.rho_ == 0.7


@pytest.mark.parametrize("scoring", ["error", "auc"])
def test_another_measure_decides(scoring, model):
    other = make(scoring=scoring, gammas=PN, calibration=None).fit(A)
    assert other.search_.scoring == scoring
    x, labels, _ = other.search_.held_out
    if scoring == "error":
        assert other.search_.best.score == pytest.approx(np.mean((x >= 0) != (labels > 0)))
    assert 0 < other.search_.best.score < 0.5
    # A score is a loss: of the area under the curve it is what is missing.
    measure = {"error": "error", "auc": "1 - auc"}[scoring]
    assert other.search_.measure == measure
    assert f"Best {measure} on " in str(other.search_)
    assert [c.score for c in other.search_.candidates] != [
        c.score for c in model.search_.candidates
    ]


# Probabilities


def test_calibration_is_fitted_to_the_held_out_entries():
    model = make(gammas=PN, calibration="platt", implicit_features=False).fit(A)
    x, labels, weights = model.search_.held_out
    line = platt(x, labels, weights, link=Logistic())
    assert isinstance(model.calibration_, Platt)
    assert (model.calibration_.slope, model.calibration_.offset) == (line.slope, line.offset)
    X = entries(model)
    expected = expit(line.slope * X + line.offset)
    np.testing.assert_allclose(model.complete(), expected, rtol=1e-6)
    i, j = np.nonzero(A)
    np.testing.assert_allclose(model.predict_proba(i, j), expected[i, j], rtol=1e-6)
    np.testing.assert_array_equal(model.predict(i, j), np.where(expected[i, j] >= 0.5, 1, -1))
    np.testing.assert_allclose(model.decision_function(i, j), X[i, j], rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("name", ["platt", "isotonic"])
def test_a_calibrator_by_name_takes_held_out_entries_though_nothing_is_open(name):
    model = make(**NOTHING, calibration=name).fit(A)
    assert model.calibration_.name == name
    assert (model.rank_, model.l2_) == (3, 2.0)
    assert model.search_.best.settings.rank == 3
    plain = make(**NOTHING).fit(A)
    assert plain.search_ is None
    assert model.objective_ == pytest.approx(plain.objective_, rel=1e-3)
    x, labels, weights = model.search_.held_out
    found = cross_fit_probabilities(x, labels, weights, names=[name], random_state=0)[name]
    losses = -np.log(np.where(labels > 0, found, 1.0 - found))
    assert np.average(losses, weights=weights) == pytest.approx(model.search_.best.score)
    assert "by model family, calibrated: " in str(model.search_)


@pytest.mark.parametrize("name", [None, "identity"])
def test_no_calibrator_is_the_link_itself_and_needs_no_search(name):
    model = make(**NOTHING, calibration=name).fit(A)
    assert model.calibration_ is None
    assert model.search_ is None
    np.testing.assert_allclose(model.complete(), expit(entries(model)), rtol=1e-6)
    assert make(gammas=PN, rank=0, calibration=name).fit(A).calibration_ is None


def test_auto_takes_what_predicts_best():
    # With next to no ridge the model is far too sure of itself: there is much to mend.
    model = make(gammas=PN, rank=10, l2=0.01, l2_intercept=0.01).fit(A)
    assert model.calibration_ is not None
    x, labels, _ = model.search_.held_out
    mended = -np.mean(
        np.log(np.where(labels > 0, model.calibration_(x), 1 - model.calibration_(x)))
    )
    assert mended < 0.9 * np.mean(np.logaddexp(0, -labels * x))
    assert (
        make(gammas=PN, rank=10, l2=0.01, l2_intercept=0.01, calibration=None).fit(A).calibration_
        is None
    )


@pytest.mark.parametrize("name", ["platt", "isotonic"])
def test_evaluate_measures_the_calibrated_probabilities(name):
    train, test = observed(A).split(0.3, random_state=0)
    model = make(**NOTHING, calibration=name).fit(train)
    p = model.predict_proba(test.rows, test.columns)
    likes = test.labels > 0
    found = evaluate(model, test)
    assert found.log_loss == pytest.approx(-np.mean(np.log(np.where(likes, p, 1 - p))))
    assert found.error_rate == pytest.approx(np.mean((p >= 0.5) != likes))
    assert found.accuracy == pytest.approx(model.score(test))
    plain = evaluate(make(**NOTHING, calibration=None).fit(train), test)
    assert found.log_loss != plain.log_loss


@pytest.mark.parametrize("name", ["platt", "isotonic"])
@pytest.mark.parametrize("link", [Logistic(2.0), Probit(0.5)])
@pytest.mark.usefixtures("short_trials")
def test_a_saved_model_predicts_the_same_bits(tmp_path, name, link):
    model = make(gammas=PN, calibration=name, link=link, n_candidates=8).fit(A)
    model.save(tmp_path / "model.tribit")
    copy = load(tmp_path / "model.tribit")
    assert copy.search_.best.settings == model.search_.best.settings
    assert type(copy.calibration_) is type(model.calibration_)
    for what in ("probability", "score", "sign"):
        np.testing.assert_array_equal(copy.complete(what), model.complete(what))
    i, j = np.nonzero(A)
    np.testing.assert_array_equal(copy.predict_proba(i, j), model.predict_proba(i, j))
    assert evaluate(copy, A) == evaluate(model, A)
    for given in CHOOSABLE:
        if given != "rho":
            assert getattr(copy, f"{given}_") == getattr(model, f"{given}_"), given
    assert copy.gammas == PN
    assert copy.rank == "auto"
    copy.fit(A)  # it chooses again
    assert copy.search_ is not None


def test_no_cell_is_said_to_be_certain():
    model = make(gammas=PN, rank=0, calibration="isotonic").fit(A)
    assert isinstance(model.calibration_, Isotonic)
    p = model.complete()
    assert ((p > 0) & (p < 1)).all()


def test_a_calibrator_that_was_asked_for_and_left_out_is_told():
    with pytest.warns(
        TribitWarning, match="calibration='platt' was left out, as too little was held"
    ):
        model = make(calibration="platt").fit(EXTRA_HALVED_AT)
    assert model.calibration_ is None
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        make().fit(EXTRA_HALVED_AT)


# Weights 1 / q, and a model that is imputed


def reference(model, risk):
    """Return the objective at a fitted model's factors, in float64."""
    objective = Objective(observed(A), Logistic(), risk, l2=2.0, l2_intercept=1.0, intercept=True)
    return objective.value(model._factors().astype("float64"))


def test_inverse_power_weighs_the_observed_signs():
    q = row_column(observed(A))
    models = {
        power: make(**NOTHING, rho=q, inverse_power=power).fit(A) for power in (0.0, 0.5, 1.0)
    }
    for power, model in models.items():
        assert model.objective_ == pytest.approx(
            reference(model, Risk(*PN, q, inverse_power=power)), rel=1e-6
        )
    plain, half, full = (model.complete("score") for model in models.values())
    assert np.abs(half - plain).max() > 1e-3
    assert np.abs(full - half).max() > 1e-3
    # Left open, q is the cross-fitted model of the mask, not one number that would weigh nothing.
    assert make(**NOTHING, inverse_power=1.0).fit(A).rho_.name == "low-rank"


def test_an_imputed_model_makes_the_risk_doubly_robust():
    first = make(**NOTHING).fit(A)
    fixed = NOTHING | {"gammas": (0.4, 0.3, 0.3), "radius": 2.0}
    model = make(**fixed, rho=0.5, imputed=first).fit(A)
    risk = doubly_robust(first._factors(), Logistic(), 0.5, pn=0.4)
    assert model.objective_ == pytest.approx(reference(model, risk), rel=1e-6)
    assert np.abs(make(**fixed, rho=0.5).fit(A).complete() - model.complete()).max() > 1e-3
    # Refits for its intervals impute the same fitted model.
    train, held_out = observed(A).split(0.2, random_state=0)
    again = laplace(make(**fixed, rho=0.5, imputed=first).fit(train), train)
    ends = again.with_adjustment(held_out, n_refits=1, random_state=0).interval([0], [0])
    assert 0.0 < ends.lower[0] < ends.upper[0] < 1.0


@pytest.mark.parametrize(
    ("parameters", "match"),
    [
        ({"gammas": MIXTURE}, "With imputed nothing can be left to choose.*: pass rank, radius"),
        ({}, "imputed stands in the place of PU and NU"),
        (NOTHING | {"gammas": MIXTURE, "calibration": "platt"}, "pass calibration=None"),
    ],
)
def test_with_an_imputed_model_nothing_is_chosen(parameters, match):
    with pytest.raises(InvalidInputError, match=match):
        make(**parameters, imputed=make(**NOTHING).fit(A)).fit(A)


def test_what_cannot_be_imputed_is_one_sentence():
    fixed = NOTHING | {"gammas": MIXTURE, "radius": 1.0}
    with pytest.raises(InvalidTypeError, match="imputed must be a fitted model or None; got int"):
        make(**fixed, imputed=3).fit(A)
    with pytest.raises(
        InvalidInputError, match="The imputed model is 9 x 8 and the observations 40"
    ):
        make(**fixed, imputed=make(**NOTHING).fit(EXTRA_HALVED_AT)).fit(A)


def test_a_bound_alone_is_kept_by_a_ball_of_its_size():
    model = make(gammas=MIXTURE, alpha=0.8).fit(A)
    assert (model.radius_, model.alpha_) == (0.8, 0.8)
    assert np.abs(model.row_factors_ @ model.column_factors_.T).max() <= 0.8 * (1 + 1e-6)


def test_a_label_that_is_hardly_held_out_calibrates_nothing(model):
    x = np.linspace(-1.0, 3.0, 520)
    for rare, made in ((19, False), (20, True)):
        labels = np.ones(520, dtype=np.int8)
        labels[:rare] = -1
        search = replace(model.search_, held_out=(x, labels, np.ones(520)), stack=None)
        if made:
            assert refit.fit_calibrator(make(calibration="platt"), search, 1) is not None
            continue
        assert refit.fit_calibrator(make(), search, 1) is None
        with pytest.warns(TribitWarning, match="was left out, as too little was held out for it"):
            assert refit.fit_calibrator(make(calibration="platt"), search, 1) is None


def test_a_model_of_the_mask_counts_against_the_time(monkeypatch):
    monkeypatch.setattr(search_module.time, "perf_counter", lambda: 12.0)
    assert search_module._remaining_time(5.0, began=10.0) == 3.0
    assert (
        0.0 < search_module._remaining_time(5.0, began=1.0) < 1e-3
    )  # a first candidate is tried in any case
    assert search_module._remaining_time(None, began=1.0) is None

"""Experiments 1 and 2: what is drawn, what is fitted to it, and what is reported."""

from dataclasses import replace

import numpy as np
import pytest

from tribit import Logistic, Probit
from tribit.backends.objective import Arithmetic, Objective
from tribit.model.factors import Factors
from tribit.model.risks import tri
from tribit.paper.experiments import EXHIBITS, synthetic
from tribit.paper.experiments.protocols import SCALINGS, Settled, is_at_rest, iterate
from tribit.paper.experiments.settings import Settings, simplex
from tribit.paper.experiments.synthetic import (
    BEST,
    EXPERIMENT_1,
    EXPERIMENT_2,
    FLOOR,
    NARROW,
    SIZES,
    SOLVED,
    STAGE,
    START,
    TUNED,
    Experiment,
    Trial,
    fit_nudged,
    fit_paper,
    fit_posterior,
    fit_solved,
    fit_tuned,
    fit_varied,
    simulate,
    synthetic_study,
)

TINY = Experiment(20, Logistic(7.0), steps=(2e-3, 1e-3), rank=3, alpha=0.8, rho=0.6)
PN, MIX = (1.0, 0.0, 0.0), (0.5, 0.3, 0.2)
RADII = SIZES.radii
FIGURES = ("fig1", "fig2", "fig3")


@pytest.fixture(autouse=True)
def no_memory():
    """Every test draws anew."""
    simulate.cache_clear()
    yield
    simulate.cache_clear()


def labels(drawn):
    return drawn.observations.to_sparse().toarray()


def relative_error(M, X):
    return np.sqrt(np.sum((X - M) ** 2) / np.sum(M**2))


def scaled(drawn, share):
    """Return factors of ``share M``, whose relative error is ``|1 - share|``."""
    U, values, V = np.linalg.svd(drawn.M)
    root = np.sqrt(share * values[:3])
    return Factors.of(U[:, :3] * root, V[:3].T * root)


# The paper's numbers


def test_the_experiments_are_the_paper_s():
    assert (EXPERIMENT_1.size, EXPERIMENT_1.link) == (100, Probit(0.1))
    assert (EXPERIMENT_2.size, EXPERIMENT_2.link) == (300, Logistic(7.0))
    for experiment in (EXPERIMENT_1, EXPERIMENT_2):
        assert (experiment.rank, experiment.alpha, experiment.rho) == (10, 1.0, 0.85)
        assert experiment.radius == pytest.approx(np.sqrt(10))
    assert replace(EXPERIMENT_1, alpha=2.0, rank=9).radius == 6.0


# Draws


def test_a_draw_repeats_itself():
    one = simulate(TINY, 4, 1)
    simulate.cache_clear()
    again = simulate(TINY, 4, 1)
    assert one is not again
    np.testing.assert_array_equal(one.M, again.M)
    np.testing.assert_array_equal(labels(one), labels(again))
    assert one.scale == again.scale


def test_trials_and_seeds_draw_anew():
    drawn = [
        simulate(TINY, seed, trial) for seed, trial in ((0, 0), (0, 1), (1, 0), (1, 1), (2, 0))
    ]
    for place, one in enumerate(drawn):
        for other in drawn[:place]:
            assert not np.any(one.M == other.M)
            assert not np.array_equal(labels(one), labels(other))


@pytest.mark.parametrize("experiment", [TINY, EXPERIMENT_1, replace(TINY, alpha=3.0)], ids=str)
def test_the_largest_entry_is_alpha_and_the_rank_is_r(experiment):
    M = simulate(experiment, 0, 0).M
    assert M.shape == (experiment.size, experiment.size)
    assert np.max(np.abs(M)) == pytest.approx(experiment.alpha, rel=1e-12)
    assert np.linalg.matrix_rank(M) == experiment.rank


@pytest.mark.parametrize("rho", [0.85, 0.5])
def test_each_entry_is_observed_with_probability_one_minus_rho(rho):
    experiment = replace(EXPERIMENT_1, rho=rho)
    shares = [simulate(experiment, 0, trial).observations.density for trial in range(4)]
    deviation = np.sqrt(rho * (1 - rho) / (4 * 100**2))
    assert abs(np.mean(shares) - (1 - rho)) < 4 * deviation


def test_labels_come_from_the_link():
    sharp = simulate(replace(TINY, link=Logistic(1e6)), 0, 0)
    seen = sharp.observations
    np.testing.assert_array_equal(seen.labels, np.sign(sharp.M[seen.rows, seen.columns]))
    # A like with probability f(M), over the entries of some draws.
    drawn = [simulate(EXPERIMENT_1, 0, trial) for trial in range(3)]
    at = np.concatenate([d.M[d.observations.rows, d.observations.columns] for d in drawn])
    likes = np.concatenate([d.observations.labels > 0 for d in drawn])
    f = EXPERIMENT_1.link.probability(at)
    assert abs(np.sum(likes - f)) < 4 * np.sqrt(np.sum(f * (1 - f)))
    assert abs(np.sum((likes - f) * at)) < 4 * np.sqrt(np.sum(f * (1 - f) * at**2))


@pytest.mark.parametrize(("experiment", "near"), [(TINY, 0.1), (EXPERIMENT_1, 0.005)], ids=str)
def test_the_scale_is_that_of_the_uniform_factors(experiment, near):
    draws = np.random.Generator(np.random.PCG64([3, 2]))
    shape = experiment.size, experiment.rank
    U, V = draws.uniform(-1, 1, shape), draws.uniform(-1, 1, shape)
    scale = experiment.alpha / np.max(np.abs(U @ V.T))
    drawn = simulate(experiment, 3, 2)
    np.testing.assert_allclose(drawn.M, scale * U @ V.T, rtol=1e-9, atol=1e-12)
    largest = np.max(np.abs(U)) * np.max(np.abs(V))
    assert drawn.scale == pytest.approx(scale * largest, rel=1e-12)
    assert drawn.scale == pytest.approx(scale, rel=near)


def test_every_mixture_of_a_trial_has_the_same_draw_and_start(monkeypatch):
    seen = {}

    def spy(objective, start, **options):
        options["max_iter"] = 1
        seen.setdefault(here, []).append((objective.observations.to_sparse().toarray(), *start))
        return iterate(objective, start, **options)

    monkeypatch.setattr(synthetic, "iterate", spy)
    for here in ((0, 0), (0, 1), (1, 0)):
        for mixture in (PN, MIX, (0.0, 1.0, 0.0)):
            simulate.cache_clear()
            fit_paper(Trial(TINY, *here, mixture), TINY.steps)
    for several in seen.values():
        assert len(several) == 3 * 2  # mixtures x scalings
        for other in several[1:]:
            for a, b in zip(several[0], other, strict=True):
                np.testing.assert_array_equal(a, b)
    first, *others = (several[0] for several in seen.values())
    for other in others:
        for a, b in zip(first, other, strict=True):
            assert not np.array_equal(a, b)


def test_the_start_is_small(monkeypatch):
    starts = []

    def spy(objective, start, **options):
        starts.append(start)
        return iterate(objective, start, **options | {"max_iter": 1})

    monkeypatch.setattr(synthetic, "iterate", spy)
    for trial in range(5):
        fit_paper(Trial(replace(TINY, alpha=4.0, size=60), 0, trial, PN), TINY.steps)
    variance = np.mean([np.var(U @ V.T) for U, V in starts])
    assert variance == pytest.approx(0.01 * 4.0**2, rel=0.3)


# The paper's protocol


@pytest.mark.parametrize("mixture", [PN, MIX])
def test_the_paper_s_rows_are_what_a_recomputation_gives(mixture):
    rows = fit_paper(Trial(TINY, 5, 1, mixture), (2e-3, 1e-3))
    drawn = simulate(TINY, 5, 1)
    draws = np.random.Generator(np.random.PCG64([5, 1, 1]))
    size = np.sqrt(0.8) * (0.01 / 3) ** 0.25
    start = tuple(size * draws.standard_normal((20, 3)) for _ in range(2))
    objective = Objective(
        drawn.observations,
        TINY.link,
        tri(*mixture, rho=0.6),
        arithmetic=Arithmetic(dtype="float64"),
    )
    assert [row["way"] for row in rows] == ["whole", "rows"]
    for row, step, most in zip(rows, (2e-3, 1e-3), (1000, 400), strict=True):
        options = {"radius": 0.8 * np.sqrt(3), "alpha": 0.8, "step": step, "scaling": row["way"]}
        settled = iterate(objective, start, **options, max_iter=most, tol=3e-4)
        error = relative_error(drawn.M, settled.U @ settled.V.T)
        assert row["relative_error"] == pytest.approx(error, rel=1e-3)
        assert row["risk"] == pytest.approx(objective.value(settled.factors), rel=1e-3)
        assert (row["trial"], row["step"]) == (1, step)
        assert (row["g_pn"], row["g_pu"], row["g_nu"]) == mixture
        assert row["radius"] == pytest.approx(0.8 * np.sqrt(3))
        assert row["at_rest"] == is_at_rest(objective, settled, **options)
        assert abs(row["iterations"] - settled.n_iter) <= 2
    assert rows[0]["relative_error"] != rows[1]["relative_error"]


def test_the_error_is_the_relative_frobenius_error(monkeypatch):
    known = scaled(simulate(TINY, 0, 0), 1.5)
    settled = Settled(known.row_factors, known.column_factors, 1)
    monkeypatch.setattr(synthetic, "iterate", lambda *_, **__: settled)
    monkeypatch.setattr(synthetic, "is_at_rest", lambda *_, **__: True)
    for row in fit_paper(Trial(TINY, 0, 0, PN), TINY.steps):
        assert row["relative_error"] == pytest.approx(0.5)


# The solved protocol


def test_k_grows_and_the_first_draw_is_solved_from_several_starts():
    rows = fit_solved(Trial(TINY, 0, 0, MIX), ())
    growth = [row for row in rows if row["start"] == 0]
    inner = [STAGE] * (len(growth) - 2)
    assert [row["way"] for row in growth] == [NARROW, *inner, SOLVED]
    assert growth[0]["columns"] == TINY.rank
    assert growth[-1]["columns"] > TINY.rank
    risks = [row["risk"] for row in growth]
    assert risks == sorted(risks, reverse=True)  # more columns, more room
    others = rows[len(growth) :]
    assert [(row["way"], row["start"]) for row in others] == [(START, 1)]
    for row in others:
        assert row["columns"] == growth[-1]["columns"]
        assert row["risk"] == pytest.approx(growth[-1]["risk"], rel=0.01)
        assert row["relative_error"] != growth[-1]["relative_error"]
    assert {row["start"] for row in fit_solved(Trial(TINY, 0, 1, MIX), ())} == {0}


def test_what_is_solved_has_a_lower_risk_than_the_printed_iteration():
    (solved,) = (row for row in fit_solved(Trial(TINY, 0, 1, MIX), ()) if row["way"] == SOLVED)
    for row in fit_paper(Trial(TINY, 0, 1, MIX), TINY.steps):
        assert solved["risk"] < row["risk"]


def test_the_varied_iteration_is_the_printed_one_looked_at_on_its_way():
    rows = fit_varied(Trial(TINY, 0, 1, MIX), (1e-3,))
    drawn = simulate(TINY, 0, 1)
    objective = Objective(
        drawn.observations, TINY.link, tri(*MIX, rho=0.6), arithmetic=Arithmetic(dtype="float32")
    )
    start = Trial(TINY, 0, 1).start()
    places = [(row["scaling"], row["iterations"]) for row in rows]
    assert places == [(way, n) for way in SCALINGS for n in SIZES.varied_iterations]
    for row in rows:
        settled = iterate(
            objective,
            start,
            radius=TINY.radius,
            alpha=0.8,
            step=1e-3,
            scaling=row["scaling"],
            max_iter=row["iterations"],
            tol=0.0,
        )
        error = relative_error(drawn.M, settled.U @ settled.V.T)
        assert row["relative_error"] == pytest.approx(error, rel=1e-5)


# The tuned protocol


@pytest.mark.parametrize("best", range(len(RADII)))
def test_the_radius_is_that_of_the_smallest_held_out_loss(monkeypatch, best):
    drawn = simulate(TINY, 0, 0)
    shares = np.linspace(0.3, 1.2, len(RADII))
    on_train = [scaled(drawn, 1.0) for _ in RADII]  # what is chosen from, not what is reported
    paths = iter([on_train, [scaled(drawn, share) for share in shares]])
    losses = iter([0.5 if place == best else 0.7 + place for place in range(len(RADII))])
    judged = []

    def loss(link, factors, entries):
        judged.append((link, factors))
        return next(losses)

    monkeypatch.setattr(synthetic, "_path", lambda *_: iter(next(paths)))
    monkeypatch.setattr(synthetic, "_mean_loss", loss)
    tuned, told = fit_tuned(Trial(TINY, 0, 0, MIX), TINY.steps)
    assert [factors for _, factors in judged] == on_train
    assert tuned["way"] == TUNED
    assert tuned["held_out_loss"] == 0.5
    assert tuned["radius"] == pytest.approx(RADII[best] * TINY.radius)
    assert tuned["relative_error"] == pytest.approx(abs(1 - shares[best]))
    closest = int(np.argmin(np.abs(1 - shares)))
    assert told["way"] == BEST
    assert told["radius"] == pytest.approx(RADII[closest] * TINY.radius)
    assert told["relative_error"] == pytest.approx(abs(1 - shares[closest]))
    assert told["relative_error"] <= tuned["relative_error"]
    for row in (tuned, told):
        assert (row["g_pn"], row["g_pu"], row["g_nu"]) == MIX


def test_the_radius_is_chosen_on_entries_that_were_not_fitted(monkeypatch):
    objectives, held_out = [], []

    def spy(*arguments, **options):
        objectives.append(Objective(*arguments, **options))
        return objectives[-1]

    original = synthetic._mean_loss

    def loss(link, factors, entries):
        held_out.append(entries)
        x = factors.row_factors @ factors.column_factors.T
        p = link.probability(x[entries.rows, entries.columns])
        plain = -np.mean(np.log(np.where(entries.labels > 0, p, 1 - p)))
        assert original(link, factors, entries) == pytest.approx(plain)
        return plain

    monkeypatch.setattr(synthetic, "Objective", spy)
    monkeypatch.setattr(synthetic, "_mean_loss", loss)
    fit_tuned(Trial(TINY, 0, 0, MIX), TINY.steps)
    whole = labels(simulate(TINY, 0, 0))
    assert len(held_out) == len(RADII)
    assert len(objectives) == 2
    part, rest = objectives[0].observations.to_sparse().toarray(), held_out[0].to_sparse().toarray()
    assert not np.any((part != 0) & (rest != 0))
    np.testing.assert_array_equal(part + rest, whole)
    assert np.count_nonzero(rest) == pytest.approx(0.1 * np.count_nonzero(whole), abs=1)
    np.testing.assert_array_equal(objectives[1].observations.to_sparse().toarray(), whole)
    # An entry is in the fit when it is observed and not held out.
    assert objectives[0].risk.rho == pytest.approx(1 - 0.4 * 0.9)
    assert objectives[1].risk.rho == pytest.approx(0.6)
    for objective in objectives:
        assert (objective.risk.pn, objective.risk.pu, objective.risk.nu) == pytest.approx(MIX)


def test_every_mixture_of_a_trial_holds_out_the_same_entries(monkeypatch):
    held_out = []

    def loss(_, __, entries):
        held_out.append(entries.to_sparse().toarray() != 0)
        return 0.0

    monkeypatch.setattr(synthetic, "_mean_loss", loss)
    one = replace(TINY, sizes=replace(SIZES, radii=RADII[:1]))
    for trial, mixture in ((0, PN), (0, MIX), (1, PN)):
        fit_tuned(Trial(one, 0, trial, mixture), TINY.steps)
    np.testing.assert_array_equal(held_out[0], held_out[1])
    assert not np.array_equal(held_out[0], held_out[2])


@pytest.mark.parametrize("mixture", [PN, (0.0, 0.5, 0.5)])
@pytest.mark.parametrize("trial", [0, 1])
def test_the_best_radius_is_no_worse_than_the_chosen(mixture, trial):
    tuned, told = fit_tuned(Trial(TINY, 0, trial, mixture), TINY.steps)
    assert told["relative_error"] <= tuned["relative_error"]
    radii = [share * TINY.radius for share in RADII]
    for row in (tuned, told):
        assert row["radius"] in radii
        assert row["trial"] == trial


def test_the_path_minimises_inside_each_ball():
    drawn = simulate(TINY, 0, 0)
    objective = Objective(drawn.observations, TINY.link, tri(*PN, rho=0.6))
    draws = np.random.default_rng(0)
    start = Factors.of(*(0.1 * draws.standard_normal((20, 3)) for _ in range(2)))
    risks = []
    for share, factors in zip(RADII, synthetic._path(objective, TINY, start), strict=True):
        for factor in (factors.row_factors, factors.column_factors):
            most = np.max(np.sum(factor**2, axis=1))
            assert most == pytest.approx(share * TINY.radius, rel=1e-6)  # PN wants all of it
        risks.append(objective.value(factors))
    assert (np.diff(risks) < 0).all()


# The floor


def test_the_posterior_mean_is_told_the_truth_about_the_draw(monkeypatch):
    given = {}

    def spy(observations, link, **options):
        given.update(options, observations=observations, link=link)
        return 0.25 * simulate(TINY, 6, 1).M

    monkeypatch.setattr(synthetic, "posterior_mean", spy)
    (row,) = fit_posterior(Trial(TINY, 6, 1))
    drawn = simulate(TINY, 6, 1)
    assert given["observations"] is drawn.observations
    assert (given["link"], given["rank"], given["scale"]) == (TINY.link, 3, drawn.scale)
    assert (row["trial"], row["way"]) == (1, FLOOR)
    assert row["g_pn"] is row["g_pu"] is row["g_nu"] is None
    assert row["relative_error"] == pytest.approx(0.75)


def test_the_posterior_mean_is_below_what_is_fitted():
    floor = fit_posterior(Trial(TINY, 0, 0))[0]["relative_error"]
    assert floor < 1
    assert floor < min(
        row["relative_error"] for row in fit_paper(Trial(TINY, 0, 0, PN), TINY.steps)
    )
    assert fit_posterior(Trial(TINY, 0, 0))[0]["relative_error"] == floor


# The study


@pytest.mark.parametrize("quick", [True, False])
@pytest.mark.parametrize("protocol", ["paper", "solved", "tuned"])
@pytest.mark.parametrize("name", FIGURES)
def test_every_task_has_its_own_key_and_they_are_counted(name, protocol, quick):
    settings = Settings(trials=3, quick=quick, protocol=protocol)
    study = EXHIBITS[name].study(settings, None)
    tasks = [task for stage in study.stages for task in stage({})]
    assert study.name == name
    assert len({task.key for task in tasks}) == len(tasks) == study.n_tasks
    assert len({(task.function, task.arguments) for task in tasks}) == len(tasks)
    mixtures = study.parameters["mixtures"]
    varied = [task for task in tasks if task.function is fit_varied]
    assert bool(varied) == (protocol == "solved")
    nudged = [task for task in tasks if task.function is fit_nudged]
    assert {task.arguments[1] for task in nudged} == {protocol}
    assert len(tasks) == 3 * (1 + len(mixtures)) + len(varied) + len(nudged)
    assert {task.arguments[0].mixture for task in varied} <= set(map(tuple, mixtures))
    for mixture in mixtures:
        assert sum(mixture) == pytest.approx(1.0)
        assert min(mixture) >= 0
    fit = {"paper": fit_paper, "solved": fit_solved, "tuned": fit_tuned}[protocol]
    for trial in range(3):
        those = [
            task
            for task in tasks
            if task.arguments[0].number == trial and task.function not in (fit_varied, fit_nudged)
        ]
        assert [task.function for task in those] == [fit_posterior] + [fit] * len(mixtures)
        assert [list(task.arguments[0].mixture) for task in those[1:]] == mixtures


def test_the_grids():
    def mixtures(name, **options):
        return EXHIBITS[name].study(Settings(**options), None).parameters["mixtures"]

    for name, count in zip(FIGURES, (11, 23, 66), strict=True):
        assert len(mixtures(name)) == count
        assert len(mixtures(name, protocol="solved")) < count / 2
        assert len(mixtures(name, quick=True)) < count / 1.5
    for quick in (True, False):
        assert {pn for pn, _, _ in mixtures("fig1", quick=quick)} == {0.0}
        assert [1.0, 0.0, 0.0] in mixtures("fig2", quick=quick)
        assert all(min(pu, nu) == 0 for _, pu, nu in mixtures("fig2", quick=quick))
        for corner in ([1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]):
            assert corner in mixtures("fig3", quick=quick)
    gammas = [nu for _, _, nu in mixtures("fig1")]
    np.testing.assert_allclose(gammas, np.linspace(0, 1, 11))
    etas = [pu - nu for _, pu, nu in mixtures("fig2")]
    np.testing.assert_allclose(etas, sorted(etas))
    np.testing.assert_allclose(etas, -np.array(etas[::-1]))
    assert {0.05, 0.1, 0.2} <= set(np.round(etas, 12))


def test_the_simplex_has_every_mixture_once():
    points = simplex(5)
    assert len(set(points)) == len(points) == 21
    np.testing.assert_allclose(np.sum(points, axis=1), 1.0)
    assert np.min(points) == 0.0


def test_the_parameters_say_what_decides_the_numbers():
    def parameters(experiment=TINY, mixtures=(PN, MIX), **options):
        settings = Settings(**options)
        return synthetic_study("made", experiment, mixtures, settings, varied=()).parameters

    base = parameters()
    others = [
        parameters(trials=3),
        parameters(seed=1),
        parameters(quick=True),
        parameters(step=0.5),
        parameters(protocol="tuned"),
        parameters(protocol="solved"),
        parameters(mixtures=(MIX, PN)),
        *(
            parameters(replace(TINY, **{name: value}))
            for name, value in (
                ("size", 21),
                ("link", Logistic(6.0)),
                ("rank", 4),
                ("alpha", 0.9),
                ("rho", 0.5),
                ("steps", (1e-3, 2e-3)),
            )
        ),
    ]
    assert parameters() == base
    for place, one in enumerate(others):
        assert one != base
        assert one not in others[:place]
    assert base["step"] == {"whole": 2e-3, "rows": 1e-3}
    assert parameters(step=0.5)["step"] == {"whole": 0.5, "rows": 0.5}
    assert parameters(protocol="tuned")["step"] is None


def test_a_step_of_the_user_s_own_is_taken(monkeypatch):
    study = synthetic_study("made", TINY, [PN], Settings(step=0.25), varied=())
    (task,) = [task for task in study.stages[0]({}) if task.key == "0 1 0 0"]
    steps = []

    def spy(objective, start, **options):
        steps.append(options["step"])
        return iterate(objective, start, **options | {"max_iter": 1})

    monkeypatch.setattr(synthetic, "iterate", spy)
    task.function(*task.arguments)
    assert steps == [0.25, 0.25]


@pytest.mark.parametrize("protocol", ["paper", "solved", "tuned"])
def test_a_nudge_is_the_same_problem_in_its_seventh_digit(protocol):
    tiny = replace(TINY, sizes=replace(SIZES, columns=(1, 2), sweeps=3, burn_in=1))
    study = synthetic_study(
        "fig1", tiny, [PN, MIX], Settings(protocol=protocol, trials=2), varied=[MIX]
    )
    (task,) = [task for stage in study.stages for task in stage({}) if "nudged" in task.key]
    rows = task.function(*task.arguments)
    fit = {"paper": fit_paper, "solved": fit_solved, "tuned": fit_tuned}[protocol]
    plain = [row for row in fit(Trial(tiny, 0, 0, MIX), TINY.steps) if not row.get("start")]
    assert [row["of"] for row in rows] == [row["way"] for row in plain]
    assert {row["way"] for row in rows} == {synthetic.NUDGED}
    for row, other in zip(rows, plain, strict=True):
        assert row["relative_error"] != other["relative_error"]
        assert row["relative_error"] == pytest.approx(other["relative_error"], rel=0.05)

"""Experiment 3: splits of MovieLens ratings, what PN chooses, and the errors by rating."""

from dataclasses import replace

import numpy as np
import pytest

from tribit.datasets import movielens100k
from tribit.paper.experiments import EXHIBITS, films
from tribit.paper.experiments.films import (
    CHOSEN,
    MEAN,
    OVERALL,
    SAME,
    TUNED,
    ZERO,
    Trial,
    films_study,
    fingerprint,
    fit_paper,
    fit_tuned,
    load_split,
    select_by_pn,
)
from tribit.paper.experiments.settings import PN, Settings, simplex

MIX = (0.4, 0.2, 0.4)
N = 400


def ratings(n=N, seed=0):
    """Ratings of 30 users and 25 items, in no order, with ids that leave gaps; all of 1 to 5 are there."""
    draws = np.random.default_rng(seed)
    cells = draws.permutation(30 * 25)[:n]
    users, items = np.divmod(cells, 25)
    taste = draws.standard_normal((30, 2)) @ draws.standard_normal((2, 25))
    stars = np.clip(np.rint(3.4 + 1.2 * taste[users, items]), 1, 5).astype(int)
    return list(zip(users * 3 + 2, items * 7 + 1, stars, range(n), strict=True))


def write(folder, lines):
    (folder / "ml-100k").mkdir(parents=True)
    text = "".join("\t".join(map(str, line)) + "\n" for line in lines)
    (folder / "ml-100k" / "u.data").write_text(text)
    return folder


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    assert {line[2] for line in ratings()} == {1, 2, 3, 4, 5}
    return write(tmp_path_factory.mktemp("data"), ratings())


@pytest.fixture(autouse=True)
def short(monkeypatch):
    """Few steps: what is checked is not how far they get."""
    monkeypatch.setattr(films, "SIZES", replace(films.SIZES, max_steps=25))


def by_rating(rows, part, cut):
    return {row["rating"]: row for row in rows if (row["part"], row["cut"]) == (part, cut)}


def cells(part):
    return set(zip(part.rows.tolist(), part.columns.tolist(), strict=True))


# The split


@pytest.mark.parametrize(("n", "held_out"), [(400, 20), (419, 20), (60, 3)])
def test_a_twentieth_each_is_held_out(tmp_path, n, held_out):
    split = load_split(write(tmp_path, ratings(n)), 0)
    assert split.test.n_observed == split.validation.n_observed == held_out
    assert split.train.n_observed == n - 2 * held_out
    parts = [cells(part) for part in split]
    assert len(set.union(*parts)) == n


def test_the_split_is_the_library_s(data):
    for number in (0, 7):
        expected = movielens100k(data).split(number, test=20, validation=20)
        for part, wanted in zip(load_split(data, number), expected, strict=True):
            np.testing.assert_array_equal(part.to_sparse().toarray(), wanted.to_sparse().toarray())
    assert cells(load_split(data, 0).test) != cells(load_split(data, 7).test)


def test_ratings_of_four_and_five_are_likes(data):
    stars = {(user, item): star for user, item, star, _ in ratings()}
    for part in load_split(data, 0):
        for row, column, label in zip(part.rows, part.columns, part.labels, strict=True):
            star = stars[part.row_ids[row], part.column_ids[column]]
            assert label == (1 if star >= 4 else -1)


# The fingerprint


def test_the_fingerprint_is_of_the_ratings_not_of_the_file(tmp_path):
    lines = ratings()

    def of(name, changed):
        return fingerprint(movielens100k(write(tmp_path / name, changed)))

    first = of("first", lines)
    assert of("reversed", lines[::-1]) == first
    later = [(user, item, star, time + 5) for user, item, star, time in lines]
    assert of("later", later) == first
    user, item, star, time = lines[17]
    others = {
        "rating": (user, item, star % 5 + 1, time),
        "user": (5000, item, star, time),
        "item": (user, 5000, star, time),
    }
    found = [first]
    for name, line in others.items():
        found.append(of(name, [*lines[:17], line, *lines[18:]]))
    found.append(of("fewer", lines[:-1]))
    assert len(set(found)) == len(found)


def test_the_order_of_the_file_changes_no_number(tmp_path, data):
    other = write(tmp_path, ratings()[::-1])
    one, again = (
        fit_paper(Trial(place, 1, CHOSEN, MIX), 2.0, 3, (1e-2,)) for place in (data, other)
    )
    assert one == again


# One fit


@pytest.fixture
def fits(monkeypatch):
    """Every estimate that is judged, as it goes by."""
    seen = []
    original = Trial.validation_row

    def spy(trial, fit):
        seen.append(fit)
        return original(trial, fit)

    monkeypatch.setattr(Trial, "validation_row", spy)
    return seen


FITS = {
    "paper": lambda data, mixture: fit_paper(Trial(data, 3, SAME, mixture), 1.0, 10, (1e-2, 3e-3)),
    "tuned": lambda data, mixture: fit_tuned(Trial(data, 3, TUNED, mixture)),
}


@pytest.mark.parametrize("mixture", [PN, MIX])
@pytest.mark.parametrize("protocol", FITS)
def test_every_error_is_that_of_a_dense_matrix(data, fits, protocol, mixture):
    rows = FITS[protocol](data, mixture)
    chosen = [row for row in rows if row["chosen"]]
    key = "step" if protocol == "paper" else "radius"
    fit = next(fit for fit in fits if fit.choices[key] == chosen[0][key])
    X = fit.U @ fit.V.T
    assert abs(X.mean()) > 1e-6
    stars = {(user, item): star for user, item, star, _ in ratings()}
    split = load_split(data, 3)
    count = 0
    for name in ("validation", "test"):
        part = getattr(split, name)
        given = np.array(
            [
                stars[part.row_ids[i], part.column_ids[j]]
                for i, j in zip(part.rows, part.columns, strict=True)
            ]
        )
        for cut, level in ((MEAN, X.mean()), (ZERO, 0.0)):
            wrong = np.where(level <= X, 1, -1)[part.rows, part.columns] != part.labels
            found = by_rating(chosen, name, cut)
            assert set(found) == {OVERALL, *map(str, set(given))}
            assert found[OVERALL]["error"] == pytest.approx(wrong.mean())
            assert found[OVERALL]["entries"] == 20
            for star in set(given):
                row = found[str(star)]
                assert row["error"] == pytest.approx(wrong[given == star].mean())
                assert row["entries"] == np.sum(given == star)
            count += len(found)
    assert len(chosen) == count
    for row in rows:
        assert (row["g_pn"], row["g_pu"], row["g_nu"]) == mixture
        assert row["split"] == 3
        assert row["way"] == (SAME if protocol == "paper" else TUNED)


@pytest.mark.parametrize("protocol", FITS)
def test_the_errors_by_rating_make_up_the_whole(data, protocol):
    rows = [row for row in FITS[protocol](data, MIX) if row["chosen"]]
    for part in ("validation", "test"):
        for cut in (MEAN, ZERO):
            found = by_rating(rows, part, cut)
            whole = found.pop(OVERALL)
            assert sum(row["entries"] for row in found.values()) == whole["entries"] == 20
            wrong = sum(row["entries"] * row["error"] for row in found.values())
            assert wrong / whole["entries"] == pytest.approx(whole["error"])


@pytest.mark.parametrize("errors", [[0.3, 0.2, 0.4], [0.2, 0.2, 0.4], [0.5, 0.4, 0.1]])
def test_the_step_is_that_of_the_smallest_validation_error(data, monkeypatch, errors):
    steps = (1e-2, 3e-3, 1e-3)
    original = Trial.validation_row
    forced = dict(zip(steps, errors, strict=True))
    judged = {}

    def judge(trial, fit):
        row = original(trial, fit)
        assert (row["part"], row["cut"], row["rating"]) == ("validation", MEAN, OVERALL)
        judged[fit.choices["step"]] = fit
        return row | {"error": forced.get(fit.choices["step"], 0.9)}

    monkeypatch.setattr(Trial, "validation_row", judge)
    rows = fit_paper(Trial(data, 0, CHOSEN, PN), 2.0, 3, steps)
    best = steps[int(np.argmin(errors))]  # the first of equals
    longer = (steps[0] * films.STEP_FACTOR,) if best == steps[0] else ()
    assert {row["step"] for row in rows if row["chosen"]} == {best}
    others = [row for row in rows if not row["chosen"]]
    assert [row["step"] for row in others] == [s for s in (*steps, *longer) if s != best]
    for row in others:
        assert row["error"] == forced.get(row["step"], 0.9)
    for row in rows:
        assert (row["alpha"], row["rank"]) == (2.0, 3)
        assert row["radius"] == pytest.approx(2.0 * np.sqrt(3))


def test_the_paper_s_fit_stays_in_its_set(data, fits):
    fit_paper(Trial(data, 0, CHOSEN, MIX), 0.5, 4, (1e-2,))
    fit = fits[0]
    assert len({each.choices["step"] for each in fits}) == 1  # a step of the user's is the only one
    assert fit.U.shape == (30, 4)
    assert fit.V.shape == (25, 4)
    assert np.max(np.abs(fit.U @ fit.V.T)) <= 0.5 * (1 + 1e-6)
    for factor in (fit.U, fit.V):
        assert np.max(np.sum(factor**2, axis=1)) <= 0.5 * 2 * (1 + 1e-12)


def test_the_tuned_fit_stays_in_its_balls(data, fits):
    fit_tuned(Trial(data, 0, TUNED, MIX))
    radii = []
    for fit in fits:
        radius = fit.choices["radius"]
        for factor in (fit.U, fit.V):
            assert np.max(np.sum(factor**2, axis=1)) <= radius * (1 + 1e-5)
        assert fit.U.shape == (30, 10)
        radii.append(radius)
    assert radii == list(films.SIZES.radii)


@pytest.mark.parametrize("fit", FITS.values())
def test_rho_is_the_share_of_the_training_part(data, monkeypatch, fit):
    risks = []
    original = films.Objective

    def spy(seen, link, risk, **options):
        risks.append(risk)
        assert cells(seen) == cells(load_split(data, 3).train)
        return original(seen, link, risk, **options)

    monkeypatch.setattr(films, "Objective", spy)
    fit(data, MIX)
    (risk,) = risks
    assert risk.rho == pytest.approx(1 - 360 / (30 * 25))
    assert (risk.pn, risk.pu, risk.nu) == pytest.approx(MIX)


# PN chooses


@pytest.mark.parametrize("quick", [True, False])
def test_pn_is_fitted_for_every_alpha_rank_and_step(data, quick):
    alphas = films.GRIDS[quick].alphas
    ranks = films.GRIDS[quick].ranks
    steps = (1e-2, 3e-3)
    rows = select_by_pn(data, 0, quick, steps)
    places = [(row["alpha"], row["rank"], row["step"]) for row in rows]
    assert [place for place in places if place[0] in alphas and place[2] in steps] == [
        (alpha, rank, step) for alpha in alphas for rank in ranks for step in steps
    ]
    # Longer steps and larger alphas follow as long as the end of a grid is the best.
    for alpha, rank in {place[:2] for place in places}:
        those = {r["step"]: r["error"] for r in rows if (r["alpha"], r["rank"]) == (alpha, rank)}
        longest = max(those)
        assert longest > 0.3 or min(those, key=those.get) < longest
        for step in those:
            shorter = {s: e for s, e in those.items() if s < step}
            assert step in steps or min(shorter, key=shorter.get) == max(shorter)
    found = {alpha: min(r["error"] for r in rows if r["alpha"] == alpha) for alpha, *_ in places}
    assert max(found) == films.MAX_ALPHA or min(found, key=found.get) < max(found)
    for row in rows:
        assert (row["part"], row["cut"], row["rating"]) == ("validation", MEAN, OVERALL)
        assert (row["g_pn"], row["g_pu"], row["g_nu"]) == PN
        assert (row["way"], row["chosen"], row["entries"]) == (CHOSEN, False, 20)


def selection(**errors):
    """Rows of a selection: errors by alpha and r, such as a2r5=0.3."""
    rows = []
    for name, error in errors.items():
        alpha, rank = name[1:].split("r")
        rows.append({"alpha": float(alpha), "rank": int(rank), "error": error})
    return rows


@pytest.mark.parametrize(
    ("rows", "alpha", "rank"),
    [
        (selection(a2r10=0.3, a8r10=0.2, a4r5=0.4), 8.0, 10),
        (selection(a2r2=0.1, a8r10=0.2, a4r5=0.4), 2.0, 2),
        (selection(a2r10=0.3, a8r10=0.2, a4r5=0.1), 4.0, 5),
        (selection(a2r10=0.3, a8r10=0.2, a4r5=0.2), 8.0, 10),
    ],
)
def test_the_mixtures_share_the_alpha_and_r_that_do_best_on_validation(data, rows, alpha, rank):
    mixtures = simplex(2)
    study = films_study(Settings(trials=2, seed=5), mixtures, data)
    others = selection(a1r2=0.05, a2r2=0.06)
    tasks = study.stages[1]({"select 0": rows, "select 1": others})
    assert len(tasks) == 2 * 2 * len(mixtures)
    expected = [
        (5, CHOSEN, alpha, rank),
        (5, SAME, 1.0, 10),
        (6, CHOSEN, 1.0, 2),
        (6, SAME, 1.0, 10),
    ]
    trials = [task.arguments[0] for task in tasks]
    found = [
        (trial.split, trial.way, *task.arguments[1:3])
        for trial, task in zip(trials, tasks, strict=True)
    ]
    assert found == [where for where in expected for _ in mixtures]
    assert [trial.mixture for trial in trials] == mixtures * 4
    assert {task.function for task in tasks} == {fit_paper}


def finish(study):
    """Run every task here; return the rows and the keys."""
    results, keys = {}, []
    for stage in study.stages:
        for task in stage(results):
            keys.append(task.key)
            results[task.key] = task.function(*task.arguments)
    return study.rows(results), keys


def test_pn_among_the_mixtures_is_what_was_chosen(data):
    study = films_study(Settings(quick=True), [(0.5, 0.5, 0.0), PN], data)
    rows, keys = finish(study)
    assert len(set(keys)) == len(keys) == study.n_tasks == 2 * (1 + 2 * 2)
    for split in (0, 1):
        judged = select_by_pn(data, split, True, films.GRIDS[True].steps)
        best = min(judged, key=lambda row: row["error"])
        whole = [
            row
            for row in rows
            if (row["split"], row["way"], row["chosen"]) == (split, CHOSEN, True)
            and (row["g_pn"], row["part"], row["cut"], row["rating"])
            == (1.0, "validation", MEAN, OVERALL)
        ]
        (row,) = whole
        for name in ("alpha", "rank", "step", "error", "iterations"):
            assert row[name] == best[name]


# The study


@pytest.mark.parametrize("quick", [True, False])
@pytest.mark.parametrize("exhibit", [EXHIBITS["fig4"], EXHIBITS["table1"]])
def test_every_task_is_counted_and_pn_is_among_the_mixtures(data, exhibit, quick):
    trials = 2 if quick else 10
    for protocol in ("paper", "tuned"):
        study = exhibit.study(Settings(quick=quick, protocol=protocol), data)
        mixtures = study.parameters["mixtures"]
        assert len(mixtures) == (21 if quick else 66)
        assert list(PN) in mixtures
        results = {f"select {trial}": selection(a2r5=0.3) for trial in range(trials)}
        tasks = [task for stage in study.stages for task in stage(results)]
        assert len({task.key for task in tasks}) == len(tasks) == study.n_tasks
        count = trials * ((1 + 2 * len(mixtures)) if protocol == "paper" else len(mixtures))
        assert len(tasks) == count
        assert study.name == "movielens"


def test_the_splits_are_numbered_from_the_seed(data):
    for protocol in ("paper", "tuned"):
        study = films_study(Settings(trials=3, seed=5, protocol=protocol), [PN, MIX], data)
        results = {f"select {trial}": selection(a2r5=0.3) for trial in range(3)}
        *selection_stage, last = study.stages
        assert {task.arguments[0].split for task in last(results)} == {5, 6, 7}
        for stage in selection_stage:
            assert {task.arguments[1] for task in stage(results)} == {5, 6, 7}


def test_fig4_and_table1_share_every_fit(data):
    one, other = (EXHIBITS[name].study(Settings(), data) for name in ("fig4", "table1"))
    assert (one.name, one.parameters) == (other.name, other.parameters)


def test_steps(data):
    def steps(**options):
        study = films_study(Settings(**options), [PN], data)
        first = study.stages[0]({})[0]
        return study.parameters["step"], first.arguments[-1]

    assert steps() == (list(films.GRIDS[False].steps), films.GRIDS[False].steps)
    assert steps(quick=True) == (list(films.GRIDS[True].steps), films.GRIDS[True].steps)
    assert steps(step=0.25) == ([0.25], (0.25,))
    assert steps(protocol="tuned")[0] is None


def test_the_parameters_say_what_decides_the_numbers(tmp_path, data):
    user, item, star, time = ratings()[0]
    changed = [(user, item, star % 5 + 1, time), *ratings()[1:]]
    other = write(tmp_path / "changed", changed)

    def parameters(where=data, mixtures=(PN, MIX), **options):
        return films_study(Settings(**options), mixtures, where).parameters

    base = parameters()
    assert parameters(write(tmp_path / "same", ratings()[::-1])) == base
    several = [
        parameters(other),
        parameters(mixtures=(MIX, PN)),
        parameters(trials=3),
        parameters(seed=1),
        parameters(quick=True),
        parameters(step=0.5),
        parameters(protocol="tuned"),
    ]
    for place, one in enumerate(several):
        assert one != base
        assert one not in several[:place]


def test_a_fit_repeats_itself_and_splits_differ(data):
    for fit in FITS.values():
        assert fit(data, MIX) == fit(data, MIX)
    one, other = (fit_tuned(Trial(data, split, TUNED, PN)) for split in (0, 1))
    assert one != [row | {"split": 0} for row in other]


def test_the_first_factors_are_drawn_for_each_split_alone(data, monkeypatch):
    starts = []
    original = Trial.start

    def spy(*arguments):
        starts.append(original(*arguments)[0])
        return original(*arguments)

    monkeypatch.setattr(Trial, "start", spy)
    fits = (
        lambda split, mixture: fit_paper(Trial(data, split, SAME, mixture), 1.0, 10, (1e-2,)),
        lambda split, mixture: fit_tuned(Trial(data, split, TUNED, mixture)),
    )
    for fit in fits:
        starts.clear()
        for split, mixture in ((0, PN), (0, MIX), (1, PN)):
            fit(split, mixture)
        np.testing.assert_array_equal(starts[0], starts[1])
        assert not np.any(starts[0] == starts[2])

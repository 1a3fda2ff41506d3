"""Searches on a part of the rows of a table that is too large to be searched as a whole."""

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.special import expit
from selection_data import low_rank, observed, telling_mask

from tribit import BinaryMatrixCompletion, Observations
from tribit.backends import Arithmetic
from tribit.data.features import Group, SideFeatures
from tribit.model.factors import Factors
from tribit.model.links import Logistic
from tribit.model.spec import ModelSpec
from tribit.selection import row_subsample as module
from tribit.selection import search as search_module
from tribit.selection.folds import make_folds, spec_for_fold
from tribit.selection.problem import make_problem, warm_start
from tribit.selection.row_subsample import (
    RowSubsample,
    largest_penalty,
    note_of,
    row_subsamples,
    subsample_of,
)
from tribit.selection.stages import PENALTY_SHARES, largest_penalty_of
from tribit.selection.trials import Options, Trials

BASE = ModelSpec(rank=2)
A = low_rank((60, 20), density=0.5)


def draws():
    return np.random.default_rng(3)


def row_subsample(*given):
    """Return the subsample that is searched, None for the full data."""
    found = row_subsamples(*given)
    return found and found[0]


def part_entries(monkeypatch, n):
    """Make tables with twice as many entries large ones, of which a part has so many."""
    monkeypatch.setattr(module, "MIN_SUBSAMPLE_ENTRIES", n)
    monkeypatch.setattr(module, "SUBSAMPLE_SHARE", 0.0)


@pytest.fixture
def small(monkeypatch):
    part_entries(monkeypatch, 200)


@pytest.mark.parametrize("labels", [A, A.T], ids=["rows", "columns"])
def test_a_part_has_all_entries_of_random_rows_of_the_longer_side(labels, small):
    found = row_subsample(observed(labels), BASE, draws())
    assert found.axis == int(labels.shape[0] < labels.shape[1])
    assert np.all(np.diff(found.positions) > 0)
    expected = labels.take(found.positions, axis=found.axis)
    np.testing.assert_array_equal(found.observations.to_sparse().toarray(), expected)
    longest = np.count_nonzero(labels, axis=1 - found.axis).max()
    assert 200 <= found.observations.n_observed < 200 + longest
    others = row_subsample(observed(labels), BASE, np.random.default_rng(4))
    assert not np.array_equal(found.positions, others.positions)


def test_a_part_has_a_share_of_the_entries_within_bounds(monkeypatch):
    monkeypatch.setattr(module, "MIN_SUBSAMPLE_ENTRIES", 100)
    monkeypatch.setattr(module, "SUBSAMPLE_SHARE", 0.4)
    seen = observed(A)
    found = row_subsample(seen, BASE, draws()).observations.n_observed
    assert found == pytest.approx(0.4 * seen.n_observed, abs=20)
    monkeypatch.setattr(module, "SUBSAMPLE_SHARE", 0.6)
    assert row_subsample(seen, BASE, draws()) is None
    monkeypatch.setattr(module, "MAX_SUBSAMPLE_ENTRIES", 120)
    found = row_subsample(seen, BASE, draws()).observations.n_observed
    assert found == pytest.approx(120, abs=20)


def test_small_tables_one_label_and_models_of_the_mask_are_searched_as_they_are(small):
    class Mask:
        def rho_at(self, rows, columns):
            return np.full(np.broadcast(rows, columns).shape, 0.5)

    generator = draws()
    few = observed(A).take(np.arange(399))
    assert row_subsample(few, BASE, generator) is None
    assert row_subsample(observed(np.abs(A)), BASE, generator) is None
    assert row_subsample(observed(A), ModelSpec(rank=2, rho=Mask()), generator) is None
    # Nothing was drawn for it: what else a search draws stays the same.
    assert generator.integers(2**32) == draws().integers(2**32)


def test_side_features_of_the_longer_side_are_those_of_the_part():
    part = subsample_of(observed(A), np.array([3, 5, 40]), 0)
    values = np.arange(60.0)[:, None]
    known = np.arange(60) % 2 == 1
    of_rows = (Group(sp.csr_array(values), np.zeros(1), known),)
    of_columns = (Group(sp.csr_array(np.ones((20, 1))), np.zeros(1), np.ones(20, dtype=bool)),)
    found = part.side(SideFeatures(of_rows, of_columns))
    assert found.columns is of_columns
    np.testing.assert_array_equal(found.rows[0].matrix.toarray()[:, 0], [3, 5, 40])
    np.testing.assert_array_equal(found.rows[0].known, [True, True, False])
    assert part.side(None) is None
    assert part.side(SideFeatures(None, of_columns)).rows is None


@pytest.mark.parametrize("labels", [A, A.T], ids=["rows", "columns"])
@pytest.mark.parametrize("features", [False, True], ids=["factors", "implicit features"])
def test_what_the_part_has_found_is_the_start_of_the_whole(labels, features):
    """Rows of the part keep their unknowns, and so do all columns; the others are 0."""
    axis = int(labels.shape[0] < labels.shape[1])
    chosen = np.array([0, 7, 8, 30, 59])
    part = subsample_of(observed(labels), chosen, axis)
    settings = ModelSpec(
        rank=2, l2=1.0, l2_intercept=1.0, implicit_features=features, l2_implicit=2.0
    )
    options = {"arithmetic": Arithmetic(), "generator": draws()}
    small, large = (
        make_problem(each, settings, **options) for each in (part.observations, observed(labels))
    )
    rng = np.random.default_rng(0)
    rows, columns = small.unknown_sizes
    end = Factors(
        rng.normal(size=(rows, 2)),
        rng.normal(size=(columns, 2)),
        0.3,
        rng.normal(size=rows),
        rng.normal(size=columns),
    )
    whole = part.full_ends({settings.family: end})[settings.family]
    assert (whole.row_factors.shape[0], whole.column_factors.shape[0]) == large.unknown_sizes
    start = warm_start(large, settings, {settings.family: whole})
    np.testing.assert_array_equal(start.row_factors, whole.row_factors)
    # Of rows that the part has, what the own parts and the features of columns give is as it was.
    turned, before = (each.transposed if axis else each for each in (whole, end))
    np.testing.assert_array_equal(turned.row_factors[chosen], before.row_factors[:5])
    np.testing.assert_array_equal(turned.row_factors[60:], before.row_factors[5:])
    np.testing.assert_array_equal(turned.row_intercepts[chosen], before.row_intercepts[:5])
    np.testing.assert_array_equal(turned.column_factors[:20], before.column_factors[:20])
    assert not np.delete(turned.row_factors[:60], chosen, axis=0).any()
    if features:
        growth = np.sqrt(60 / 5)
        np.testing.assert_allclose(
            turned.column_factors[20 + chosen], growth * before.column_factors[20:]
        )
        np.testing.assert_allclose(
            turned.column_intercepts[20 + chosen], growth * before.column_intercepts[20:]
        )
        assert not np.delete(turned.column_factors[20:], chosen, axis=0).any()


@pytest.mark.usefixtures("short_trials")
def test_a_search_of_a_large_table_fits_candidates_to_a_part_and_the_last_fit_to_all(monkeypatch):
    labels = telling_mask()
    seen = observed(labels)
    fitted: list[Observations] = []

    def watched(observations, *rest, **named):
        fitted.append(observations)
        return make_problem(observations, *rest, **named)

    monkeypatch.setattr("tribit.selection.trials.make_problem", watched)
    part_entries(monkeypatch, seen.n_observed // 2 - 1)
    model = BinaryMatrixCompletion(
        gammas=(1, 0, 0), n_candidates=12, members=1, random_state=0, n_jobs=1, max_iter=400
    ).fit(seen)
    # Intercepts of both tables, whose largest ridges are compared; the candidates, of which there are none left for the
    # whole table; the last fit.
    whole = [each.n_observed == seen.n_observed for each in fitted]
    assert np.flatnonzero(whole).tolist() == [0, len(fitted) - 1]
    assert {each.shape[1] for each in fitted} == {seen.shape[1]}
    assert len({each.shape[0] for each in fitted[2:-1]}) == 1
    assert fitted[2].shape[0] < seen.shape[0]
    assert model.row_factors_.shape[0] == seen.shape[0]
    again = BinaryMatrixCompletion(
        gammas=(1, 0, 0), n_candidates=12, members=1, random_state=0, n_jobs=2, max_iter=400
    ).fit(seen)
    np.testing.assert_array_equal(model.row_factors_, again.row_factors_)


@pytest.mark.parametrize("labels", [A, A.T], ids=["rows", "columns"])
def test_folds_of_the_whole_hold_out_the_entries_of_the_part(labels, small):
    seen = observed(labels)
    part = row_subsample(seen, BASE, draws())
    folds = make_folds(part.observations, None, draws())
    assert len(folds) > 1
    for before, after in zip(folds, part.full_folds(seen, folds), strict=True):
        held = np.zeros_like(labels)
        at = [before.held_out.rows, before.held_out.columns]
        at[part.axis] = part.positions[at[part.axis]]
        held[tuple(at)] = before.held_out.labels
        np.testing.assert_array_equal(after.held_out.to_sparse().toarray(), held)
        np.testing.assert_array_equal(after.train.to_sparse().toarray(), labels - held)
        assert after.share == pytest.approx(1 - np.count_nonzero(held) / np.count_nonzero(labels))
        assert (after.seed, after.penalty_share) == (before.seed, 1.0)


def test_a_search_says_that_it_was_one_of_a_part(monkeypatch):
    seen = observed(low_rank((400, 30), density=0.3))
    options = {"implicit_features": False, "rank": 2, "gammas": (1, 0, 0), "l2_intercept": 1.0}
    fits = []
    for entries in (10**7, 1500):
        part_entries(monkeypatch, entries)
        fits.append(BinaryMatrixCompletion(random_state=0, n_jobs=1, **options).fit(seen))
    whole, part = (each.search_ for each in fits)
    assert "rows" not in whole.stop_reason
    assert "of 400 rows" in part.stop_reason
    assert part.density == whole.density == seen.density
    assert part.n_held_out < whole.n_held_out
    for family, end in whole.ends.items():
        assert part.ends[family].row_factors.shape == end.row_factors.shape


def test_weights_of_entries_ask_for_all_of_the_table(small, monkeypatch):
    def refuse(*_):
        raise AssertionError("no part was to be taken")

    monkeypatch.setattr(search_module, "row_subsamples", refuse)
    model = BinaryMatrixCompletion(
        target="all", rho="row-column", rank=1, l2=1.0, gammas=(1, 0, 0), random_state=0, n_jobs=1
    )
    assert model.fit(observed(A)).search_.best is not None


def test_ridges_hold_for_the_whole_table_and_are_smaller_in_the_part():
    seen = observed(low_rank((900, 20), density=0.5))
    part = subsample_of(seen, np.arange(0, 900, 9), 0)
    options = Options(Arithmetic("float32", 1, "auto"))
    share, whole = (largest_penalty(each, BASE, options) for each in (part.observations, seen))
    share /= whole
    # Rows are many and short: a norm grows as the root of their number.
    assert share == pytest.approx(1 / 3, rel=0.1)
    settings = ModelSpec(rank=2, l2=6.0, l2_intercept=5.0, l2_implicit=None, l2_side=9.0)
    found = spec_for_fold(settings, 1.0, share)
    assert (found.l2, found.l2_side) == (share * 6.0, share * 9.0)
    assert (found.l2_intercept, found.l2_implicit) == (5.0, None)
    assert spec_for_fold(settings, 1.0) == settings


@pytest.mark.parametrize("intercept", [True, False])
def test_the_largest_penalty_is_the_norm_of_the_gradient_without_factors(intercept):
    seen = observed(A)
    end = Factors.of(np.zeros((60, 0)), np.zeros((20, 0)), 0.4) if intercept else None
    slope = np.where(A > 0, expit(0.4 * intercept) - 1, expit(0.4 * intercept))
    expected = np.linalg.norm(np.where(A, slope, 0.0), 2)
    assert largest_penalty_of(seen, Logistic(), end) == pytest.approx(expected)


def test_a_path_of_ridges_begins_at_the_largest_of_the_whole(monkeypatch):
    seen = observed(low_rank((900, 20), density=0.5))
    part_entries(monkeypatch, seen.n_observed // 9)
    options = {"implicit_features": False, "rank": 2, "gammas": (1, 0, 0), "l2_intercept": 3.0}
    model = BinaryMatrixCompletion(random_state=0, n_jobs=1, **options).fit(seen)
    first = next(c for c in model.search_.candidates if c.settings.rank)
    intercepts = BinaryMatrixCompletion(
        **{**options, "rank": 0, "calibration": None, "tol": 1e-8}, n_jobs=1
    ).fit(seen)
    largest = largest_penalty_of(seen, Logistic(), intercepts._factors())
    # The fold that it is taken from has four fifths of the entries of the part.
    assert first.settings.l2 == pytest.approx(PENALTY_SHARES[0] * largest * np.sqrt(0.8), rel=0.05)


def test_the_note_names_the_side_and_the_table_of_the_penalties():
    rows, more = (RowSubsample(observed(A), np.arange(n), 0, 60) for n in (3, 20))
    assert note_of(rows, None).endswith("3 of 60 rows, the penalties of the best on all")
    assert note_of(rows, more).endswith("3 of 60 rows, the penalties of the best on 20")
    assert "3 of 60 columns" in note_of(RowSubsample(observed(A.T), np.arange(3), 1, 60), None)


@pytest.mark.parametrize("labels", [A, A.T], ids=["rows", "columns"])
def test_a_larger_subsample_has_all_rows_of_the_smaller_one(labels, small, monkeypatch):
    monkeypatch.setattr(module, "MAX_LINE_SEARCH_ENTRIES", 350)
    seen = observed(labels)
    part, larger = row_subsamples(seen, BASE, draws())
    assert part.observations.n_observed < 350 <= larger.observations.n_observed < seen.n_observed
    np.testing.assert_array_equal(part.positions, row_subsample(seen, BASE, draws()).positions)
    inside = part.within(larger)
    np.testing.assert_array_equal(larger.positions[inside.positions], part.positions)
    assert inside.size == larger.positions.size
    expected = labels.take(part.positions, axis=part.axis)
    kept = larger.observations.to_sparse().toarray().take(inside.positions, axis=part.axis)
    np.testing.assert_array_equal(kept, expected)
    monkeypatch.setattr(module, "MAX_LINE_SEARCH_ENTRIES", seen.n_observed)
    assert row_subsamples(seen, BASE, draws())[1] is None


@pytest.mark.usefixtures("short_trials")
def test_penalties_of_a_very_large_table_are_found_on_a_larger_subsample(monkeypatch):
    """Its penalties are those of the full data: smaller there by the ratio of the largest penalties."""
    seen = observed(low_rank((600, 30), density=0.4))
    part_entries(monkeypatch, 900)
    monkeypatch.setattr(module, "MAX_LINE_SEARCH_ENTRIES", 3000)
    scored = []
    score = Trials.score

    def watched(self, settings):
        fold = self.folds[0]
        scored.append((fold.train.shape[0], fold.penalty_share))
        return score(self, settings)

    monkeypatch.setattr(Trials, "score", watched)
    options = {"implicit_features": False, "rank": 2, "gammas": (1, 0, 0), "l2_intercept": 3.0}
    model = BinaryMatrixCompletion(random_state=0, n_jobs=1, **options).fit(seen)
    sizes = list(dict.fromkeys(scored))
    assert len(sizes) == 2
    (small_rows, small_share), (rows, share) = sizes
    assert small_rows < rows < 600
    # Rows are many and short: a norm grows as the root of their number.
    assert small_share == pytest.approx(np.sqrt(small_rows / 600), rel=0.15)
    assert share == pytest.approx(np.sqrt(rows / 600), rel=0.1)
    search = model.search_
    assert search.stop_reason.endswith(f"the penalties of the best on {rows}")
    assert search.ends["factors"].row_factors.shape == (600, 2)
    assert model.row_factors_.any(axis=1).all()
    again = BinaryMatrixCompletion(random_state=0, n_jobs=2, **options).fit(seen)
    np.testing.assert_array_equal(model.row_factors_, again.row_factors_)

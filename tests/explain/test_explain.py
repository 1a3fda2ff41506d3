"""Explanations, against a general-purpose minimiser of the row's own objective with an entry removed."""

import json
import warnings
from dataclasses import replace
from functools import cache

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import minimize

from other_parts import stacked, with_parts
from tribit import BinaryMatrixCompletion, InvalidInputError, Observations, load
from tribit.data.axis import Axis
from tribit.explain import contributions
from tribit.model.features import side_design

RNG = np.random.default_rng(4)
A = np.where(RNG.random((30, 18)) < 0.5, RNG.choice([-1, 1], (30, 18)), 0)
A[0, :3], A[:3, 0] = 1, -1
A[:, 17], A[29] = 0, 0  # a column that nobody has seen, a row that has seen nothing
TIGHT = {
    "rank": 2,
    "l2": 1.5,
    "l2_intercept": 0.7,
    "search": False,
    "dtype": "float64",
    "tol": 1e-12,
    "max_iter": 5000,
    "n_jobs": 1,
    "random_state": 0,
}
IMPLICIT = {
    "implicit_features": True,
    "l2_implicit": 2.0,
    "activity_floor": (1, 0.5),
}
MODELS = {
    "factors": {},
    "probit": {"link": "probit"},
    "no intercept": {"intercept": False},
    "by entries": {"l2_power": 0.5},
    "rank 0": {"rank": 0},
    "implicit features": IMPLICIT,
    "mixture": {"gammas": (0.6, 0.2, 0.2), "radius": 50.0, "rho": 0.5},
    "stack": {},
    "stack with features": IMPLICIT,
}


def fitted(name, X=A, features=None, **changes):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        options = {**TIGHT, **MODELS[name], **changes}
        model = BinaryMatrixCompletion(**options).fit(X, **(features or {}))
        if not name.startswith("stack"):
            return model
        wider = BinaryMatrixCompletion(**{**options, "rank": 4}).fit(X, **(features or {}))
        return stacked([model, wider], (0.7, 0.3))


def implicit_features(row, floor):
    """The features of a row of the mask, from their definition."""
    mask = A != 0
    counts = mask.sum(axis=1)
    popularity, typical = mask.sum(axis=0) / mask.sum(), mask.sum() / np.count_nonzero(counts)
    n = row.sum()
    if not n:
        return np.sqrt(typical) * popularity
    return (row - n * popularity) / np.sqrt(n) + np.sqrt(max(n, floor * typical)) * popularity


def refitted(model, row, column):
    """x of a column for one row of labels, with the columns fixed: members minimised by a general method."""
    found = []
    for member in model.fitted_.members:
        unknowns, factors, spec = member.unknowns, member.factors, member.spec
        k = factors.rank
        V, c = factors.column_factors, factors.column_intercepts + factors.intercept
        s, t = np.zeros(k), 0.0
        counts = np.count_nonzero(A, axis=1)
        relative = (max(np.count_nonzero(row), 1) / counts[counts > 0].mean()) ** spec.l2_power
        if spec.implicit_features:
            f = implicit_features((row != 0).astype(float), 1.0)
            s = f @ unknowns.row_factors[30:]
            t = f @ unknowns.row_intercepts[30:]

        def value(p, V=V, c=c, s=s, t=t, k=k, spec=spec, relative=relative):
            (pn, pu, nu), q = spec.gammas, 0.5
            x = V @ (s + p[:k]) + t + spec.intercept * p[k] + c
            like, dislike = spec.link.loss(x, 1), spec.link.loss(x, -1)
            seen = np.where(row > 0, like, dislike)
            loss = (pn * seen)[row != 0].sum() + (nu * like + pu * dislike).sum()
            loss += (pu / q * (like - dislike))[row > 0].sum()
            loss += (nu / q * (dislike - like))[row < 0].sum()
            return loss + 0.75 * relative * p[:k] @ p[:k] + 0.35 * p[k] ** 2

        # Twice: from where the first run was content, the second has better curvature.
        p = np.zeros(k + 1)
        for _ in range(2):
            p = minimize(value, p, tol=1e-15, options={"gtol": 1e-9}).x
        if not row.any():
            p = np.zeros(k + 1)
        found.append(V[column] @ (s + p[:k]) + t + spec.intercept * p[k] + c[column])
    return float(np.average(found, weights=[each.weight for each in model.fitted_.members]))


@cache
def refits(name):
    """Return the score of row 2 in column 5 with all of the row's entries (None), and without that of each column."""
    model, scores = fitted(name), {None: refitted(fitted(name), A[2], 5)}
    for column in np.flatnonzero(A[2]).tolist():
        rest = A[2].copy()
        rest[column] = 0
        scores[column] = refitted(model, rest, 5)
    return scores


@pytest.mark.parametrize("at_once", [False, True])
@pytest.mark.parametrize("name", MODELS)
def test_an_entry_adds_what_is_lost_when_the_row_is_refitted_without_it(name, at_once, monkeypatch):
    # The row is short: it is solved for without each entry alone, or of all of them at once as long rows are.
    monkeypatch.setattr(contributions, "MIN_ENTRIES_AT_ONCE", 2 if at_once else 10**9)
    real = contributions.scores_without_each
    solved = []
    monkeypatch.setattr(
        contributions,
        "scores_without_each",
        lambda *arguments: solved.append(real(*arguments)) or solved[-1],
    )
    model = fitted(name)
    found = model.explain(2, 5, A)
    assert found.x == pytest.approx(float(model.decision_function(2, 5)[0]))
    assert found.residual == pytest.approx(0.0, abs=1e-5)
    assert len(found.entries) == np.count_nonzero(A[2])
    without = refits(name)
    whole = without[None]
    assert found.x == pytest.approx(whole, abs=1e-5)
    for entry in found.entries:
        assert entry.label == A[2, entry.column]
        assert entry.contribution == pytest.approx(whole - without[entry.column], abs=2e-5)
        lost = model.spec_.link.probability(np.array([found.x, found.x - entry.contribution]))
        assert entry.probability_change == pytest.approx(lost[0] - lost[1])
    sizes = [abs(entry.contribution) for entry in found.entries]
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[0] > 0.05
    # A mixture has unobserved entries in its sum.
    assert all((each is not None) == (at_once and name != "mixture") for each in solved)


@pytest.mark.parametrize("at_once", [False, True])
@pytest.mark.parametrize("name", MODELS)
def test_columns_explained_together_have_the_effects_of_each_alone(name, at_once, monkeypatch):
    monkeypatch.setattr(contributions, "MIN_ENTRIES_AT_ONCE", 2 if at_once else 10**9)
    model = fitted(name)
    columns = np.flatnonzero(A[2])
    entries = contributions.RowEntries(2, columns, A[2, columns].astype(np.int8))
    effects, minimum = contributions.entry_effects(model.fitted_, entries, np.array([5, 0, 17]))
    assert effects.shape == (columns.size, 3)
    for k, column in enumerate((5, 0, 17)):
        alone = model.explain(2, column, A)
        wanted = {each.column: each.contribution for each in alone.entries}
        assert dict(zip(columns.tolist(), effects[:, k], strict=True)) == pytest.approx(
            wanted, abs=1e-7
        )
        assert minimum[k] == pytest.approx(alone.x - alone.residual, abs=1e-7)


def test_a_long_row_in_parts_has_the_same_reasons(monkeypatch):
    rng = np.random.default_rng(0)
    wide = np.where(rng.random((25, 150)) < 0.6, rng.choice([-1, 1], (25, 150)), 0)
    model = fitted("implicit features", wide)
    assert np.count_nonzero(wide[3]) > contributions.MIN_ENTRIES_AT_ONCE
    whole = model.explain(3, 5, wide)
    monkeypatch.setattr(contributions, "BLOCK_ENTRIES", 1000)  # some ten rows at once
    parts = model.explain(3, 5, wide)
    monkeypatch.setattr(contributions, "MAX_STEPS", 1)  # the steps do not end: as a short row
    plain = model.explain(3, 5, wide)
    for other in (parts, plain):
        theirs = {entry.column: entry.contribution for entry in other.entries}
        for entry in whole.entries:
            assert entry.contribution == pytest.approx(theirs[entry.column], abs=1e-7)


@pytest.mark.parametrize("name", MODELS)
def test_parts_sum_to_the_score(name):
    model = fitted(name)
    for row, column in ((2, 5), (0, 17), (29, 3), (29, 17)):
        found = model.explain(row, column, A)
        assert sum(found.parts.values()) == pytest.approx(found.x, abs=1e-12)
        assert found.probability == pytest.approx(float(model.predict_proba(row, column)[0]))


def test_nothing_was_seen_of_the_row_or_of_the_column():
    model = fitted("implicit features")
    bare = model.explain(29, 3, A)
    assert bare.entries == ()
    assert "The row has no entries." in str(bare)
    new = model.explain(2, 17, A)
    # Nothing is known of the column but the level and what the row is like.
    assert new.parts["column effect"] == pytest.approx(
        float(model.column_intercepts_[17]), abs=1e-12
    )
    assert sum(new.parts.values()) == pytest.approx(new.x)


def test_ids_are_used_and_a_file_explains_the_same(tmp_path):
    rows, columns = [f"r{i}" for i in range(30)], [f"c{j}" for j in range(18)]
    seen = Observations(*np.nonzero(A), A[np.nonzero(A)], A.shape, rows, columns)
    by_place, by_id = fitted("implicit features"), fitted("implicit features", seen)
    first, second = by_place.explain(2, 5, A), by_id.explain("r2", "c5", seen)
    assert (second.row, second.column) == ("r2", "c5")
    assert [f"c{each.column}" for each in first.entries] == [each.column for each in second.entries]
    np.testing.assert_allclose(
        [each.contribution for each in first.entries],
        [each.contribution for each in second.entries],
    )
    order = np.random.default_rng(0).permutation(18)
    turned = Observations(
        *np.nonzero(A[:, order]),
        A[:, order][np.nonzero(A[:, order])],
        A.shape,
        rows,
        [columns[j] for j in order],
    )
    assert by_id.explain("r2", "c5", turned) == second
    by_id.save(tmp_path / "model")
    assert load(tmp_path / "model").explain("r2", "c5", seen) == second


def test_a_new_row_is_explained_by_its_own_entries():
    model = fitted("implicit features")
    row = np.zeros((1, 18), dtype=int)
    row[0, [1, 4, 9]] = [1, -1, 1]
    folded = model.fold_in(row)
    found = folded.explain(30, 5, np.vstack([A, row]))
    again = refitted(model, row[0], 5)
    assert found.x == pytest.approx(again, abs=1e-5)
    assert {each.column for each in found.entries} == {1, 4, 9}


def test_the_calibrator_is_that_of_predictions():
    model = fitted("factors", calibration="platt", l2="auto", l2_intercept="auto", rank=2)
    found = model.explain(2, 5, A)
    assert found.probability == pytest.approx(float(model.predict_proba(2, 5)[0]))
    entry = found.entries[0]
    without = float(model.scores_.probability(np.array([found.x - entry.contribution]))[0])
    assert entry.probability_change == pytest.approx(found.probability - without)


def added(feature_map, table, n, unknowns, place):
    """What side features add to one row: the encoded features times the parts of the fit."""
    design = side_design(feature_map.groups(Axis("row", n), table), n)
    parts = unknowns.row_factors[n:], unknowns.row_intercepts[n:]
    return [design.shared_terms(part)[place] for part in parts]


def test_features_have_their_parts():
    about_rows = pd.DataFrame({"age": np.linspace(20, 60, 30)})
    about_columns = pd.DataFrame({"kind": np.tile(["a", "b", "c"], 6)})
    features = {"row_features": about_rows, "column_features": about_columns}
    model = fitted("factors", features=features, side_features=True, l2_side=0.5)
    found = model.explain(2, 5, A)
    assert sum(found.parts.values()) == pytest.approx(found.x, abs=1e-12)
    assert found.residual == pytest.approx(0.0, abs=1e-4)
    (member,) = model.fitted_.members
    of_rows, of_columns = member.maps
    u, a = added(of_rows, about_rows, 30, member.unknowns, 2)
    v, c = added(of_columns, about_columns, 18, member.unknowns.transposed, 5)
    V = model.column_factors_[5] - v
    assert found.parts["row features"] == pytest.approx(u @ V + a, abs=1e-6)
    assert found.parts["column features"] == pytest.approx(model.row_factors_[2] @ v + c, abs=1e-6)
    # All that is known of a row without entries are its features.
    bare = model.explain(29, 5, A)
    assert bare.parts["row effect"] == pytest.approx(0.0, abs=1e-9)
    assert bare.parts["labels of the row"] == pytest.approx(0.0, abs=1e-9)
    assert abs(bare.parts["row features"]) > 1e-4


@pytest.mark.parametrize("turned", [False, True])
def test_likes_alone(turned):
    draws = np.random.default_rng(1)
    liked = (
        draws.random((60, 12)) < 0.15 + 0.5 * (np.arange(12) % 3 == np.arange(60)[:, None] % 3)
    ) * 1
    liked = liked.T if turned else liked
    model = BinaryMatrixCompletion(random_state=0, n_jobs=1, tol=1e-8, dtype="float64")
    model.fit(liked, zeros="unobserved")
    row = int(np.argmax(liked.sum(axis=1) > 2))
    column = int(np.argmin(liked[row]))
    found = model.explain(row, column, liked)
    assert sum(found.parts.values()) == pytest.approx(found.x, abs=1e-9)
    assert abs(found.residual) < 0.02
    assert len(found.entries) == liked[row].sum()
    assert any(abs(entry.contribution) > 1e-3 for entry in found.entries)
    text = str(found)
    assert text.startswith("P(seen and liked) of")
    assert "P(like)" not in text
    title, entry = text[text.index("  label  ") :].splitlines()[:2]
    assert title.endswith("x  P(seen and liked)")
    assert len(title) == len(entry)


def test_the_columns_of_a_regression_are_no_part_of_the_row_s_minimum():
    from tribit.model.ease import regression_factors, with_regression

    liked = Observations.from_matrix(A > 0, zeros="unobserved")
    model = fitted("factors", liked, gammas=(0, 1, 0), rho=0.0, radius=None)
    before = model.explain(2, 5, liked)
    regression = regression_factors(liked)
    (member,) = model.fitted_.members
    unknowns, factors = (
        with_regression(each, regression, 3.0) for each in (member.unknowns, member.factors)
    )
    spec = replace(member.spec, rank=factors.rank)
    model = with_parts(
        model, members=(replace(member, spec=spec, unknowns=unknowns, factors=factors),)
    )
    after = model.explain(2, 5, liked)
    S = regression.row_factors @ regression.column_factors.T
    assert after.parts["regression of the smaller side"] == pytest.approx(3 * S[2, 5])
    assert after.residual == pytest.approx(before.residual, abs=1e-9)
    was = {entry.column: entry.contribution for entry in before.entries}
    for entry in after.entries:
        added = 3 * regression.column_factors[5, entry.column]
        assert entry.contribution == pytest.approx(was[entry.column] + added, abs=1e-9)


def test_a_row_of_which_blocks_are_solved_has_the_same_effects(monkeypatch):
    model = fitted("implicit features")
    whole = model.explain(2, 5, A)
    monkeypatch.setattr("tribit.explain.contributions.BLOCK_ENTRIES", 1)
    blocks = model.explain(2, 5, A)
    np.testing.assert_allclose(
        [entry.contribution for entry in whole.entries],
        [entry.contribution for entry in blocks.entries],
        atol=1e-6,
    )


@pytest.mark.parametrize("name", ["implicit features", "mixture"])
def test_the_bits_do_not_depend_on_the_threads(name):
    one, more = (fitted(name, n_jobs=n).explain(2, 5, A) for n in (1, 3))
    assert one == more


@pytest.mark.parametrize("rho", ["row-column", "low-rank"])
def test_a_model_of_the_mask_is_asked_about_the_row_itself(rho):
    model = fitted("mixture", rho=rho, tol=1e-10)
    found = model.explain(2, 5, A)
    assert found.residual == pytest.approx(0.0, abs=1e-3)


def test_it_is_printed_and_written():
    found = fitted("implicit features").explain(2, 5, A)
    lines = str(found).split("\n")
    assert lines[0].startswith(f"P(like) of 5 for 2: {found.probability:.3f} (x = {found.x:+.3f}")
    assert sum("liked" in line for line in lines) == min(len(found.entries), 10)
    assert f"{found.entries[0].contribution:+.3f}" in str(found)
    again = json.loads(json.dumps(found.to_dict()))
    assert again["x"] == found.x
    assert again["entries"][0]["contribution"] == found.entries[0].contribution
    assert "own minimum" not in str(found)
    named = replace(found, names=("user", "item")).to_dict()
    assert (named["user"], named["item"], named["entries"][0]["item"]) == (
        2,
        5,
        found.entries[0].column,
    )
    for names in (("x", "item"), ("user", "label")):
        with pytest.raises(InvalidInputError, match="rename it"):
            replace(found, names=names).to_dict()
    loose = fitted("factors", tol=1.0, max_iter=2).explain(2, 5, A)
    assert abs(loose.residual) > 0.03
    assert "own minimum" in str(loose)


def test_what_cannot_be_explained_is_refused():
    model = fitted("factors")
    with pytest.raises(InvalidInputError, match="explain takes one cell"):
        model.explain([1, 2], [3, 4], A)
    with pytest.raises(InvalidInputError, match="31 rows and the model 30"):
        model.explain(1, 2, np.vstack([A, A[:1]]))
    rows, columns = [f"r{i}" for i in range(30)], [f"c{j}" for j in range(18)]
    seen = Observations(*np.nonzero(A), A[np.nonzero(A)], A.shape, rows, columns)
    odd = Observations([0], [0], [1], (1, 1), ["r2"], ["c99"])
    with pytest.raises(InvalidInputError, match="a seen entry in the column 'c99'"):
        fitted("factors", seen).explain("r2", "c5", odd)
    imputed = fitted("mixture", imputed=model)
    with pytest.raises(InvalidInputError, match="fitted with imputed probabilities"):
        imputed.explain(1, 2, A)


def test_the_feature_regression_is_a_term():
    """Of a column without entries whose features say more than the map from features to factors."""
    rng = np.random.default_rng(0)
    genres = rng.integers(3, size=60)
    tastes = 2 * rng.standard_normal((120, 3))
    liked = rng.random((120, 60)) < 1 / (1 + np.exp(-tastes[:, genres]))
    A = np.where(rng.random(liked.shape) < 0.4, np.where(liked, 1, -1), 0)
    A[:, 50:] = 0
    options = {"rank": 2, "l2": 2.0, "l2_intercept": 3.0, "implicit_features": False, "n_jobs": 1}
    model = BinaryMatrixCompletion((1, 0, 0), **options, random_state=0)
    model.fit(A, column_features=np.eye(3)[genres])
    found = model.explain(3, 55, A)
    assert found.parts["feature regression"] != 0.0
    assert sum(found.parts.values()) == pytest.approx(found.x, abs=1e-5)
    assert "feature regression" not in model.explain(3, 5, A).parts

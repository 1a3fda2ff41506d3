"""A ranker's answers for rows that came after the fit, and a ranker rebuilt from what a file keeps."""

import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.exceptions import NotFittedError

from tribit import InvalidInputError, Observations
from tribit.model import binary_matrices, ease
from tribit.ranking import CandidateRanker


def table(shape=(40, 15), seed=0):
    """Labels with popular columns and two kinds of rows, each of which comes to half of the columns."""
    rng = np.random.default_rng(seed)
    kinds = rng.integers(2, size=shape[0])[:, None] == (np.arange(shape[1]) % 2)
    often = np.where(kinds, 0.8, 0.15) * rng.uniform(0.2, 1.0, shape[1])
    likes = np.where(rng.random(shape) < np.where(kinds, 0.8, 0.4), 1, -1)
    return likes * (rng.random(shape) < often)


def with_ids(A, rows="u", columns="f"):
    i, j = np.nonzero(A)
    return Observations.from_pairs(
        i,
        j,
        A[i, j],
        shape=A.shape,
        row_ids=[f"{rows}{k}" for k in range(A.shape[0])],
        column_ids=[f"{columns}{k}" for k in range(A.shape[1])],
    )


def new_rates_by_hand(ranker, A, new):
    """Log-rates of rows that were not in the fit on ``A``: ``f B`` of each regression, and counts of the fit."""
    features = []
    for F, f, l2 in zip((A > 0, A != 0), (new > 0, new != 0), ranker.l2_, strict=True):
        F, f = F.astype(float), f.astype(float)
        P = np.linalg.inv(F.T @ F + l2 * np.eye(F.shape[1]))
        B = np.eye(F.shape[1]) - P / P.diagonal()
        floor = 0.1 * (F.mean(axis=0) + 0.1 * F.mean())
        features.append(np.log(np.maximum(f @ B, 0) + floor))
    features.append(np.broadcast_to(np.log1p((A != 0).sum(axis=0)), new.shape))
    lengths = (A != 0).sum(axis=1)
    length = np.clip((new != 0).sum(axis=1, keepdims=True), lengths.min(), lengths.max())
    features.append(np.log1p(length - (new != 0)))
    return [
        t[0] + sum(x * y for x, y in zip(t[1:], features, strict=True))
        for t in ranker.coefficients_
    ]


@pytest.fixture(params=[True, False], ids=["table", "iterations"])
def tabled(request, monkeypatch):
    if not request.param:
        monkeypatch.setattr(ease, "ROW_COST", 0)
    return request.param


def fitted(A, tabled, **parameters):
    ranker = CandidateRanker(random_state=0, **parameters).fit(A)
    return ranker if tabled else pickle.loads(pickle.dumps(ranker))


def test_new_rows_by_hand(tabled):
    A, new = table(), table((6, 15), seed=1)
    new[3] = 0
    ranker = fitted(A, tabled)
    other = ranker.with_rows(new)
    assert (other.shape_, other.l2_) == ((6, 15), ranker.l2_)
    found = other.log_rates(np.arange(6))
    assert np.isfinite(found).all()
    for rates, expected in zip(found, new_rates_by_hand(ranker, A, new), strict=True):
        np.testing.assert_allclose(rates, expected, atol=1e-8)
    assert (ranker._cells.likes._inverse is None) != tabled


def test_rows_of_the_fit_are_as_new_ones_where_nothing_was_seen(tabled):
    A = table()
    ranker = fitted(A, tabled)
    as_new = ranker.with_rows(A)
    for ours, theirs in zip(
        ranker.log_rates(np.arange(40)), as_new.log_rates(np.arange(40)), strict=True
    ):
        np.testing.assert_allclose(ours[A == 0], theirs[A == 0], atol=1e-8)
        assert np.abs(ours - theirs)[A != 0].min() > 1e-6


def test_rows_behind_those_of_the_fit(tabled):
    A, new = table(), table((6, 15), seed=1)
    ranker = fitted(A, tabled)
    longer = ranker.append_rows(new)
    old, fresh = ranker.log_rates(np.arange(40)), ranker.with_rows(new).log_rates(np.arange(6))
    rows = np.array([42, 3, 40, 39])
    for found, first, last in zip(longer.log_rates(rows), old, fresh, strict=True):
        expected = np.stack([last[2], first[3], last[0], first[39]])
        np.testing.assert_allclose(found, expected, atol=1e-8)
    again = longer.append_rows(new[:2])
    np.testing.assert_allclose(again.log_rates([47])[0], fresh[0][[1]], atol=1e-8)


def test_new_rows_are_matched_by_column_id():
    A, new = table(), table((6, 15), seed=1)
    ranker = CandidateRanker(random_state=0).fit(with_ids(A))
    order = np.random.default_rng(0).permutation(15)
    i, j = np.nonzero(new[:, order])
    ids = [f"f{k}" for k in order] + ["unknown"]
    moved = Observations.from_pairs(
        np.append(i, 0),
        np.append(j, 15),
        np.append(new[:, order][i, j], 1),
        shape=(6, 16),
        row_ids=[f"v{k}" for k in range(6)],
        column_ids=ids,
    )
    other = ranker.with_rows(moved)
    expected = ranker.with_rows(with_ids(new, rows="v")).log_rates(np.arange(6))
    assert np.array_equal(other.log_rates(np.arange(6)), expected)
    assert other.row_ids_.tolist() == [f"v{k}" for k in range(6)]
    assert other.column_ids_.tolist() == ranker.column_ids_.tolist()
    lists = other.recommend("v2", 3, exclude_seen=moved)
    assert not set(lists.columns[0]) & {f"f{k}" for k in np.flatnonzero(new[2])}
    longer = ranker.append_rows(moved)
    assert longer.row_ids_.tolist() == [*ranker.row_ids_, *other.row_ids_]
    assert longer.recommend("v2", 3, exclude_seen=moved).columns.tolist() == lists.columns.tolist()
    with pytest.raises(InvalidInputError, match="knows the row 'u0' already"):
        ranker.append_rows(with_ids(new))


def test_how_many_rows_are_asked_for_changes_no_score(monkeypatch):
    A = table((200, 40))
    ranker = CandidateRanker(random_state=0).fit(A)
    many = ranker.log_rates(np.arange(200))
    ranker = pickle.loads(pickle.dumps(ranker))
    monkeypatch.setattr(ease, "ROW_COST", 0)
    for rows in ([5], [5, 199], np.arange(0, 200, 7)):
        for few, every in zip(ranker.log_rates(np.array(rows)), many, strict=True):
            np.testing.assert_allclose(few, every[rows], rtol=0, atol=1e-8)
    assert ranker._cells.likes._inverse is None


def test_the_number_of_threads_changes_no_bit(monkeypatch):
    A = table((300, 60))
    for limit in (6000, 50):
        monkeypatch.setattr(ease, "MAX_INVERSE_COLUMNS", limit)
        one, two = (CandidateRanker(n_jobs=jobs, random_state=0).fit(A) for jobs in (1, 2))
        assert np.array_equal(one.coefficients_, two.coefficients_)
        assert one.l2_ == two.l2_
        rows = np.arange(0, 300, 9)
        assert np.array_equal(one.log_rates(rows), two.log_rates(rows))


def test_many_columns_need_no_table(monkeypatch):
    A = table((300, 60))
    exact = CandidateRanker(random_state=0).fit(A)
    monkeypatch.setattr(ease, "MAX_INVERSE_COLUMNS", 59)
    monkeypatch.setattr(
        "tribit.model.binary_matrices.PROBES", 2048
    )  # so that little is left to chance
    wide, again = (CandidateRanker(random_state=0).fit(A) for _ in range(2))
    assert np.array_equal(wide.coefficients_, again.coefficients_)
    assert wide._cells.likes._inverse is wide._cells.mask._inverse is None
    assert not np.array_equal(wide._cells.likes.diagonal, wide._cells.mask.diagonal)
    np.testing.assert_allclose(wide.coefficients_[:, 1:], exact.coefficients_[:, 1:], atol=0.3)
    near = np.corrcoef(*(ranker.log_rates(np.arange(300))[0].ravel() for ranker in (wide, exact)))
    assert near[0, 1] > 0.98


# What a file keeps


@pytest.mark.parametrize("likes_only", [False, True])
def test_a_ranker_from_its_arrays(likes_only):
    A = table((120, 15))
    A = np.maximum(A, 0) if likes_only else A
    seen = with_ids(A)
    ranker = CandidateRanker(random_state=0).fit(seen)
    arrays = ranker.arrays()
    horizon = arrays["horizon"]
    assert horizon.shape[1] < 1000
    assert sum(each.nbytes for each in arrays.values()) == 8 * (10 + 2 + horizon.size + 2 * 15 + 1)
    again = CandidateRanker.from_arrays(arrays, seen, random_state=7)
    assert again.random_state == 7
    assert again.l2_ == ranker.l2_
    assert again.row_ids_.tolist() == ranker.row_ids_.tolist()
    rows = np.arange(120)
    assert np.array_equal(again.log_rates(rows), ranker.log_rates(rows))
    rates = np.exp(ranker.log_rates(rows))
    assert np.array_equal(again.expected(*rates), ranker.expected(*rates))
    assert np.array_equal(again.arrays()["mask_diagonal"], arrays["mask_diagonal"])


def test_a_longer_ranker_from_its_arrays():
    A, new = table(), table((6, 15), seed=1)
    longer = CandidateRanker(random_state=0).fit(A).append_rows(new)
    again = CandidateRanker.from_arrays(
        longer.arrays(), Observations.from_matrix(np.vstack([A, new]))
    )
    rows = np.arange(46)
    assert np.array_equal(again.log_rates(rows), longer.log_rates(rows))


@pytest.mark.parametrize(
    ("name", "array", "sentence"),
    [
        ("l2", None, "The arrays of the ranker have no l2; use"),
        ("l2", np.array([1.0, 0.0]), "l2 of the ranker must be positive and finite"),
        ("l2", np.array([1.0, np.inf]), "l2 of the ranker must be"),
        ("likes_diagonal", np.full(15, np.nan), "likes_diagonal of the ranker must be positive"),
        (
            "mask_diagonal",
            np.ones(14),
            r"mask_diagonal of the ranker .* the shape \(14,\); numbers",
        ),
        ("mask_diagonal", np.full(15, "a"), "mask_diagonal of the ranker is of <U1"),
        ("coefficients", np.full((2, 5), -np.inf), "coefficients of the ranker must be finite"),
        ("horizon", None, "The arrays of the ranker have no horizon; use"),
        ("horizon", np.ones((3, 4)), r"horizon of the ranker .* the shape \(3, 4\); numbers"),
        (
            "horizon",
            np.array([[1.0, 2.0], [0.2, 1.0]]),
            "horizon of the ranker must be",
        ),
        (
            "horizon",
            np.array([[2.0, 1.0], [0.2, 0.3]]),
            "horizon of the ranker must be",
        ),
        ("fitted_rows", np.array(41), "fitted_rows of the ranker is 41 and .* have 40 rows"),
        ("fitted_rows", np.array(0), "fitted_rows of the ranker is 0 and"),
        ("fitted_rows", np.array(1.5), "fitted_rows of the ranker is 1.5 and"),
    ],
)
def test_arrays_that_are_none_of_a_ranker_are_refused_in_one_sentence(name, array, sentence):
    A = Observations.from_matrix(table())
    arrays = CandidateRanker(random_state=0).fit(A).arrays()
    arrays.pop(name)
    if array is not None:
        arrays[name] = array
    with pytest.raises(InvalidInputError, match=sentence) as caught:
        CandidateRanker.from_arrays(arrays, A)
    assert str(caught.value).count(". ") == 0


def test_what_does_not_go_with_the_fit_is_refused():
    A = table()
    ranker = CandidateRanker(random_state=0).fit(A)
    with pytest.raises(InvalidInputError, match="does not hold the rows it was fitted on"):
        ranker.with_rows(A).arrays()
    with pytest.raises(InvalidInputError, match="new rows have 14 columns and the model 15"):
        ranker.with_rows(A[:, :14])
    with pytest.raises(InvalidInputError, match="have no ids and the new ones have some"):
        ranker.append_rows(with_ids(A))


def test_new_rows_may_be_sparse_or_ratings():
    A, new = table(), table((6, 15), seed=1)
    ratings = np.where(A == 0, np.nan, np.where(A > 0, 5.0, 2.0))
    ranker = CandidateRanker(like_at=4, random_state=0).fit(ratings)
    rated = ranker.with_rows(np.where(new == 0, np.nan, np.where(new > 0, 4.0, 1.0)))
    labelled = CandidateRanker(random_state=0).fit(A).with_rows(sp.csr_array(new))
    assert np.array_equal(rated.log_rates(np.arange(6)), labelled.log_rates(np.arange(6)))


@pytest.mark.parametrize("added_up", [0, 128])
def test_a_row_asked_for_alone_has_the_bits_that_it_has_among_others(monkeypatch, added_up):
    # Few ones are added up one by one, many by a sparse product: both in the same order.
    monkeypatch.setattr(binary_matrices, "MAX_ROWS_ADDED_IN_PYTHON", added_up)
    A = table()
    A[5] = 0  # a row of which nothing is known
    ranker = CandidateRanker(random_state=0).fit(A).append_rows(table(seed=1)[:4])
    assert ranker._cells.likes.has_table
    together = ranker.log_rates(np.arange(44))
    for row in range(44):
        for alone, among in zip(ranker.log_rates(np.array([row])), together, strict=True):
            assert np.array_equal(alone[0], among[row])


def test_a_ranker_alone_gives_up_one_like_for_a_dislike_unless_told():
    A = np.where(np.random.default_rng(4).random((30, 12)) < 0.6, 1, -1)
    A *= np.random.default_rng(5).random(A.shape) < 0.5
    ranker = CandidateRanker(random_state=0).fit(A)
    usual = ranker.recommend(range(30), 4)
    told, more = (ranker.recommend(range(30), 4, avoid_dislikes=w) for w in (1.0, 2.0))
    np.testing.assert_array_equal(usual.scores.values, told.scores.values)
    assert not np.array_equal(usual.scores.values, more.scores.values)


@pytest.mark.parametrize(
    "ask",
    [
        lambda ranker: ranker.prepare(),
        lambda ranker: ranker.log_rates(np.array([0])),
        lambda ranker: ranker.expected(np.ones(1), np.ones(1)),
        lambda ranker: ranker.with_rows(np.ones((1, 2))),
        lambda ranker: ranker.recommend([0]),
    ],
)
def test_a_ranker_without_a_fit_answers_nothing(ask):
    with pytest.raises(NotFittedError):
        ask(CandidateRanker())

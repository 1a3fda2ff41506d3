import dataclasses

import numpy as np
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from sklearn.exceptions import NotFittedError

from other_parts import with_factors
from tribit import (
    BinaryMatrixCompletion,
    InvalidInputError,
    InvalidTypeError,
    Observations,
)
from tribit.paper.systems import SYSTEMS
from tribit.ranking import CandidateRanker
from tribit.ranking import best_columns as best_columns_module
from tribit.ranking import lists as lists_module
from tribit.ranking.best_columns import best_columns
from tribit.ranking.lists import Recommendations

SHAPE = (12, 9)


def labels(seed=0, shape=SHAPE, observed=0.5):
    rng = np.random.default_rng(seed)
    return np.where(rng.random(shape) < 0.6, 1, -1) * (rng.random(shape) < observed)


def fitted(seed=0, size=1.0, observations=None, **parameters):
    """A model of known random factors, intercepts and all."""
    rng = np.random.default_rng(seed)
    given = labels() if observations is None else observations
    model = BinaryMatrixCompletion(rank=3, n_jobs=1, max_iter=1, random_state=0, tol=1.0)
    model.set_params(**parameters).fit(given)
    n_rows, n_columns = model.row_factors_.shape[0], model.column_factors_.shape[0]
    return with_factors(
        model,
        row_factors=size * rng.normal(size=(n_rows, 3)),
        column_factors=rng.normal(size=(n_columns, 3)),
        intercept=-0.5,
        row_intercepts=rng.normal(size=n_rows),
        column_intercepts=rng.normal(size=n_columns),
    )


def with_ids(A, row_ids, column_ids):
    rows, columns = np.nonzero(A)
    return Observations.from_pairs(
        rows, columns, A[rows, columns], shape=A.shape, row_ids=row_ids, column_ids=column_ids
    )


def by_hand(score, seen, n):
    """The lists by sorting everything: (positions, scores), filled up with -1 and -inf."""
    positions, scores = np.full((len(score), n), -1), np.full((len(score), n), -np.inf)
    for i, row in enumerate(score):
        free = [j for j in range(row.size) if not seen[i, j]]
        for place, j in enumerate(sorted(free, key=lambda j: (-row[j], j))[:n]):
            positions[i, place], scores[i, place] = j, row[j]
    return positions, scores


@pytest.mark.parametrize("link", ["logistic", "probit"])
@pytest.mark.parametrize("n", [1, 4, 9])
def test_the_model_alone_ranks_by_the_probability_of_a_like(link, n):
    model = fitted(link=link)
    lists = model.recommend(range(12), n)
    positions, scores = by_hand(np.log(model.complete()), np.zeros(SHAPE), n)
    np.testing.assert_array_equal(lists.columns, positions)
    np.testing.assert_allclose(lists.scores, scores, rtol=1e-9)
    np.testing.assert_array_equal(lists.rows, np.arange(12))
    assert lists.lengths.tolist() == [n] * 12
    assert len(lists) == 12


def test_the_weight_is_1_unless_told_and_needs_a_ranker():
    model, ranker = fitted(), CandidateRanker(random_state=0).fit(labels())
    told = model.recommend(range(12), ranker=ranker, avoid_dislikes=1.0)
    np.testing.assert_array_equal(model.recommend(range(12), ranker=ranker).scores, told.scores)
    alone = model.recommend(range(12)), model.recommend(range(12), avoid_dislikes=0.0)
    np.testing.assert_array_equal(alone[0].scores, alone[1].scores)


@pytest.mark.parametrize("block", [1, 9, 20, 10**6])
def test_the_block_size_and_the_other_rows_change_no_bit(monkeypatch, block):
    model, ranker = fitted(dtype="float32"), CandidateRanker(random_state=0).fit(labels())
    seen = labels(seed=5)
    for chosen in (None, ranker):
        options = {"exclude_seen": seen, "ranker": chosen}
        whole = model.recommend(range(12), 6, **options)
        with monkeypatch.context() as patch:
            patch.setattr(best_columns_module, "BLOCK_SCORES", block)
            patch.setattr(best_columns_module, "MIN_BLOCK_ROWS", 1)
            parts = model.recommend(range(12), 6, **options)
        np.testing.assert_array_equal(parts.scores.values, whole.scores.values)
        assert parts.positions.tolist() == whole.positions.tolist()
        one = model.recommend([7, 2], 6, **options)
        assert one.scores.tolist() == whole.scores[[7, 2]].tolist()
        assert one.positions.tolist() == whole.positions[[7, 2]].tolist()


@given(
    scores=st.integers(1, 6).flatmap(
        lambda d: st.lists(
            st.lists(st.integers(0, 3), min_size=d, max_size=d), min_size=1, max_size=5
        )
    ),
    n=st.integers(1, 8),
    seed=st.integers(0, 99),
)
def test_equal_scores_come_in_the_order_of_the_columns(scores, n, seed):
    table = np.array(scores, dtype=float)
    seen = np.random.default_rng(seed).random(table.shape) < 0.4
    found = best_columns(
        lambda rows: table[rows], np.arange(len(table)), table.shape[1], n, sp.csr_array(seen)
    )
    for got, wanted in zip(found, by_hand(table, seen, n), strict=True):
        np.testing.assert_array_equal(got, wanted)


def test_an_impossible_column_is_still_better_than_one_that_was_seen():
    table = np.array([[-np.inf, 1.0, -np.inf]])
    seen = sp.csr_array(np.array([[True, False, False]]))
    positions, scores = best_columns(lambda rows: table[rows], np.array([0]), 3, 3, seen)
    np.testing.assert_array_equal(positions, [[1, 2, -1]])
    np.testing.assert_array_equal(scores, [[1, -np.inf, -np.inf]])


def test_a_score_that_is_not_a_number_is_refused():
    table = np.array([[1.0, 2.0], [np.nan, 0.0]])
    with pytest.raises(InvalidInputError, match=r"score of row 1 is not a number \(NaN\)"):
        best_columns(lambda rows: table[rows], np.array([0, 1]), 2, 1)


def test_what_a_link_clips_to_one_probability_is_told_apart():
    model = SYSTEMS["singular-value-thresholding"]().fit(labels(observed=1.0))
    model = with_factors(
        model, row_factors=np.ones((12, 1)), column_factors=np.arange(3.0, 12.0)[:, None]
    )
    lists = model.recommend(0, 3)
    assert np.ptp(lists.scores) == 0
    np.testing.assert_array_equal(lists.positions, [[8, 7, 6]])


def test_far_entries_are_told_apart():
    model = fitted()
    # Every probability rounds to 1.
    model = with_factors(model, row_intercepts=model.row_intercepts_ + 60.0)
    lists = model.recommend(range(12), 9)
    np.testing.assert_array_equal(
        lists.positions, by_hand(model.complete("score"), np.zeros(SHAPE), 9)[0]
    )
    assert (np.diff(lists.scores, axis=1) < 0).all()


ROWS, COLUMNS = [f"user {i}" for i in range(12)], [100 + j for j in range(9)]


def test_ids_in_and_out():
    A = labels()
    model = fitted(observations=with_ids(A, ROWS, COLUMNS))
    plain = fitted(observations=A)
    # What was seen, in another order, of fewer columns and with a column and a row that the model does not know.
    seen = labels(seed=5)
    order = [8, 0, 3]
    part = np.zeros((13, 4), dtype=int)
    part[:12, :3] = seen[::-1][:, order]
    part[12], part[:, 3] = 1, 1
    named = with_ids(part, [*ROWS[::-1], "stranger"], [*(COLUMNS[j] for j in order), 7])
    only = np.zeros_like(seen)
    only[:, order] = seen[:, order]
    lists = model.recommend(["user 7", "user 2"], 3, exclude_seen=named)
    same = plain.recommend([7, 2], 3, exclude_seen=only)
    np.testing.assert_array_equal(lists.positions, same.positions)
    np.testing.assert_array_equal(lists.columns.values, same.positions.values + 100)
    assert lists.columns.values.dtype.kind == "i"
    assert lists.rows.tolist() == ["user 7", "user 2"]
    single = model.recommend("user 2", 3, exclude_seen=named)
    np.testing.assert_array_equal(single.columns, lists.columns[1:])


def test_lists_that_run_short_are_shorter():
    seen = np.zeros(SHAPE, dtype=int)
    seen[0, 2:], seen[1] = 1, -1
    lists = fitted().recommend([0, 1, 2], 10, exclude_seen=seen)
    assert lists.lengths.tolist() == [2, 0, 9]
    for each in (lists.columns, lists.positions, lists.scores, lists.probabilities):
        assert [part.size for part in each] == [2, 0, 9]
        assert np.isfinite(each.values).all()
    assert set(lists.columns[0]) == {0, 1}
    assert lists.positions[2, 8] == lists.positions[2][-1]
    with pytest.raises(InvalidInputError, match="0 to 9 places"):
        np.asarray(lists.columns)
    named = fitted(observations=with_ids(labels(), ROWS, COLUMNS)).recommend(
        ROWS[:3], 10, exclude_seen=with_ids(seen, ROWS, COLUMNS)
    )
    assert named.columns[0].tolist() == (100 + lists.columns[0]).tolist()
    rows, columns, scores = named.pairs()
    assert rows.tolist() == ["user 0"] * 2 + ["user 2"] * 9
    assert columns.tolist() == [each for some in named.columns for each in some]
    np.testing.assert_array_equal(scores, named.scores.values)
    frame = named.to_frame()
    assert [len(frame[frame.row == row]) for row in ROWS[:3]] == [2, 0, 9]
    assert frame.place.tolist() == [1, 2, *range(1, 10)]


def test_no_rows_no_lists():
    lists = fitted().recommend(np.array([], dtype=int), 4)
    assert lists.columns.tolist() == []
    assert [part.size for part in lists.pairs()] == [0, 0, 0]


@pytest.mark.parametrize("kind", [np.array, sp.csr_array, Observations.from_matrix])
def test_what_was_seen_may_be_any_matrix(kind):
    seen = labels(seed=5)
    lists = fitted().recommend(range(12), 4, exclude_seen=kind(seen))
    expected = by_hand(fitted().complete("score"), seen, 4)[0]
    assert lists.positions.tolist() == [row[row >= 0].tolist() for row in expected]


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("name", SYSTEMS)
def test_every_system_recommends(name):
    model = SYSTEMS[name](**({"rho": 0.3} if name == "pu" else {}))
    if "rank" in model.get_params():
        model.set_params(rank=2)
    model.fit(labels(observed=0.8))
    lists = model.recommend(range(12), 3, exclude_seen=labels(observed=0.8))
    assert np.isfinite(lists.scores.values).all()
    assert not labels(observed=0.8)[lists.positions.index, lists.positions.values].any()


def test_a_ranker_finds_what_is_popular():
    # Everyone likes what they see, and what is shown is popular: the judge alone cannot know that.
    rng = np.random.default_rng(0)
    often = np.linspace(0.05, 0.9, 20)
    A = np.where(rng.random((60, 20)) < 0.8, 1, -1) * (rng.random((60, 20)) < often)
    judge = BinaryMatrixCompletion(
        rank=2,
        l2=5.0,
        l2_intercept=5.0,
        search=False,
        n_jobs=1,
        random_state=0,
    ).fit(A)
    ranker = CandidateRanker(random_state=0).fit(A)
    alone = often[judge.recommend(range(60), 3).positions].mean()
    assert often[judge.recommend(range(60), 3, ranker=ranker).positions].mean() > alone + 0.1


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"n": 0}, r"n must be a whole number, at least 1; got 0\."),
        ({"n": 2.0}, r"n must be a whole number, at least 1; got 2\.0\."),
        ({"n": True}, "n must be a whole number, at least 1; got True"),
        ({"ranker": "fitted", "avoid_dislikes": -1.0}, "avoid_dislikes must be .* got -1.0"),
        ({"avoid_dislikes": np.nan}, "avoid_dislikes must be"),
        ({"exclude_seen": np.eye(12)}, "exclude_seen has 12 columns and the model 9: without ids"),
        ({"exclude_seen": np.eye(9)}, "exclude_seen has 9 rows and the model 12: without ids"),
        ({"ranker": "small"}, "recommends has 9 columns and the model 8"),
    ],
)
def test_bad_input_is_refused_in_one_sentence(options, sentence):
    tables = {"fitted": labels(), "small": labels(shape=(12, 8))}
    rankers = {name: CandidateRanker(random_state=0).fit(A) for name, A in tables.items()}
    options = {**options, **({"ranker": rankers[options["ranker"]]} if "ranker" in options else {})}
    with pytest.raises(InvalidInputError, match=sentence) as caught:
        fitted().recommend([0], **options)
    assert str(caught.value).count(". ") == 0


def test_rows_that_are_not_there_are_named():
    with pytest.raises(InvalidInputError, match="the row 12 is not between 0 and 11"):
        fitted().recommend([12])
    model = fitted(observations=with_ids(labels(), ROWS, COLUMNS))
    with pytest.raises(InvalidInputError, match=r"row id 'nobody' .* is unknown"):
        model.recommend("nobody")


def test_ids_on_one_side_only_are_refused():
    model = fitted(observations=with_ids(labels(), ROWS, COLUMNS))
    with pytest.raises(InvalidInputError, match="fitted on row ids but exclude_seen has none"):
        model.recommend(ROWS[0], exclude_seen=labels())


def test_a_ranker_must_be_fitted_and_knows_every_row_and_column():
    with pytest.raises(
        InvalidTypeError, match="ranker is of type str; pass a fitted CandidateRanker"
    ):
        fitted().recommend([0], ranker="popular")
    with pytest.raises(InvalidTypeError, match="ranker is of type BinaryMatrixCompletion; pass a"):
        fitted().recommend([0], ranker=fitted(seed=1))
    with pytest.raises(NotFittedError):
        BinaryMatrixCompletion().recommend([0])
    A = labels()
    model = fitted(observations=with_ids(A, ROWS, COLUMNS))
    other = CandidateRanker(random_state=0).fit(with_ids(A, ROWS, [*COLUMNS[:-1], 7]))
    with pytest.raises(InvalidInputError, match="ranker does not know the column 108 of the model"):
        model.recommend(ROWS[0], ranker=other)


def test_recommendations_are_frozen():
    lists = fitted().recommend([0])
    assert isinstance(lists, Recommendations)
    with pytest.raises(dataclasses.FrozenInstanceError):
        lists.scores = None


@pytest.mark.parametrize("records", [1, 5, 7, 10**6])
@pytest.mark.parametrize("name", ["lists.csv", "lists.parquet"])
def test_a_file_is_written_some_rows_at_a_time_and_has_all_lists(
    tmp_path, monkeypatch, records, name
):
    full = labels(observed=1.0)
    full[3] = labels(seed=4)[3]  # one row has columns left, the others have none
    model, path = fitted(), tmp_path / name
    for seen in (None, labels(seed=5), full):
        lists = model.recommend(range(12), 4, exclude_seen=seen)
        lists.write(path)
        whole = path.read_bytes() if name.endswith("csv") else pq.read_table(path)
        with monkeypatch.context() as patch:
            patch.setattr(lists_module, "BLOCK_RECORDS", records)
            blocks = list(lists.blocks())
            lists.write(path)
        again = path.read_bytes() if name.endswith("csv") else pq.read_table(path)
        assert again == whole if name.endswith("csv") else again.equals(whole)
        table = lists.table()
        for heading, values in table.items():
            parts = [block[heading] for block in blocks]
            np.testing.assert_array_equal(np.concatenate(parts), values)
        if seen is None:  # lists of four: a block ends with the list that fills it
            assert len(blocks) == {1: 12, 5: 9, 7: 7, 10**6: 1}[records]
    model.recommend([], 4).write(path)

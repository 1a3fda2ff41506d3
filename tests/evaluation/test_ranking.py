import dataclasses

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.stats import rankdata
from sklearn.exceptions import NotFittedError
from sklearn.metrics import ndcg_score

from tribit import (
    BinaryMatrixCompletion,
    InvalidInputError,
    InvalidTypeError,
    Observations,
)
from tribit.evaluation.ranking import by_popularity, popularity_percentiles, ranking_report
from tribit.ranking import CandidateRanker

SHAPE = (30, 17)


def parts(seed=0):
    """Training and held-out labels of one matrix, as dense arrays."""
    rng = np.random.default_rng(seed)
    A = np.where(rng.random(SHAPE) < 0.6, 1, -1) * (rng.random(SHAPE) < 0.6)
    held_out = rng.random(SHAPE) < 0.3
    held_out[0] = False  # a row without a held-out entry
    train, hidden = A * ~held_out, A * held_out
    hidden[1] = np.minimum(hidden[1], 0)  # one with dislikes alone
    return train, hidden


def by_hand(scores, train, hidden, n):
    """Every measure by loops over rows and places."""
    sums = {"precision": 0.0, "recall": 0.0, "ndcg": 0.0}
    users = likes = dislikes = 0
    counts = [sum(train[i, j] != 0 for i in range(SHAPE[0])) for j in range(SHAPE[1])]
    places = []
    for i in range(len(scores)):
        wanted = {j for j in range(SHAPE[1]) if hidden[i, j] == 1}
        if not wanted:
            continue
        users += 1
        free = [j for j in range(SHAPE[1]) if train[i, j] == 0]
        shown = sorted(free, key=lambda j: (-scores[i, j], j))[:n]
        places += shown
        hits = [place for place, j in enumerate(shown, start=1) if j in wanted]
        best = sum(1 / np.log2(p + 1) for p in range(1, min(n, len(wanted)) + 1))
        sums["precision"] += len(hits) / n
        sums["recall"] += len(hits) / len(wanted)
        sums["ndcg"] += sum(1 / np.log2(p + 1) for p in hits) / best
        likes += len(hits)
        dislikes += sum(hidden[i, j] == -1 for j in shown)
    return {
        **{name: total / users for name, total in sums.items()},
        "n": n,
        "n_users": users,
        "likes_shown": likes,
        "dislikes_shown": dislikes,
        "dislikes_per_like": dislikes / likes if likes else None,
        "coverage": len(set(places)) / SHAPE[1],
        "novelty": sum(-np.log2(counts[j] / SHAPE[0]) for j in places) / len(places),
        "popularity": sum(
            sum((c < counts[j]) + (c == counts[j]) / 2 for c in counts) / SHAPE[1] for j in places
        )
        / len(places),
    }


@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize("n", [1, 3, 10, 17, 25])
def test_the_measures_by_loops(n, ties):
    train, hidden = parts()
    scores = np.random.default_rng(1).normal(size=SHAPE)
    scores = np.round(scores) if ties else scores
    report = dataclasses.asdict(ranking_report(scores, train, hidden, n))
    assert report == pytest.approx(by_hand(scores, train, hidden, n), rel=1e-12)
    assert report["n_users"] == np.count_nonzero((hidden == 1).any(axis=1)) < 30


@pytest.mark.parametrize("n", [1, 4, 10])
def test_ndcg_is_that_of_scikit_learn(n):
    train, hidden = parts(seed=2)
    scores = np.random.default_rng(3).normal(size=SHAPE)
    counted = (hidden == 1).any(axis=1)
    low = np.where(train != 0, -1e3, scores)  # last: never among the first n here
    wanted = ndcg_score(hidden[counted] == 1, low[counted], k=n)
    assert ranking_report(scores, train, hidden, n).ndcg == pytest.approx(wanted, rel=1e-12)


def test_the_best_and_the_worst_order():
    train, hidden = parts()
    best = ranking_report(hidden, train, hidden, 17)
    assert best.ndcg == pytest.approx(1.0)
    assert best.recall == 1.0
    few = ranking_report(hidden, train, hidden, 1)
    assert (few.ndcg, few.precision, few.dislikes_per_like) == (1.0, 1.0, 0.0)
    worst = ranking_report(-hidden, train, hidden, 1)
    assert worst.ndcg < 0.2


def test_no_like_shown_has_no_dislikes_per_like():
    train, hidden = np.array([[0, 0, 0, 1]]), np.array([[1, -1, 0, 0]])
    report = ranking_report(np.array([[0.0, 2.0, 1.0, 3.0]]), train, hidden, 2)
    assert report.dislikes_per_like is None
    assert (report.likes_shown, report.dislikes_shown, report.ndcg) == (0, 1, 0.0)


def test_a_column_without_entries_is_as_novel_as_one_of_a_single_row():
    train, hidden = (
        np.array([[0, 1], [0, -1], [0, 1], [0, 0]]),
        np.array([[-1, 0]] + [[0, 0]] * 2 + [[1, 0]]),
    )
    report = ranking_report(np.ones((4, 2)), train, hidden, 1)
    assert (report.novelty, report.coverage, report.popularity) == (2.0, 0.5, 0.25)


@pytest.mark.parametrize("n_columns", [1, 2, 7, 1000])
def test_percentiles_of_popularity_are_those_of_average_ranks(n_columns):
    counts = np.random.default_rng(n_columns).integers(0, n_columns, n_columns)  # with ties
    expected = (rankdata(counts) - 0.5) / n_columns
    np.testing.assert_array_equal(popularity_percentiles(counts), expected)


def test_popularity_is_the_number_of_training_likes():
    train, hidden = parts()
    scores = np.tile((train == 1).sum(axis=0), (SHAPE[0], 1))
    popular = by_popularity(Observations.from_matrix(train))
    assert ranking_report(popular, train, hidden, 4) == ranking_report(scores, train, hidden, 4)


def test_what_was_trained_on_is_never_shown():
    train, hidden = parts()
    scores = np.random.default_rng(1).normal(size=SHAPE)
    first = ranking_report(scores, train, hidden, 5)
    assert ranking_report(scores + 100.0 * (train != 0), train, hidden, 5) == first
    # Nor do the labels of the training entries matter.
    assert ranking_report(scores, np.abs(train), hidden, 5) == first


@pytest.mark.parametrize("kind", [np.array, sp.csr_array, Observations.from_matrix])
def test_every_kind_of_matrix_and_of_scores(kind):
    train, hidden = parts()
    scores = np.random.default_rng(1).normal(size=SHAPE)
    first = ranking_report(scores, train, hidden)
    assert ranking_report(scores, kind(train), kind(hidden)) == first
    assert ranking_report(lambda rows: scores[rows], train, hidden) == first
    assert first.n == 10


def fitted(train, seed=0, **parameters):
    fixed = {
        "rank": 2,
        "l2": 0.5,
        "l2_intercept": 0.5,
        "search": False,
    }
    return BinaryMatrixCompletion(n_jobs=1, random_state=seed, **fixed | parameters).fit(train)


def test_a_model_ranks_as_it_recommends():
    train, hidden = parts()
    model = fitted(train)
    ranker = CandidateRanker(random_state=0).fit(train)
    scores = model.complete("score")
    assert ranking_report(model, train, hidden, 4) == ranking_report(scores, train, hidden, 4)
    mixed = np.empty(SHAPE)
    lists = model.recommend(range(SHAPE[0]), SHAPE[1], ranker=ranker, avoid_dislikes=2.0)
    mixed[lists.positions.index, lists.positions.values] = lists.scores.values
    report = ranking_report(model, train, hidden, 4, ranker=ranker, avoid_dislikes=2.0)
    assert report == ranking_report(mixed, train, hidden, 4)
    assert report != ranking_report(model, train, hidden, 4, ranker=ranker, avoid_dislikes=0.0)


def test_ids_are_matched_by_id():
    train, hidden = parts()
    ids = {"row_ids": np.arange(30) * 7, "column_ids": [f"c{j}" for j in range(17)]}
    named = Observations.from_pairs(*np.nonzero(train), train[np.nonzero(train)], **ids)
    back = hidden[::-1, ::-1]
    turned = {"row_ids": ids["row_ids"][::-1], "column_ids": ids["column_ids"][::-1]}
    test = Observations.from_pairs(*np.nonzero(back), back[np.nonzero(back)], **turned)
    plain = ranking_report(fitted(train), train, hidden, 4)
    assert ranking_report(fitted(named), named, test, 4) == plain
    scores = np.random.default_rng(1).normal(size=SHAPE)
    assert ranking_report(scores, named, test, 4) == ranking_report(scores, train, hidden, 4)


def test_bad_input_is_refused_in_one_sentence():
    train, hidden = parts()
    scores = np.zeros(SHAPE)
    model = fitted(train)
    both = hidden.copy()
    both[2:4] = train[2:4]
    n_both = np.count_nonzero(train[2:4])
    cases = [
        ((scores, train, both), f"{n_both} held-out entries are also in train"),
        ((scores, train, np.minimum(hidden, 0)), "held_out has no like"),
        ((scores[:5], train, hidden), r"scores has the shape \(5, 17\) and train \(30, 17\)"),
        ((scores, train, hidden, 0), "n must be a whole number, at least 1; got 0"),
        ((scores, train, hidden[:, :5]), "held_out has 5 columns and the model 17"),
        ((model, train[:4], hidden), "train has 4 rows and the model 30"),
        ((np.full(SHAPE, np.nan), train, hidden), "score of row 2 is not a number"),
    ]
    for arguments, sentence in cases:
        with pytest.raises(InvalidInputError, match=sentence) as caught:
            ranking_report(*arguments)
        assert str(caught.value).count(". ") == 0
    with pytest.raises(InvalidInputError, match="A ranker needs a model"):
        ranking_report(scores, train, hidden, ranker=model)
    with pytest.raises(InvalidTypeError, match="scores is of type str; pass a fitted model"):
        ranking_report("popular", train, hidden)
    with pytest.raises(NotFittedError):
        ranking_report(BinaryMatrixCompletion(), train, hidden)


def test_an_unknown_id_is_refused():
    train = Observations.from_pairs([0, 1], [0, 1], [1, -1], row_ids=["a", "b"])
    hidden = Observations.from_pairs([0, 1], [1, 0], [1, 1], row_ids=["a", "z"])
    with pytest.raises(
        InvalidInputError, match="held-out entry 1 has an id that the scores do not"
    ):
        ranking_report(np.zeros((2, 2)), train, hidden)

"""Conformal sets against the definition, and their coverage on draws of known law."""

import numpy as np
import pytest

from tribit import (
    BinaryMatrixCompletion,
    InvalidInputError,
    InvalidTypeError,
    Logistic,
    Observations,
)
from tribit.propensity import constant, row_column
from tribit.simulate import low_rank_target, observe, quantise
from tribit.uncertainty import Isotonic, LabelSets, conformal


class ByColumn:
    """Columns are seen with probabilities of their own."""

    def __init__(self, q):
        self.q = np.asarray(q)

    def rho_at(self, rows, columns):  # noqa: ARG002
        return 1 - self.q[columns]


def by_definition(scores, weights, own, weight, level):
    """Return whether a score is allowed: weighted quantile of the scores with one more at infinity."""
    every = np.append(scores, np.inf)
    masses = np.append(weights, weight) / (weights.sum() + weight)
    order = np.argsort(every)
    reached = np.cumsum(masses[order])
    return own <= every[order][np.flatnonzero(reached >= level - 1e-12)[0]]


def fixed_model(rank, l2):
    """Return a model with nothing left to choose from the data."""
    return BinaryMatrixCompletion(
        rank=rank, l2=l2, l2_intercept=l2, search=False, n_jobs=1, random_state=0
    )


def small_model(seed=0):
    M = low_rank_target((40, 30), 2, alpha=5.0, random_state=seed)
    seen = observe(quantise(M, Logistic(), random_state=seed + 1), 0.5, random_state=seed + 2)
    train, held_out = seen.split(0.25, random_state=seed + 3)
    return fixed_model(rank=2, l2=2.0).fit(train), held_out


@pytest.mark.parametrize("by_label", [False, True])
@pytest.mark.parametrize("level", [0.3, 0.8, 0.95, 0.999])
@pytest.mark.parametrize("target", ["observed", "all", "unobserved"])
def test_sets_are_those_of_the_definition(target, level, by_label):
    model, held_out = small_model()
    mask = ByColumn(np.linspace(0.02, 1.0, 30))
    q = mask.q[held_out.columns]
    weights = {"observed": np.ones(q.size), "all": 1 / q, "unobserved": (1 - q) / q}[target]
    P = model.predict_proba(held_out.rows, held_out.columns)
    scores = np.where(held_out.labels > 0, 1 - P, P)
    rows, columns = np.arange(30) % 40, np.arange(30)
    made = conformal(model, held_out, propensity=mask, target=target, by_label=by_label)
    found = made.sets(rows, columns, level=level)
    new = {"observed": np.ones(30), "all": 1 / mask.q, "unobserved": (1 - mask.q) / mask.q}[target]
    for sign, inside in ((1, found.like), (-1, found.dislike)):
        mine = held_out.labels == sign if by_label else np.ones(q.size, dtype=bool)
        own = model.predict_proba(rows, columns)
        own = 1 - own if sign > 0 else own
        expected = [
            by_definition(scores[mine], weights[mine], own[t], new[t], level) for t in range(30)
        ]
        np.testing.assert_array_equal(inside, expected)


def test_small_by_hand():
    # Four held-out entries with scores .1, .2, .3, .4: at level .6 the third of five, at .8 the fourth.
    model, _ = small_model()
    held_out = Observations.from_pairs([0, 1, 2, 3], [0, 0, 0, 0], [1, 1, 1, 1], shape=(40, 30))
    table = {0: 0.9, 1: 0.8, 2: 0.7, 3: 0.6}
    x = model.decision_function([0, 1, 2, 3], [0, 0, 0, 0])

    class Fixed:
        name = "fixed"

        def __call__(self, given):
            return np.array([table.get(int(np.argmin(np.abs(x - one))), 0.5) for one in given])

    made = conformal(model, held_out, calibrator=Fixed())
    assert made.sets([0, 1, 2, 3], [0] * 4, level=0.6).lists() == [(1,), (1,), (1,), ()]
    assert made.sets([0, 1, 2, 3], [0] * 4, level=0.8).lists() == [(1,)] * 4
    assert made.sets([0], [0], level=0.81).lists() == [
        (1, -1)
    ]  # four entries cannot tell that much
    assert made.sets(3, 0, level=0.6).size.tolist() == [0]
    assert made.sets([0, 0], [0, 0], level=0.6).covers([1, -1]).tolist() == [True, False]


def test_sets_of_all_sizes_and_their_text():
    sets = LabelSets(np.array([1, 1, 0, 0], dtype=bool), np.array([1, 0, 1, 0], dtype=bool), 0.9)
    assert sets.size.tolist() == [2, 1, 1, 0] == [len(each) for each in sets.lists()]
    assert sets.lists() == [(1, -1), (1,), (-1,), ()]
    assert sets.covers([-1, -1, -1, -1]).tolist() == [True, False, True, False]
    model, held_out = small_model()
    text = repr(conformal(model, held_out))
    assert text == "Conformal(target='observed', by_label=False)"


def test_coverage_of_new_entries_is_at_least_the_level():
    covered, likes = [], []
    for seed in range(40):
        model, held_out = small_model(seed)
        part, test = held_out.split(0.5, random_state=seed)
        found = conformal(model, part).sets(test.rows, test.columns, level=0.8)
        covered.append(found.covers(test.labels).mean())
        each = conformal(model, part, by_label=True).sets(test.rows, test.columns, level=0.8)
        likes.append(each.covers(test.labels)[test.labels > 0].mean())
    assert 0.79 < np.mean(covered) < 0.83
    assert 0.79 < np.mean(likes) < 0.84


def test_weights_make_up_for_what_was_seldom_seen():
    """Rows of two kinds: easy ones seen often and hard ones seldom; all cells alike are to be covered."""
    draws = np.random.default_rng(0)
    q = np.r_[np.full(15, 0.9), np.full(15, 0.1)]
    plain, weighted = [], []
    for _ in range(20):
        hidden = np.outer(draws.choice([-3.0, 3.0], 80), np.r_[np.ones(15), np.zeros(15)])
        Y = quantise(hidden, Logistic(), random_state=draws)
        rows, columns = np.nonzero(draws.random(Y.shape) < q)
        seen = Observations.from_pairs(rows, columns, Y[rows, columns], shape=Y.shape)
        train, held_out = seen.split(0.5, random_state=draws)
        model = fixed_model(rank=1, l2=2.0).fit(train)
        i, j = (part.reshape(-1) for part in np.indices(Y.shape))
        for kept, aim in ((plain, {}), (weighted, {"propensity": ByColumn(q)})):
            found = conformal(model, held_out, **aim).sets(i, j, level=0.8)
            kept.append(found.covers(Y[i, j]).mean())
    assert np.mean(plain) < 0.77
    assert 0.79 < np.mean(weighted) < 0.86


def test_ids_are_matched_whatever_their_order():
    held_out = small_model()[1]
    names = np.array([f"r{i}" for i in range(40)])
    train = Observations.from_pairs(
        held_out.rows, held_out.columns, held_out.labels, shape=(40, 30), row_ids=names
    )
    by_id = fixed_model(rank=2, l2=2.0).fit(train)
    flipped = Observations.from_pairs(
        39 - held_out.rows,
        held_out.columns,
        held_out.labels,
        shape=(40, 30),
        row_ids=names[::-1],
    )
    mask = row_column(train)
    one = conformal(by_id, train, propensity=mask).sets(names, [0] * 40)
    two = conformal(by_id, flipped, propensity=mask).sets(names, [0] * 40)
    assert one.lists() == two.lists()
    with pytest.raises(InvalidInputError, match="unknown"):
        conformal(by_id, train).sets(["nobody"], [0])


def test_a_calibrator_takes_the_place_of_the_link():
    model, held_out = small_model()
    # Whatever the entry, 0.7: only dislikes have the score 0.7, and more than a tenth are dislikes.
    sure = Isotonic(np.array([0.0]), np.array([0.7]))
    flat = conformal(model, held_out, calibrator=sure)
    assert set(flat.sets(np.arange(30), np.arange(30), level=0.9).lists()) == {(1, -1)}
    assert set(flat.sets(np.arange(30), np.arange(30), level=0.1).lists()) == {(1,)}


def test_a_sign_that_was_never_seen_cannot_be_ruled_out():
    model, held_out = small_model()
    likes = held_out.take(np.flatnonzero(held_out.labels > 0))
    found = conformal(model, likes, by_label=True).sets(np.arange(30), np.arange(30), level=0.5)
    assert found.dislike.all()


def test_bad_input_is_named():
    model, held_out = small_model()
    made = conformal(model, held_out)
    for level in (0.0, 1.0, np.nan, 2):
        with pytest.raises(InvalidInputError, match="level"):
            made.sets([0], [0], level=level)
    with pytest.raises(InvalidTypeError, match="level"):
        made.sets([0], [0], level="most")
    with pytest.raises(InvalidInputError, match="above 0 and at most 1"):
        conformal(model, held_out, propensity=ByColumn(np.zeros(30)))
    with pytest.raises(InvalidInputError, match="probability q = 1 of being observed"):
        conformal(model, held_out, propensity=ByColumn(np.ones(30)), target="unobserved")
    full = Observations.from_matrix(np.ones((3, 3)))
    with pytest.raises(InvalidInputError, match="3 x 3"):
        conformal(model, held_out, propensity=constant(full))

    class Broken:
        name = "broken"

        def __call__(self, x):
            return np.full(x.shape, np.nan)

    with pytest.raises(InvalidInputError, match="not a number"):
        conformal(model, held_out, calibrator=Broken())

"""Values of lists: by hand where every cell has a label, coverage over simulated tables, comparisons, refusals."""

import numpy as np
import pytest
from scipy.special import expit

from tribit import InvalidInputError, Observations
from tribit.estimates import estimate_list_values

LENGTH = 6


def simulated(seed, n=60, m=40, *, selected=False):
    """Return labels of all cells, a mask of labels, its probabilities, and lists of a good and of a poor system."""
    rng = np.random.default_rng(seed)
    x = 0.3 + rng.normal(0, 0.7, (n, 1)) + rng.normal(0, 0.8, m)
    x = x + 0.8 * rng.normal(size=(n, 2)) @ rng.normal(size=(2, m))
    y = np.where(rng.random((n, m)) < expit(x), 1, -1)
    popular = rng.normal(0, 1, m)
    q = expit(-1.2 + 0.7 * rng.normal(size=(n, 1)) + popular) if selected else np.full((n, m), 0.25)
    lists = {}
    for name, noise in (("good", 0.5), ("poor", 3.0)):
        scores = x + noise * rng.normal(size=x.shape) + 0.5 * popular
        lists[name] = (np.repeat(np.arange(n), LENGTH), np.argsort(-scores)[:, :LENGTH].ravel())
    return y, rng.random((n, m)) < q, q, lists


def entries_of(y, mask):
    i, j = np.nonzero(mask)
    return Observations(i, j, y[i, j], y.shape)


def true_value(y, cells):
    return (y[cells] > 0).mean()


@pytest.mark.parametrize("q", ["uniform", "modelled", "given"])
def test_intervals_cover_the_values_and_their_difference(q):
    hits, apart, errors, plain = [], [], [], []
    for seed in range(8):
        y, mask, chances, lists = simulated(seed, selected=q != "uniform")
        found = estimate_list_values(
            lists, entries_of(y, mask), q=chances if q == "given" else q, random_state=seed
        )
        truth = np.array([true_value(y, cells) for cells in lists.values()])
        hits.append((found.lower <= truth) & (truth <= found.upper))
        compared = found.compared
        apart.append(compared["lower"][0] <= truth[0] - truth[1] <= compared["upper"][0])
        errors.append(found.value - truth)
        plain.append(found.plain - truth)
    assert np.mean(hits) > 0.85
    assert np.mean(apart) > 0.75
    assert np.abs(np.mean(errors, axis=0)).max() < 0.06
    assert (found.upper - found.lower).max() < 0.35


def test_selected_labels_need_their_probabilities():
    """Labels of liked cells are frequent by design: the plain share is too high, and the estimate is not."""
    bias = {"plain": [], "value": []}
    for seed in range(8):
        y, _, _, lists = simulated(seed)
        popular = np.argsort(np.argsort(y.mean(axis=0))) / y.shape[1]
        q = np.broadcast_to(0.08 + 0.6 * popular**2, y.shape)
        mask = np.random.default_rng(seed).random(y.shape) < q
        found = estimate_list_values(
            {"poor": lists["poor"]}, entries_of(y, mask), q=q, random_state=0
        )
        truth = true_value(y, lists["poor"])
        for name, errors in bias.items():
            errors.append(getattr(found, name)[0] - truth)
    assert np.mean(bias["plain"]) > 0.04
    assert abs(np.mean(bias["value"])) < np.mean(bias["plain"]) / 2


def test_lists_whose_cells_all_have_labels_have_their_mean():
    y, _, _, lists = simulated(0)
    found = estimate_list_values(lists, entries_of(y, np.ones(y.shape, bool)), random_state=0)
    truth = [true_value(y, cells) for cells in lists.values()]
    assert found.value == pytest.approx(truth)
    assert found.lower == pytest.approx(truth)
    assert found.upper == pytest.approx(truth)
    assert found.table()["likes"] == pytest.approx(np.array(truth) * LENGTH)
    assert found.table()["dislikes"] == pytest.approx(LENGTH - np.array(truth) * LENGTH)
    assert found.labelled.tolist() == [60 * LENGTH] * 2
    assert found.compared["difference"][0] == pytest.approx(truth[0] - truth[1])


def test_the_weights_are_those_by_hand():
    """Few labels have no predictions: the share of likes by Hajek's weights, its size by Kish, what is clipped."""
    y, mask = np.ones((3, 5), int), np.zeros((3, 5), bool)
    y[1, 2] = -1
    mask[[0, 1, 2], [0, 2, 4]] = True
    mask[0, 3] = True  # not listed
    q = np.full((3, 5), 0.5)
    q[1, 2], q[2, 4] = 0.1, 0.25
    lists = {"lists": (np.array([0, 0, 1, 2]), np.array([0, 1, 2, 4]))}
    for most, inverse in ((None, [2, 10, 4]), (5, [2, 5, 4])):
        found = estimate_list_values(
            lists, entries_of(y, mask), q=q, max_weight=most, random_state=0
        )
        inverse = np.array(inverse, float)
        assert found.labelled[0] == 3
        assert found.plain[0] == pytest.approx(2 / 3)
        assert found.value[0] == pytest.approx(
            np.clip((inverse[0] + inverse[2]) / inverse.sum(), 0.5, 0.75)
        )
        assert found.effective[0] == pytest.approx(inverse.sum() ** 2 / (inverse**2).sum())
        assert found.clipped[0] == pytest.approx(1 - inverse.sum() / 16)
        assert found.length[0] == pytest.approx(4 / 3)


def test_shared_cells_cancel_in_a_difference():
    y, mask, _, lists = simulated(2)
    rows, columns = lists["good"]
    other = columns.copy()
    other[0] = next(j for j in range(40) if j not in columns[:LENGTH])  # one other cell
    found = estimate_list_values(
        {"a": (rows, columns), "b": (rows, other), "c": (rows, columns)},
        entries_of(y, mask),
        random_state=0,
    )
    pairs = found.compared
    assert pairs["system"].tolist() == ["a", "a", "b"]
    one, same = (pairs["upper"] - pairs["lower"])[:2]
    assert same == 0
    assert one <= 2.0001 / rows.size
    versus = found.versus("b")
    assert versus["difference"][1] == 0
    assert versus["difference"][0] == pairs["difference"][0]
    assert versus["difference_lower"][2] == pytest.approx(-pairs["upper"][2])


def test_entries_of_the_fit_improve_predictions_and_evaluate_nothing():
    y, mask, _, _ = simulated(3)
    rng = np.random.default_rng(0)
    fit_mask = (rng.random(y.shape) < 0.5) & ~mask
    free = np.argwhere(~fit_mask)
    lists = {"lists": tuple(free[rng.permutation(len(free))[:200]].T)}
    labels, fit = entries_of(y, mask), entries_of(y, fit_mask)
    found = estimate_list_values(lists, labels, fit=fit, random_state=0)
    assert found.lower[0] < true_value(y, lists["lists"]) < found.upper[0]
    with pytest.raises(InvalidInputError, match="720 of the 720 labels are entries of the fit"):
        estimate_list_values(lists, fit.take(np.arange(720)), fit=fit)
    listed = tuple(np.argwhere(fit_mask)[:3].T)
    with pytest.raises(InvalidInputError, match="is an entry of the fit, for which"):
        estimate_list_values({"lists": listed}, labels, fit=fit)


def test_a_split_of_selected_entries_has_the_probabilities_of_its_part():
    """Of entries seen with q, a share s evaluates: a cell that the fit lacks has a label with q s / (1 - q (1 - s))."""
    hits = []
    for seed in range(6):
        y, mask, _, lists = simulated(seed, selected=True)
        train, test = entries_of(y, mask).split(0.6, random_state=seed)
        rows, columns = lists["poor"]
        free = ~train.observed_at(rows, columns)
        cells = rows[free], columns[free]
        found = estimate_list_values(
            {"poor": cells}, test, fit=train, q="modelled", random_state=seed
        )
        hits.append(found.lower[0] <= true_value(y, cells) <= found.upper[0])
    assert np.mean(hits) > 0.8


WRONG = {
    "have a cell twice": {"lists": {"a": ([0, 0], [1, 1])}},
    "are empty": {"lists": {"a": ([], [])}},
    "q must be": {"lists": {"a": ([0], [1])}, "q": "random"},
}


@pytest.mark.parametrize("message", WRONG)
def test_wrong_lists_are_refused_in_one_sentence(message):
    y, mask, _, _ = simulated(0)
    given = dict(WRONG[message])
    with pytest.raises(InvalidInputError, match=message):
        estimate_list_values(given.pop("lists"), entries_of(y, mask), **given)

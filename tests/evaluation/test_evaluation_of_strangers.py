"""Evaluation on entries with unknown ids: predicted from the known side as predictions are, counted, never dropped."""

import json

import numpy as np
import pandas as pd
import pytest

from report_models import draw, fixed
from tribit import InvalidInputError, Observations, Recommender, evaluate
from tribit.errors import UnknownIdWarning
from tribit.evaluation.held_out import fit_biases
from tribit.metrics.entries import standard_error

TABLE = draw(shape=(50, 30), density=0.5)


def observed(rows, columns, labels):
    frame = pd.DataFrame({"user": rows, "item": columns, "label": labels})
    return Observations.from_frame(frame, row="user", column="item", value="label")


def pairs_of(seen):
    return seen.row_ids[seen.rows], seen.column_ids[seen.columns]


def part(rows, columns):
    """Return the entries of some rows and columns alone, with their ids."""
    here = np.isin(TABLE.rows, rows) & np.isin(TABLE.columns, columns)
    return observed(*(ids[here] for ids in pairs_of(TABLE)), TABLE.labels[here])


#: The last ten rows and five columns are unknown to the model.
KNOWN = part(range(40), range(25))
TRAIN, TEST_KNOWN = KNOWN.split(0.2, random_state=0)


def joined(*parts):
    ids = (np.concatenate(side) for side in zip(*map(pairs_of, parts), strict=True))
    return observed(*ids, np.concatenate([each.labels for each in parts]))


STRANGERS = [
    part(range(40, 50), range(25)),
    part(range(40), range(25, 30)),
    part(range(40, 50), range(25, 30)),
]
TEST = joined(TEST_KNOWN, *STRANGERS)
N_UNKNOWN = len(TEST) - len(TEST_KNOWN)


@pytest.fixture(scope="module")
def recommender():
    return Recommender(fixed(), random_state=0).fit(TRAIN)


def losses(probabilities, labels):
    return -np.log(np.where(labels > 0, probabilities, 1 - probabilities))


def test_measures_are_those_of_the_predictions_of_every_entry(recommender):
    with pytest.warns(UnknownIdWarning, match=f"{N_UNKNOWN} of the {len(TEST)} test entries"):
        found = recommender.evaluate(TEST)
    with pytest.warns(UnknownIdWarning):
        predicted = recommender.predictions(pairs_of(TEST))
    lost = losses(predicted.probabilities, TEST.labels)
    assert (found.n_entries, found.n_unknown, found.n_skipped) == (len(TEST), N_UNKNOWN, 0)
    assert found.log_loss == pytest.approx(np.mean(lost), rel=1e-6)
    assert found.error_rate == pytest.approx(np.mean(predicted.labels != TEST.labels))
    # Clustered by row, unknown rows by theirs.
    error = standard_error((lost - np.mean(lost)) / lost.size, TEST.rows)
    low, high = found.intervals["log_loss"]
    assert high - low == pytest.approx(2 * 1.959964 * error, rel=1e-6)
    assert found.n_rows == np.unique(TEST.rows).size
    assert f"{N_UNKNOWN} with unknown ids" in str(found)
    assert json.loads(json.dumps(found.to_dict()))["n_unknown"] == N_UNKNOWN


def test_baselines_answer_for_the_same_entries(recommender):
    with pytest.warns(UnknownIdWarning):
        found = recommender.evaluate(TEST)
    biases = fit_biases(recommender.seen_)
    a, c = (
        dict(zip(ids.tolist(), each.tolist(), strict=True))
        for ids, each in (
            (biases.row_ids_, biases.row_intercepts_),
            (biases.column_ids_, biases.column_intercepts_),
        )
    )
    x = biases.intercept_ + np.array(
        [a.get(row, 0.0) + c.get(column, 0.0) for row, column in zip(*pairs_of(TEST), strict=True)]
    )
    expected = np.mean(losses(1 / (1 + np.exp(-x)), TEST.labels))
    measured = found.baselines["row and column biases"].measures
    assert measured["log_loss"] == pytest.approx(expected, rel=1e-6)


def test_lists_are_those_of_the_entries_with_known_ids(recommender):
    with pytest.warns(UnknownIdWarning):
        found = recommender.evaluate(TEST)
    assert found.lists == recommender.evaluate(TEST_KNOWN).lists


def test_skip_and_error(recommender):
    found = recommender.evaluate(TEST, unknown="skip")
    expected = recommender.evaluate(TEST_KNOWN)
    assert found.n_skipped == N_UNKNOWN
    assert found.log_loss == pytest.approx(expected.log_loss, rel=1e-12)
    assert f"({N_UNKNOWN} with unknown ids left out)" in str(found)
    with pytest.raises(InvalidInputError, match=r"hold out entries|is unknown"):
        recommender.evaluate(TEST, unknown="error")


def test_the_function_answers_too(recommender):
    with pytest.warns(UnknownIdWarning):
        found = evaluate(recommender.model_, TEST)
    assert (found.n_unknown, found.lists) == (N_UNKNOWN, None)
    with pytest.raises(InvalidInputError, match="unknown"):
        evaluate(recommender.model_, TEST, unknown="error")


@pytest.mark.parametrize("unknown", ["popularity", "skip"])
def test_ids_of_another_table_are_refused(recommender, unknown):
    odd = observed(["zoe", "tim"], ["x", "y"], [1, -1])
    with pytest.raises(InvalidInputError, match="No test entry has an id"):
        recommender.evaluate(odd, unknown=unknown)


def test_an_id_of_another_type_is_an_error():
    train = observed(["1", "1", "2", "2"], ["a", "b", "a", "b"], [1, -1, -1, 1])
    test = observed(np.array(["3", 1], dtype=object), ["a", "b"], [1, -1])
    found = Recommender(fixed(), random_state=0).fit(train)
    with pytest.raises(InvalidInputError, match=r"The row id 1 .* is unknown; did you mean '1'"):
        found.evaluate(test)


def test_entries_of_unknown_rows_alone_are_measured_without_lists(recommender):
    with pytest.warns(UnknownIdWarning):
        found = recommender.evaluate(STRANGERS[0])
    assert (found.n_unknown, found.lists) == (len(STRANGERS[0]), None)
    assert found.baselines.keys() == {"base rate", "row and column biases"}


def test_likes_alone_rank_the_entries_with_known_ids():
    def likes(seen):
        return seen.take(np.flatnonzero(seen.labels > 0))

    model = fixed().set_params(gammas=(0, 1, 0), rho=0.0)
    found = Recommender(model, random_state=0).fit(likes(TRAIN))
    with pytest.warns(UnknownIdWarning):
        evaluation = found.evaluate(likes(TEST))
    expected = found.evaluate(likes(TEST_KNOWN))
    assert evaluation.unseen == expected.unseen
    assert evaluation.n_unknown == len(likes(TEST)) - len(likes(TEST_KNOWN))
    with (
        pytest.warns(UnknownIdWarning),
        pytest.raises(InvalidInputError, match="No test entry has a row and a column"),
    ):
        found.evaluate(likes(STRANGERS[0]))


@pytest.mark.parametrize("numbers", [False, True])
def test_the_command_answers_as_python_does(run, recommender, tmp_path, monkeypatch, numbers):
    """Also where the ids of the model are numbers, and unknown ids are not."""
    monkeypatch.chdir(tmp_path)

    def known(side, ids):
        numbered = [each.split()[1] for each in ids]
        return [
            n if numbers and int(n) < (40, 25)[side] else each
            for n, each in zip(numbered, ids, strict=True)
        ]

    saved = recommender
    if numbers:
        ids = (
            [int(each) for each in known(side, some)] for side, some in enumerate(pairs_of(TRAIN))
        )
        saved = Recommender(fixed(), random_state=0).fit(observed(*ids, TRAIN.labels))
    saved.save("model")
    sides = [known(side, ids) for side, ids in enumerate(pairs_of(TEST))]
    records = zip(*sides, map(str, TEST.labels), strict=True)
    text = "\n".join(["user,item,label", *map(",".join, records)])
    (tmp_path / "test.csv").write_text(text, encoding="utf-8")
    code, out, err = run("evaluate", "model", "test.csv", "--json")
    assert code == 0, err
    assert f"Warning: {N_UNKNOWN} of the {len(TEST)} test entries" in err
    assert "--unknown skip leaves them out, --unknown error refuses them" in err
    with pytest.warns(UnknownIdWarning):
        expected = recommender.evaluate(TEST).to_dict()
    found = json.loads(out)
    for measure in ("n_entries", "n_unknown", "log_loss", "auc", "n_rows"):
        assert found[measure] == pytest.approx(expected[measure], rel=1e-6)
    code, out, _ = run("evaluate", "model", "test.csv", "--unknown", "skip")
    assert code == 0
    assert f"({N_UNKNOWN} with unknown ids left out)" in out
    code, _, err = run("evaluate", "model", "test.csv", "--unknown", "error")
    assert code == 2
    assert "of test.csv: the model was not fitted on the id" in err

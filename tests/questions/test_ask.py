"""The question for cells to fill next, from asking to means: of a model, and of a table without one."""

import csv

import numpy as np
import pandas as pd
import pytest

from tribit import BinaryMatrixCompletion, InvalidInputError, Observations, Recommender
from tribit.data.reading import Reading
from tribit.estimates import Draws, ask_cells, estimate_means

RNG = np.random.default_rng(0)
X = RNG.normal(0.5, 1, (24, 1)) + RNG.normal(0, 1.5, 15)
Y = np.where(RNG.random(X.shape) < 1 / (1 + np.exp(-X)), 1, -1)
MASK = np.ones(Y.shape, dtype=bool)
MASK[20:] = RNG.random((4, 15)) < 0.3
MODELS, TASKS = [f"m{n}" for n in range(24)], [f"t{n}" for n in range(15)]
READ = ["--row", "model", "--column", "task", "--value", "right", "--like", "1", "--dislike", "0"]


@pytest.fixture(scope="module")
def recommender():
    i, j = np.nonzero(MASK)
    seen = Observations(i, j, Y[i, j], Y.shape, MODELS, TASKS)
    found = Recommender(BinaryMatrixCompletion(rank=1, l2=1.0, search=False, n_jobs=1)).fit(seen)
    found.reading_ = Reading(row="model", column="task", value="right")
    return found


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "table.csv"
    lines = [f"{MODELS[i]},{TASKS[j]},{(Y[i, j] + 1) // 2}" for i, j in np.argwhere(MASK)]
    path.write_text("\n".join(["model,task,right", *lines, ""]))
    return path


def filled(found, labels):
    """Return the entries of an answer."""
    return pd.DataFrame({"model": found.rows, "task": found.columns, "right": labels})


def test_cells_are_asked_in_the_words_of_the_table(recommender):
    found = recommender.ask(8)
    expected = ask_cells(recommender.seen_, budget=8, weights=np.ones(15), random_state=0)
    assert found.columns.tolist() == expected.columns.tolist()
    assert list(found.table()) == ["model", "task", "right", "probability", "batch", "prediction"]
    assert set(found.table()["right"]) == {""}
    assert set(found.rows) <= set(MODELS[20:])
    assert found.facts()["cells"] == "8 in 4 rows, batch 1"


def test_rows_columns_and_costs_are_chosen_by_id(recommender):
    cost = {"task": TASKS[::-1], "cost": [5.0] * 10 + [1.0] * 5}
    found = recommender.ask(
        6, rows=["m21"], columns=TASKS[:8], cost=cost, design="greedy", goal="log_loss"
    )
    assert set(found.rows) == {"m21"}
    assert set(found.columns) <= set(TASKS[:8])
    spent = sum(1 if TASKS.index(each) < 5 else 5 for each in found.columns)
    assert spent <= 6


def test_a_new_row_has_no_cells_yet(recommender):
    found = recommender.ask(6, rows=["m3", "zoe", "m21"])
    assert set(found.rows) == {"m21", "zoe"}
    assert np.count_nonzero(found.rows == "zoe") == 3


def test_other_goals_are_greedy_unless_a_design_is_named(recommender):
    assert (recommender.ask(6, goal="list").probability == 1).all()
    assert (recommender.ask(8, goal="log_loss", design="pps").probability < 1).any()


def test_asked_cells_are_filled_and_estimated_in_batches(recommender):
    rows, parts, later = ["m20", "m21"], [], recommender
    for _ in range(3):
        asked = pd.concat(parts) if parts else None
        found = later.ask(8, rows=rows, batch=4, asked=asked)
        i, j = ([names.index(each) for each in ids] for names, ids in
                ((MODELS, found.rows), (TASKS, found.columns)))  # fmt: skip
        new = Observations(i, j, Y[i, j], Y.shape, MODELS, TASKS)
        parts.append(found.to_frame())
        later = later.update(new)
    asked = pd.concat(parts)
    # One cell of each row by gain; then all random cells of a row at once, in one row after the other.
    assert asked["batch"].tolist() == [1] * 2 + [2] * 3 + [3] * 3
    assert asked["model"].tolist()[2:] == ["m20"] * 3 + ["m21"] * 3
    means = later.means(rows=rows, asked=asked)
    draws = Draws(
        np.array([MODELS.index(each) for each in asked["model"]]),
        np.array([TASKS.index(each) for each in asked["task"]]),
        asked["probability"].to_numpy(),
        asked["batch"].to_numpy(),
    )
    expected = estimate_means(later.seen_, q=draws, random_state=0)
    assert np.allclose(means.mean, expected.mean[20:22])
    assert np.allclose(means.lower, expected.lower[20:22])
    with pytest.raises(InvalidInputError, match="drawn whatever their labels are"):
        later.means(asked=asked, sensitivity=2)
    whole = later.means(axis="all", asked=asked)
    assert whole.lower[0] < whole.mean[0] < whole.upper[0]


def test_the_commands_ask_a_table_and_estimate_from_the_filled_answer(run, table, tmp_path):
    out = tmp_path / "ask.csv"
    code, printed, err = run("ask", table, *READ, "--budget", "10", "--rows", "new", "-o", out)
    assert (code, err) == (0, "")
    assert "10 in 1 rows, batch 1" in printed
    records = list(csv.DictReader(out.open()))
    assert {each["model"] for each in records} == {"new"}
    lines = [",".join(records[0])]
    for each in records:
        each["right"] = str(int(TASKS.index(each["task"]) % 3 > 0))
        lines.append(",".join(each.values()))
    out.write_text("\n".join([*lines, ""]))
    code, printed, err = run("means", table, *READ, "--new", out, "--asked", out)
    assert (code, err) == (0, "")
    heading, record = printed.splitlines()
    assert record.split()[0] == "new"
    assert dict(zip(heading.split(), record.split(), strict=False))["seen"] == "10"


def test_a_table_takes_no_features_of_a_model(run, table):
    code, _, err = run("means", table, *READ, "--new", table, "--row-features", table)
    assert code == 2
    assert "--row-features needs a model" in err


ASKED = {
    "model": ["m20", "m21"],
    "task": ["t1", "t2"],
    "probability": [0.5, 0.5],
    "batch": [1, 1],
}
SEEN_CELL = {"model": ["m1"], "task": ["t1"], "probability": [0.5], "batch": [1]}
WRONG = {
    "has no column probability": {"model": ["m20"], "task": ["t1"]},
    "has the probability 0 for the cell 'm20, t1'": ASKED | {"probability": [0, 0.5]},
    "has the probability 1.5 for the cell 'm21, t2'": ASKED | {"probability": [1, 1.5]},
    "has the batch 0 for the cell": ASKED | {"batch": [1, 0]},
    "has the cell 'm20, t1' twice": ASKED | {"model": ["m20"] * 2, "task": ["t1"] * 2},
    "not fitted on the row id 'zoe'": ASKED | {"model": ["m20", "zoe"]},
    "not fitted on the column id 'x'": ASKED | {"task": ["t1", "x"]},
}


@pytest.mark.parametrize("message", WRONG)
@pytest.mark.parametrize("method", ["means", "ask"])
def test_wrong_tables_of_asked_cells_are_refused_in_one_sentence(recommender, method, message):
    given = {"budget": 4} if method == "ask" else {}
    with pytest.raises(InvalidInputError) as caught:
        getattr(recommender, method)(asked=WRONG[message], **given)
    assert message in str(caught.value).replace('"', "'")
    assert str(caught.value).count(". ") == 0


def test_cells_without_a_label_are_refused(recommender):
    i, j = np.argwhere(~MASK)[0]
    cell = {"model": [MODELS[i]], "task": [TASKS[j]], "probability": [0.5], "batch": [1]}
    for ask in (recommender.means, lambda asked: recommender.ask(4, asked=asked)):
        with pytest.raises(InvalidInputError, match="1 of the cells of asked have no label"):
            ask(asked=cell)


MISTAKES = {
    "budget=500 is more than the": {"budget": 500},
    "leave out q and selection": {"asked": ASKED, "q": 0.5},
    "pass axis=rows or axis=all": {"asked": SEEN_CELL, "axis": "columns"},
    "cost is -1 for the column t0": {"budget": 3, "cost": [-1] * 15},
    "cost is nan for the column t1": {"budget": 3, "cost": {"task": ["t0"], "cost": [1]}},
}


@pytest.mark.parametrize("message", MISTAKES)
def test_other_mistakes_are_refused_in_one_sentence(recommender, message):
    given = MISTAKES[message]
    with pytest.raises(InvalidInputError) as caught:
        (recommender.ask if "budget" in given else recommender.means)(**given)
    assert message in str(caught.value).replace("'", "")

"""The question for means: rows, columns, groups, weights and probabilities, as each face gives them."""

import json

import numpy as np
import pandas as pd
import pytest

from tribit import BinaryMatrixCompletion, InvalidInputError, Observations, Recommender
from tribit.data.reading import Reading
from tribit.data.tables import read_table
from tribit.estimates import Groups, estimate_means

RNG = np.random.default_rng(0)
SHAPE = 12, 20
LABELS = np.where(RNG.random(SHAPE) < 0.6, RNG.choice([-1, 1], SHAPE, p=[0.3, 0.7]), 0)
ROWS, COLUMNS = [f"u{n}" for n in range(12)], [f"i{n}" for n in range(20)]
SHARES = (LABELS != 0).mean(axis=1)


@pytest.fixture(scope="module")
def recommender():
    i, j = np.nonzero(LABELS)
    model = BinaryMatrixCompletion(rank=1, l2=1.0, search=False, n_jobs=1)
    found = Recommender(model, random_state=0).fit(
        Observations(i, j, LABELS[i, j], SHAPE, ROWS, COLUMNS)
    )
    found.reading_ = Reading(row="user", column="item", value="label")
    return found


@pytest.fixture(scope="module")
def path(tmp_path_factory, recommender):
    path = tmp_path_factory.mktemp("means") / "model.tribit"
    recommender.save(path)
    return path


def entries(recommender):
    return recommender.seen_


def same(one, two):
    return np.array_equal(one.mean, two.mean) and np.array_equal(one.upper, two.upper)


def test_rows_are_estimated_in_the_words_of_the_table(recommender):
    found = recommender.means()
    assert same(found, estimate_means(entries(recommender), random_state=0))
    assert list(found.table()) == [
        "user", "mean", "lower", "upper", "seen", "effective", "plain", "basis"
    ]  # fmt: skip
    assert found.ids.tolist() == ROWS
    some = recommender.means(rows=["u3", "u1", "u3"])
    assert some.ids.tolist() == ["u3", "u1"]
    assert np.array_equal(some.mean, found.mean[[3, 1]])


def test_columns_have_the_shares_of_their_rows_for_probabilities(recommender):
    """Cells are drawn uniformly within a row, so that rows with few seen cells count for more in a column."""
    found = recommender.means(axis="columns")
    q = np.broadcast_to(SHARES, SHAPE[::-1])
    assert same(found, estimate_means(entries(recommender).transpose(), q=q, random_state=0))
    assert found.ids.tolist() == COLUMNS
    assert found.name == "item"
    seen = LABELS[:, 0] != 0
    weights = 1 / SHARES[seen]
    assert found.effective[0] == pytest.approx(weights.sum() ** 2 / (weights**2).sum())


def test_the_whole_table_is_one_group(recommender):
    found = recommender.means(axis="all")
    rows = recommender.means()
    assert found.ids.tolist() == ["all"]
    assert found.mean[0] == pytest.approx(rows.mean.mean())
    assert found.lower[0] < found.mean[0] < found.upper[0]
    with pytest.raises(InvalidInputError, match="by makes groups of rows or of columns"):
        recommender.means(axis="all", by=[1] * 12)


GROUPS = {
    "frame": pd.DataFrame({"user": ROWS[:10], "team": ["x"] * 4 + ["y"] * 6}),
    "columns": {"user": ROWS[:10], "team": ["x"] * 4 + ["y"] * 6},
    "list": ["x"] * 4 + ["y"] * 6 + [None] * 2,
    "with strangers": {"user": ["zoe", *ROWS[:10]], "team": ["z"] + ["x"] * 4 + ["y"] * 6},
}


@pytest.mark.parametrize("by", GROUPS)
def test_groups_of_rows(recommender, by):
    found = recommender.means(by=GROUPS[by])
    of_rows = np.array([0] * 4 + [1] * 6 + [-1] * 2)
    expected = estimate_means(
        entries(recommender), groups=Groups(np.array(["x", "y"]), of_rows), random_state=0
    )
    assert same(found, expected)
    assert found.ids.tolist() == ["x", "y"]
    assert found.name == "group"


def test_columns_and_weights_state_the_population(recommender):
    few = recommender.means(columns=["i1", "i5", "i7"])
    chosen = np.isin(np.arange(20), [1, 5, 7])
    assert same(few, estimate_means(entries(recommender), weights=chosen * 1.0, random_state=0))
    weighted = recommender.means(weights={"item": ["i1", "i5"], "weight": ["3", "1"]})
    expected = np.zeros(20)
    expected[[1, 5]] = 3, 1
    assert same(weighted, estimate_means(entries(recommender), weights=expected, random_state=0))


def test_given_probabilities_as_arrays_and_as_a_table(recommender):
    q = RNG.uniform(0.3, 0.9, SHAPE)
    expected = estimate_means(entries(recommender), q=q, random_state=0)
    table = pd.DataFrame(q, columns=COLUMNS)
    table.insert(0, "user", ROWS)
    assert same(recommender.means(q=q), expected)
    assert same(recommender.means(q=table.sample(frac=1, random_state=0)), expected)
    by_column = recommender.means(q=q[0])
    assert same(
        by_column,
        estimate_means(entries(recommender), q=np.tile(q[0], (12, 1)), random_state=0),
    )


WRONG = {
    "q is 0 for the row u1 and the column i2": {
        "q": np.where(np.arange(240).reshape(SHAPE) == 22, 0, 0.5)
    },
    "q is 1.5 for the row u0 and the column i0": {"q": 1.5},
    "q is nan for the row u0 and the column i1": {"q": {"user": ROWS, "i0": [0.5] * 12}},
    "q has the shape": {"q": np.ones(7)},
    "always seen, and this one is not": {"q": 1},
    "not both": {"q": 0.5, "selection": "modelled"},
    "needs 40 rows that are seen as a whole": {"guarantee": "rows"},
    "by has the shape": {"by": [1, 2]},
    "by has no id of a row in its first column": {"by": {"user": ["zoe"], "team": ["x"]}},
    "has the id u1 twice": {"by": {"user": ["u1", "u1"], "team": ["x", "y"]}},
    "by has one column": {"by": {"user": ["u1"]}},
    "has no group for any": {"by": {"user": ["u1"], "team": [""]}},
    "which is no number": {"weights": {"item": ["i1"], "weight": ["much"]}},
    "must be finite and not negative": {"weights": [-1] * 20},
    "sensitivity must be in [1, inf]": {"sensitivity": 0.9},
    "threshold must be in (0, 1)": {"threshold": 1},
    "versus must be one of the users": {"versus": "zoe"},
}


@pytest.mark.parametrize("message", WRONG)
def test_wrong_values_are_refused_in_one_sentence(recommender, message):
    with pytest.raises(InvalidInputError) as caught:
        recommender.means(**WRONG[message])
    assert message in str(caught.value).replace("'", "").replace('"', "")
    assert str(caught.value).count(". ") <= 1


def test_ranks_and_differences_are_further_columns(recommender):
    found = recommender.means(ranks=True, versus="u3")
    table = found.table()
    assert list(table)[8:] == [
        "rank_lower", "rank_upper", "difference", "difference_lower", "difference_upper"
    ]  # fmt: skip
    assert (table["rank_lower"] <= table["rank_upper"]).all()
    assert table["difference"][3] == 0
    whole = Observations.from_matrix(np.vstack([np.tile([1, -1, 1], (40, 1)), [[1, 0, -1]]]))
    calibrated = estimate_means(whole, guarantee="rows", random_state=0)
    with pytest.raises(InvalidInputError, match="guarantee='row'"):
        calibrated.ranks()


def test_sensitivity_adds_limits_to_means_ranks_and_differences(recommender):
    found = recommender.means(sensitivity=2, threshold=0.5, ranks=True, versus="u3")
    table = found.table()
    assert list(table)[8:] == [
        "sensitivity_lower", "sensitivity_upper", "turns_at",
        "rank_lower", "rank_upper", "sensitivity_rank_lower", "sensitivity_rank_upper",
        "difference", "difference_lower", "difference_upper",
        "sensitivity_difference_lower", "sensitivity_difference_upper", "difference_turns_at",
    ]  # fmt: skip
    plain = recommender.means()
    assert np.array_equal(table["sensitivity_lower"], plain.sensitivity(2)["sensitivity_lower"])
    assert np.array_equal(table["turns_at"], plain.turns_at(0.5))
    assert np.array_equal(table["difference_turns_at"], plain.differences_turn_at(3))
    assert (table["sensitivity_rank_lower"] <= table["rank_lower"]).all()
    one = recommender.means(sensitivity=np.float32(1)).table()
    assert np.array_equal(one["sensitivity_lower"], plain.lower)
    assert np.array_equal(one["sensitivity_upper"], plain.upper)


def test_sensitivity_on_the_command_line(path, run):
    code, printed, _ = run("means", path, "--sensitivity", "2", "--threshold", "0.5", "--json")
    assert code == 0
    (first, *_, last) = json.loads(printed)
    # The other limits are those that the seen cells allow, with and without selection.
    assert first["sensitivity_lower"] < first["lower"] < first["upper"]
    assert last["lower"] < last["upper"] < last["sensitivity_upper"]
    assert run("means", path, "--sensitivity", "inf")[0] == 0
    code, _, err = run("means", path, "--sensitivity", "0.5")
    assert code == 2
    assert "--sensitivity must be in [1, inf]; got 0.5." in err


def test_the_command_writes_the_table(recommender, path, run, tmp_path):
    out = tmp_path / "means.csv"
    code, printed, _ = run("means", path, "-o", out)
    assert code == 0
    assert "12 predictions" in printed or "12 plain" in printed
    columns = read_table(out).columns
    expected = recommender.means()
    assert list(columns) == list(expected.table())
    assert np.allclose(np.asarray(columns["mean"], float), expected.mean)
    groups = tmp_path / "teams.csv"
    groups.write_text("user,team\n" + "".join(f"{each},{n % 2}\n" for n, each in enumerate(ROWS)))
    code, printed, _ = run("means", path, "--by", groups, "--json", "--versus", "1")
    assert code == 0
    found = json.loads(printed)
    assert [each["group"] for each in found] == ["0", "1"]
    assert found[1]["difference"] == 0
    code, _, err = run("means", path, "--guarantee", "rows")
    assert code == 2
    assert "--guarantee rows needs 40 rows" in err


def test_new_rows_are_estimated_beside_those_of_the_fit(recommender, path, run, tmp_path):
    new = tmp_path / "new.csv"
    new.write_text("user,item,label\n" + "".join(f"zoe,i{n},1\n" for n in range(8)))
    code, out, _ = run("means", path, "--new", new, "--json")
    assert code == 0
    (found,) = json.loads(out)
    assert (found["user"], found["seen"], found["plain"]) == ("zoe", 8, 1)
    assert found["lower"] < 1

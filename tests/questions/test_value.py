"""The question for the value of lists: tables, answers and several systems, of a model and of a table without one."""

import json

import numpy as np
import pandas as pd
import pytest

from tribit import BinaryMatrixCompletion, InvalidInputError, Observations, Recommender
from tribit.data.reading import Reading
from tribit.errors import UnknownIdError
from tribit.estimates import estimate_list_values

RNG = np.random.default_rng(0)
SHAPE = 20, 16
Y = np.where(RNG.random(SHAPE) < 0.6, 1, -1)
DRAW = RNG.random(SHAPE)
FIT, TEST = DRAW < 0.3, (DRAW >= 0.3) & (DRAW < 0.6)
USERS, ITEMS = [f"u{n}" for n in range(20)], [f"i{n}" for n in range(16)]
READ = ["--row", "user", "--column", "item", "--value", "stars", "--like-at", "4"]


def entries(mask):
    i, j = np.nonzero(mask)
    return Observations(i, j, Y[i, j], SHAPE, USERS, ITEMS)


def listed(seed, n=4):
    """Return cells that the fit does not have, and their table."""
    rng = np.random.default_rng(seed)
    cells = [(i, j) for i in range(20) for j in rng.permutation(np.flatnonzero(~FIT[i]))[:n]]
    rows, columns = (np.array(each) for each in zip(*cells, strict=True))
    return (rows, columns), {"user": [USERS[i] for i in rows], "item": [ITEMS[j] for j in columns]}


@pytest.fixture(scope="module")
def recommender():
    found = Recommender(BinaryMatrixCompletion(rank=1, l2=1.0, search=False, n_jobs=1))
    found.fit(entries(FIT))
    found.reading_ = Reading(row="user", column="item", value="stars", like_at=4)
    return found


@pytest.fixture(scope="module")
def files(tmp_path_factory, recommender):
    folder = tmp_path_factory.mktemp("value")
    recommender.save(folder / "model.tribit")
    for name, mask in (("fit", FIT), ("test", TEST)):
        lines = [f"{USERS[i]},{ITEMS[j]},{5 if Y[i, j] > 0 else 1}" for i, j in np.argwhere(mask)]
        (folder / f"{name}.csv").write_text("\n".join(["user,item,stars", *lines, ""]))
    pd.DataFrame(listed(0)[1]).to_csv(folder / "ours.csv", index=False)
    both = [pd.DataFrame(listed(n)[1]).assign(system=name) for n, name in enumerate("ab")]
    pd.concat(both).to_csv(folder / "both.csv", index=False)
    return folder


def same(one, two):
    names = ("value", "lower", "upper", "labelled", "effective")
    return all(np.array_equal(getattr(one, name), getattr(two, name)) for name in names)


def test_lists_are_evaluated_by_the_labels_of_a_table(recommender):
    cells, table = listed(0)
    found = recommender.value(table, entries(TEST))
    expected = estimate_list_values(
        {"lists": cells}, entries(TEST), fit=recommender.seen_, random_state=0
    )
    assert same(found, expected)
    assert found.table()["likes"][0] + found.table()["dislikes"][0] == pytest.approx(4)
    assert same(recommender.value(pd.DataFrame(table), entries(TEST)), expected)


def test_systems_are_compared_by_name_in_one_table_or_in_several(recommender):
    tables = {name: listed(n)[1] for n, name in enumerate("ab")}
    found = recommender.value(tables, entries(TEST), versus="b")
    joined = pd.concat([pd.DataFrame(table).assign(system=name) for name, table in tables.items()])
    assert same(recommender.value(joined, entries(TEST)), found)
    assert found.systems.tolist() == ["a", "b"]
    table = found.table()
    assert table["difference"][1] == 0
    assert table["difference_lower"][0] < table["difference"][0] < table["difference_upper"][0]


def test_recommendations_are_evaluated_as_they_are(recommender):
    lists = recommender.recommend(n=3)
    found = recommender.value({"ours": lists, "theirs": listed(1)[1]}, entries(TEST))
    assert found.systems.tolist() == ["ours", "theirs"]
    assert found.length.tolist() == [3, 4]


def test_probabilities_are_given_or_modelled(recommender):
    cells, table = listed(0)
    q = RNG.uniform(0.2, 0.6, SHAPE)
    for options in ({"q": q}, {"selection": "modelled"}):
        expected = estimate_list_values(
            {"lists": cells},
            entries(TEST),
            fit=recommender.seen_,
            q=options.get("q", "modelled"),
            max_weight=3.0,
            random_state=0,
        )
        assert same(recommender.value(table, entries(TEST), max_weight=3.0, **options), expected)
    assert 0 < expected.clipped[0] < 1


def test_the_command_reads_lists_labels_and_a_model(run, files, recommender):
    code, out, _ = run(
        "value", files / "model.tribit", files / "ours.csv", "--table", files / "test.csv", "--json"
    )
    assert code == 0
    (found,) = json.loads(out)
    expected = recommender.value(listed(0)[1], entries(TEST))
    assert found["value"] == pytest.approx(expected.value[0])
    assert found["labelled"] == expected.labelled[0]
    code, out, _ = run("value", files / "both.csv", "--table", files / "test.csv", *READ, "--json")
    assert code == 0
    without = estimate_list_values(
        {name: listed(n)[0] for n, name in enumerate("ab")},
        Observations.from_pairs(*np.nonzero(TEST), Y[TEST], shape=SHAPE),
        random_state=0,
    )
    found = json.loads(out)
    assert [each["system"] for each in found] == ["a", "b"]
    assert [each["labelled"] for each in found] == without.labelled.tolist()


def test_labels_of_the_fit_evaluate_nothing(run, files):
    words = "value", files / "model.tribit", files / "ours.csv"
    code, _, err = run(*words, "--table", files / "fit.csv")
    assert code == 2
    n = int(FIT.sum())
    assert f"{n} of the {n} labels are entries of the fit" in err
    code, _, err = run(*words)
    assert code == 2
    assert "--table is missing" in err


WRONG = {
    "the column id 'x'": {"user": ["u1"], "item": ["x"]},
    "the row id 'zoe'": {"user": ["zoe"], "item": ["i1"]},
    "has one column": {"user": ["u1"]},
    "have a cell twice": {"user": ["u0"] * 2, "item": [ITEMS[np.flatnonzero(~FIT[0])[0]]] * 2},
    "is an entry of the fit": {"user": ["u0"], "item": [ITEMS[np.flatnonzero(FIT[0])[0]]]},
}


@pytest.mark.parametrize("message", WRONG)
def test_wrong_lists_are_refused_in_one_sentence(recommender, message):
    with pytest.raises((InvalidInputError, UnknownIdError)) as caught:
        recommender.value(WRONG[message], entries(TEST))
    assert message in str(caught.value).replace('"', "'")
    assert str(caught.value).count(". ") == 0


def test_missing_lists_and_systems_are_refused(recommender):
    with pytest.raises(InvalidInputError, match="lists is missing"):
        recommender.value(None, entries(TEST))
    with pytest.raises(InvalidInputError, match="versus must be one of the systems"):
        recommender.value(listed(0)[1], entries(TEST), versus="theirs")

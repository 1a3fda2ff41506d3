"""Ids that the model was not fitted on: treatments and their default in Python, on the command line and over HTTP."""

import json

import numpy as np
import pandas as pd
import pytest

from service_parts import client_of
from tribit import (
    BinaryMatrixCompletion,
    InvalidInputError,
    Observations,
    Recommender,
    UnknownIdError,
    UnknownIdWarning,
)
from tribit.cli import main
from tribit.data.axis import Axis
from tribit.questions.kinds import Texts

USERS = [*map(str, range(190, 205)), "Ann, Bo"]
FILMS = [f"film {j}" for j in range(12)]


@pytest.fixture(scope="module")
def recommender():
    draws = np.random.default_rng(3)
    labels = draws.choice([-1, 0, 1], (len(USERS), len(FILMS)))
    i, j = np.nonzero(labels)
    seen = Observations(i, j, labels[i, j], labels.shape, USERS, FILMS)
    model = BinaryMatrixCompletion(rank=1, l2=1.0, search=False, n_jobs=1)
    return Recommender(model, random_state=0).fit(seen)


@pytest.fixture(scope="module")
def path(recommender, tmp_path_factory):
    path = tmp_path_factory.mktemp("unknown") / "model.tribit"
    recommender.save(path)
    return path


@pytest.fixture(scope="module")
def client(path):
    with client_of(path) as found:
        yield found


@pytest.fixture
def run(capsys):
    def call(*arguments):
        with pytest.raises(SystemExit) as stop:
            main(list(map(str, arguments)))
        return (stop.value.code or 0, *capsys.readouterr())

    return call


def test_one_unknown_id_takes_no_list_from_the_others(recommender):
    with pytest.warns(UnknownIdWarning, match=r"the row 'user196' \(did you mean '196'\?\)"):
        found = recommender.recommend(["196", "user196"], 3)
    assert found.basis.tolist() == ["model", "popularity"]
    alone = recommender.recommend(["196"], 3)
    assert found.columns[0].tolist() == alone.columns[0].tolist()
    with pytest.warns(UnknownIdWarning, match="left out"):
        skipped = recommender.recommend(["196", "user196"], 3, unknown="skip")
    assert (skipped.rows.tolist(), skipped.n_skipped) == (["196"], 1)
    with pytest.raises(UnknownIdError, match=r"'user196' .* did you mean '196'\?"):
        recommender.recommend(["196", "user196"], 3, unknown="error")


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (["Ann, Bo"], ["Ann, Bo"]),
        (["Ann, Bo", "190"], ["Ann, Bo", "190"]),
        (["Ann, Bo,190"], ["Ann, Bo", "190"]),
        (["190,Ann, Bo, 191,"], ["190", "Ann, Bo", "191"]),
        (['"Ann, Bo","190"'], ["Ann, Bo", "190"]),
        (['190, "Cy, Di"'], ["190", "Cy, Di"]),
        (['"Cy, Di"'], ["Cy, Di"]),
        (["Ann, Cy"], ["Ann", "Cy"]),
        (["190,"], ["190,"]),
        (["a\nb, 190"], ["a\nb", "190"]),
    ],
)
def test_ids_with_commas_are_quoted_or_known(recommender, given, expected):
    assert Texts(tuple(given)).split(recommender.axes_.rows).values == tuple(expected)


@pytest.mark.parametrize(
    ("command", "option"), [("recommend", "--for"), ("similar", "--row"), ("complete", "--rows")]
)
def test_ids_of_rows_with_commas_are_found_by_every_command(run, path, command, option):
    code, out, err = run(command, path, option, "Ann, Bo,190", "--json")
    assert (code, err) == (0, "")
    assert "Ann, Bo" in out


def test_rows_of_positive_sign_may_have_commas(run, path, recommender):
    code, out, err = run("positions", path, "-n", "1", "--polarity", "Ann, Bo", "--json")
    assert (code, err) == (0, "")
    expected = recommender.positions(n=1, polarity="Ann, Bo").to_dict()
    assert json.loads(out) == json.loads(json.dumps(expected))


def test_an_unknown_column_to_choose_from_is_left_out(recommender):
    with pytest.warns(UnknownIdWarning, match=r"column 'Film 3' \(did you mean 'film 3'\?\)"):
        found = recommender.recommend(["196"], 3, among=["film 1", "Film 3"], exclude_seen=False)
    assert found.columns[0].tolist() == ["film 1"]
    with pytest.raises(UnknownIdError):
        recommender.recommend(["196"], 3, among=["Film 3"])


def test_ids_of_another_type_are_never_unknown_ids(recommender):
    for unknown in ("popularity", "skip", "error"):
        with pytest.raises(InvalidInputError, match=r"did you mean '196'\?"):
            recommender.recommend([196], 3, unknown=unknown)
        with pytest.raises(InvalidInputError, match=r"did you mean '196'\?"):
            recommender.predictions(([196], ["film 3"]), unknown=unknown)


def test_predictions_of_unknown_ids_warn(recommender):
    pairs = ["196", "eve", "eve"], ["film 3", "film 3", "film 4"]
    with pytest.warns(UnknownIdWarning, match="the row 'eve': it is predicted from the other side"):
        found = recommender.predictions(pairs)
    assert found.basis.tolist() == ["model", "column alone", "column alone"]


def test_the_command_line_says_so_and_answers(run, path):
    code, out, err = run("recommend", path, "--for", "user196", "-n", 3, "--json")
    assert (code, {each["basis"] for each in json.loads(out)}) == (0, {"popularity"})
    assert err == (
        "Warning: The model was not fitted on the row 'user196' (did you mean '196'?): it is answered by "
        "popularity (--unknown error refuses unknown ids).\n"
    )
    code, out, err = run("recommend", path, "--for", "user196", "--unknown", "error")
    assert (code, out) == (2, "")
    assert "did you mean '196'?" in err


@pytest.mark.parametrize(
    ("given", "rows"),
    [
        ("196,197", ["196", "197"]),
        ("196, 197,", ["196", "197"]),
        ("Ann, Bo", ["Ann, Bo"]),  # an id with a comma
        ("196,Ann, Bo", ["196", "Ann, Bo"]),
    ],
)
def test_a_list_with_commas_is_split_where_no_such_id_exists(run, path, given, rows):
    code, out, _ = run("recommend", path, "--for", given, "-n", 1, "--level", "none", "--json")
    assert (code, [each["row"] for each in json.loads(out)]) == (0, rows)


def test_the_default_is_the_same_everywhere(recommender, run, path, client):
    with pytest.warns(UnknownIdWarning):
        python = recommender.recommend(["196", "eve"], 3, level=None)
    _, out, _ = run("recommend", path, "--for", "196,eve", "-n", 3, "--level", "none", "--json")
    served = client.post("/recommend", json={"rows": ["196", "eve"], "n": 3}).json()["lists"]
    pairs = list(zip(python.table()["row"], python.table()["column"], strict=True))
    assert [(each["row"], each["column"]) for each in json.loads(out)] == pairs
    assert [(each["row"], item["column"]) for each in served for item in each["items"]] == pairs


@pytest.mark.parametrize(
    ("unknown", "expected"),
    [
        ("user196", "'196'"),
        ("0196", "'196'"),
        ("ann, bo", "'Ann, Bo'"),
        ("Ann,Bo", "'Ann, Bo'"),
        ("1960", None),  # another number is another id
        ("zzz", None),
        ("", None),
    ],
)
def test_an_id_is_suggested_if_it_has_the_same_number_and_similar_letters(unknown, expected):
    axis = Axis("row", len(USERS), np.array(USERS))
    assert axis.suggestion(unknown) == (f"did you mean {expected}?" if expected else "")


def test_no_id_is_sought_among_very_many():
    axis = Axis("row", 10**5, np.array([f"user {n}" for n in range(10**5)]))
    assert axis.suggestion("User 77") == ""
    numbers = Axis("row", 10**5, np.arange(10**5))
    assert numbers.suggestion("user 77") == "did you mean 77?"


def entries(columns, labels=(1, -1, 1), rows=("new",) * 3):
    frame = pd.DataFrame({"user": rows, "film": columns, "label": labels})
    return Observations.from_frame(frame, row="user", column="film", value="label")


def test_one_unknown_column_does_not_refuse_a_fold_in(recommender):
    known = entries(["film 1", "film 2"], (1, -1), ("new",) * 2)
    given = entries(["film 1", "film 2", "Film 3"])
    expected = recommender.fold_in(known)
    for fitted in (recommender, recommender.model_):
        prior = {} if fitted is recommender else {"prior": "new"}
        with pytest.warns(UnknownIdWarning, match=r"1 of the 3 entries .* mean 'film 3'\?\)"):
            found = fitted.fold_in(given, **prior)
        np.testing.assert_array_equal(
            found.predict_proba(["new"] * 12, FILMS), expected.predict_proba(["new"] * 12, FILMS)
        )
        with pytest.raises(UnknownIdError, match=r"'Film 3' is unknown .* mean 'film 3'\?"):
            fitted.fold_in(given, unknown="error")
    assert found.shape_ == (17, 12)


def test_one_unknown_row_does_not_refuse_a_fold_in_of_columns(recommender):
    given = entries(["new"] * 3, rows=["196", "user197", "198"])
    with pytest.warns(UnknownIdWarning, match=r"1 of the 3 entries .* mean '197'\?\)"):
        found = recommender.fold_in(given, axis="columns")
    assert found.shape_ == (16, 13)


def test_entries_of_new_rows_are_asked_about_without_the_unknown_columns(recommender):
    known = entries(["film 1", "film 2"], (1, -1), ("new",) * 2)
    given = entries(["film 1", "film 2", "nope"])
    for ask in (
        lambda **given: recommender.recommend(**given, n=3, level=None).columns[0].tolist(),
        lambda **given: recommender.predictions(**given).probabilities.tolist(),
        lambda **given: recommender.explain(column="film 5", **given).x,
    ):
        with pytest.warns(UnknownIdWarning, match="'nope'"):
            assert ask(entries=given) == ask(entries=known)
        with pytest.raises(UnknownIdError, match="'nope'"):
            ask(entries=given, unknown="error")


@pytest.mark.parametrize(
    ("cell", "basis"),
    [
        (("eve", "film 3"), "column alone"),
        (("196", "new"), "row alone"),
        (("eve", "new"), "average"),
    ],
)
def test_a_cell_of_an_unknown_row_or_column_is_explained_by_what_is_known(
    recommender, run, path, cell, basis
):
    with pytest.warns(UnknownIdWarning):
        found = recommender.explain(*cell)
    with pytest.warns(UnknownIdWarning):
        expected = recommender.predictions(cell)
    assert (found.row, found.column, found.basis) == (*cell, basis)
    assert found.basis == expected.basis[0]
    assert found.probability == pytest.approx(expected.probabilities[0], abs=1e-7)
    assert sum(found.parts.values()) == pytest.approx(found.x)
    code, out, err = run("explain", path, *cell, "--json")
    assert (code, json.loads(out)["basis"], "Warning" in err) == (0, basis, True)
    code, _, _ = run("explain", path, *cell, "--unknown", "error")
    assert code == 2


def test_neighbours_of_unknown_ids_are_left_out(recommender, run, path):
    expected = recommender.similar(columns=["film 3"], n=2)
    with pytest.warns(UnknownIdWarning, match=r"the column 'Film 4' .* left out"):
        found = recommender.similar(columns=["film 3", "Film 4"], n=2)
    assert found.to_dict() == expected.to_dict()
    with pytest.raises(UnknownIdError, match=r"did you mean 'film 4'\?"):
        recommender.similar(columns=["Film 4"])
    code, out, err = run("similar", path, "--column", "film 3,nope", "-n", 2, "--json")
    assert (code, json.loads(out)) == (0, expected.to_dict())
    assert "'nope'" in err


def test_positions_beyond_those_of_a_model_without_ids_are_errors(tmp_path, run):
    model = BinaryMatrixCompletion(rank=1, l2=1.0, search=False, n_jobs=1)
    fitted = Recommender(model, random_state=0).fit(np.array([[1, -1, 1], [1, 1, -1]]))
    fitted.save(tmp_path / "m.tribit")
    for level in ("none", "0.9"):
        code, _, err = run("recommend", tmp_path / "m.tribit", "--for", "2", "--level", level)
        assert (code, err) == (2, "Error: The model has no row '2': its rows are 0 to 1.\n")


def test_unknown_numbers_are_numbers_in_the_answer_of_a_model_with_numbers(tmp_path, run):
    labels = np.random.default_rng(0).choice([-1, 0, 1], (12, 8))
    i, j = np.nonzero(labels)
    seen = Observations(i, j, labels[i, j], (12, 8), np.arange(100, 112), np.arange(8))
    model = BinaryMatrixCompletion(rank=1, l2=1.0, search=False, n_jobs=1)
    Recommender(model, random_state=0).fit(seen).save(tmp_path / "m.tribit")
    for level in ("none", "0.9"):
        _, out, _ = run(
            "recommend",
            tmp_path / "m.tribit",
            "--for",
            "103,7,u103",
            "-n",
            "1",
            "--level",
            level,
            "--json",
        )
        assert [each["row"] for each in json.loads(out)] == [103, 7, "u103"]


@pytest.fixture
def new(tmp_path):
    """Return a function that writes a table of new entries, one in an unknown column, for rows."""

    def write(*rows):
        table = tmp_path / "new.csv"
        cells = [(row, film, 1) for row in rows for film in ("film 1", "film 4", "absent")]
        table.write_text("row,column,label\n" + "".join(f"{r},{c},{v}\n" for r, c, v in cells))
        return table

    return write


def test_new_rows_of_a_table_are_answered_as_their_entries_are(run, path, recommender, new):
    rows, films = ["zoe", "yan"], ["film 1", "film 4", "absent"]
    given = Observations([0, 0, 0, 1, 1, 1], [0, 1, 2] * 2, [1] * 6, (2, 3), rows, films)
    with pytest.warns(UnknownIdWarning, match="2 of the 6 entries have a column .* 'absent'"):
        expected = recommender.recommend(entries=given, n=4).to_dict()
    code, out, err = run("recommend", path, "--new", new(*rows), "-n", 4, "--json")
    assert code == 0
    assert "2 of the 6 entries have a column that the model was not fitted on" in err
    assert json.loads(out) == json.loads(json.dumps(expected))


def test_new_columns_of_a_table_are_never_silent(run, path, new):
    for rows in (["zoe"], ["190"], ["190", "zoe"]):
        code, _, err = run("recommend", path, "--new", new(*rows), "--unknown", "error")
        assert (code, "column id 'absent'" in err) == (2, True)
    code, out, err = run("recommend", path, "--new", new("190", "zoe"), "-n", 20, "--json")
    assert code == 0
    assert "column 'absent': it is added from the new entries (--unknown error refuses" in err
    assert {each["row"] for each in json.loads(out)} == {"190", "zoe"}
    for rows in (["zoe"], ["190", "zoe"]):  # a command without this option does not name it
        code, _, err = run("positions", path, "--new", new(*rows), "--json")
        assert (code, "absent" in err, "unknown=" in err, "refuses" in err) == (
            0,
            True,
            False,
            False,
        )

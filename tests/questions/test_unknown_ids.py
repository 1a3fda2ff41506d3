"""Ids that the model was not fitted on: treatments and their default in Python, on the command line and over HTTP."""

import json

import numpy as np
import pytest
from starlette.testclient import TestClient

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
from tribit.serve.app import create_app
from tribit.serve.requests import ServiceSettings

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
    with TestClient(create_app(ServiceSettings(str(path)))) as found:
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
        ("196,Ann, Bo", ["196", "Ann", "Bo"]),
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

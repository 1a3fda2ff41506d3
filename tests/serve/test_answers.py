"""Answers of the service are those of the library."""

import json

import numpy as np
import pytest
from markupsafe import escape

from service_parts import client_of, fitted
from tribit import Observations, Recommender, similar
from tribit.data.reading import Reading
from tribit.model import ease
from tribit.serve.schemas import ANSWER_FIELDS
from tribit.serve.served_model import MAX_TABLE_CELLS, ServedModel

LABELS = {"c7": 1, "c2": -1, "c19": 1, "c11": 1}
ENTRIES = [{"column": column, "label": label} for column, label in LABELS.items()]


@pytest.fixture(scope="module")
def folded(library):
    """The recommender with one new row."""
    columns = list(LABELS)
    given = Observations([0] * 4, range(4), list(LABELS.values()), (1, 4), ["new"], columns)
    return library.fold_in(given)


@pytest.fixture
def served(recommenders):
    return ServedModel(Recommender.load(recommenders[0]))


def ask(served, path, **body):
    """Return the answer to a request, without a connection."""
    endpoint = served.endpoints[path]
    asked = endpoint.make_question(
        endpoint.read_json(json.dumps(body).encode()), served.recommender
    )
    return json.loads(served.answer(asked))


def items(answer, row=0):
    return answer.json()["lists"][row]["items"]


def assert_list(found, expected, row=0):
    """Compare the items of a list with those of the library, bit for bit."""
    assert [item["item"] for item in found] == expected.columns[row].tolist()
    for name, values in {
        "score": expected.scores,
        "probability": expected.probabilities,
        "expected_likes": expected.likes,
        "expected_dislikes": expected.dislikes,
    }.items():
        if values is None:
            assert not any(name in item for item in found)
        else:
            assert [item[name] for item in found] == values[row].tolist()


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"n": 3, "avoid_dislikes": 0.0},
        {"n": 3, "avoid_dislikes": 4.5},
        {"exclude_seen": False},
        {"ranker": False},
        {"n": 25},
        {"n": 900},
    ],
)
@pytest.mark.parametrize("again", [False, True])
def test_lists(client, library, options, again):
    rows = ["r3", "r17", "r3"]
    answer = client.post("/recommend", json={"rows": rows, **options})
    assert answer.status_code == 200
    expected = library.recommend(rows, **options, level=None)
    for place, row in enumerate(rows):
        assert answer.json()["lists"][place]["user"] == row
        assert answer.json()["lists"][place]["basis"] == "model"
        assert_list(items(answer, place), expected, place)


@pytest.mark.parametrize("cells", [0, MAX_TABLE_CELLS])
def test_lists_do_not_depend_on_precomputed_rates(library, recommenders, cells):
    served = ServedModel(Recommender.load(recommenders[0]), max_table_cells=cells)
    assert (served.recommender.top_n_.prepared is not None) == bool(cells)
    expected = library.recommend(["r3", "r20"], 6, avoid_dislikes=0.3, level=None)
    answer = ask(served, "/recommend", rows=["r3", "r20"], n=6, avoid_dislikes=0.3)
    for place in (0, 1):
        assert_list(answer["lists"][place]["items"], expected, place)


def test_lists_with_intervals(client, library):
    answer = client.post("/recommend", json={"rows": ["r3", "r4"], "n": 4, "level": 0.8})
    expected = library.recommend(["r3", "r4"], 4, level=0.8)
    for end in ("lower", "upper"):
        found = [item[end] for place in (0, 1) for item in items(answer, place)]
        np.testing.assert_allclose(found, getattr(expected.intervals, end), rtol=1e-9)
    # Without a level there are none, though the list was kept with them.
    assert "lower" not in items(client.get("/recommend", params={"row": "r3", "n": 4}))[0]


def test_a_query_asks_as_a_body_does(client):
    body = {"rows": ["r3", "r4"], "n": 2, "exclude_seen": False, "level": 0.5}
    query = {"row": ["r3", "r4"], "n": "2", "exclude_seen": "false", "level": "0.5"}
    assert (
        client.get("/recommend", params=query).json() == client.post("/recommend", json=body).json()
    )


def test_an_unknown_row_gets_the_popular_columns(client, library):
    answer = client.post("/recommend", json={"rows": ["r1", "nobody", "r2", "noone"], "n": 6})
    expected = library.recommend(["nobody"], 6, level=None, unknown="popularity")
    bases = [each["basis"] for each in answer.json()["lists"]]
    assert bases == ["model", "popularity", "model", "popularity"]
    assert [each["user"] for each in answer.json()["lists"]] == ["r1", "nobody", "r2", "noone"]
    assert expected.basis.tolist() == ["popularity"]
    assert_list(items(answer, 1), expected)
    assert items(answer, 3) == items(answer, 1)
    refused = client.post("/recommend", json={"rows": ["nobody"], "unknown": "error"})
    assert refused.status_code == 404
    body = {"rows": ["nobody", "r2", "r1"], "unknown": "skip", "n": 6}
    known = client.post("/recommend", json=body).json()["lists"]
    assert known == [answer.json()["lists"][2], answer.json()["lists"][0]]
    refused = client.post("/recommend", json={"rows": ["nobody"], "unknown": "skip"})
    assert (refused.status_code, "'nobody'" in refused.json()["error"]) == (404, True)


def test_predictions(client, library):
    rows = ["r3", "nobody", "r39", "nobody", "r0"]
    columns = ["c0", "c8", "nothing", "nothing", "c24"]
    body = {"pairs": [{"row": i, "column": j} for i, j in zip(rows, columns, strict=True)]}
    found = client.post("/predict", json=body).json()["predictions"]
    expected = library.predictions((rows, columns), unknown="popularity")
    assert [(each["user"], each["item"]) for each in found] == list(zip(rows, columns, strict=True))
    assert [each["basis"] for each in found] == expected.basis.tolist()
    assert [each["label"] for each in found] == expected.labels.tolist()
    assert [each["probability"] for each in found] == expected.probabilities.tolist()


def test_many_predictions_are_made_in_a_thread(client, library):
    pairs = [{"row": f"r{n % 40}", "column": f"c{n % 25}"} for n in range(1000)]
    found = client.post("/predict", json={"pairs": pairs}).json()["predictions"]
    expected = library.predict_proba([p["row"] for p in pairs], [p["column"] for p in pairs])
    np.testing.assert_allclose([each["probability"] for each in found], expected, rtol=1e-12)


def assert_explanation(found, expected, n):
    assert found["parts"] == pytest.approx(expected.parts)
    assert found["x"] == pytest.approx(expected.x)
    assert found["n_entries"] == len(expected.entries)
    assert found["entries"] == [
        {"item" if name == "column" else name: value for name, value in each._asdict().items()}
        for each in expected.entries[:n]
    ]


def test_explanations(client, library):
    found = client.post("/explain", json={"row": "r3", "column": "c8", "n": 3}).json()
    assert_explanation(found, library.explain("r3", "c8"), 3)
    assert (found["user"], found["item"]) == ("r3", "c8")


def test_neighbours(client, library):
    found = client.post("/similar", json={"columns": ["c8", "c2"], "n": 3}).json()["neighbours"]
    expected = similar(library.model_, columns=["c8", "c2"], n=3, seen=library.seen_)
    assert [each["of"] for each in found] == ["c8"] * 3 + ["c2"] * 3
    assert [each["item"] for each in found] == expected.nearest.ravel().tolist()
    assert [each["similarity"] for each in found] == expected.similarities.ravel().tolist()
    rows = client.post("/similar", json={"rows": ["r3"], "n": 1}).json()["neighbours"]
    assert list(rows[0]) == ["of", "user", "similarity"]


@pytest.mark.parametrize("ranker", [True, False])
@pytest.mark.parametrize("level", [None, 0.9])
def test_lists_of_a_new_row(client, folded, ranker, level):
    expected = folded.recommend(["new"], 5, avoid_dislikes=0.5, level=level, ranker=ranker)
    body = {"n": 5, "avoid_dislikes": 0.5, "ranker": ranker, "level": level}
    found = client.post("/recommend", json={"entries": ENTRIES, **body})
    assert_list(items(found), expected)
    if level is not None:
        lower = [item["lower"] for item in items(found)]
        np.testing.assert_allclose(lower, expected.intervals.lower, rtol=1e-9)
    only = found.json()["lists"][0]
    assert (only["user"], only["basis"]) == (None, "model")
    assert found.json()["unknown_columns"] == []
    # Ratings by the bar of the fit, and columns that are not known left out.
    rated = [{"column": c, "value": 4 if label > 0 else 3.5} for c, label in LABELS.items()]
    rated.append({"column": "nothing", "value": 5})
    again = client.post("/recommend", json={"entries": rated, **body})
    assert again.json()["unknown_columns"] == ["nothing"]
    assert again.json()["lists"] == found.json()["lists"]


def test_predictions_and_reasons_of_a_new_row(client, folded):
    body = {"entries": ENTRIES, "columns": ["c1", "c7"]}
    found = client.post("/predict", json=body).json()["predictions"]
    probabilities = [each["probability"] for each in found]
    expected = folded.predict_proba(["new"] * 2, ["c1", "c7"])
    np.testing.assert_allclose(probabilities, expected, rtol=1e-9)
    assert [(each["item"], each["basis"]) for each in found] == [("c1", "model"), ("c7", "model")]
    everywhere = client.post("/predict", json={"entries": ENTRIES}).json()["predictions"]
    assert [each for each in everywhere if each["item"] in body["columns"]] == found
    reasons = client.post("/explain", json={"entries": ENTRIES, "column": "c1", "n": 2}).json()
    assert_explanation(reasons, folded.explain("new", "c1"), 2)


def test_several_new_rows_are_independent(client):
    named = [{**entry, "row": row} for row in ("a", "b") for entry in ENTRIES]
    named += [{"column": "c1", "label": -1, "row": "b"}]
    found = client.post("/recommend", json={"entries": named, "n": 4}).json()["lists"]
    alone = client.post("/recommend", json={"entries": ENTRIES, "n": 4}).json()["lists"]
    assert [each["user"] for each in found] == ["a", "b"]
    # Rows that are solved for together stop together, a few digits later.
    for one, other in zip(found[0]["items"], alone[0]["items"], strict=True):
        assert one.pop("item") == other.pop("item")
        assert one == pytest.approx(other, rel=1e-5)
    assert found[1]["items"] != found[0]["items"]


def test_nothing_of_a_new_row_is_kept(client):
    body = {"entries": [{"column": "c7", "label": 1}]}
    before = client.get("/health").json()
    first = client.post("/recommend", json=body).json()
    assert client.post("/recommend", json=body).json() == first
    assert client.get("/health").json() == before


def test_a_new_row_without_known_entries_gets_the_popular_columns(client):
    popular = client.get("/recommend", params={"row": "nobody", "n": 4}).json()["lists"][0]
    for entries in ([], [{"column": "nothing", "label": 1}]):
        found = client.post("/recommend", json={"entries": entries, "n": 4}).json()["lists"][0]
        assert found == {**popular, "user": None}
    predicted = client.post("/predict", json={"entries": [], "columns": ["c1"]}).json()
    assert predicted["predictions"][0]["basis"] == "column alone"


def test_a_model_without_ids_counts_from_0(tmp_path):
    recommender = fitted(ids=False)
    recommender.save(tmp_path / "m.tribit")
    client = client_of(tmp_path / "m.tribit")
    expected = recommender.recommend([3], 4, level=None)
    for row in (3, "3"):
        found = client.post("/recommend", json={"rows": [row], "n": 4})
        assert found.json()["lists"][0]["user"] == 3
        assert_list(items(found), expected)
    pair = {"pairs": [{"row": 3, "column": 40}]}
    refused = client.post("/predict", json=pair)
    assert (refused.status_code, "are 0 to 24" in refused.json()["error"]) == (404, True)
    entries = [{"column": int(column[1:]), "label": label} for column, label in LABELS.items()]
    given = Observations([0] * 4, [7, 2, 19, 11], list(LABELS.values()), (1, 25))
    expected = recommender.fold_in(given).recommend([40], 4, level=None)
    assert_list(items(client.post("/recommend", json={"entries": entries, "n": 4})), expected)
    for level in (None, 0.5):
        refused = client.post("/recommend", json={"rows": [40], "level": level})
        assert (refused.status_code, "are 0 to 39" in refused.json()["error"]) == (404, True)


def test_whole_numbers_stay_numbers_in_answers(tmp_path):
    recommender = fitted(ids="numbers")
    recommender.save(tmp_path / "m.tribit")
    client = client_of(tmp_path / "m.tribit")
    found = client.get("/recommend", params={"row": "103", "n": 2}).json()["lists"][0]
    assert found["user"] == 103
    assert all(type(item["item"]) is int for item in found["items"])
    pairs = [{"row": "103", "column": 205}]
    predicted = client.post("/predict", json={"pairs": pairs}).json()["predictions"][0]
    assert (predicted["user"], predicted["item"]) == (103, 205)
    popular = client.get("/recommend", params={"row": "nobody", "n": 2}).json()["lists"][0]
    assert (popular["user"], popular["basis"]) == ("nobody", "popularity")
    reasons = client.post("/explain", json={"row": 103, "column": "205"}).json()
    assert (reasons["user"], reasons["item"]) == (103, 205)


def test_a_model_without_entries_says_what_it_cannot_do(tmp_path):
    recommender = fitted(keep_seen=False)
    recommender.save(tmp_path / "m.tribit")
    client = client_of(tmp_path / "m.tribit")
    refused = client.get("/recommend", params={"row": "r3"})
    assert refused.status_code == 422
    assert "keeps no entries" in refused.json()["error"]
    assert client.post("/explain", json={"row": "r3", "column": "c1"}).status_code == 422
    found = client.get("/recommend", params={"row": "r3", "exclude_seen": "false"})
    expected = recommender.model_.recommend(["r3"], 10)
    assert [item["item"] for item in items(found)] == expected.columns[0].tolist()
    new = [item["item"] for item in items(client.post("/recommend", json={"entries": ENTRIES}))]
    assert len(new) == 10
    assert not set(new) & set(LABELS)
    assert items(client.get("/recommend", params={"row": "nobody"}))


def test_the_cache_drops_lists_above_its_limit(served):
    served.cache.max_bytes = 3000
    rows = [f"r{n}" for n in range(40)]
    first = ask(served, "/recommend", rows=rows, n=3)
    assert 0 < served.cache.size <= 3000
    assert ask(served, "/recommend", rows=rows, n=3) == first


def test_cached_lists_are_answered_at_once(served):
    endpoint = served.endpoints["/recommend"]
    served.has_tables = False
    body = json.dumps({"rows": ["r1", "nobody"]}).encode()
    asked = endpoint.make_question(endpoint.read_json(body), served.recommender)
    assert not served.is_quick(asked)
    served.answer(asked)
    assert served.is_quick(asked)


def test_a_model_with_too_many_columns_for_tables_has_the_same_lists(
    library, recommenders, monkeypatch
):
    monkeypatch.setattr(ease, "MAX_INVERSE_COLUMNS", 5)
    served = ServedModel(Recommender.load(recommenders[0]), max_table_cells=0)
    assert not served.has_tables
    found = ask(served, "/recommend", rows=["r3"], n=4)["lists"][0]["items"]
    expected = library.recommend(["r3"], 4, level=None)
    assert [item["item"] for item in found] == expected.columns[0].tolist()


def test_a_query_names_the_row_as_the_table_does(client):
    expected = client.get("/recommend", params={"row": ["r3", "r4"], "n": 2})
    found = client.get("/recommend", params={"user": ["r3", "r4"], "n": 2})
    assert found.json() == expected.json()
    assert [each["user"] for each in found.json()["lists"]] == ["r3", "r4"]


#: The same requests with the names of the table and with neutral ones.
REQUESTS = {
    "/recommend": {"user": ["r3", "nobody"], "n": 3},
    "/predict": {"pairs": [{"user": "r3", "item": "c8"}, {"user": "r3", "column": "c9"}]},
    "/explain": {"user": "r3", "item": "c8", "n": 3},
    "/similar": {"item": ["c8", "c9"], "n": 3},
}
NEW_ROWS = {"entries": [{"item": "c8", "label": 1, "user": "a"}, {"item": "c2", "label": -1}]}


def all_keys(value):
    """Return the names of all fields of an answer."""
    if isinstance(value, dict):
        return set(value) | {key for each in value.values() for key in all_keys(each)}
    return {key for each in value for key in all_keys(each)} if isinstance(value, list) else set()


def in_neutral_names(body):
    if isinstance(body, list):
        return [in_neutral_names(each) for each in body]
    if not isinstance(body, dict):
        return body
    known = {"user": "row", "item": "column"}
    return {
        known.get(key, key) + "s" * (key in known and isinstance(value, list)): in_neutral_names(
            value
        )
        for key, value in body.items()
    }


@pytest.mark.parametrize(
    ("path", "body"), [*REQUESTS.items(), ("/recommend", NEW_ROWS), ("/predict", NEW_ROWS)]
)
def test_rows_and_columns_are_named_as_in_the_table(client, path, body):
    answer = client.post(path, json=body)
    assert answer.status_code == 200, answer.text
    assert answer.json() == client.post(path, json=in_neutral_names(body)).json()
    keys = all_keys(answer.json())
    assert "item" in keys
    assert not keys & {"row", "column"}
    # A heading that is one of these would have two meanings.
    assert keys - {"user", "item"} <= ANSWER_FIELDS | set(answer.json().get("parts", ()))


@pytest.mark.parametrize(
    ("headings", "names"),
    [
        (("user_id", "Größe <b>"), ("user_id", "Größe <b>")),
        ((None, "item"), ("row", "item")),
        (("n", "item"), ("row", "column")),
        (("user", "label"), ("row", "column")),
        (("column", "row"), ("row", "column")),
        (("user", "score"), ("row", "column")),
        (("rows", "item"), ("row", "column")),
    ],
)
def test_headings_of_a_table(tmp_path, headings, names):
    recommender = fitted()
    recommender.reading_ = Reading(row=headings[0], column=headings[1], like_at=4)
    recommender.save(tmp_path / "m.tribit")
    client = client_of(tmp_path / "m.tribit")
    row, column = names
    assert client.get("/health").json()["names"] == list(names)
    for body in ({row: "r3", column: "c8"}, {"row": "r3", "column": "c8"}):
        found = client.post("/explain", json=body).json()
        assert (found[row], found[column]) == ("r3", "c8")
        assert all(column in each for each in found["entries"])
    lists = client.get("/recommend", params={row: "r3", "n": 2}).json()["lists"]
    assert lists[0][row] == "r3"
    assert len([each[column] for each in lists[0]["items"]]) == 2
    similar_rows = client.post("/similar", json={"rows": ["r3"], "n": 1}).json()["neighbours"]
    assert list(similar_rows[0]) == ["of", row, "similarity"]
    page = client.get("/docs").text
    assert f"<code>{escape(row)}</code> and <code>{escape(column)}</code>" in page


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/explain", {"row": "r3", "user": "r4", "item": "c8"}),
        ("/recommend", {"rows": ["r3"], "user": ["r4"]}),
        ("/predict", {"pairs": [{"user": "r3", "row": "r4", "item": "c8"}]}),
    ],
)
def test_an_id_under_two_names_is_an_error(client, path, body):
    answer = client.post(path, json=body)
    assert answer.status_code == 422
    assert "row" in answer.json()["error"]

"""Answers of the service are those of the library."""

import json

import numpy as np
import pytest
from tribit.workflows import predict_file, recommend_file

from service_parts import made
from tribit import Observations
from tribit.serve import rates_table
from tribit.serve.served import ServedModel, Wanted


def items(answer, row=0):
    return answer.json()["lists"][row]["items"]


def assert_lists(found, expected, row=0):
    shown = expected.positions[row] >= 0
    assert [item["column"] for item in found] == expected.columns[row][shown].tolist()
    for name, values in {
        "score": expected.scores,
        "probability": expected.probabilities,
        "expected_likes": expected.likes,
        "expected_dislikes": expected.dislikes,
    }.items():
        if values is None:
            assert not any(name in item for item in found)
            continue
        np.testing.assert_allclose([item[name] for item in found], values[row][shown], rtol=1e-9)


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
        assert answer.json()["lists"][place]["row"] == row
        assert answer.json()["lists"][place]["basis"] == "model"
        assert_lists(items(answer, place), expected, place)


@pytest.mark.parametrize("cells", [0, rates_table.CELLS])
def test_lists_do_not_depend_on_rates_that_were_computed_before(library, monkeypatch, cells):
    monkeypatch.setattr(rates_table, "CELLS", cells)
    served = ServedModel(library)
    assert isinstance(served._score, rates_table.RatesTable) == bool(cells)
    expected = library.recommend(["r3", "r20"], 6, avoid_dislikes=0.3, level=None)
    answer = json.loads(served.lists(["r3", "r20"], Wanted(6, 0.3)))
    for place in (0, 1):
        found = answer["lists"][place]["items"]
        assert [item["score"] for item in found] == expected.scores[place].tolist()
        assert [item["column"] for item in found] == expected.columns[place].tolist()


def test_lists_with_intervals(client, library):
    answer = client.get("/recommend", params={"row": ["r3", "r4"], "n": 4, "level": 0.8})
    expected = library.recommend(["r3", "r4"], 4, level=0.8)
    for end in ("lower", "upper"):
        found = [item[end] for place in (0, 1) for item in items(answer, place)]
        np.testing.assert_allclose(found, getattr(expected.intervals, end), rtol=1e-9)
    # Without a level there are none, though the list was kept with them.
    assert "lower" not in items(client.get("/recommend", params={"row": "r3", "n": 4}))[0]


def test_an_unknown_row_gets_the_popular_columns(client, bundles):
    answer = client.post("/recommend", json={"rows": ["r1", "nobody", "r2"], "n": 6})
    told = recommend_file(bundles[0], only=["nobody"], n=6, level=None)
    assert [each["basis"] for each in answer.json()["lists"]] == ["model", "popularity", "model"]
    assert answer.json()["lists"][1]["row"] == "nobody"
    assert told.table["basis"].tolist() == ["popularity"] * 6
    found = items(answer, 1)
    assert [item["column"] for item in found] == told.table["item"].tolist()
    np.testing.assert_allclose([item["score"] for item in found], told.table["score"], rtol=1e-7)
    probabilities = [item["probability"] for item in found]
    np.testing.assert_allclose(probabilities, told.table["probability"], rtol=1e-6)


def test_predictions(client, bundles, tmp_path):
    pairs = [
        ("r3", "c0"),
        ("nobody", "c8"),
        ("r39", "nothing"),
        ("nobody", "nothing"),
        ("r0", "c24"),
    ]
    table = tmp_path / "pairs.csv"
    table.write_text("user,item\n" + "\n".join(map(",".join, pairs)) + "\n")
    told = predict_file(bundles[0], table, None).table
    body = {"pairs": [{"row": row, "column": column} for row, column in pairs]}
    found = client.post("/predict", json=body).json()["predictions"]
    assert [(each["row"], each["column"]) for each in found] == pairs
    assert [each["basis"] for each in found] == told["basis"].tolist()
    assert [each["label"] for each in found] == told["label"].tolist()
    probabilities = [each["probability"] for each in found]
    np.testing.assert_allclose(probabilities, told["probability"], rtol=1e-12)
    sides = {"row": [row for row, _ in pairs], "column": [column for _, column in pairs]}
    assert client.get("/predict", params=sides).json()["predictions"] == found


def test_many_predictions_are_made_in_a_thread(client, library):
    pairs = [{"row": f"r{n % 40}", "column": f"c{n % 25}"} for n in range(1000)]
    found = client.post("/predict", json={"pairs": pairs}).json()["predictions"]
    expected = library.predict_proba([p["row"] for p in pairs], [p["column"] for p in pairs])
    np.testing.assert_allclose([each["probability"] for each in found], expected, rtol=1e-12)


def test_explanations(client, library):
    expected = library.explain("r3", "c8")
    found = client.post("/explain", json={"row": "r3", "column": "c8", "n": 3}).json()
    assert found["parts"] == pytest.approx(expected.parts)
    assert found["x"] == pytest.approx(expected.x)
    assert found["n_entries"] == len(expected.entries)
    assert [entry["column"] for entry in found["entries"]] == [
        entry.column for entry in expected.entries[:3]
    ]
    assert found["entries"][0]["contribution"] == pytest.approx(expected.entries[0].contribution)
    assert client.get("/explain", params={"row": "r3", "column": "c8", "n": 3}).json() == found


@pytest.mark.parametrize("ranker", [True, False])
def test_folding_in(client, library, ranker):
    labels = {"c7": 1, "c2": -1, "c19": 1, "c11": 1}
    given = Observations([0] * 4, range(4), list(labels.values()), (1, 4), ["new"], list(labels))
    bundle = library.fold_in(given)
    expected = bundle.recommend(["new"], 5, avoid_dislikes=0.5, level=None, ranker=ranker)
    entries = [{"column": column, "label": label} for column, label in labels.items()]
    body = {"n": 5, "avoid_dislikes": 0.5, "columns": ["c1", "c7"], "ranker": ranker}
    found = client.post("/fold-in", json={"entries": entries, **body}).json()
    assert_lists(found["items"], expected)
    probabilities = [each["probability"] for each in found["predictions"]]
    told = bundle.predict_proba(["new"] * 2, ["c1", "c7"])
    np.testing.assert_allclose(probabilities, told, rtol=1e-9)
    assert (found["basis"], found["unknown_columns"]) == ("model", [])
    # Ratings by the bar of the fit, and columns that are not known left out.
    rated = [{"column": c, "value": 4 if label > 0 else 3.5} for c, label in labels.items()]
    rated.append({"column": "nothing", "value": 5})
    again = client.post("/fold-in", json={"entries": rated, **body}).json()
    assert again["unknown_columns"] == ["nothing"]
    assert again["items"] == found["items"]


def test_nobody_is_kept(client):
    entries = [{"column": "c7", "label": 1}]
    before = client.get("/health").json()
    first = client.post("/fold-in", json={"entries": entries}).json()
    assert client.post("/fold-in", json={"entries": entries}).json() == first
    assert client.get("/health").json() == before


def test_folding_in_nothing_is_popularity(client):
    found = client.post("/fold-in", json={"entries": [], "n": 4}).json()
    popular = client.get("/recommend", params={"row": "nobody", "n": 4}).json()["lists"][0]
    assert found["basis"] == popular["basis"] == "popularity"
    assert found["items"] == popular["items"]


def test_a_model_without_ids_counts_from_0(client_of, tmp_path):
    bundle = made(ids=False)
    bundle.save(tmp_path / "m.tribit")
    client = client_of(tmp_path / "m.tribit")
    expected = bundle.recommend([3], 4, level=None)
    for row in (3, "3"):
        found = client.post("/recommend", json={"rows": [row], "n": 4})
        assert found.json()["lists"][0]["row"] == 3
        assert_lists(items(found), expected)
    pair = {"pairs": [{"row": 3, "column": 40}]}
    assert client.post("/predict", json=pair).json()["predictions"][0]["basis"] == "row alone"


def test_a_bundle_without_entries_says_what_it_cannot_do(client_of, tmp_path):
    bundle = made(keep_seen=False)
    bundle.save(tmp_path / "m.tribit")
    client = client_of(tmp_path / "m.tribit")
    refused = client.get("/recommend", params={"row": "r3"})
    assert refused.status_code == 422
    assert "keeps no entries" in refused.json()["error"]
    assert client.get("/explain", params={"row": "r3", "column": "c1"}).status_code == 422
    found = client.get("/recommend", params={"row": "r3", "exclude_seen": "false"})
    expected = bundle.model_.recommend(["r3"], 10)
    assert [item["column"] for item in items(found)] == expected.columns[0].tolist()


def test_kept_lists_are_dropped_when_they_are_too_many(library):
    served = ServedModel(library)
    served._kept.limit = 3000
    from tribit.serve.served import Wanted

    rows = [f"r{n}" for n in range(40)]
    first = served.lists(rows, Wanted(n=3))
    assert 0 < served._kept.size <= 3000
    assert served.lists(rows, Wanted(n=3)) == first

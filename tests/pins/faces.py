"""The same lists from Python, from the command line and over HTTP."""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.pins.imports import (
    BinaryMatrixCompletion,
    Observations,
    Recommender,
    observations_from_file,
    service,
)
from tests.pins.pinned import cells
from tests.pins.tables import exposed_table

#: Numbers of a list as HTTP and ``--json`` name them.
NUMBERS = ("score", "probability", "lower", "upper", "expected_likes", "expected_dislikes")


def answers_agree(pins, path, rows, asked):
    """Keep whether lists of the saved model, of given entries and of new rows are equal on every face."""
    recommender = Recommender.load(path)
    expected = records(recommender.recommend(rows, **asked))
    pins.add("python and command line", command_line(path, rows, asked) == expected)
    pins.add("python and http", over_http(path, rows, asked) == expected)
    given = entries(["u3", "u17"], ["i4", "i20"])
    seen = recommender.recommend(["u3", "u17"], **asked, exclude_seen=given)
    pins.lists("given entries", seen)
    with tempfile.TemporaryDirectory() as folder:
        table = Path(folder) / "given.csv"
        table.write_text(csv_text(given))
        printed = command_line(path, ["u3", "u17"], asked, [table])
        pins.add("given entries on the command line", printed == records(seen))
        new = entries(["new", "new", "new"], ["i4", "i20", "i33"])
        folded = recommender.fold_in(new).recommend(["new"], **asked)
        pins.lists("new row", folded)
        table.write_text(csv_text(new))
        printed = command_line(path, [], asked, ["--new", table])
        pins.add("new row on the command line", printed == records(folded))


def entries(rows, columns):
    """Return likes, and last a dislike."""
    row_ids = list(dict.fromkeys(rows))
    labels = [1] * (len(rows) - 1) + [-1]
    places = [row_ids.index(row) for row in rows]
    return Observations.from_pairs(
        places, range(len(columns)), labels, row_ids=row_ids, column_ids=columns
    )


def csv_text(seen, known=None):
    """Return entries as a table of ids and labels, those alone of which row and column are known."""
    lines = [
        f"{seen.row_ids[row]},{seen.column_ids[column]},{label}"
        for row, column, label in zip(seen.rows, seen.columns, seen.labels, strict=True)
        if known is None or (seen.row_ids[row] in known[0] and seen.column_ids[column] in known[1])
    ]
    return "\n".join(["row,column,value", *lines]) + "\n"


def records(found):
    """Return row, column and numbers of each place of lists, as plain values."""
    table = {name: values.tolist() for name, values in found.table().items()}
    return [
        (str(row), str(column), {name: table[name][place] for name in NUMBERS if name in table})
        for place, (row, column) in enumerate(zip(table["row"], table["column"], strict=True))
    ]


def command_line(path, rows, asked, further=()):
    """Return what ``tribit recommend --json`` prints."""
    chosen = [part for row in rows for part in ("--for", row)]
    options = ["-n", asked["n"], "--avoid-dislikes", asked["avoid_dislikes"]]
    options += ["--level", asked["level"], "--json"]
    command = ["recommend", path, *further, *chosen, *options]
    return [
        (each["row"], each["column"], {name: each[name] for name in NUMBERS if name in each})
        for each in json.loads(run(*command))
    ]


def over_http(path, rows, asked):
    """Return what ``POST /recommend`` answers."""
    from starlette.testclient import TestClient  # warns of a newer one, which the run ignores

    with TestClient(service(path), base_url="http://localhost") as client:
        answer = client.post("/recommend", json={"rows": rows, **asked})
    assert answer.status_code == 200, answer.text
    return [
        (found["row"], item["column"], {name: item[name] for name in NUMBERS if name in item})
        for found in answer.json()["lists"]
        for item in found["items"]
    ]


#: Options of a fit without a search, on the command line and in Python.
FIT = {"rank": 3, "l2": 1.0, "l2_intercept": 1.0, "l2_implicit": 2.0}
FIT |= {"implicit_features": True, "search": False}
RULES = {"row": "row", "column": "column", "value": "value"}


def run(*command):
    """Return what ``tribit`` prints."""
    done = subprocess.run(
        [sys.executable, "-m", "tribit", *map(str, command)],
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def commands_agree(pins):
    """Keep numbers of the documented commands, and whether they are those of Python."""
    train, test = exposed_table((80, 60), count=1500, ids=True, seed=7).split(200, random_state=0)
    known = set(train.row_ids[train.rows]), set(train.column_ids[train.columns])
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        tables = {each: folder / f"{each}.csv" for each in ("train", "test", "new")}
        tables["train"].write_text(csv_text(train))
        tables["test"].write_text(csv_text(test, known))
        tables["new"].write_text(csv_text(entries(["n0", "u3", "n0"], ["i1", "i2", "j0"])))
        given = ["--row", "row", "--column", "column", "--value", "value"]
        options = ["--gammas", "1,0,0", "--rank", 3, "--l2", 1, "--l2-intercept", 1]
        options += ["--implicit-features", "yes", "--l2-implicit", 2, "--calibration", "none"]
        options += ["--members", 1, "--random-state", 0, "--n-jobs", 1]
        model, after = folder / "model.tribit", folder / "after.tribit"
        run("fit", tables["train"], "-o", model, *given, *options)
        loaded = Recommender.load(model)
        pins.model("fit", loaded.model_, fit=False)
        estimator = BinaryMatrixCompletion(**FIT, n_jobs=1, random_state=0)
        seen = observations_from_file(tables["train"], **RULES)
        same = Recommender(estimator, random_state=0).fit(seen)
        pins.add("fit is that of python", scores(same) == scores(loaded))
        held_out = observations_from_file(tables["test"], **RULES)
        expected = loaded.evaluate(held_out)
        found = json.loads(run("evaluate", model, tables["test"], "--json"))
        for measure in ("error_rate", "log_loss", "auc"):
            pins.add(f"evaluated, {measure}", found[measure])
            pins.add(
                f"evaluated, {measure}, is that of python",
                found[measure] == getattr(expected, measure),
            )
        written = folder / "predictions.jsonl"
        run("predict", model, tables["test"], "-o", written)
        answers = [json.loads(line) for line in written.read_text().splitlines()]
        pins.add("predicted", [each["probability"] for each in answers])
        rows, columns = ([each[side] for each in answers] for side in ("row", "column"))
        proba = loaded.predict_proba(rows, columns).tolist()
        pins.add(
            "predictions are those of python",
            [each["probability"] for each in answers] == [float(str(each)) for each in proba],
        )
        row, column = str(test.row_ids[test.rows[0]]), str(test.column_ids[test.columns[0]])
        told = json.loads(run("explain", model, row, column, "--json"))
        explained = loaded.explain(row, column).to_dict()
        for key in ("x", "probability", "parts"):
            pins.add(f"explained, {key}, is that of python", told[key] == explained[key])
        nearest = json.loads(run("similar", model, "--column", "i3", "-n", 4, "--json"))
        pins.add("similar", [str(value) for value in nearest[0].values() if value != "i3"][:1])
        run("update", model, tables["new"], "-o", after)
        updated = Recommender.load(after)
        pins.model("updated", updated.model_, fit=False)
        in_python = loaded.update(observations_from_file(tables["new"], **RULES))
        pins.add("update is that of python", scores(in_python) == scores(updated))


def scores(recommender):
    """Return the bytes of the scores of fixed cells."""
    return recommender.model_.decision_function(*cells(recommender.model_)).tobytes()

"""The same lists from Python, from the command line and over HTTP."""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

from fastapi.testclient import TestClient

from tests.pins.imports import Observations, Recommender, service

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


def csv_text(seen):
    """Return entries as a table of ids and labels."""
    lines = [
        f"{seen.row_ids[row]},{seen.column_ids[column]},{label}"
        for row, column, label in zip(seen.rows, seen.columns, seen.labels, strict=True)
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
    done = subprocess.run(
        [sys.executable, "-m", "tribit", *map(str, command)],
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return [
        (each["row"], each["column"], {name: each[name] for name in NUMBERS if name in each})
        for each in json.loads(done.stdout)
    ]


def over_http(path, rows, asked):
    """Return what ``POST /recommend`` answers."""
    with TestClient(service(path)) as client:
        answer = client.post("/recommend", json={"rows": rows, **asked})
    assert answer.status_code == 200, answer.text
    return [
        (found["row"], item["column"], {name: item[name] for name in NUMBERS if name in item})
        for found in answer.json()["lists"]
        for item in found["items"]
    ]

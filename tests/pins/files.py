"""Twelve kinds of files that hold the same entries."""

import gzip
import tempfile
from pathlib import Path

import numpy as np
import scipy.sparse as sp
from tests.pins.imports import InvalidInputError, observations_from_file
from tests.pins.pinned import digest

#: Ids in an order of first appearance that is not the sorted one, with leading zeros among them.
RECORDS = [
    ("zoe", "007", 1),
    ("zoe", "7", -1),
    ("ann", "Alien", 1),
    ("é", "007", -1),
    ("ann", "7", 1),
    ("bob", "Brazil", -1),
    ("é", "Alien", 1),
    ("bob", "Clue", 1),
]
NAMES = {"row": "user", "column": "item", "value": "vote"}
N_MANY = 1_000_000


def text(delimiter=",", words=None, records=RECORDS, header=True):
    """Return records as lines of text."""
    head = [delimiter.join(NAMES.values())] if header else []
    lines = [delimiter.join([u, i, str((words or {}).get(v, v))]) for u, i, v in records]
    return "\n".join([*head, *lines]) + "\n"


def wide_text():
    """Return the same entries, a row in each line."""
    users = list(dict.fromkeys(user for user, _, _ in RECORDS))
    items = list(dict.fromkeys(item for _, item, _ in RECORDS))
    votes = {(user, item): str(vote) for user, item, vote in RECORDS}
    lines = [",".join([u, *(votes.get((u, i), "") for i in items)]) for u in users]
    return "\n".join([",".join(["user", *items]), *lines]) + "\n"


def many_records():
    """Return the bytes of a table of a million records, whose ids appear in a shuffled order."""
    rng = np.random.default_rng(8)
    n_rows, n_columns = 20_000, 1000
    keys = rng.permutation(n_rows * n_columns)[:N_MANY]
    rows, columns = np.divmod(keys, n_columns)
    ratings = rng.integers(1, 6, N_MANY)
    lines = [
        f"u{i},i{j},{k}"
        for i, j, k in zip(rows.tolist(), columns.tolist(), ratings.tolist(), strict=True)
    ]
    return ("user,item,vote\n" + "\n".join(lines) + "\n").encode()


def file_kinds(pins):
    """Keep the observations of each kind of file, and whether they are those of the plain one."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)

        def read(file, content, **rules):
            path = folder / file
            path.write_bytes(content if isinstance(content, bytes) else content.encode())
            return observations_from_file(path, **rules)

        plain = read("plain.csv", text(), **NAMES)
        pins.observations("plain", plain)
        marked = text().encode("utf-8-sig")
        missing = [*RECORDS[:3], ("NA", "7", 1), ("ann", "Clue", "NA"), *RECORDS[3:]]
        numbers = {"row": "0", "column": "1", "value": "2"}
        same = {
            "double colon": read("r.dat", text("::", header=False), delimiter="::", **numbers),
            "white space": read("r.txt", text(" "), delimiter="space", **NAMES),
            "gz": read("r.csv.gz", gzip.compress(text("\t").encode()), delimiter="tab", **NAMES),
            "label words": read(
                "w.csv", text(words={1: "Yes", -1: "never"}), like="yes", dislike="never", **NAMES
            ),
            "missing": read("m.csv", text(records=missing), missing="skip", **NAMES),
            "byte order mark": read("b.csv", marked, **NAMES),
            "utf-16": read("c.csv", text(";").encode("utf-16"), **NAMES),
            "json lines": read(
                "r.jsonl",
                "".join(f'{{"user": "{u}", "item": "{i}", "vote": {v}}}\n' for u, i, v in RECORDS),
                **NAMES,
            ),
            "guessed names": read("g.csv", text()),
        }
        for kind, seen in same.items():
            pins.add(f"{kind} is as plain", identical(seen, plain))
        wide = read("wide.csv", wide_text(), layout="wide")
        pins.observations("wide", wide)
        twice = [*RECORDS, ("zoe", "007", -1), ("ann", "7", 1), ("zoe", "007", -1)]
        for rule in ("first", "last", "majority"):
            doubled = read("d.csv", text(records=twice), duplicates=rule, **NAMES)
            pins.observations(f"duplicates, {rule}", doubled)
        try:
            read("d.csv", text(records=twice), **NAMES)
        except InvalidInputError:
            pins.add("duplicates are refused", value=True)
        ids = [seen_id for seen_id in plain.column_ids if seen_id in ("007", "7")]
        pins.add("007 and 7 are two ids", ids)
        rng = np.random.default_rng(9)
        A = rng.choice([-1, 0, 0, 0, 1], (30, 20))
        sp.save_npz(folder / "m.npz", sp.csr_array(A))
        pins.observations("npz", observations_from_file(folder / "m.npz"))
        lower = [(i + 1, j + 1, A[i, j]) for i, j in np.argwhere(np.tril(A[:20]))]
        head = f"%%MatrixMarket matrix coordinate integer symmetric\n20 20 {len(lower)}\n"
        body = "".join(f"{i} {j} {v}\n" for i, j, v in lower)
        pins.observations("symmetric mtx", read("m.mtx", head + body))
        pins.observations("ratings", read("r.csv", many_records(), like_at=4, **NAMES))


def identical(one, other):
    """Return whether two observations have the same entries and ids."""
    arrays = [
        [
            each.rows,
            each.columns,
            each.labels,
            np.asarray(each.row_ids),
            np.asarray(each.column_ids),
        ]
        for each in (one, other)
    ]
    same = (digest("\n".join(map(str, each.tolist())).encode()) for each in arrays[0])
    as_other = (digest("\n".join(map(str, each.tolist())).encode()) for each in arrays[1])
    return one.shape == other.shape and list(same) == list(as_other)

import csv
import gzip
import io

import numpy as np
import pytest

from tribit.data.reading import Reading, observations_from_file
from tribit.data.splitting import split_table
from tribit.errors import InvalidInputError

HEADING = "time,user,film,stars"
LINES = [f'{t},u{t % 7},"Film, {t % 11}",{t % 5 + 1}' for t in range(77)]
NAMES = Reading(row="user", column="film")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def split(path, out=("train.csv", "test.csv"), **options):
    return split_table(path, out, **options)


def test_lines_are_copied_in_order_with_the_heading_in_both(folder):
    (folder / "all.csv").write_text("\n".join([HEADING, *LINES]) + "\n")
    found = split("all.csv", test=0.2, reading=NAMES)
    assert found == (62, 15, 0)
    parts = [(folder / name).read_text().splitlines() for name in ("train.csv", "test.csv")]
    assert [part[0] for part in parts] == [HEADING, HEADING]
    assert sorted(parts[0][1:] + parts[1][1:]) == sorted(LINES)
    for part in parts:
        assert part[1:] == [line for line in LINES if line in part]


def test_a_seed_repeats_the_split_and_another_changes_it(folder):
    (folder / "all.csv").write_text("\n".join([HEADING, *LINES]) + "\n")
    texts = []
    for seed in (3, 3, 4):
        split("all.csv", random_state=seed, reading=NAMES)
        texts.append((folder / "test.csv").read_bytes())
    assert texts[0] == texts[1] != texts[2]


def test_all_records_of_a_pair_are_in_one_file(folder):
    lines = [f"u{k % 5},i{k % 3},{k}" for k in range(60)]
    (folder / "all.csv").write_text("user,item,time\n" + "\n".join(lines) + "\n")
    found = split("all.csv", test=5)
    assert (found.n_train, found.n_test, found.n_repeated) == (40, 20, 15)
    train, test = (
        {tuple(record[:2]) for record in csv.reader((folder / name).open())} - {("user", "item")}
        for name in ("train.csv", "test.csv")
    )
    assert len(test) == 5
    assert not train & test


@pytest.mark.parametrize(
    ("text", "heading"),
    [
        ("1\t2\t5\n1\t3\t4\n2\t2\t1\n", ""),  # no heading
        ("0\t1\t2\n1\t2\t5\n1\t3\t4\n2\t2\t1\n", "0\t1\t2\n"),  # a heading of numbers
        ("user\titem\tv\n1\t2\t5\n1\t3\t4\n2\t2\t1\n", "user\titem\tv\n"),
        ('"us\ner"\titem\tv\n1\t2\t5\n1\t"3\n"\t4\n\n2\t2\t1', '"us\ner"\titem\tv\n'),
        ("user\titem\tv\r\n1\t2\t5\r\n1\t3\t4\r\n2\t2\t1\r\n", "user\titem\tv\r\n"),
    ],
)
def test_headings_line_ends_and_quoted_line_breaks(folder, text, heading):
    (folder / "all.tsv").write_bytes(text.encode())
    found = split("all.tsv", ("a.tsv", "b.tsv"), test=1)
    assert (found.n_train, found.n_test) == (2, 1)
    parts = [(folder / name).read_bytes().decode() for name in ("a.tsv", "b.tsv")]
    assert all(part.startswith(heading) for part in parts)
    rest = [part.removeprefix(heading) for part in parts]
    records = [list(csv.reader(io.StringIO(part, newline=""), delimiter="\t")) for part in rest]
    assert sum(len([each for each in part if each]) for part in records) == 3
    assert sum(map(len, rest)) == len(text) - len(heading)


def test_columns_by_number_with_a_heading(folder):
    (folder / "all.csv").write_text("\n".join([HEADING, *LINES]) + "\n")
    split("all.csv", reading=Reading(row="1", column="2"))
    for name in ("train.csv", "test.csv"):
        lines = (folder / name).read_text().splitlines()
        assert lines[0] == HEADING
        assert HEADING not in lines[1:]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "latin-1"])
def test_encodings_and_gzip_are_kept(folder, encoding):
    lines = ["user,film", *(f"u{k},Amélie {k}" for k in range(20))]
    packed = gzip.compress("\n".join(lines).encode(encoding))
    (folder / "all.csv.gz").write_bytes(packed)
    given = Reading(encoding="latin-1" if encoding == "latin-1" else None)
    split("all.csv.gz", ("train.csv.gz", "test.csv"), reading=given)
    raw = [
        gzip.decompress((folder / "train.csv.gz").read_bytes()),
        (folder / "test.csv").read_bytes(),
    ]
    assert all(each.startswith(lines[0].encode(encoding)) for each in raw)
    texts = [each.decode(encoding).split("\n") for each in raw]
    assert sorted(line for part in texts for line in part[1:] if line) == sorted(lines[1:])


def test_the_parts_are_read_as_the_whole(folder):
    (folder / "all.jsonl").write_text(
        "".join(f'{{"user": {k % 6}, "item": {k % 5}, "like": {k % 2}}}\n' for k in range(30))
    )
    split("all.jsonl", ("train.jsonl", "test.jsonl"), reading=Reading(row="user", column="item"))
    rules = {"row": "user", "column": "item", "value": "like"}
    whole, train, test = (
        observations_from_file(f"{name}.jsonl", **rules) for name in ("all", "train", "test")
    )
    assert whole.n_observed == train.n_observed + test.n_observed == 30
    assert whole.n_likes == train.n_likes + test.n_likes
    assert np.array_equal(np.unique(whole.row_ids), np.unique(train.row_ids))


@pytest.mark.parametrize(
    ("name", "out", "reading", "match"),
    [
        ("all.csv", ("a.csv", "a.csv"), None, "both the training and the test file"),
        ("all.csv", ("a.csv", "all.csv"), None, "is the file that is read"),
        ("all.csv", ("a.csv", "a.jsonl"), None, "the ending of another format"),
        ("all.csv", ("a.csv", "b.parquet"), None, "the ending of another format"),
        ("all.csv", ("a.csv", "b.csv"), Reading(layout="wide"), "not have an entry on each line"),
        ("all.mtx", ("a.mtx", "b.mtx"), None, "not have an entry on each line"),
    ],
)
def test_refusals(folder, name, out, reading, match):
    (folder / "all.csv").write_text("user,item\n" + "".join(f"u{k},i{k}\n" for k in range(9)))
    (folder / "all.mtx").write_text(
        "%%MatrixMarket matrix coordinate integer general\n2 2 2\n1 1 1\n2 2 -1\n"
    )
    before = sorted(each.name for each in folder.iterdir())
    with pytest.raises(InvalidInputError, match=match):
        split(name, out, reading=reading)
    assert sorted(each.name for each in folder.iterdir()) == before

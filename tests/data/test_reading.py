"""Rules of reading: what is told, what is guessed and said, and what is refused."""

import gzip
import io
import json
import logging
import sys
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from tribit import BinaryMatrixCompletion
from tribit.data import text_formats
from tribit.data.reading import Reading, observations_from_file
from tribit.data.sources import Lines
from tribit.data.tables import read_table, write_table
from tribit.errors import InvalidInputError, InvalidTypeError

NAMED = {"row": "user", "column": "item", "value": "opinion"}
LONG = Reading(**NAMED)


@pytest.fixture(autouse=True)
def blocks_of_any_size():
    """Let pyarrow read small blocks too."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(text_formats, "MIN_BLOCK_BYTES", 0)
        yield


@pytest.fixture
def write(tmp_path):
    def call(text, name="r.csv", encoding="utf-8"):
        path = tmp_path / name
        path.write_bytes(text.encode(encoding) if isinstance(text, str) else text)
        return path

    return call


def opinions(*words):
    return "user,item,opinion\n" + "".join(f"u{n},i{n},{word}\n" for n, word in enumerate(words))


def labels_of(found):
    return dict(zip(zip(found.rows, found.columns, strict=True), found.labels, strict=True))


# Words


@pytest.mark.parametrize(
    ("words", "like", "dislike"),
    [
        (["yes", "No", "YES"], "yes", "no"),
        (["like", "dislike", "like"], "like", "dislike"),
        (["+", "-", "+"], "+", "-"),
    ],
)
def test_two_words_that_are_unmistakable_are_understood_and_said(write, words, like, dislike):
    found = LONG.records(write(opinions(*words)))
    assert found.labels.tolist() == [1, -1, 1]
    assert (found.reading.like, found.reading.dislike) == ((like,), (dislike,))
    (note,) = found.reading.notes
    assert note.startswith(f"r.csv: {like} is a like and {dislike}")
    assert note.endswith("a dislike (guessed).")
    # Settled: a file in which only one of the words occurs is read with them.
    again = found.reading.records(write(opinions(words[1]), "later.csv"))
    assert again.labels.tolist() == [-1]
    assert again.reading.notes == ()


@pytest.mark.parametrize(
    ("words", "match"),
    [
        (["good", "bad", "good"], r"'opinion' of r\.csv are words: good \(2\), bad \(1\); .* like and dislike, or"),
        (["yes", "yes"], r"are words: yes \(2\)"),
        (["yes", "no", "maybe"], r"are words: yes \(1\), no \(1\), maybe \(1\)"),
        (["1", "yes"], r"line 3 of r\.csv: the value 'yes' in column 'opinion' is not a number"),
        (["1", "5"], r"line 3 of r\.csv: the value 5.0 is neither .*like_at"),
        (["1,000", "2"], r"column 'opinion' is not a number; if , is its decimal mark, pass decimal=','"),
    ],
)  # fmt: skip
def test_values_that_may_mean_anything_are_refused(write, words, match):
    quotes = [f'"{word}"' for word in words]
    with pytest.raises(InvalidInputError, match=match):
        LONG.read(write(opinions(*quotes)))


def test_words_that_are_given(write):
    rules = replace(LONG, like=["Good", "fine"], dislike="bad")
    found = rules.records(write(opinions("GOOD", "bad", "fine")))
    assert found.labels.tolist() == [1, -1, 1]
    assert found.reading.notes == ()
    stars = replace(LONG, like=(4, 5), dislike=[1, "2", 3.0])
    found = stars.records(write(opinions("5.0", "3", "4", "2", "1")))
    assert found.labels.tolist() == [1, -1, 1, -1, -1]


VOTES = opinions("Yea", "Nay", "abstain", "Yea")


@pytest.mark.parametrize(
    ("words", "lost"),
    [
        ({"like": "YES", "dislike": "nay"}, "'YES'"),
        ({"like": "yea", "dislike": ["Nay", "abstian"]}, "'abstian'"),
        ({"like": ["aye", "yes"], "dislike": "Nay"}, "'aye' or 'yes'"),
    ],
)
def test_a_word_must_be_a_value_of_the_first_table(write, words, lost):
    path = write(VOTES)
    values = rf"is {lost}; the values are Yea \(2\), Nay \(1\), abstain \(1\)\."
    with pytest.raises(
        InvalidInputError, match=rf"^No value in column 'opinion' of r\.csv {values}"
    ):
        replace(LONG, **words).read(path)
    with pytest.raises(InvalidInputError, match=values):
        BinaryMatrixCompletion().fit(
            pd.read_csv(path), row="user", column="item", value="opinion", **words
        )


def test_later_tables_need_not_have_every_word(write):
    first = replace(LONG, like="yea", dislike="nay").records(write(VOTES)).reading
    for kept in (first, Reading.from_json(first.to_json())):
        assert kept.records(write(opinions("Nay"), "later.csv")).labels.tolist() == [-1]


def test_with_a_bar_one_and_zero_are_ratings(write):
    found = replace(LONG, like_at=0).records(write(opinions("1", "0", "-1")))
    assert found.labels.tolist() == [1, 1, -1]


# Missing values


GAPS = "user,item,opinion\nu0,i0,1\n,i1,1\nu2,i2,NA\nu3,,\nu4,i4,nan\nu5,i5,-1\nu6,i6,?\nNA,i7,1\n"


def test_records_with_gaps_are_left_out_and_counted(write):
    found = replace(LONG, missing="skip").records(write(GAPS))
    assert found.rows.tolist() == ["u0", "u5"]
    assert found.labels.tolist() == [1, -1]
    assert found.reading.notes == ("r.csv: 6 records were left out, without an id or a value.",)
    assert found.where(1) == "line 7 of r.csv"


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("user,item,opinion\nu,i,1\nu,,1\n", r"line 3 .*: the id in column 'item' is empty; .*missing='skip'"),
        ("user,item,opinion\nu,i,1\nu,j,null\n", r"line 3 .*: the value 'null' in column 'opinion' is missing; .*skip"),
    ],
)  # fmt: skip
def test_a_gap_is_refused_by_default(write, text, match):
    with pytest.raises(InvalidInputError, match=match):
        LONG.read(write(text))


def test_an_id_may_be_called_na(write):
    assert LONG.records(write("user,item,opinion\nNA,i,1\n")).rows.tolist() == ["NA"]


def test_a_table_of_gaps_is_refused(write):
    with pytest.raises(InvalidInputError, match=r"Each record of r\.csv lacks an id or a value"):
        replace(LONG, missing="skip").read(write(opinions("NA", "?")))


# Columns


def test_columns_are_taken_in_order_and_said(write):
    found = Reading().records(write("who,what,vote\na,x,1\na,y,-1\n"))
    assert (found.rows.tolist(), found.columns.tolist()) == (["a", "a"], ["x", "y"])
    assert found.names == ("who", "what", "vote")
    assert found.reading.notes == (
        "r.csv: row ids are in column 'who', column ids in 'what', values in 'vote' (in this order).",
    )
    assert (found.reading.row, found.reading.value) == ("who", "vote")
    likes = Reading().records(write("who,what\na,x\na,y\n"))
    assert likes.labels.tolist() == [1, 1]
    assert likes.names == ("who", "what", None)


@pytest.mark.parametrize("text", ["7\t7\t1\n7\t8\t-1\n", "7 7 1\n7 8 -1\n", "7::7::1\n7::8::-1\n"])
def test_a_first_line_of_numbers_is_no_header(write, text):
    found = Reading().records(write(text, "u.data"))
    assert found.columns.tolist() == ["7", "8"]
    assert found.names == ("0", "1", "2")
    assert any("there is no header" in note for note in found.reading.notes)
    numbered = Reading().records(write("0,1,2\na,x,1\n"))
    assert numbered.rows.tolist() == ["a"]


@pytest.mark.parametrize(
    ("rules", "text"),
    [
        ({}, "a,b,c,d\n1,2,3,4\n"),
        ({}, "a\n1\n"),
        ({"row": "a"}, "a,b\n1,2\n"),
        ({"value": "c"}, "a,b,c\n1,2,3\n"),
    ],
)
def test_columns_that_nobody_can_tell_are_listed(write, rules, text):
    header = text.split("\n")[0].replace(",", ", ")
    with pytest.raises(
        InvalidInputError, match=rf"r\.csv has the columns {header}; .* row and column, and"
    ):
        Reading(**rules).read(write(text))


# Delimiters, decimals and encodings


@pytest.mark.parametrize("delimiter", [",", "\t", ";", "|", "::", "  "])
@pytest.mark.parametrize("name", ["r.csv", "r.tsv", "r.txt"])
@pytest.mark.parametrize("quote", ["", '"'])
def test_the_delimiter_is_guessed_and_said_where_the_name_promises_another(
    write, delimiter, name, quote
):
    quote = quote if len(delimiter) == 1 else ""
    lines = [["user", "item", "opinion"], ["u 1", "x", "1"], ["u2", "y", "-1"]]
    if delimiter == "  ":
        lines[1][0] = "u1"
    text = "\n".join(delimiter.join(f"{quote}{field}{quote}" for field in line) for line in lines)
    found = LONG.records(write(text, name))
    assert found.labels.tolist() == [1, -1]
    promised = {"r.csv": [","], "r.tsv": ["\t"], "r.txt": ["\t", "  "]}[name]
    shown = {"\t": "a tab", "  ": "white space"}.get(delimiter, delimiter)
    expected = () if delimiter in promised else (f"{name}: the delimiter is {shown} (guessed).",)
    assert found.reading.notes == expected
    assert found.reading.delimiter is None  # the next file may have another


def test_a_delimiter_that_is_given_is_not_guessed(write):
    path = write("user;item,opinion\nu;x,1\n")
    found = Reading(row="user;item", column="opinion", delimiter="comma").records(path)
    assert found.rows.tolist() == ["u;x"]
    for delimiter in ("semicolon", ";"):
        table = read_table(path, delimiter=delimiter)
        assert list(table.columns) == ["user", "item,opinion"]
    assert list(read_table(write("a#b\n1#2\n"), delimiter="#").columns) == ["a", "b"]
    assert list(read_table(write("a\tb\n1\t2\n"), delimiter="\\t").columns) == ["a", "b"]


def test_a_mark_inside_names_does_not_decide(write):
    path = write("user;film\nann;Crouching Tiger, Hidden Dragon\nbob;Alien\n")
    assert Reading(row="user", column="film").records(path).columns[0].startswith("Crouching")


def test_decimal_commas(write):
    text = "user;item;opinion\nu;x;0,5\nv;x;3,5\nw;x;4\n"
    rules = replace(LONG, like_at=3.5, decimal=",")
    assert rules.records(write(text)).labels.tolist() == [-1, 1, 1]
    with pytest.raises(InvalidInputError, match=r"'1\.000' in column 'opinion' is not a number"):
        rules.read(write(text + "z;x;1.000\n"))
    # Without a header too: the comma is in every line, and no delimiter.
    bare = text.split("\n", 1)[1].replace("4", "4,0")
    found = Reading(row=0, column=1, value=2, like_at=3.5, decimal=",").records(write(bare))
    assert found.columns.tolist() == ["x"] * 3


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("user;item;opinion\nu;x;0,5\nv;x;3,5\nw;x;4\n", NAMED),
        ("u;x;0,5\nv;x;3,5\nw;x;4,0\n", {"row": 0, "column": 1, "value": 2}),
        ("u;x;0,5\nv;x;3,5\nw;x;4,0\n", {}),
        ("user\titem\topinion\nu\tx\t0,5\nv\tx\t3,5\nw\tx\t4\n", NAMED),
    ],
)
def test_decimal_commas_are_guessed_with_a_note(write, text, names):
    found = Reading(**names, like_at=3.5).records(write(text))
    assert found.labels.tolist() == [-1, 1, 1]
    assert found.reading.decimal == ","
    assert "r.csv: the decimal mark is , (guessed)." in found.reading.notes


def test_an_id_that_may_be_missing_is_noted(write):
    path = write("user,item\nNA,x\nu,x\n")
    found = Reading(row="user", column="item").records(path)
    assert found.rows.tolist() == ["NA", "u"]
    assert found.reading.notes == ("r.csv: NA in column 'user' is an id (guessed).",)
    assert Reading(row="user", column="item", missing="skip").records(path).rows.tolist() == ["u"]


@pytest.mark.parametrize(
    ("name", "content", "line"),
    [
        ("r.xlsx", "PK", r"pandas.read_excel\('table.xlsx'\).to_csv"),
        ("r.json", "[]", r"jq -c '.\[\]' table.json > table.jsonl"),
        ("r.jsonl", '[{"user": "u", "item": "i"}]\n', r"jq -c '.\[\]' table.json > table.jsonl"),
    ],
)
def test_other_files_are_refused_with_the_line_that_reads_them(write, name, content, line):
    with pytest.raises(InvalidInputError, match=line):
        Reading(row="user", column="item").read(write(content, name))


def test_opinions_between_are_left_out_and_counted(write):
    found = replace(LONG, like="Yes", dislike="No").records(write(opinions("yes", "maybe", "no")))
    assert found.labels.tolist() == [1, -1]
    note = "r.csv: 1 value was left out, neither a like nor a dislike: maybe (1)."
    assert found.reading.notes == (note,)
    rated = replace(LONG, like_at=4, dislike_at=2).records(write(opinions("5", "3", "2", "1")))
    assert rated.labels.tolist() == [1, -1, -1]
    assert rated.reading.notes == ("r.csv: 1 value was left out, between both thresholds: 3 (1).",)


@pytest.mark.parametrize("gz", [False, True])
@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-32"])
def test_a_mark_tells_the_encoding(write, encoding, gz):
    data = "user,item\né,用户\n".encode(encoding)
    path = write(gzip.compress(data) if gz else data, "r.csv.gz" if gz else "r.csv")
    assert read_table(path).columns["item"].tolist() == ["用户"]


def test_an_encoding_without_a_mark_is_given(write):
    path = write("user,item\né,x\n", encoding="cp1252")
    with pytest.raises(InvalidInputError, match=r"not UTF-8 text.* encoding \(latin-1 or cp1252"):
        observations_from_file(path, row="user", column="item")
    seen = observations_from_file(path, row="user", column="item", encoding="cp1252")
    assert seen.row_ids.tolist() == ["é"]
    with pytest.raises(
        InvalidInputError, match=r"r\.csv is not ascii text, near byte 0xe9; correct"
    ):
        read_table(path, encoding="ascii")


# Wide tables


WIDE = "name,Alien,Brazil,Clue\nann,1,,-1\nbob,NA,-1,1\n"


def test_a_wide_table_has_a_row_in_each_line(write):
    found = Reading(layout="wide").records(write(WIDE))
    expected = {("ann", "Alien"): 1, ("ann", "Clue"): -1, ("bob", "Brazil"): -1, ("bob", "Clue"): 1}
    assert labels_of(found) == expected
    assert found.names == ("name", "column", "value")
    assert found.reading.notes == ()
    behind = write("Alien,name\n1,ann\n-1,bob\n")
    for row in ("name", 1):
        again = Reading(layout="wide", row=row).records(behind)
        assert labels_of(again) == {("ann", "Alien"): 1, ("bob", "Alien"): -1}


def test_places_in_a_wide_table_are_lines_and_columns(write):
    with pytest.raises(InvalidInputError, match=r"line 3 of r\.csv, column 'Clue': the value 'x'"):
        Reading(layout="wide").read(write(WIDE.replace("-1,1", "-1,x")))


def test_zeros_of_a_wide_table(write):
    found = Reading(layout="wide").records(write("n,a,b\nu,1,0\nv,-1,1\n"))
    assert labels_of(found) == {("u", "a"): 1, ("v", "a"): -1, ("v", "b"): 1}
    assert found.reading.notes == ("r.csv: 0 is unobserved, as -1 is the dislike (guessed).",)
    assert found.reading.zeros == "unobserved"
    gap = Reading(layout="wide").records(write("n,a,b\nu,1,0\nv,,1\n"))
    assert labels_of(gap) == {("u", "a"): 1, ("u", "b"): -1, ("v", "b"): 1}
    told = Reading(layout="wide", zeros="dislike", like_at=1).records(
        write("n,a,b\nu,1,0\nv,2,1\n")
    )
    assert told.labels.tolist() == [1, -1, 1, 1]


@pytest.mark.parametrize(
    ("text", "rules", "match"),
    [
        ("n,a,a\nu,1,1\n", {}, "has two columns 'a'"),
        ("n\nu\n", {}, "of row ids and others of values"),
        (WIDE, {"row": "who"}, "no column 'who' of row ids"),
        (
            WIDE,
            {"column": "Alien"},
            "column, value, weight and time are for tables with an entry in each",
        ),
        (",a\n,1\n", {}, "the id in column 'row' is empty"),
    ],
)
def test_a_wide_table_that_is_none(write, text, rules, match):
    with pytest.raises(InvalidInputError, match=match):
        Reading(layout="wide", **rules).read(write(text))


# The rules themselves


@pytest.mark.parametrize(
    ("rules", "error", "match"),
    [
        ({"row": 1.5}, InvalidTypeError, "row must be the name of a column, or its number"),
        ({"like": []}, InvalidInputError, "like must be a word, or several"),
        ({"like": ["yes", None]}, InvalidInputError, "like must be a word"),
        ({"like": "yes", "dislike": ["no", "YES"]}, InvalidInputError, "like and dislike share 'yes'"),
        ({"like": "yes", "like_at": 3}, InvalidInputError, "like_at is for ratings, like and dis"),
        ({"like_at": float("nan")}, InvalidInputError, "like_at is nan"),
        ({"delimiter": ""}, InvalidInputError, "delimiter must be the mark between fields"),
        ({"delimiter": '"'}, InvalidInputError, "delimiter must be"),
        ({"delimiter": "\n"}, InvalidInputError, "delimiter must be"),
        ({"delimiter": 7}, InvalidInputError, "delimiter must be"),
        ({"decimal": ";"}, InvalidInputError, "decimal must be one of ., ,"),
        ({"decimal": ",", "delimiter": ","}, InvalidInputError, "decimal and delimiter are both ','"),
        ({"encoding": "rot13"}, InvalidInputError, "encoding must be the name of an encoding of text"),
        ({"encoding": "a\0b"}, InvalidInputError, "encoding must be the name"),
        ({"encoding": "IDNA"}, InvalidInputError, "encoding must be the name"),
        ({"encoding": 8}, InvalidInputError, "encoding must be the name"),
        ({"missing": "drop"}, InvalidInputError, "missing must be one of error, skip"),
        ({"layout": "deep"}, InvalidInputError, "layout must be one of long, wide"),
        ({"zeros": 0}, InvalidInputError, "zeros must be one of dislike, unobserved"),
        ({"format": "xls"}, InvalidInputError, "format must be one of csv, tsv"),
        ({"duplicates": "sum"}, InvalidInputError, "duplicates must be one of"),
    ],
)  # fmt: skip
def test_a_wrong_rule_is_one_sentence(rules, error, match):
    with pytest.raises(error, match=match):
        Reading(**rules)


def test_words_need_a_column_of_values(write):
    with pytest.raises(InvalidInputError, match="like needs value, the name"):
        Reading(row="user", column="item", like="yes").read(write("user,item\nu,i\n"))


def test_rules_survive_json():
    rules = Reading(
        row="user", column=1, value="v", like=["yes", True], dislike="no", delimiter="tab",
        encoding="latin-1", missing="skip", duplicates="last", zeros="dislike", format="csv", notes=("told.",),
    )  # fmt: skip
    plain = json.loads(json.dumps(rules.to_json()))
    again = Reading.from_json(plain)
    assert again == rules
    assert again.notes == rules.notes
    assert again.like == ("yes", "true")
    with pytest.raises(InvalidInputError, match="'later' is no rule of reading"):
        Reading.from_json({**plain, "later": 1})
    with pytest.raises(InvalidInputError, match="missing must be"):
        Reading.from_json({**plain, "missing": ["skip"]})


def test_pairs_are_read_without_their_values(write):
    path = write("user,item,opinion\nu,x,\nv,y,nonsense\n")
    found = LONG.pairs(path)
    assert (found.rows.tolist(), found.columns.tolist()) == (["u", "v"], ["x", "y"])
    assert found.labels is None
    wide = Reading(layout="wide").records(write(WIDE, "w.csv")).reading
    assert wide.pairs(path).rows.tolist() == ["u", "v"]


def test_notes_are_logged(write, caplog):
    with caplog.at_level(logging.INFO, logger="tribit.data"):
        observations_from_file(
            write(opinions("yes", "no")), row="user", column="item", value="opinion"
        )
    assert [record.getMessage() for record in caplog.records] == [
        "r.csv: yes is a like and no a dislike (guessed)."
    ]


# Standard input and output


def given(monkeypatch, data):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_standard_input_is_csv(monkeypatch, pack):
    given(monkeypatch, pack(b"user;item;opinion\nu;x;1\nv;x;-1\n"))
    found = LONG.records("-")
    assert found.labels.tolist() == [1, -1]
    assert found.where(1) == "line 3 of standard input"
    assert found.reading.notes == ("standard input: the delimiter is ; (guessed).",)


def test_standard_input_of_another_format(monkeypatch):
    given(monkeypatch, b'{"user": "u", "item": "x", "opinion": -1}\n')
    assert replace(LONG, format="jsonl").records("-").labels.tolist() == [-1]


def test_standard_input_is_limited(monkeypatch):
    given(monkeypatch, b"user,item,opinion\n" + b"u,x,1\n" * 100)
    with pytest.raises(InvalidInputError, match="standard input holds more than 100 bytes"):
        LONG.read("-", max_size=100)


def test_standard_input_without_end_is_not_copied_whole(monkeypatch):
    class Endless(io.RawIOBase):
        left = 10

        def readable(self):
            return True

        def readinto(self, buffer):
            self.left -= 1
            assert self.left, "more was read than the limit"
            buffer[:] = b"x" * len(buffer)
            return len(buffer)

    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BufferedReader(Endless())))
    with pytest.raises(InvalidInputError, match="standard input holds more than 1 KiB"):
        LONG.read("-", max_size=2**10)


def test_a_table_goes_to_standard_output(capsysbinary):
    write_table("-", {"id": ["é", "b"], "score": [0.5, 1.0]})
    assert capsysbinary.readouterr().out == "id,score\né,0.5\nb,1.0\n".encode()
    sys.stdout.write("still open\n")
    assert capsysbinary.readouterr().out == b"still open\n"


# Lines that are read many at once


@pytest.mark.parametrize("delimiter", [",", "::", " "])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_blocks_give_the_records_and_lines_of_single_lines(write, monkeypatch, delimiter, end):
    rng = np.random.default_rng(0)
    table = [["a", "b", "c"], *rng.integers(100, size=(500, 3)).astype(str).tolist()]
    text = end.join(delimiter.join(fields) for fields in table) + end
    odd = text.replace(end, end + end, 2) if delimiter == "," else text
    for each in (text, text.removesuffix(end), odd, text + end + delimiter.join("xyz")):
        monkeypatch.setattr("tribit.data.sources.BLOCK_CHARACTERS", 300)
        blocks = read_table(write(each, "r.txt"), delimiter=delimiter)
        monkeypatch.setattr(Lines, "block", lambda _: None)
        single = read_table(write(each, "r.txt"), delimiter=delimiter)
        monkeypatch.undo()
        for name in "abc":
            assert blocks.columns[name].tolist() == single.columns[name].tolist()
        np.testing.assert_array_equal(blocks.lines, single.lines)


def outcome(path, *columns, **rules):
    """Return the texts and line numbers of a file, or the sentence that refuses it."""
    try:
        table = read_table(path, *columns, **rules)
    except InvalidInputError as error:
        return str(error)
    return {name: texts.tolist() for name, texts in table.columns.items()}, table.lines.tolist()


QUOTED = {
    "plain": 'a,b\n"1","2, 2"\n"","x"\n"a ""b""",""""\n',
    "a space before a quote": 'a,b\n1, "2"\n"3",4\n',
    "a quote inside": 'a,b\n1,2"3\n"3",4"\n',
    "a line break inside": 'a,b\n"1\n2",3\n4,"5"\n',
    "a mark at the start of a record": "a,b\n\ufeff1,2\n",
    "white space around": "a,b\n 1 ,\t2\n1,2\u3000\n ,\n007,NA\n1e5,True\n",
    "nothing in a record": "a,b\n,\n1,2\n",
    "a control character": "a,b\n1\x1f,2\x00\n",
}


@pytest.mark.parametrize("text", QUOTED.values(), ids=QUOTED)
@pytest.mark.parametrize("delimiter", [",", "::", "§"])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_blocks_read_quotes_and_odd_marks_as_single_lines_do(
    write, monkeypatch, text, delimiter, mark
):
    path = write(mark + text.replace(",", delimiter))
    blocks = outcome(path, delimiter=delimiter)
    monkeypatch.setattr(Lines, "block", lambda _: None)
    assert blocks == outcome(path, delimiter=delimiter)


RECORDS = {
    "numbers": '{"a": 7, "b": 1.5}\n{"a": 7.0, "b": -0.0}\n{"b": 1e3}\n',
    "large numbers": '{"a": 12345678901234567890, "b": 9007199254740993}\n{"a": 1, "b": 2}\n',
    "odd numbers": '{"a": NaN, "b": 1}\n{"a": 1e400, "b": 2}\n',
    "texts": '{"a": " x ", "b": "2020-01-01", "c": [1, {}]}\n{"b": "\\ud83d\\ude00", "a": null}\n',
    "half of a pair": '{"a": "x", "b": "\\ud800"}\n{"a": "y", "b": "z"}\n',
    "truth values": '{"a": true, "b": false}\n{"a": false, "b": null}\n',
    "kinds that change": '{"a": 1, "b": "x"}\n{"a": "1", "b": true}\n',
    "a key given twice": '{"a": 1, "a": 2, "b": 3}\n{"b": 3, "b": 4}\n',
    "nothing but null": '{"a": null, "b": 3}\n{"b": 4}\n',
    "spaces and blank lines": ' {"a": 1, "b": 2}\n\n{"a": 3, "b": 4} \n',
}


@pytest.mark.parametrize("text", RECORDS.values(), ids=RECORDS)
def test_blocks_of_json_lines_read_as_single_lines_do(write, monkeypatch, text):
    path = write(text, "r.jsonl")
    blocks = outcome(path, ["b", "a"])
    monkeypatch.setattr(Lines, "block", lambda _: None)
    assert blocks == outcome(path, ["b", "a"])


@pytest.mark.parametrize("text", ['{"a": 1}{"a": 2}\n', '{"a":\n1}\n', '{"a": 1}\n{"a": 01}\n'])
def test_a_line_that_is_no_object_is_named_inside_a_block(write, text):
    with pytest.raises(InvalidInputError, match=r"line \d of r\.jsonl: the record is no JSON"):
        read_table(write('{"a": 1}\n' + text, "r.jsonl"), ["a"])


def test_single_lines_are_followed_by_blocks(write, monkeypatch):
    calls = []
    original = text_formats._delimited_columns
    monkeypatch.setattr("tribit.data.sources.BLOCK_CHARACTERS", 100)
    monkeypatch.setattr(
        text_formats,
        "_delimited_columns",
        lambda *given: calls.append(original(*given)) or calls[-1],
    )
    text = "a,b\n" + "1,2\n" * 30 + '"3\n4",5\n' + "6,7\n" * 60
    table = read_table(write(text))
    assert table.columns["a"].tolist() == ["1"] * 30 + ["3\n4"] + ["6"] * 60
    assert table.where(90) == "line 93 of r.csv"
    assert [found is None for found in calls] == [False, True, False, False]


@pytest.mark.parametrize("line", ["1,2", "1,2,3,4", "1", "1,"])
def test_a_ragged_line_inside_a_block_is_named(write, line):
    lines = ["a,b,c", *["1,2,3"] * 10, line, "1,2,3", *(["1,2,3,4"] if line == "1,2" else [])]
    path = write("\n".join(lines))
    with pytest.raises(InvalidInputError, match=r"line 12 of r\.csv has \d fields"):
        read_table(path)


def test_white_space_of_any_kind_is_one_delimiter(write):
    path = write("a b c\n1 2 3\n4\t5  6\n 7 8\t9\n", "r.txt")
    table = read_table(path, delimiter="space")
    assert [table.columns[name].tolist() for name in "abc"] == [
        ["1", "4", "7"],
        ["2", "5", "8"],
        ["3", "6", "9"],
    ]
    path = write("a b c\n1 2 3\n1 2\t9 3\n1  2\n", "r.txt")
    with pytest.raises(InvalidInputError, match=r"line 3 of r\.txt has 4 fields"):
        read_table(path, delimiter="space")


def test_blocks_are_used(write, monkeypatch):
    calls = []
    original = text_formats._delimited_columns
    monkeypatch.setattr(
        text_formats,
        "_delimited_columns",
        lambda *given: calls.append(original(*given)) or calls[-1],
    )
    read_table(write("a,b\n" + "1,2\n" * 100))
    assert len(calls) == 1
    assert calls[0] is not None


def test_numbers_are_one_word_however_they_are_written():
    with pytest.raises(InvalidInputError, match="share '1'"):
        Reading(like="1", dislike=["1.0", "2"])

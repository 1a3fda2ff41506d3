"""Bundles that lack something or know something odd: what they cannot do is said, what they can is right."""

import hashlib
import json

import numpy as np
import pytest

from tribit import BinaryMatrixCompletion, Observations, Recommender, load

FIT = ["--row", "user", "--column", "item", "--value", "label", "-q"]
PLAIN = ["--rank", "2", "--l2", "1", "--implicit-features", "no"]


def table(seed=0, users=(0, 40), density=0.5):
    rng = np.random.default_rng(0)
    U, V = rng.standard_normal((45, 2)), 2 * rng.standard_normal((20, 2))
    labels = np.where(U @ V.T + rng.standard_normal((45, 20)) > 0, 1, -1)
    seen = np.random.default_rng(seed).random(labels.shape) < density
    return [
        (f"u{i}", f"i{j}", labels[i, j]) for i, j in np.argwhere(seen) if users[0] <= i < users[1]
    ]


def write(path, records, header="user,item,label"):
    lines = [",".join(map(str, record)) for record in records]
    path.write_text("\n".join([header, *lines]) + "\n", encoding="utf-8")
    return path


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "r.csv", table())
    write(tmp_path / "new.csv", table(users=(40, 42)))
    return tmp_path


def done(run, *words):
    code, out, err = run(*words)
    assert code == 0, err
    return out


def listed(run, *words):
    return json.loads(done(run, "recommend", *words, "--json"))


@pytest.mark.usefixtures("short_trials")
def test_a_part_of_what_was_seen_is_no_ground_for_a_ranker(run, here):
    done(run, "fit", "r.csv", "-o", "whole", *FIT, *PLAIN)
    done(run, "fit", "r.csv", "-o", "private", *FIT, *PLAIN, "--no-seen")
    options = ["--for", "u3", "--level", "none"]
    assert listed(run, "private", "r.csv", *options) == listed(run, "whole", *options)
    write(here / "part.csv", [each for each in table() if each[0] == "u3"])
    code, out, err = run("recommend", "private", "part.csv", "--for", "u3", "--json")
    assert code == 0
    assert "not those of the fit" in err
    assert "expected_likes" not in json.loads(out)[0]
    # Newcomers need nothing but their own entries.
    found = json.loads(run("recommend", "private", "--new", "new.csv", "--json")[1])
    given = {(user, item) for user, item, _ in table(users=(40, 42))}
    assert {each["user"] for each in found} == {"u40", "u41"}
    assert not given & {(each["user"], each["item"]) for each in found}
    code, _, err = run("explain", "private", "u3", "i1")
    assert code == 2
    assert "without --no-seen" in err


@pytest.mark.usefixtures("short_trials")
def test_a_model_of_the_mask_does_not_stand_in_the_way(run, here):
    rho = [
        "--gammas",
        "0.6,0.2,0.2",
        "--radius",
        "3",
        "--rho",
        "row-column",
        "--l2",
        "1",
        "--rank",
        "2",
    ]
    done(run, "fit", "r.csv", "-o", "m", *FIT, *rho)
    assert "u3" in done(run, "explain", "m", "u3", "i1")
    assert listed(run, "m", "--for", "zed", "-n", "2")[0]["basis"] == "popularity"
    assert listed(run, "m", "--new", "new.csv", "-n", "2")
    write(here / "more.csv", [*table(users=(40, 42)), ("u3", "fresh", 1)])
    done(run, "update", "m", "more.csv", "-o", "m2")
    assert load("m2").shape_ == (42, 21)
    model = BinaryMatrixCompletion((0.6, 0.2, 0.2), rank=2, l2=1.0, radius=3.0, rho="row-column")
    observations = Observations.from_matrix(np.where(np.eye(12, 9) > 0, 1, -1))
    more = Recommender(model, random_state=0).fit(observations).fold_in(np.ones((1, 9), int))
    assert more.explain(12, 3).row == 12


@pytest.mark.parametrize(
    "kind", [["--gammas", "0.6,0.2,0.2", "--radius", "3"], ["--gammas", "1,0,0"]]
)
def test_nobody_has_a_list_under_every_risk(run, here, kind):
    done(run, "fit", "r.csv", "-o", "m", *FIT, "--rank", "2", "--l2", "1", *kind)
    found = listed(run, "m", "--for", "zed", "-n", "3")
    assert [each["basis"] for each in found] == ["popularity"] * 3
    assert all(each["lower"] <= each["probability"] <= each["upper"] for each in found)


@pytest.mark.usefixtures("short_trials")
def test_likes_alone_say_what_their_numbers_are(run, here):
    write(here / "likes.csv", [each[:2] for each in table() if each[2] > 0], "user,item")
    done(run, "fit", "likes.csv", "-o", "m", "-q")
    assert listed(run, "m", "--for", "zed", "-n", "2")
    info = done(run, "info", "m")
    held_out = Recommender.load("m").model_.search_.n_held_out
    assert "AUC" in info
    assert f"({held_out} entries)" in info
    write(here / "pairs.csv", [("u1", "i1")], "user,item")
    found = json.loads(done(run, "predict", "m", "pairs.csv", "--json"))
    assert "label" not in found[0]
    assert "Probabilities are of a cell being seen and liked" in done(
        run, "explain", "m", "u1", "i1"
    )


def test_updates_repeat_themselves(run, here):
    done(run, "fit", "r.csv", "-o", "m", *FIT, *PLAIN)
    for out in ("a", "b"):
        done(run, "update", "m", "new.csv", "-o", out)
        done(run, "update", out, "r.csv", "-o", out)
    digests = {hashlib.sha256((here / out).read_bytes()).hexdigest() for out in ("a", "b")}
    assert len(digests) == 1


def test_numbers_stay_numbers(run, here):
    i, j = np.nonzero(np.random.default_rng(1).random((12, 9)) < 0.7)
    labels = np.where((i + j) % 2, 1, -1)
    seen = Observations.from_pairs(
        i, j, labels, shape=(12, 9), row_ids=np.arange(12), column_ids=np.arange(9)
    )
    model = BinaryMatrixCompletion(rank=1, l2=1.0, search=False)
    Recommender(model, random_state=0).fit(seen).save("m")
    write(here / "more.csv", [(12, 3, 1), (12, 4, -1)])
    names = ["--row", "user", "--column", "item", "--value", "label"]
    done(run, "update", "m", "more.csv", "-o", "m2", *names)
    assert Recommender.load("m2").predict_proba([12], [3]).shape == (1,)
    write(here / "more.csv", [("twelve", 3, 1)])
    code, _, err = run("update", "m", "more.csv", "-o", "m2", *names)
    assert code == 2
    assert "'twelve' is no number" in err


@pytest.mark.usefixtures("short_trials")
def test_wide_bundles_are_asked_by_other_tables(run, here):
    header = ",".join(["who", *(f"i{j}" for j in range(20))])
    cells = {(user, item): label for user, item, label in table()}
    rows = [(f"u{i}", *(cells.get((f"u{i}", f"i{j}"), "") for j in range(20))) for i in range(40)]
    write(here / "wide.csv", rows, header)
    done(run, "fit", "wide.csv", "-o", "w", "--wide", "-q", *PLAIN)
    write(here / "pairs.csv", [(1, "u1", "i1"), (2, "u2", "i5")], "n,user,item")
    found = json.loads(
        done(run, "predict", "w", "pairs.csv", "--row", "user", "--column", "item", "--json")
    )
    assert [each["basis"] for each in found] == ["model", "model"]
    names = ["--row", "user", "--column", "item", "--value", "label"]
    write(here / "test.csv", table(seed=3, density=0.1))
    assert "entries" in run("evaluate", "w", "test.csv", *names)[1]
    done(run, "fit", "r.csv", "-o", "long", *FIT, *PLAIN)
    assert "entries" in run("evaluate", "long", "wide.csv", "--layout", "wide", "--row", "who")[1]


def test_new_entries_are_answered_for_the_rows_that_have_them(run, here):
    done(run, "fit", "r.csv", "-o", "m", *FIT, *PLAIN)
    unseen = next(f"i{j}" for j in range(20) if ("u3", f"i{j}") not in {r[:2] for r in table()})
    write(here / "today.csv", [*table(users=(40, 41)), ("u3", unseen, 1)])
    assert {each["user"] for each in listed(run, "m", "--new", "today.csv", "-n", "2")} == {
        "u3",
        "u40",
    }
    write(here / "known.csv", [("u3", unseen, 1)])
    found = listed(run, "m", "--new", "known.csv", "-n", "20")
    assert {each["user"] for each in found} == {"u3"}
    assert unseen not in {each["item"] for each in found}


def test_json_and_a_file_are_two_things(run, here):
    done(run, "fit", "r.csv", "-o", "m", *FIT, *PLAIN)
    code, out, err = run("recommend", "m", "--for", "u3", "-o", "-", "--json")
    assert code == 2
    assert "pass one of them" in err
    assert not out


def test_long_ids_are_cut_on_a_terminal_and_nowhere_else(run, here):
    long = "x" * 500
    write(here / "long.csv", [*table(), (long, "i1", 1), (long, "i2", -1)])
    done(run, "fit", "long.csv", "-o", "m", *FIT, *PLAIN)
    printed = done(run, "recommend", "m", "--for", long, "-n", "1")
    assert max(map(len, printed.splitlines())) < 250
    assert listed(run, "m", "--for", long, "-n", "1")[0]["user"] == long


@pytest.mark.parametrize("level", ["1", "1.5", "nan"])
@pytest.mark.usefixtures("short_trials")
def test_an_interval_is_of_less_than_everything(run, here, level):
    done(run, "fit", "r.csv", "-o", "m", *FIT, *PLAIN)
    code, _, err = run("recommend", "m", "--for", "u3", "--level", level)
    assert code == 2
    assert "--level" in err

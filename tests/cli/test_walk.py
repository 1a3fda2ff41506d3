"""The road of a new user, in the words of the README and of each command's help: every command there is run."""

import csv
import json
import re
import runpy
import shlex
from pathlib import Path

import numpy as np
import pytest
import typer

from tribit import Recommender
from tribit.cli import app, main
from tribit.simulate import tables

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
#: Runs the examples of a page and compares their output.
run_doctest = runpy.run_path(ROOT / "docs" / "_ext" / "run_examples.py")["run_doctest"]
#: Commands that are not about a user's own file, and one that runs until it is stopped; they have tests of their own.
ELSEWHERE = {"demo", "reproduce", "compare", "serve"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Files as a user might have them: ratings with names for ids, and what came later."""
    folder = tmp_path_factory.mktemp("walk")
    rng = np.random.default_rng(0)
    tastes, traits = rng.standard_normal((70, 2)), 2 * rng.standard_normal((30, 2))
    stars = np.clip(np.round(3.5 + tastes @ traits.T + rng.standard_normal((70, 30))), 1, 5)
    seen = rng.random(stars.shape) < 0.5
    seen[3, 8] = seen[66:, 29] = False
    held_out = seen & (rng.random(stars.shape) < 0.1)
    held_out[60:] = False

    def lines(chosen, first=0, last=70):
        i, j = np.nonzero(chosen)
        return [
            f"user{a},item{b},{stars[a, b]:.0f}"
            for a, b in zip(i, j, strict=True)
            if first <= a < last
        ]

    def write(name, header, records):
        (folder / name).write_text("\n".join([header, *records]) + "\n", encoding="utf-8")

    write("ratings.csv", "user,item,stars", lines(seen & ~held_out, 0, 60))
    write("test.csv", "user,item,stars", lines(held_out))
    write("pairs.csv", "user,item", ["user3,item8", "user5,item1", "stranger,item8"])
    write("newcomers.csv", "user,item,stars", lines(seen, 60, 65))
    write("today.csv", "user,item,stars", [*lines(seen, 65, 70), "user3,item8,5", "user4,new,2"])
    return folder


@pytest.fixture(scope="module")
def readme_folder(tmp_path_factory):
    """Return a folder with the file that the README starts from, made as in the quickstart."""
    folder = tmp_path_factory.mktemp("readme")
    tables.ratings(random_state=0).to_csv(folder / "ratings.csv", index=False)
    return folder


def block_of_readme(language, start):
    """Return the only block of the README in a language that has this start."""
    (block,) = re.findall(
        rf"^```{language}\n({re.escape(start)}.*?)^```$", README, re.DOTALL | re.MULTILINE
    )
    return block


def commands():
    """Return the commands of the README's block."""
    lines = block_of_readme("console", "$ tribit ").splitlines()
    assert all(line.startswith("$ tribit ") for line in lines)
    return [line.removeprefix("$ tribit ") for line in lines]


def run(text, capsys):
    with pytest.raises(SystemExit) as ended:
        main(shlex.split(text))
    shown = capsys.readouterr()
    assert ended.value.code in (0, None), shown.err
    return shown.out


def records(path):
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def pairs(path):
    return {(each["user"], each["item"]) for each in records(path)}


def assert_intervals_hold_probabilities(path):
    for each in records(path):
        assert float(each["lower"]) <= float(each["probability"]) <= float(each["upper"])


@pytest.mark.usefixtures("short_trials")
def test_the_readme_s_commands_lead_from_a_file_to_answers(readme_folder, capsys, monkeypatch):
    monkeypatch.chdir(readme_folder)
    told = {}
    for command in commands():
        name = command.split()[0]
        told[name] = told.get(name, "") + run(command, capsys)
    asked = {"split", "fit", "info", "evaluate", "report", "predict", "complete"}
    assert told.keys() == asked | {"recommend", "explain", "update"}
    train, test = pairs(Path("train.csv")), pairs(Path("test.csv"))
    assert not train & test
    assert train | test == pairs(Path("ratings.csv"))
    assert "150 x 80" in told["info"]
    assert "by the rate of likes minus that of dislikes" in told["info"]
    assert "like_at 4" in told["info"]
    measured = dict(re.findall(r"^ *(error rate|AUC) +([\d.]+)", told["evaluate"], re.MULTILINE))
    beside = re.search(r"user and item biases +error rate ([\d.]+)", told["evaluate"])[1]
    assert float(measured["error rate"]) < float(beside)
    assert measured["error rate"] in told["report"]
    scores = records(Path("scores.csv"))
    assert pairs(Path("scores.csv")) == test
    assert {each["basis"] for each in scores} == {"model"}
    assert all(0 < float(each["probability"]) < 1 for each in scores)
    full = records(Path("full.csv"))
    assert (len(full), len(full[0])) == (150, 1 + 80)
    assert "user3" in told["recommend"]
    lists = records(Path("lists.csv"))
    assert {each["user"] for each in lists} == {user for user, _ in test}
    assert not (train | test) & pairs(Path("lists.csv"))
    assert_intervals_hold_probabilities(Path("lists.csv"))
    assert "liked" in told["explain"]
    bundle = Recommender.load("model.tribit")
    assert bundle.shape_ == (150, 80)
    assert bundle.seen_.labels.size == len(train | test)


def test_the_readme_s_python_prints_what_it_says(readme_folder, monkeypatch):
    monkeypatch.chdir(readme_folder)
    block = block_of_readme("python", ">>> from tribit import Recommender\n")
    problems = run_doctest(block, {}, "README.md", 1)
    assert not problems, problems[0]


FIT = "fit ratings.csv --row user --column item --value stars --like-at 4"
FIT += " --rank 2 --l2 1 --implicit-features no -q"


def test_users_and_items_after_the_fit(folder, capsys, monkeypatch):
    """They are predicted from the other side, folded in, and added by an update."""
    monkeypatch.chdir(folder)
    run(f"{FIT} -o grown.tribit", capsys)
    assert "60 x 30" in run("info grown.tribit", capsys)
    run("predict grown.tribit pairs.csv -o scores.csv", capsys)
    scores = records(folder / "scores.csv")
    assert [each["basis"] for each in scores] == ["model", "model", "column alone"]
    assert all(0 < float(each["probability"]) < 1 for each in scores)
    run("recommend grown.tribit --new newcomers.csv -o lists.csv", capsys)
    lists = pairs(folder / "lists.csv")
    assert {user for user, _ in lists} == {f"user{n}" for n in range(60, 65)}
    assert not pairs(folder / "newcomers.csv") & lists
    assert_intervals_hold_probabilities(folder / "lists.csv")
    run("update grown.tribit today.csv -o grown.tribit", capsys)
    bundle = Recommender.load("grown.tribit")
    assert bundle.shape_ == (65, 31)
    assert "item8" not in bundle.recommend(["user3"], 30).columns[0]


def examples():
    group = typer.main.get_command(app)
    return {
        name: re.fullmatch(r"Example: tribit (.*)", each.epilog)[1]
        for name, each in group.commands.items()
        if name not in ELSEWHERE
    }


@pytest.mark.parametrize("name", examples())
@pytest.mark.usefixtures("short_trials")
def test_the_example_of_each_help_runs(name, folder, capsys, monkeypatch):
    """With ids of this table where the example has others."""
    monkeypatch.chdir(folder)
    bundle = folder / "example.tribit"
    if not bundle.exists():
        run(f"{FIT} -o example.tribit", capsys)
    words = {"model.tribit": "example.tribit", "alice": "user3", "item7": "item8"}
    words |= {"rating": "stars"}
    typed = [words.get(word, word) for word in shlex.split(examples()[name])]
    if name == "fit":
        typed += ["--rank", "2", "--l2", "1", "--implicit-features", "no"]
        typed[typed.index("-o") + 1] = "fitted.tribit"
    if name == "value":
        run("recommend example.tribit -o ours.csv", capsys)
        typed[typed.index("lists.csv")] = "ours.csv"
    if name == "split":
        typed[-2:] = ["rest.csv", "part.csv"]
    if name == "update":
        typed[typed.index("-o") + 1] = "updated.tribit"
    assert run(shlex.join(typed), capsys)


@pytest.mark.parametrize(
    "command",
    [
        "info example.tribit",
        "evaluate example.tribit test.csv",
        "predict example.tribit pairs.csv",
        "recommend example.tribit --for user3 -n 3",
        "explain example.tribit user3 item8",
        "similar example.tribit --row user3",
    ],
)
def test_json_is_json(command, folder, capsys, monkeypatch):
    test_the_example_of_each_help_runs("info", folder, capsys, monkeypatch)
    found = json.loads(run(f"{command} --json", capsys))
    assert found

"""``tribit reproduce``: what it writes, what it goes on with, and what it refuses."""

import contextlib
import csv
import io
import json
import pickle
import re
from concurrent.futures import Future
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import typer
from matplotlib.figure import Figure

import tribit
from tribit import Logistic, Probit
from tribit.cli import main
from tribit.datasets import MOVIELENS_LICENCE
from tribit.paper.experiments import (
    EXHIBITS,
    Settings,
    film_exhibits,
    films,
    journal,
    reproduce,
    reproduction,
    runner,
    synthetic_exhibits,
)
from tribit.paper.experiments.claims import FAILS, HOLDS, UNCLEAR
from tribit.paper.experiments.films import CHOSEN, MEAN, OVERALL, SAME, ZERO
from tribit.paper.experiments.journal import Journal
from tribit.paper.experiments.settings import PN, simplex
from tribit.paper.experiments.synthetic import (
    BEST,
    FLOOR,
    NARROW,
    NUDGED,
    SIZES,
    SOLVED,
    STAGE,
    START,
    TUNED,
    VARIED,
    Experiment,
    simulate,
)
from tribit.solvers.loop import Stopping

MAGIC = {".png": b"\x89PNG\r\n\x1a\n", ".pdf": b"%PDF-"}
VERSIONS = ("tribit", "numpy", "scipy", "python")
TINY_SIZES = replace(
    SIZES,
    max_steps=(12, 9),
    solved=Stopping(max_iter=9, tol=1e-3),
    varied_iterations=(3, 6),
    radii=(0.05, 0.2),
    tuned=Stopping(max_iter=5, tol=1e-4),
    sweeps=6,
    burn_in=1,
)
TINY_1 = Experiment(8, Probit(0.1), (3e-3, 3e-3), rank=2, rho=0.5, sizes=TINY_SIZES)
TINY_2 = Experiment(9, Logistic(7.0), (3e-3, 3e-3), rank=2, rho=0.5, sizes=TINY_SIZES)
TINY_FILMS = films.Sizes(
    max_steps=8,
    solved=Stopping(max_iter=5, tol=1e-3),
    radii=(0.5, 1.5),
    tuned=Stopping(max_iter=5, tol=1e-4),
)
PICTURES = ("plot_curves", "plot_triangles", "plot_ratings")
#: Makes the commands of an app once: for most commands here that takes longer than the rest.
BUILT_ONCE = cache(typer.main.get_command)


class Inline:
    """An executor in this process, where what a test has changed is seen."""

    _processes = None

    def submit(self, function, *arguments):
        future = Future()
        try:
            future.set_result(function(*arguments))
        except BaseException as error:
            future.set_exception(error)
        return future

    def shutdown(self, **_):
        pass


def shrink(patch):
    """Make every study small, and run it in this process."""
    patch.setattr(synthetic_exhibits, "EXPERIMENT_1", TINY_1)
    patch.setattr(synthetic_exhibits, "EXPERIMENT_2", TINY_2)
    patch.setattr(films, "SIZES", TINY_FILMS)
    patch.setattr(runner, "ProcessPoolExecutor", lambda *_: Inline())


def without_pdf(patch):
    """Write PNG in full and a few bytes for PDF: the same functions draw what one fixture below has as PDF too."""
    original = Figure.savefig

    def save(figure, path, **options):
        if options["format"] == "pdf":
            path.write_bytes(MAGIC[".pdf"])
        else:
            original(figure, path, **options)

    patch.setattr(Figure, "savefig", save)


def replace_pictures(patch, draw):
    """Call a function instead of those that draw."""
    for module in (synthetic_exhibits, film_exhibits):
        for name in PICTURES:
            if hasattr(module, name):
                patch.setattr(module, name, draw)


def stub_pictures(patch):
    """Write a few bytes instead of pictures."""

    def draw_nothing(stem, *_, **__):
        paths = [stem.with_name(stem.name + suffix) for suffix in MAGIC]
        for path in paths:
            path.write_bytes(MAGIC[path.suffix])
        return paths

    replace_pictures(patch, draw_nothing)


@pytest.fixture
def small(monkeypatch):
    shrink(monkeypatch)
    stub_pictures(monkeypatch)
    return monkeypatch


def no_work(*_):
    pytest.fail("a task was run")


def run(*arguments):
    """Run the command line in this process; return (exit code, stdout, stderr)."""
    out, err = io.StringIO(), io.StringIO()
    with (
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
        pytest.MonkeyPatch.context() as patch,
    ):
        patch.setattr("typer.main.get_command", BUILT_ONCE)
        with pytest.raises(SystemExit) as stop:
            main(["reproduce", *map(str, arguments)])
    return stop.value.code or 0, out.getvalue(), err.getvalue()


def made(*arguments):
    code, out, err = run(*arguments, "--quick")
    assert code == 0
    assert err in ("", f"{MOVIELENS_LICENCE}\n")
    return out


def refused(*arguments):
    """Return the sentence with which a command is refused."""
    code, out, err = run(*arguments)
    assert (code, out) == (2, "")
    assert re.fullmatch(r"Error: [^\n]+\.\n", err), err
    return err


def files(folder):
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def table(path):
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def ratings(seed=0):
    """400 ratings of 30 users and 25 items, all of 1 to 5 among them."""
    draws = np.random.default_rng(seed)
    users, items = np.divmod(draws.permutation(30 * 25)[:400], 25)
    taste = draws.standard_normal((30, 2)) @ draws.standard_normal((2, 25))
    stars = np.clip(np.rint(3.4 + 1.2 * taste[users, items]), 1, 5).astype(int)
    return [list(line) for line in zip(users + 1, items + 1, stars, range(400), strict=True)]


def write_data(folder, lines):
    folder.mkdir(parents=True)
    (folder / "u.data").write_text("".join("\t".join(map(str, line)) + "\n" for line in lines))
    return folder


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return write_data(tmp_path_factory.mktemp("data") / "ml-100k", ratings())


@pytest.fixture(scope="module")
def whole(tmp_path_factory, data):
    """Everything by one command, pictures included; the folder and what was printed."""
    folder = tmp_path_factory.mktemp("whole") / "results"
    with pytest.MonkeyPatch.context() as patch:
        shrink(patch)
        printed = made("all", "--data", data, "--out", folder, "--jobs", 1, "--quiet")
    return folder, printed


def run_protocol(tmp_path_factory, data, protocol):
    folder = tmp_path_factory.mktemp(protocol)
    with pytest.MonkeyPatch.context() as patch:
        shrink(patch)
        without_pdf(patch)
        printed = made("all", "--protocol", protocol, "--data", data, "-o", folder)
    return folder, printed


@pytest.fixture(scope="module")
def whole_tuned(tmp_path_factory, data):
    return run_protocol(tmp_path_factory, data, "tuned")


@pytest.fixture(scope="module")
def whole_solved(tmp_path_factory, data):
    return run_protocol(tmp_path_factory, data, "solved")


# What is written


@pytest.mark.parametrize(
    ("results", "further", "word"),
    [
        ("whole", "-alpha-1", ""),
        ("whole_tuned", None, "radius"),
        ("whole_solved", "-k-10", "grown"),
    ],
)
def test_every_file_is_written_and_nothing_else(results, further, word, request):
    folder, printed = request.getfixturevalue(results)
    expected = {f"{name}.{kind}" for name in EXHIBITS for kind in ("csv", "md", "png", "pdf")}
    if further:
        pictures = [f"{name}{further}" for name in ("fig4", "table1")]
        expected |= {f"{name}.{kind}" for name in pictures for kind in ("png", "pdf")}
    journals = ("fig1", "fig2", "fig3", "fig3-t", "movielens", "movielens-t")
    expected |= {f"journal/{name}.jsonl" for name in journals}
    assert set(files(folder)) == expected | {"summary.md"}
    assert word in printed


def test_summaries_are_of_their_protocol(whole_tuned, whole_solved):
    assert "tuned" in (whole_tuned[0] / "fig4.md").read_text("utf-8")
    solved, _ = whole_solved
    for name in ("fig1", "fig2", "fig3"):
        text = (solved / f"{name}.md").read_text("utf-8")
        steps = "whole matrix scaled, step 0.003, 6"
        for words in ("k = 2", "last change of X", "Two starts", steps):
            assert words in text
    assert "risk, k = 40" in (solved / "fig4.md").read_text("utf-8")


@pytest.mark.parametrize(
    ("results", "kinds"),
    [("whole", (".png", ".pdf")), ("whole_tuned", (".png",)), ("whole_solved", (".png",))],
)
def test_pictures_are_pictures(results, kinds, request):
    folder, _ = request.getfixturevalue(results)
    pictures = [path for path in folder.iterdir() if path.suffix in kinds]
    assert pictures
    for path in pictures:
        content = path.read_bytes()
        assert content.startswith(MAGIC[path.suffix])
        assert len(content) > 2000


def test_the_summary_is_every_exhibit_s(whole):
    folder, _ = whole
    texts = [(folder / f"{name}.md").read_text("utf-8") for name in EXHIBITS]
    assert (folder / "summary.md").read_text("utf-8") == "\n".join(texts)
    for exhibit, text in zip(EXHIBITS.values(), texts, strict=True):
        assert text.startswith(f"## {exhibit.title}\n")
        shown = re.findall(r"!\[.*\]\((.*)\)", text)
        assert shown
        for name in shown:
            assert (folder / name).suffix == ".png"
            assert (folder / name).exists()
        heading = "### Claims of the paper" if exhibit.in_paper else "### Comparisons"
        for part in (heading, "### Numbers", "Made with trials 2, seed 0,", "BLAS kernels of "):
            assert part in text
        assert f"tribit {tribit.__version__}, numpy {np.__version__}, scipy " in text
        assert re.search(r"\*\*(holds|does not hold|inconclusive)\*\*", text)
        assert "nan" not in text


def test_the_terminal_has_the_claims_and_the_files(whole):
    folder, printed = whole
    for exhibit in EXHIBITS.values():
        assert exhibit.title.split(":")[0] in printed
        for kind in ("csv", "md", "png", "pdf"):
            assert str(folder / f"{exhibit.name}.{kind}") in printed
    for words in ("verdict", "measured"):
        assert words in printed


def test_one_exhibit_has_no_summary(small, tmp_path):
    made("fig3", "-o", tmp_path)
    expected = {f"fig3.{kind}" for kind in ("csv", "md", "png", "pdf")}
    assert set(files(tmp_path)) == expected | {"journal/fig3.jsonl"}


def test_the_function_returns_what_was_made(small, tmp_path):
    settings = Settings(quick=True, seed=2)
    (one,) = reproduce("fig1", out=str(tmp_path), settings=settings, n_jobs=1, shown=False)
    assert (one.name, one.title) == ("fig1", EXHIBITS["fig1"].title)
    assert [path.name for path in one.files] == ["fig1.csv", "fig1.png", "fig1.pdf", "fig1.md"]
    assert all(path.exists() for path in one.files)
    assert list(one.claims) == ["as printed: whole matrix scaled", "single rows scaled: lower risk"]


# Tables


WAYS = {"whole": ("whole", "rows"), "whole_tuned": (TUNED, BEST)}


@pytest.mark.parametrize("results", WAYS)
@pytest.mark.parametrize("name", ["fig1", "fig2", "fig3"])
def test_a_synthetic_table_has_every_trial_mixture_and_way(results, name, request):
    folder, _ = request.getfixturevalue(results)
    rows = table(folder / f"{name}.csv")
    settings = Settings(quick=True)
    mixtures = EXHIBITS[name].study(settings, None).parameters["mixtures"]
    rows = [row for row in rows if row["way"] != NUDGED]
    found = [(row["trial"], row["way"], row["g_pn"], row["g_pu"], row["g_nu"]) for row in rows]
    expected = []
    for trial in "01":
        expected.append((trial, FLOOR, "", "", ""))
        expected += [
            (trial, way, *map(repr, mixture)) for mixture in mixtures for way in WAYS[results]
        ]
    assert found == expected
    experiment = TINY_2 if name == "fig3" else TINY_1
    protocol = "paper" if results == "whole" else "tuned"
    constants = {
        "exhibit": name,
        "trials": "2",
        "seed": "0",
        "protocol": protocol,
        "quick": "True",
        "size": str(experiment.size),
        "rank": "2",
        "alpha": "1.0",
        "rho": "0.5",
        "link": repr(experiment.link),
        "tribit": tribit.__version__,
        "numpy": np.__version__,
    }
    for row in rows:
        assert list(row)[:5] == ["exhibit", "trials", "seed", "protocol", "quick"]
        assert constants.items() <= row.items()
        assert all(row[name] for name in VERSIONS)
        assert float(row["relative_error"]) > 0
        fitted = row["way"] != FLOOR
        assert bool(row["radius"]) == bool(row["risk"]) == fitted
        assert bool(row.get("held_out_loss")) == (fitted and protocol == "tuned")
        assert row["step"] == ("0.003" if fitted and protocol == "paper" else "")


def test_numbers_in_a_table_are_those_of_the_journal_to_the_bit(whole):
    folder, _ = whole
    lines = (folder / "journal" / "fig1.jsonl").read_text().splitlines()[1:]
    kept = [row for line in lines for row in json.loads(line)["rows"]]
    errors = {row["relative_error"] for row in kept}
    assert {float(row["relative_error"]) for row in table(folder / "fig1.csv")} == errors
    assert len(kept) == len(table(folder / "fig1.csv"))


def test_the_table_of_fig4_has_every_split_way_and_mixture(whole, data):
    folder, _ = whole
    rows = table(folder / "fig4.csv")
    names = ("split", "way", "g_pn", "g_pu", "g_nu", "part", "cut")
    whole_errors = [row for row in rows if row["rating"] == OVERALL and row["chosen"] == "True"]
    found = [tuple(row[name] for name in names) for row in whole_errors]
    expected = {
        (split, way, *map(repr, mixture), part, cut)
        for split in "01"
        for way in (CHOSEN, SAME)
        for mixture in simplex(5)
        for part in ("validation", "test")
        for cut in (MEAN, ZERO)
    }
    assert len(found) == len(expected)
    assert set(found) == expected
    fingerprint = films.fingerprint(tribit.datasets.movielens100k(data))
    constants = {"exhibit": "fig4", "trials": "2", "seed": "0", "protocol": "paper"}
    for row in rows:
        assert constants.items() <= row.items()
        assert row["data"] == fingerprint
        assert all(row[name] for name in VERSIONS)
        assert row["alpha"]
        assert row["step"]
        if row["way"] == SAME:
            assert (row["alpha"], row["rank"]) == ("1.0", "10")


@pytest.mark.parametrize("results", WAYS)
def test_the_table_of_table1_has_pn_and_one_mixture(results, request):
    folder, _ = request.getfixturevalue(results)
    everything = [row | {"exhibit": "table1"} for row in table(folder / "fig4.csv")]
    rows = table(folder / "table1.csv")
    for row in rows:
        assert row in everything
        assert row["chosen"] == "True"
    ways = (CHOSEN, SAME) if results == "whole" else (films.TUNED,)
    assert {row["way"] for row in rows} == set(ways)
    for way in ways:
        mixtures = {(row["g_pn"], row["g_pu"], row["g_nu"]) for row in rows if row["way"] == way}
        assert len(mixtures) == 2
        assert ("1.0", "0.0", "0.0") in mixtures


# The same again


def test_the_same_command_again_does_no_work_and_gives_the_same_bytes(
    whole, data, monkeypatch, tmp_path
):
    folder, printed = whole
    shrink(monkeypatch)
    stub_pictures(monkeypatch)
    monkeypatch.setattr(Inline, "submit", no_work)
    before = files(folder)
    for name in ("fig2.md", "table1.csv", "summary.md", "fig1.csv"):
        (folder / name).unlink()
    again = made("all", "--data", data, "--out", folder, "--jobs", 1, "--quiet")
    after = files(folder)
    for name, content in before.items():
        if Path(name).suffix in MAGIC:  # stubs now; the journal decides what is drawn
            (folder / name).write_bytes(content)
        else:
            assert after[name] == content, name
    assert again == printed
    assert files(folder) == before


def test_another_folder_gets_the_same_bytes(whole, data, monkeypatch, tmp_path):
    folder, _ = whole
    shrink(monkeypatch)
    simulate.cache_clear()
    made("fig1", "-o", tmp_path)
    made("table1", "-o", tmp_path, "--data", data / "u.data")
    found, expected = files(tmp_path), files(folder)
    assert {name for name in found if "." in name} >= {"fig1.png", "table1.pdf", "table1.csv"}
    for name, content in found.items():
        if name.startswith("journal"):  # in the order in which tasks ended
            assert sorted(content.splitlines()) == sorted(expected[name].splitlines())
        else:
            assert content == expected[name], name
    # A finished run is drawn again without work.
    monkeypatch.setattr(Inline, "submit", no_work)
    (tmp_path / "fig1.png").unlink()
    made("fig1", "-o", tmp_path)
    assert files(tmp_path) == found


@pytest.mark.slow
def test_the_number_of_processes_changes_no_byte(tmp_path, monkeypatch):
    # In processes of their own, to which the small experiment travels with each task.
    monkeypatch.setattr(
        synthetic_exhibits, "EXPERIMENT_1", replace(TINY_1, rank=1, steps=(0.05, 0.01))
    )
    found = []
    for jobs in (1, 2):
        out = tmp_path / str(jobs)
        made("fig1", "-o", out, "--jobs", jobs, "--seed", 4)
        found.append(files(out))
        journal = found[-1].pop("journal/fig1.jsonl").splitlines()
        assert len(journal) == 1 + 2 * (1 + 5) + 2
        found[-1]["journal"] = sorted(journal)
    assert found[0] == found[1]


@pytest.mark.parametrize("protocol", ["paper", "solved", "tuned"])
def test_every_task_can_travel_to_a_process(data, protocol):
    settings = Settings(quick=True, protocol=protocol)
    results = {f"select {trial}": [{"alpha": 2.0, "rank": 5, "error": 0.3}] for trial in (0, 1)}
    for exhibit in EXHIBITS.values():
        for stage in exhibit.study(settings, data).stages:
            for task in stage(results):
                assert pickle.loads(pickle.dumps(task)) == task


def test_seeds_and_protocols_give_other_numbers(small, tmp_path):
    for name, options in (
        ("a", []),
        ("b", ["--seed", 1]),
        ("c", ["--protocol", "tuned"]),
        ("d", ["--step", 0.01]),
    ):
        made("fig1", "-o", tmp_path / name, *options)
    errors = {
        name: {row["relative_error"] for row in table(tmp_path / name / "fig1.csv") if row["g_pn"]}
        for name in "abcd"
    }
    for name in "bcd":
        assert not errors["a"] & errors[name]


def test_trials_of_more_begin_with_those_of_fewer(small, tmp_path):
    made("fig1", "-o", tmp_path / "two")
    made("fig1", "-o", tmp_path / "three", "--trials", 3)
    two, three = (table(tmp_path / name / "fig1.csv") for name in ("two", "three"))
    assert [row["relative_error"] for row in two] == [
        row["relative_error"] for row in three if row["trial"] != "2"
    ]
    assert {row["trials"] for row in three} == {"3"}


def test_a_run_that_failed_goes_on(small, tmp_path):
    made("fig1", "-o", tmp_path / "whole")
    left = [7]
    original = Inline.submit

    def submit(self, *arguments):
        left[0] -= 1
        if left[0] < 0:
            future = Future()
            future.set_exception(tribit.TribitError("The machine is tired."))
            return future
        return original(self, *arguments)

    small.setattr(Inline, "submit", submit)
    out = tmp_path / "out"
    assert "The machine is tired." in refused("fig1", "--quick", "-o", out)
    assert set(files(out)) == {"journal/fig1.jsonl"}
    done = files(out)["journal/fig1.jsonl"].count(b"\n") - 1
    left[0] = 14 - done
    made("fig1", "-o", out)
    assert left[0] == 0
    for name, content in files(tmp_path / "whole").items():
        if not name.startswith("journal"):
            assert (out / name).read_bytes() == content


# Fig. 2 beside Fig. 1

COMPARE = "run fig1 in the same folder to compare"


def test_fig2_is_compared_with_fig1(small, whole, whole_tuned, tmp_path):
    for folder, _ in (whole, whole_tuned):
        text = (folder / "fig2.md").read_text("utf-8")
        assert COMPARE not in text
        assert len(re.findall(r"\| PNU is superior .* \| PNU \S+ .*, PUNU \S+ ", text)) == 2
    made("fig2", "-o", tmp_path)
    alone = (tmp_path / "fig2.md").read_text("utf-8")
    assert alone.count(COMPARE) == 2
    assert "| **inconclusive** |" in alone
    made("fig1", "-o", tmp_path)
    made("fig2", "-o", tmp_path)
    assert (tmp_path / "fig2.md").read_bytes() == (whole[0] / "fig2.md").read_bytes()


def test_fig2_is_not_compared_with_another_or_an_unfinished_fig1(small, tmp_path):
    made("fig1", "-o", tmp_path, "--seed", 1)
    made("fig2", "-o", tmp_path)
    assert (tmp_path / "fig2.md").read_text("utf-8").count(COMPARE) == 2
    made("fig1", "-o", tmp_path / "other")
    journal = tmp_path / "other" / "journal" / "fig1.jsonl"
    journal.write_bytes(b"".join(journal.read_bytes().splitlines(keepends=True)[:-1]))
    made("fig2", "-o", tmp_path / "other")
    assert (tmp_path / "other" / "fig2.md").read_text("utf-8").count(COMPARE) == 2


# What is refused


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        (
            ["fig5"],
            r"no 'fig5' to reproduce; use one of fig1, fig2, fig3, fig3-t, fig4, fig4-t, table1, all",
        ),
        (["Fig1"], "no 'Fig1' to reproduce"),
        (
            ["fig1", "--protocol", "fast"],
            "--protocol must be one of paper, solved, tuned; got 'fast'",
        ),
        (["fig1", "--trials", "1"], "trials must be a whole number, at least 2; got 1"),
        (["fig1", "--trials", "0"], "trials must be a whole number, at least 2; got 0"),
        (["fig1", "--trials", "-3"], "trials must be a whole number, at least 2; got -3"),
        (["fig1", "--seed", "-1"], "seed must be a whole number, at least 0; got -1"),
        (["fig1", "--step", "0"], "step must be a positive finite number; got 0"),
        (["fig1", "--step", "-1"], "step must be a positive finite number; got -1"),
        (["fig1", "--step", "nan"], "step must be a positive finite number; got nan"),
        (["fig1", "--step", "inf"], "step must be a positive finite number; got inf"),
        (
            ["fig1", "--protocol", "tuned", "--step", "0.1"],
            "--step applies only to --protocol paper",
        ),
        (["fig1", "--protocol", "solved", "--step", "0.1"], "paper, and the protocol is 'solved'"),
        (["fig1", "--jobs", "0"], "jobs must be a whole number, at least 1, or -1"),
        (["fig1", "--jobs", "-2"], "jobs must be a whole number, at least 1, or -1"),
        (["all", "--trials", "1"], "trials must be"),
    ],
)
def test_a_wrong_option_is_one_sentence_and_leaves_nothing(small, tmp_path, arguments, match):
    out = tmp_path / "out"
    assert re.search(match, refused(*arguments, "-o", out))
    assert not out.exists()


def test_settings_of_a_wrong_type_are_refused():
    for wrong in ({"trials": 2.5}, {"trials": True}, {"seed": "1"}, {"seed": 1.0}, {"step": "1"}):
        with pytest.raises(tribit.InvalidInputError, match=next(iter(wrong))):
            Settings(**wrong)


LINES = ratings()
BAD_DATA = {
    "column": ([*LINES[:9], LINES[9][:3], *LINES[10:]], "Line 10 of u.data: 3 fields where 4"),
    "six": ([*LINES[:5], [1, 2, 6, 7]], "Line 6 of u.data: the rating 6 is not one of 1 to 5"),
    "zero": ([[1, 2, 0, 7], *LINES[:5]], "Line 1 of u.data: the rating 0 is not one of 1 to 5"),
    "empty": ([], "u.data has no ratings"),
    "folder": (None, "There is no folder or file"),
}


@pytest.fixture(params=BAD_DATA)
def bad_data(request, tmp_path):
    lines, message = BAD_DATA[request.param]
    folder = tmp_path / "bad"
    if lines is not None:
        write_data(folder, lines)
    return folder, message


@pytest.mark.parametrize("which", ["fig4", "table1", "all"])
def test_bad_data_are_one_sentence_before_any_work(small, tmp_path, bad_data, which):
    small.setattr(Inline, "submit", no_work)
    folder, message = bad_data
    out = tmp_path / "out"
    assert message in refused(which, "--data", folder, "--quick", "-o", out)
    assert not out.exists()


@pytest.mark.parametrize("lines", [[*LINES, [*LINES[0][:2], 3, 1]], LINES[:2]])
def test_data_that_cannot_be_split_are_refused_before_any_work(small, tmp_path, lines):
    small.setattr(Inline, "submit", no_work)
    folder = write_data(tmp_path / "bad", lines)
    refused("all", "--data", folder, "--quick", "-o", tmp_path / "out")
    assert not files(tmp_path / "out")


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_a_step_beyond_all_measure_is_one_sentence(small, tmp_path):
    assert "step" in refused("fig1", "--quick", "--step", "1e308", "-o", tmp_path)


def test_an_out_that_is_a_file_is_refused(small, tmp_path):
    out = tmp_path / "out"
    out.write_text("mine")
    assert "is a file, not a folder for results" in refused("fig1", "-o", out)
    assert "cannot be made" in refused("fig1", "-o", out / "inside")
    assert out.read_text() == "mine"


@pytest.fixture
def results(small, tmp_path):
    """A folder with results of Fig. 1."""
    out = tmp_path / "results"
    made("fig1", "-o", out, "--seed", 3)
    return out


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        (["--quick", "--seed", "3", "--trials", "3"], "trials = 2, and this run has --trials = 3"),
        (["--quick", "--seed", "4"], "seed = 3, and this run has --seed = 4"),
        (
            ["--quick", "--seed", "3", "--protocol", "tuned"],
            'protocol = "paper", and this run has --protocol = "tuned"',
        ),
        (["--seed", "3", "--trials", "2"], "quick = true, and this run has --quick = false"),
        (
            ["--quick", "--seed", "3", "--step", "0.5"],
            'step = {"whole": 0.003, "rows": 0.003}, and this run has --step = {"whole": 0.5, "rows": 0.5}',
        ),
    ],
)
def test_results_of_other_settings_are_refused_and_kept(results, data, arguments, match):
    before = files(results)
    for which in ("fig1", "all"):
        message = refused(which, *arguments, "-o", results, "--data", data)
        assert match in message
        assert str(results) in message
    assert files(results) == before


@pytest.mark.parametrize("name", VERSIONS)
def test_results_of_another_version_are_refused_and_kept(small, results, name):
    before = files(results)
    small.setitem(journal.VERSIONS, name, "0.0.1")
    message = refused("fig1", "--quick", "--seed", 3, "-o", results)
    assert f'this run has {name} = "0.0.1"' in message
    assert files(results) == before


def test_results_of_other_data_are_refused_and_kept(small, tmp_path, data):
    out = tmp_path / "out"
    made("fig4", "-o", out, "--data", data)
    before = files(out)
    other = ratings()
    other[50][2] = other[50][2] % 5 + 1
    changed = write_data(tmp_path / "other", other)
    for which in ("fig4", "table1", "all"):
        message = refused(which, "--quick", "--data", changed, "-o", out)
        assert re.search(r'with data = "\w+", and this run has data = "\w+"', message)
    assert files(out) == before
    # The same ratings in another order and place are the same data.
    turned = write_data(tmp_path / "turned", ratings()[::-1])
    small.setattr(Inline, "submit", no_work)
    made("fig4", "-o", out, "--data", turned)
    assert files(out) == before


def test_other_results_are_seen_before_any_work(small, tmp_path, data):
    made("fig3", "-o", tmp_path)
    before = files(tmp_path)
    small.setattr(Inline, "submit", no_work)
    assert "seed = 0" in refused("all", "--quick", "--seed", 1, "--data", data, "-o", tmp_path)
    assert files(tmp_path) == before


@pytest.mark.parametrize(
    ("which", "name"),
    [("fig1", "fig1.csv")]
    + [("all", name) for name in ("fig1.csv", "fig1.md", "fig1.png", "fig1.pdf", "summary.md")],
)
def test_no_file_is_written_over_without_its_journal(small, tmp_path, data, which, name):
    small.setattr(Inline, "submit", no_work)
    (tmp_path / name).write_text("mine")
    message = refused(which, "--quick", "--data", data, "-o", tmp_path)
    assert f"has a {name} but not its journal" in message
    assert files(tmp_path) == {name: b"mine"}


def test_a_journal_of_something_else_is_refused_and_kept(small, tmp_path):
    (tmp_path / "journal").mkdir()
    (tmp_path / "journal" / "fig1.jsonl").write_text("mine\n")
    assert "is not a journal that tribit wrote" in refused("fig1", "--quick", "-o", tmp_path)
    assert files(tmp_path) == {"journal/fig1.jsonl": b"mine\n"}


@pytest.mark.parametrize("place", ["journal", "journal/fig1.jsonl/folder"])
def test_a_journal_that_cannot_be_opened_is_one_sentence(small, tmp_path, place):
    (tmp_path / place).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / place).write_text("mine")
    refused("fig1", "--quick", "-o", tmp_path)
    assert files(tmp_path) == {place: b"mine"}


def test_a_journal_in_use_is_refused(small, tmp_path):
    made("fig1", "-o", tmp_path)
    before = files(tmp_path)
    path = tmp_path / "journal" / "fig1.jsonl"
    with Journal(path, json.loads(path.read_bytes().splitlines()[0])):
        assert "is in use by another run" in refused("fig1", "--quick", "-o", tmp_path)
    assert files(tmp_path) == before


def test_a_path_is_printed_as_it_is(small, tmp_path):
    out = tmp_path / "results [bold]"
    assert str(out / "fig1.csv") in made("fig1", "-o", out)


def test_matplotlib_is_asked_for_before_any_work(small, tmp_path, monkeypatch):
    def absent():
        raise tribit.InvalidInputError("Pictures need matplotlib; install it.")

    small.setattr(reproduction, "check_pictures", absent)
    assert "Pictures need" in refused("fig1", "--quick", "-o", tmp_path / "out")
    assert not (tmp_path / "out").exists()


# Claims, from rows made by hand


def synthetic_rows(errors, way="whole"):
    """Rows with a given mean error for each mixture, nearly the same in three trials."""
    rows = []
    for trial in range(3):
        rows.append({"trial": trial, "way": FLOOR, "relative_error": 0.9 + 0.01 * trial})
        for place, (mixture, error) in enumerate(errors.items()):
            wobble = 0.001 * (trial - 1) * (1 + 0.001 * place)
            weights = dict(zip(("g_pn", "g_pu", "g_nu"), mixture, strict=True))
            rows.append({"trial": trial, "way": way} | weights | {"relative_error": error + wobble})
    return rows


def gamma(mixture):
    return mixture[2]


def eta(mixture):
    return mixture[1] - mixture[2]


def valley(name, place, at, depth=0.5):
    """Errors that grow with the distance from where ``place`` is ``at``."""
    mixtures = map(tuple, EXHIBITS[name].study(Settings(), None).parameters["mixtures"])
    return {mixture: 1.0 + depth * abs(place(mixture) - at) for mixture in mixtures}


def verdicts(name, rows, others=None):
    (claims,) = EXHIBITS[name].claims(rows, others or {}).values()
    return [claim.verdict for claim in claims]


@pytest.mark.parametrize(
    ("at", "expected"),
    [
        (0.5, [HOLDS, HOLDS]),
        (0.3, [HOLDS, HOLDS]),
        (0.7, [HOLDS, HOLDS]),
        (0.2, [FAILS, HOLDS]),
        (0.8, [FAILS, HOLDS]),
        (0.0, [FAILS, FAILS]),
        (1.0, [FAILS, FAILS]),
    ],
)
def test_the_claims_of_fig1(at, expected):
    rows = synthetic_rows(valley("fig1", gamma, at))
    assert verdicts("fig1", rows) == expected
    (claims,) = EXHIBITS["fig1"].claims(rows, {}).values()
    assert f"gamma = {at:g} 1.000 ± 0.001" in claims[0].measured
    flat = synthetic_rows(valley("fig1", gamma, at, depth=0.0))
    assert verdicts("fig1", flat) == [UNCLEAR, UNCLEAR]


@pytest.mark.parametrize(
    ("at", "expected"),
    [
        (0.1, [HOLDS, HOLDS]),
        (-0.1, [HOLDS, HOLDS]),
        (-0.05, [FAILS, HOLDS]),
        (-0.2, [FAILS, HOLDS]),
        (0.3, [FAILS, HOLDS]),
        (-1.0, [FAILS, HOLDS]),
        (0.0, [FAILS, FAILS]),
    ],
)
def test_the_claims_of_fig2(at, expected):
    rows = synthetic_rows(valley("fig2", eta, at))
    assert verdicts("fig2", rows) == [*expected, UNCLEAR]
    (claims,) = EXHIBITS["fig2"].claims(rows, {}).values()
    assert f"eta = {at:g} 1.000 ± 0.001" in claims[0].measured
    for mean, verdict in ((2.0, HOLDS), (0.5, FAILS)):
        other = synthetic_rows({(0.0, 1.0, 0.0): mean + 1, (0.0, 0.5, 0.5): mean})
        assert verdicts("fig2", rows, {"fig1": other}) == [*expected, verdict]
    other_way = synthetic_rows({(0.0, 0.5, 0.5): 2.0}, way="rows")
    assert verdicts("fig2", rows, {"fig1": other_way})[2] == UNCLEAR


@pytest.mark.parametrize(
    ("at", "expected"),
    [
        ((0.3, 0.3, 0.4), [HOLDS, HOLDS, HOLDS]),
        ((0.5, 0.1, 0.4), [HOLDS, HOLDS, HOLDS]),
        ((0.6, 0.2, 0.2), [FAILS, HOLDS, HOLDS]),
        ((0.5, 0.0, 0.5), [FAILS, FAILS, HOLDS]),
        ((1.0, 0.0, 0.0), [FAILS, FAILS, FAILS]),
    ],
)
def test_the_claims_of_fig3(at, expected):
    errors = {
        mixture: 1.0
        + np.max(np.abs(np.subtract(mixture, at)))
        + np.sum(np.subtract(mixture, at) ** 2)
        for mixture in simplex(10)
    }
    rows = synthetic_rows(errors)
    assert verdicts("fig3", rows) == expected
    numbers = EXHIBITS["fig3"].numbers(rows)
    if at != PN:  # which is no mixture
        assert f"1.000 ± 0.001 at ({', '.join(f'{weight:.2g}' for weight in at)})" in numbers
    assert "Posterior mean under the true prior: 0.910 ± 0.010." in numbers


def solved_rows(errors, other=0.0):
    """Rows of one problem solved with k of 2, 8 and 16 in three trials: the given errors at 16, half more at 2."""
    rows = []
    for row in synthetic_rows(errors, SOLVED):
        if row["way"] == FLOOR:
            rows.append(row)
            continue
        for way, k, more, change in (
            (NARROW, 2, 0.5, None),
            (STAGE, 8, 0.2, 0.3),
            (SOLVED, 16, 0.0, 0.004),
        ):
            rows.append(
                row
                | {"way": way, "columns": k, "risk": -1000.0 * k, "change": change}
                | {"relative_error": row["relative_error"] * (1 + more)}
                | {"start": 0, "converged": k > 2}
            )
        if row["trial"] == 0:
            further = {"way": START, "start": 1, "relative_error": row["relative_error"] + other}
            rows.append(rows[-1] | further)
    return rows


def test_the_numbers_of_what_is_solved():
    ends, middle = {(0.0, 1.0, 0.0): 2.0, (0.0, 0.0, 1.0): 1.5}, {(0.0, 0.5, 0.5): 1.0}
    rows = solved_rows(ends | middle, other=0.25)
    text = EXHIBITS["fig1"].numbers(rows)
    assert "| mixture | k = 2 | k = 8 | k = 16 | last change of X |" in text
    assert (
        "| (0, 0.5, 0.5) | 1.500 ± 0.002 (-2,000) | 1.200 ± 0.001 (-8,000) | 1.000 ± 0.001 (-16,000) | 0.4% |"
        in text
    )
    assert "converged in 18 of 27 fits" in text
    assert "| (0, 0.5, 0.5) | 0.999 (-16,000) | 1.249 (-16,000) |" in text
    assert re.search(r"\| solved, k = 2 \| gamma = 0.5 1.500 .* 2.250 .*\*\*holds\*\* \|", text)
    claims = EXHIBITS["fig1"].claims(rows, {})
    assert list(claims) == ["stated problem solved, k grown", "stated problem solved, k = r"]


def test_verdicts_of_the_varied_iteration_are_of_each_step_and_number_of_steps():
    rows = solved_rows({(0.0, 1.0, 0.0): 2.0, (0.0, 0.5, 0.5): 1.0})
    for scaling, step, count, gain in (("whole", 0.001, 400, 0.5), ("rows", 0.003, 2000, -0.5)):
        errors = {(0.0, 1.0, 0.0): 1.0, (0.0, 0.5, 0.5): 1.0 - gain}
        rows += [
            row | {"scaling": scaling, "step": step, "iterations": count}
            for row in synthetic_rows(errors, VARIED)
            if row["way"] == VARIED
        ]
    text = EXHIBITS["fig1"].numbers(rows)
    assert re.search(r"whole matrix scaled, step 0.001, 400 steps \|.*\*\*holds\*\*", text)
    assert re.search(r"single rows scaled, step 0.003, 2000 steps \|.*\*\*does not hold\*\*", text)


def test_the_numbers_of_a_curve():
    rows = synthetic_rows(valley("fig1", gamma, 0.5))
    rows += [
        row | {"relative_error": 2.0}
        for row in synthetic_rows(valley("fig1", gamma, 0.5), way="rows")
        if row["way"] == "rows"
    ]
    lines = EXHIBITS["fig1"].numbers(rows).splitlines()
    assert (
        lines[0] == "| gamma | as printed: whole matrix scaled | single rows scaled: lower risk |"
    )
    assert [line.split(" | ")[0] for line in lines[2:13]] == [
        f"| {gamma:g}" for gamma in np.arange(11) / 10
    ]
    assert lines[7].startswith("| 0.5 | 1.000 ± 0.001 | 2.000 ± 0.000 |")
    assert "Posterior mean under the true prior: 0.910 ± 0.010. All zeros: 1." in lines


A, B = (0.2, 0.4, 0.4), (0.5, 0.5, 0.0)


@pytest.fixture
def drawn(monkeypatch):
    """Arguments of the functions that draw."""
    given = []

    def spy(stem, *arguments, **options):
        given.append((stem.name, *arguments, options))
        return [stem.with_suffix(".png")]

    replace_pictures(monkeypatch, spy)
    return given


@pytest.mark.parametrize(
    ("name", "place", "ticks"),
    [
        ("fig1", gamma, {0.0: "PU", 1.0: "NU"}),
        ("fig2", eta, {-1.0: "NU", 0.0: "PN", 1.0: "PU"}),
    ],
)
def test_a_curve_is_mean_and_deviation_over_the_trials(drawn, name, place, ticks):
    errors = valley(name, place, 0.35)
    rows = synthetic_rows(errors)
    EXHIBITS[name].draw(rows, Path("fig"))
    ((_, (line,), options),) = drawn
    assert line.label == "as printed: whole matrix scaled"
    np.testing.assert_allclose(line.x, sorted(map(place, errors)))
    np.testing.assert_allclose(line.mean, 1 + 0.5 * np.abs(line.x - 0.35))
    np.testing.assert_allclose(line.deviation, 0.001, rtol=0.05)
    assert options["references"] == {"all zeros": 1.0, FLOOR: pytest.approx(0.91)}
    assert options["ticks"] == ticks


def test_the_triangle_of_fig3_is_the_means(drawn):
    errors = {mixture: 1.0 + mixture[0] ** 2 + mixture[1] for mixture in simplex(5)}
    rows = synthetic_rows(errors) + [
        row | {"relative_error": 3.0} for row in synthetic_rows(errors, "rows") if "g_pn" in row
    ]
    EXHIBITS["fig3"].draw(rows, Path("fig3"))
    ((_, (first, second), options),) = drawn
    np.testing.assert_allclose(first.mixtures, list(errors))
    np.testing.assert_allclose(first.values, list(errors.values()))
    np.testing.assert_allclose(second.values, 3.0)
    assert first.best == second.best == (0.3, 0.3, 0.4)
    assert "0.910" in options["note"]


#: Of mean 0.001 for every mixture, and not the same for any two.
NOISE = {PN: (0.0, 0.001, 0.002), A: (0.0, 0.0011, 0.0019), B: (0.0, 0.0009, 0.0021)}


def film_rows(error, ways=(CHOSEN, SAME), ratings=("1", "2", "3", "4", "5", OVERALL)):
    """Rows of three splits, with an error of (way, mixture, part, cut, rating)."""
    return [
        {"split": split, "way": way}
        | dict(zip(("g_pn", "g_pu", "g_nu"), mixture, strict=True))
        | {"alpha": 2.0, "rank": 5, "part": part, "cut": cut, "rating": rating, "chosen": True}
        | {"error": error(way, mixture, part, cut, rating) + NOISE[mixture][split]}
        for split in range(3)
        for way in ways
        for mixture in (PN, A, B)
        for part in ("validation", "test")
        for cut in (MEAN, ZERO)
        for rating in ratings
    ]


def as_published(way, mixture, part, cut, rating):
    """Errors as the paper has them for A; B is better on the test part, and worse where it is chosen."""
    name = "PN" if mixture == PN else "mixture"
    value = float(film_exhibits.PUBLISHED[name][0][film_exhibits.RATINGS.index(rating)])
    if mixture == B:
        return value + (0.05 if (part, cut) == ("validation", MEAN) else -0.05)
    return value


def test_table1_takes_the_mixture_that_does_best_on_validation():
    rows = film_rows(as_published)
    kept = EXHIBITS["table1"].rows(rows)
    assert {(row["g_pn"], row["g_pu"], row["g_nu"]) for row in kept} == {PN, A}
    assert len(kept) == len(rows) * 2 / 3
    unchosen = [row | {"chosen": False} for row in rows[:5]]
    assert EXHIBITS["table1"].rows(rows + unchosen) == kept
    numbers = EXHIBITS["table1"].numbers(rows)
    assert "mixture (0.2, 0.4, 0.4)" in numbers
    assert "mixture (0.5, 0.5, 0)" not in numbers


def test_pn_itself_is_not_the_mixture_that_beats_pn():
    def error(way, mixture, part, cut, rating):
        return {PN: 0.1, A: 0.3, B: 0.2}[mixture]

    rows = film_rows(error)
    kept = EXHIBITS["table1"].rows(rows)
    assert {(row["g_pn"], row["g_pu"], row["g_nu"]) for row in kept} == {PN, B}
    for several in EXHIBITS["fig4"].claims(rows, {}).values():
        assert [claim.verdict for claim in several] == [FAILS, FAILS]


def test_the_claims_of_table1_hold_for_the_paper_s_numbers():
    claims = EXHIBITS["table1"].claims(film_rows(as_published), {})
    assert len(claims) == 2
    for several in claims.values():
        assert [claim.verdict for claim in several] == [HOLDS] * 7
        assert several[0].paper == "lower error overall (the paper: by 2%)"
        assert [claim.paper[-10:] for claim in several[1:6]] == [
            f"(rating {rating})"[-10:] for rating in "12345"
        ]


def test_the_claims_of_table1_fail_where_pn_and_the_mixture_change_places():
    def error(way, mixture, part, cut, rating):
        if rating == "3":
            return 0.2  # and not the hardest
        return 1 - as_published(way, mixture, part, cut, rating)

    rows = [row for row in film_rows(error) if (row["g_pn"], row["g_pu"], row["g_nu"]) != B]
    for several in EXHIBITS["table1"].claims(rows, {}).values():
        found = [claim.verdict for claim in several]
        assert found == [FAILS, FAILS, FAILS, UNCLEAR, FAILS, FAILS, FAILS]


def test_table1_has_the_paper_s_numbers_and_marks_what_is_lower():
    numbers = EXHIBITS["table1"].numbers(film_rows(as_published))
    blocks = numbers.split("\n\n")
    assert "| PN, the paper | 0.303 ± 0.034 | 0.298 ± 0.026 | 0.491 ± 0.015 |" in numbers
    assert "| 0.327 ± 0.020 | 0.161 ± 0.011 | **0.304 ± 0.005** |" in numbers
    place = blocks.index("Alpha and r chosen by PN; X cut at mean(X); on the test part:") + 1
    pn, mixture = blocks[place].splitlines()[2:]
    bold = [["**" in cell for cell in line.split("|")[2:-1]] for line in (pn, mixture)]
    assert bold == [
        [False, False, False, True, True, False],
        [True, True, True, False, False, True],
    ]
    assert len(re.findall("; X cut at .*; on the (test|validation) part:", numbers)) == 8


def test_a_rating_that_some_split_lacks_is_left_out():
    rows = [
        row
        for row in film_rows(as_published)
        if not (row["rating"] == "1" and row["split"] == 2 and row["part"] == "test")
    ]
    for several in EXHIBITS["table1"].claims(rows, {}).values():
        assert not any("rating 1)" in claim.paper for claim in several)
        assert len(several) == 6
    assert "| PN | none | " in EXHIBITS["table1"].numbers(rows)


def test_without_a_rating_in_every_split_there_is_no_hardest():
    rows = film_rows(as_published, ratings=(OVERALL,))
    for several in EXHIBITS["table1"].claims(rows, {}).values():
        assert "overall" in several[0].paper
        assert several[-1].verdict in {UNCLEAR, several[0].verdict}


def test_the_claims_of_fig4_are_of_the_test_part():
    def error(way, mixture, part, cut, rating):
        if part == "validation":
            return 0.1 if mixture == PN else 0.9
        low = {MEAN: A, ZERO: B}[cut]
        return {PN: 0.5, low: 0.3}.get(mixture, 0.7)

    claims = EXHIBITS["fig4"].claims(film_rows(error), {})
    found = {way: [claim.verdict for claim in several] for way, several in claims.items()}
    assert found == {
        f"{way}; cut at {cut}": verdicts
        for way in (CHOSEN, SAME)
        for cut, verdicts in ((MEAN, [HOLDS, HOLDS]), (ZERO, [FAILS, HOLDS]))
    }
    numbers = EXHIBITS["fig4"].numbers(film_rows(error))
    assert f"| {CHOSEN} | {MEAN} | 0.501 ± 0.001 | 0.301 ± 0.001 at (0.2, 0.4, 0.4) |" in numbers
    assert f"| {CHOSEN} | {ZERO} | 0.501 ± 0.001 | 0.301 ± 0.001 at (0.5, 0.5, 0) |" in numbers
    assert "PN alone chose, on 3 splits: alpha = 2 with r = 5 (3 times)." in numbers


def test_the_triangles_of_fig4_are_the_means_on_the_test_part(drawn):
    def error(way, mixture, part, cut, rating):
        if (part, rating) != ("test", OVERALL):
            return 0.9
        return 0.1 * (way == SAME) + 0.2 * (cut == ZERO) + 0.3 * mixture[0]

    EXHIBITS["fig4"].draw(film_rows(error), Path("fig4"))
    assert [name for name, *_ in drawn] == ["fig4", "fig4-alpha-1"]
    for place, (_, triangles, _) in enumerate(drawn):
        assert [triangle.title for triangle in triangles] == [f"cut at {MEAN}", f"cut at {ZERO}"]
        for cut, triangle in enumerate(triangles):
            np.testing.assert_allclose(triangle.mixtures, [PN, A, B])
            expected = 0.001 + 0.1 * place + 0.2 * cut + 0.3 * triangle.mixtures[:, 0]
            np.testing.assert_allclose(triangle.values, expected)


def test_the_picture_of_table1_is_the_test_part_beside_the_paper_s(drawn):
    EXHIBITS["table1"].draw(film_rows(as_published, ratings=("2", "4", OVERALL)), Path("table1"))
    assert [name for name, *_ in drawn] == ["table1", "table1-alpha-1"]
    for _, shown, methods, options in drawn:
        assert shown == ["2", "4", OVERALL]
        for name, values in methods.items():
            mean, deviation = film_exhibits.PUBLISHED[name]
            np.testing.assert_allclose(values[0], mean[[1, 3, 5]] + 0.001)
            np.testing.assert_allclose(values[1], 0.001, rtol=0.1)
            np.testing.assert_array_equal(options["published"][name][0], mean[[1, 3, 5]])
            np.testing.assert_array_equal(options["published"][name][1], deviation[[1, 3, 5]])
        assert set(methods) == {"PN", "mixture"}

import dataclasses
import inspect
import re
import signal
import subprocess
import sys
from dataclasses import dataclass, field

import numpy as np
import pytest
import typer
from typer.testing import CliRunner

import tribit.__main__
import tribit.paper.demo
from tribit import BinaryMatrixCompletion, Logistic, Probit, __version__, load
from tribit.cli import actions, app, main
from tribit.cli.exits import StoppedError, orderly_signals
from tribit.data.reading import Reading
from tribit.model import spec
from tribit.solvers import loop

RATINGS = "user,item,rating\n" + "".join(
    f"u{user},i{item},{5 if (user + item) % 2 else 2}\n"
    for user in range(6)
    for item in range(5)
    if (user * item) % 3 != 1
)
NAMES = ["--row", "user", "--column", "item", "--value", "rating", "--like-at", "4"]
COMMANDS = [
    "fit",
    "split",
    "info",
    "predict",
    "complete",
    "recommend",
    "evaluate",
    "explain",
    "similar",
    "positions",
    "means",
    "ask",
    "value",
    "export",
    "update",
    "report",
    "serve",
    "demo",
    "reproduce",
    "compare",
]


@pytest.fixture
def ratings(tmp_path):
    path = tmp_path / "ratings.csv"
    path.write_text(RATINGS)
    return path


@pytest.fixture
def model(run, ratings, tmp_path):
    path = tmp_path / "model.tribit"
    code, out, err = run("fit", ratings, "-o", path, *NAMES, "--rank", 2, "--l2", 0.3)
    assert (code, err) == (0, "")
    assert "6 users and 5 items" in out
    return path


def assert_one_line(err, opening="Error: "):
    assert re.fullmatch(opening + r"[^\n]+\.\n", err), err


# The commands


def test_fit_predict_evaluate(run, ratings, model, tmp_path):
    scores = tmp_path / "scores.csv"
    code, out, err = run("predict", model, ratings, "-o", scores)
    assert (code, err) == (0, "")
    assert "pairs" in out
    lines = scores.read_text().splitlines()
    assert lines[0] == "user,item,probability,label,basis"
    assert len(lines) == len(RATINGS.splitlines())
    code, out, err = run("evaluate", model, ratings)
    assert code == 0
    assert_one_line(
        err, f"Warning: {len(lines) - 1} of the {len(lines) - 1} entries were part of the fit"
    )
    assert re.search(r"accuracy +1\.0000\n", out)
    assert re.search(r"AUC +1\.0000\n", out)
    assert out.startswith(f"{len(lines) - 1} entries of 6 users")


def test_fit_reports_what_it_did(run, ratings, tmp_path):
    path = tmp_path / "model.tribit"
    _, out, _ = run("fit", ratings, "--out", path, *NAMES, "--rank", 2, "--quiet")
    model = load(path)
    assert str(path) in out
    assert "\nnext " in out
    _, out, _ = run("info", path)
    assert f"objective {model.objective_:.6g}" in out
    assert f"{model.n_iter_} iterations ({model.stop_reason_})" in out
    assert f"{model.rho_:.4f}" in out


def test_one_label_has_no_auc(run, model, tmp_path):
    test = tmp_path / "test.csv"
    test.write_text("user,item,rating\nu0,i1,5\n")
    assert "only one label" in run("evaluate", model, test)[1]


def test_unknown_ids_are_skipped(run, model, tmp_path):
    test = tmp_path / "test.csv"
    test.write_text("user,item,rating\nu0,i1,5\nstranger,i1,5\n")
    scores = tmp_path / "s.csv"
    code, out, err = run("predict", model, test, "-o", scores)
    assert code == 0
    assert "not fitted on the user 'stranger': it is predicted from the other side alone" in err
    assert "2 (1 with an unknown id or without entries: see basis)" in out
    assert scores.read_text().splitlines()[2].endswith(",column alone")
    for command in (
        ["evaluate", model, test],
        ["predict", model, test, "-o", scores],
    ):
        code, _, err = run(*command, "--unknown", "error")
        assert code == 2
        assert_one_line(err)
        assert "'stranger'" in err
        assert "--unknown skip" in err
        code, out, err = run(*command, "--unknown", "skip")
        assert code == 0
        assert "1" in out
    assert "1 (1 with unknown ids left out)" in out


def test_names_given_to_evaluate_take_the_place_of_the_fit_s(run, model, tmp_path):
    test = tmp_path / "test.csv"
    test.write_text("who,what,stars\nu0,i1,5\nu0,i1,3\n")
    names = ["--row", "who", "--column", "what", "--value", "stars"]
    assert run("evaluate", model, test, *names, "--duplicates", "last")[0] == 0
    code, _, err = run("evaluate", model, test, *names)
    assert code == 2
    assert "both give" in err
    code, _, err = run("evaluate", model, test)
    assert code == 2
    assert "has no column 'user'" in err


# An early Matplotlib calls a later pyparsing by old names; without pytest Python shows no such warnings.
@pytest.mark.filterwarnings("ignore::DeprecationWarning:matplotlib")
@pytest.mark.usefixtures("short_trials")
def test_demo(run, monkeypatch, tmp_path):
    monkeypatch.setattr(tribit.paper.demo, "SHAPE", (40, 30))
    monkeypatch.setattr(tribit.paper.demo, "LEVEL", 0.0)
    picture, page = tmp_path / "demo.png", tmp_path / "demo.html"
    code, out, err = run("demo", "--picture", picture, "--report", page, "--seed", 3, "--quiet")
    assert (code, err) == (0, "")
    for text in (
        "40 users and 30 items",
        "observed labels alone",
        "error rate",
        "avoid_dislikes",
        str(picture),
        str(page),
    ):
        assert text in out
    assert picture.read_bytes().startswith(b"\x89PNG")
    text = page.read_text(encoding="utf-8")
    assert "40 users and 30 items" in text
    assert "Unusual users and items" in text
    assert run("demo", "--quiet")[0] == 0


# Options


def options_of(name):
    """Return the options and arguments of a command, by the name that the library has for them."""
    command = typer.main.get_command(app).commands[name]
    return {each.name: each for each in command.get_params(typer.Context(command))}


def test_the_options_cover_the_constructor():
    parameters = set(inspect.signature(BinaryMatrixCompletion).parameters)
    options = set(options_of("fit")) - {"help"}
    expected = parameters - {"callback", "imputed", "verbose"} | {
        "link_scale",
        "row_features",
        "column_features",
        "quiet",
        "keep_partial",
        "hold_out",
        "keep_seen",
        "ranker",
        "scheduler",
    }
    rules = {each.name for each in dataclasses.fields(Reading)} - {"like_at", "notes", "settled"}
    assert options - {"file", "out", "max_size", "wide"} - rules == expected
    assert options >= rules


def test_the_defaults_are_those_of_the_constructor():
    ours, theirs = options_of("fit"), inspect.signature(BinaryMatrixCompletion)
    # A command is repeatable, uses the machine, and shows that it works: three stated differences.
    differ = {"random_state", "n_jobs", "verbose"}
    # Several numbers or none of them: there is no option of several values that are one word.
    for name in ("gammas", "activity_floor"):
        assert (ours[name].default, theirs.parameters[name].default) == (None, "auto")
        differ |= {name}
    for name, parameter in theirs.parameters.items():
        if name in ours and name not in differ:
            assert ours[name].default == parameter.default, name
    assert ours["random_state"].default == 0
    assert ours["n_jobs"].default == -1


def test_a_new_field_of_the_model_is_an_option(run, ratings, tmp_path, monkeypatch):
    @dataclass(frozen=True)
    class Longer(spec.ModelSpec):
        damping: float = field(
            default=0.5, metadata={"choosable": True, "help": "How much to damp it."}
        )
        swapped: bool = field(default=False, metadata={"help": "Swap the signs."})
        hidden: int = 3

    monkeypatch.setattr(spec, "ModelSpec", Longer)
    given = {}
    monkeypatch.setattr(actions, "fit_file", lambda *_, **them: given.update(them) or 1 / 0)
    command = ["fit", str(ratings), "-o", str(tmp_path / "m"), *NAMES]
    with pytest.raises(ZeroDivisionError):
        main([*command, "--damping", "0.25", "--swapped"])
    assert (given["damping"], given["swapped"]) == (0.25, True)
    with pytest.raises(ZeroDivisionError):
        main(command)
    assert (given["damping"], given["swapped"]) == ("auto", False)
    assert "hidden" not in given
    helped = CliRunner().invoke(app, ["fit", "--help"], env={"COLUMNS": "200", "NO_COLOR": "1"})
    assert "How much to damp it." in helped.output


SAVED = [
    (["--no-search"], "search", False),
    (["--gammas", "0.5", "0.3", "0.2"], "gammas", (0.5, 0.3, 0.2)),
    (["--gammas", "0.5,0.3,0.2"], "gammas", (0.5, 0.3, 0.2)),
    (["--gammas=0.5,0.3,0.2"], "gammas", (0.5, 0.3, 0.2)),
    (["--activity-floor", "0.5,0"], "activity_floor", (0.5, 0.0)),
    (["--rho", "0.25"], "rho", 0.25),
    (["--link", "probit"], "link", Probit(1.0)),
    (["--link-scale", "7"], "link", Logistic(7.0)),
    (["--link", "probit", "--link-scale", "0.5"], "link", Probit(0.5)),
    (["--rank", "3"], "rank", 3),
    (["--radius", "1.5"], "radius", 1.5),
    (["--norm", "trace"], "norm", "trace"),
    (["--alpha", "2", "--radius", "1"], "alpha", 2.0),
    (["--l2", "0.5"], "l2", 0.5),
    (["--l2-power", "0.5"], "l2_power", 0.5),
    (["--l2-intercept", "0.25"], "l2_intercept", 0.25),
    (["--l2-intercept", "none"], "l2_intercept", None),
    (["--implicit-features", "yes"], "implicit_features", True),
    (["--implicit-features", "no"], "implicit_features", False),
    (["--l2-implicit", "3"], "l2_implicit", 3.0),
    (["--l2-implicit", "None"], "l2_implicit", None),
    (["--activity-floor", "0.5", "0"], "activity_floor", (0.5, 0.0)),
    (["--side-features", "no"], "side_features", False),
    (["--l2-side", "7"], "l2_side", 7.0),
    (["--no-intercept"], "intercept", False),
    (["--inverse-power", "0.5", "--rho", "0.4"], "inverse_power", 0.5),
    (["--rho", "constant"], "rho", "constant"),
    (["--rho", "none"], "rho", None),
    (["--radius", "none"], "radius", None),
    (["--rank", "0"], "rank", 0),
    (["--target", "all", "--rho", "constant"], "target", "all"),
    (["--scoring", "auc"], "scoring", "auc"),
    (["--n-candidates", "5"], "n_candidates", 5),
    (["--half-life", "none"], "half_life", None),
    (["--members", "2"], "members", 2),
    (["--calibration", "none"], "calibration", None),
    (["--solver", "lbfgs"], "solver", "lbfgs"),
    (["--solver", "projected_gradient"], "solver", "projected_gradient"),
    (["--max-iter", "50"], "max_iter", 50),
    (["--max-time", "30"], "max_time", 30.0),
    (["--tol", "0.001"], "tol", 0.001),
    (["--like-at", "3"], "like_at", 3.0),
    (["--dtype", "float64"], "dtype", "float64"),
]


@pytest.mark.parametrize(("options", "name", "value"), SAVED, ids=str)
def test_an_option_reaches_the_saved_model(run, ratings, tmp_path, options, name, value):
    path = tmp_path / "model.tribit"
    code, _, err = run("fit", ratings, "-o", path, *NAMES, "--rank", "2", *options)
    assert (code, err) == (0, "")
    default = inspect.signature(BinaryMatrixCompletion).parameters[name].default
    assert value != default
    assert getattr(load(path), name) == value


@pytest.mark.parametrize("name", ["row-column", "low-rank"])
def test_a_model_of_the_mask_goes_by_its_name_and_the_file_keeps_that(run, ratings, tmp_path, name):
    path = tmp_path / "model.tribit"
    code, _, err = run("fit", ratings, "-o", path, *NAMES, "--rank", "2", "--rho", name)
    assert code == 0
    assert err.startswith(f"Warning: The file keeps --rho {name} but not the model")
    assert err.count("\n") == 1
    assert re.search(rf"rho +by entry, {name}\n", run("info", path)[1])
    assert load(path).rho == name


def test_every_saved_parameter_has_an_option_above():
    kept = set(inspect.signature(BinaryMatrixCompletion).parameters)
    # Not part of a model file.
    kept -= {"callback", "imputed", "random_state", "verbose", "n_jobs", "backend", "device"}
    assert {name for _, name, _ in SAVED} == kept


@pytest.mark.parametrize(
    ("options", "name", "value"),
    [
        ([], "random_state", 0),
        (["--random-state", "7"], "random_state", 7),
        ([], "n_jobs", -1),
        (["--n-jobs", "2"], "n_jobs", 2),
        ([], "verbose", 1),
        (["--quiet"], "verbose", 0),
        (["-q"], "verbose", 0),
        (["--duplicates", "majority"], "duplicates", "majority"),
    ],
)
def test_an_option_that_is_not_saved_reaches_the_fit(
    run, ratings, tmp_path, monkeypatch, options, name, value
):
    given = {}
    original = actions.fit_file

    def spy(*arguments, **parameters):
        given.update(parameters)
        return original(*arguments, **parameters)

    monkeypatch.setattr(actions, "fit_file", spy)
    run("fit", ratings, "-o", tmp_path / "m", *NAMES, "--rank", "2", *options)
    assert given[name] == value


def test_tables_of_features_reach_the_model(run, ratings, tmp_path):
    ids = sorted({line.split(",")[1] for line in ratings.read_text().split()[1:]})
    table = tmp_path / "items.csv"
    table.write_text(
        "id,size,kind\n" + "".join(f"{name},{n},k{n % 3}|all\n" for n, name in enumerate(ids))
    )
    path = tmp_path / "model.tribit"
    words = ["--rank", "2", "--l2", "1", "--column-features", table, "--side-features", "yes"]
    code, _, err = run("fit", ratings, "-o", path, *NAMES, *words)
    assert (code, err) == (0, "")
    encoder = load(path).fitted_.members[0].maps[1].encoder
    assert [(group.name, group.kind) for group in encoder.groups] == [
        ("size", "quantity"),
        ("kind", "tags"),
    ]
    table.write_text("id\n" + "\n".join(ids) + "\n")
    code, _, err = run("fit", ratings, "-o", path, *NAMES, *words)
    assert code == 2
    assert "has one column, of ids; give it a column of features" in err


def test_a_command_is_repeatable(run, ratings, tmp_path):
    for name in ("a", "b", "c"):
        seed = ["--random-state", "5"] if name == "c" else []
        run("fit", ratings, "-o", tmp_path / name, *NAMES, "--rank", "2", "--l2", "0.3", *seed)
    a, b, c = (load(tmp_path / name).row_factors_ for name in "abc")
    np.testing.assert_array_equal(a, b)
    assert not np.array_equal(a, c)


# What goes wrong


@pytest.mark.parametrize(
    ("options", "match"),
    [
        (["--gammas", "1", "1", "1"], "--gammas .* sum to 1"),
        (["--rho", "1.5"], "--rho, the prob"),
        (["--link", "cauchy"], "--link must be one of logistic, probit; got 'cauchy'"),
        (["--link-scale", "-1"], "--link-scale must be a positive finite number; got -1"),
        (["--rank", "0", "--no-intercept"], "--rank must be from 1 to 6"),
        (["--rank", "-1"], "--rank must be from 0 to 6"),
        (["--rank", "99"], "--rank must be from 0 to 6"),
        (["--radius", "0"], "--radius must be a positive"),
        (["--norm", "nuclear"], "--norm must be one of max, trace"),
        (
            ["--norm", "trace", "--radius", "1", "--solver", "newton"],
            "use --solver augmented_lagrangian",
        ),
        (["--alpha", "nan"], "--alpha must be a positive"),
        (["--l2", "-1"], "--l2 must be"),
        (["--l2", "much"], "--l2 must be .*; got 'much'"),
        (["--l2-intercept", "-1"], "--l2-intercept must be"),
        (["--l2-implicit", "-1"], "--l2-implicit must be"),
        (["--radius", "wide"], "--radius must be .*; got 'wide'"),
        (["--rho", "columns"], "--rho must .* 'columns'"),
        (["--inverse-power", "-1"], "--inverse-power must"),
        (
            ["--implicit-features", "yes", "--radius", "1", "--norm", "trace"],
            "--implicit-features yes does not go with --norm trace, .* pass a max-norm --radius, or",
        ),
        (
            ["--implicit-features", "yes", "--solver", "newton"],
            "--implicit-features yes .* cannot move these: use --solver lbfgs",
        ),
        (["--target", "some"], "--target must be one of observed, all; got 'some'"),
        (["--scoring", "r2"], "--scoring must be one of log_loss, error, auc; got 'r2'"),
        (["--n-candidates", "0"], "--n-candidates must be a whole number, at least 1"),
        (
            ["--calibration", "magic"],
            "--calibration must be one of identity, platt, beta, isotonic, auto",
        ),
        (
            ["--solver", "adam"],
            "--solver must be one of newton, lbfgs, augmented_lagrangian, projected_gradient; got 'adam'",
        ),
        (["--max-iter", "0"], "--max-iter must be"),
        (["--max-time", "0"], "--max-time must be"),
        (["--tol", "-1"], "--tol must be"),
        (["--dtype", "int8"], "--dtype must be"),
        (["--n-jobs", "0"], "--n-jobs must be"),
        (["--random-state", "-1"], "--random-state is -1, but a seed cannot be negative"),
        (["--like-at", "nan"], "--like-at is nan"),
        (["--row", "who"], "has no column 'who'; choose one of its columns: user, item, rating"),
        (
            ["--value", "user"],
            "line 2 of ratings.csv: the value 'u0' .* is not a number; .* --value column",
        ),
    ],
)
def test_a_wrong_option_is_one_line(run, ratings, tmp_path, options, match):
    path = tmp_path / "model.tribit"
    code, out, err = run("fit", ratings, "-o", path, *NAMES, "--rank", "2", *options)
    assert code == 2
    assert_one_line(err)
    assert re.search(match, err)
    assert not out
    assert not path.exists()


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("", "ratings.csv is empty"),
        ("user,item,rating\n", "ratings.csv holds no records"),
        ("user,item,rating\nu0,i0\n", "line 2 of ratings.csv has 2 fields where the first has 3"),
        ("user,item,rating\n,i0,5\n", "line 2 of ratings.csv: the id in column 'user' is empty"),
        ("user,item,rating\nu0,i0,5\nu0,i0,1\n", "line 2 .* and line 3 .* both give row 'u0'"),
        ('user,item,rating\n"u0,i0,5\n', "the record is malformed"),
    ],
)
def test_a_wrong_file_is_one_line(run, ratings, tmp_path, text, match):
    ratings.write_text(text)
    code, _, err = run("fit", ratings, "-o", tmp_path / "model.tribit", *NAMES)
    assert code == 2
    assert_one_line(err)
    assert re.search(match, err)


def test_a_path_that_cannot_be_used_is_one_line(run, ratings, model, tmp_path):
    absent = tmp_path / "absent"
    commands = {
        "There is no file": ["fit", absent / "x.csv", "-o", model, *NAMES],
        "has no ending of a format": ["fit", model, "-o", tmp_path / "other", *NAMES],
        "is the file that is read": ["fit", ratings, "-o", ratings, *NAMES],
        "directory does not exist": ["fit", ratings, "-o", absent / "m", *NAMES, "--rank", 2],
        "There is no model file": ["predict", absent, ratings, "-o", tmp_path / "s.csv"],
        "is not a readable tribit model": ["evaluate", ratings, ratings],
        "end it in one of .csv, .tsv, .parquet, .jsonl, .ndjson, .csv.gz, .tsv.gz, .jsonl.gz, .ndjson.gz.": [
            "predict",
            model,
            ratings,
            "-o",
            tmp_path / "s.txt",
        ],
    }
    before = model.read_bytes()
    for match, command in commands.items():
        code, _, err = run(*command)
        assert code == 2
        assert_one_line(err)
        assert match in err
    assert model.read_bytes() == before


@pytest.mark.parametrize("target", ["absent/model.tribit", "."])
def test_a_target_that_cannot_be_written_is_told_before_the_fit(
    run, ratings, tmp_path, monkeypatch, target
):
    monkeypatch.setattr(actions, "fit_file", lambda *_, **__: pytest.fail("fitted first"))
    code, _, err = run("fit", ratings, "-o", tmp_path / target, *NAMES)
    assert code == 2
    assert_one_line(err)


def test_a_picture_that_cannot_be_written_is_told_before_the_demo(run, tmp_path, monkeypatch):
    monkeypatch.setattr(tribit.paper.demo, "run_demo", lambda **_: pytest.fail("ran first"))
    for arguments in (["--picture", "demo.gif"], ["--report", "no folder/demo.html"]):
        code, _, err = run("demo", arguments[0], tmp_path / arguments[1])
        assert code == 2
        assert_one_line(err)


@pytest.mark.parametrize(
    "arguments",
    [
        ["fit"],
        ["fit", "ratings.csv", "-o", "m", "--row", "a", "--column", "b", "--rank", "many"],
        ["fit", "a.csv", "-o", "m", "--row", "a", "--column", "b", "--implicit-features", "maybe"],
        ["fit", "a.csv", "-o", "m", "--row", "a", "--column", "b", "--rank", "2.5"],
        ["fit", "a.csv", "-o", "m", "--row", "a", "--column", "b", "--n-candidates", "few"],
        ["fit", "ratings.csv", "-o", "m", "--row", "a", "--column", "b", "--duplicates", "all"],
        ["recommend"],
        ["predict", "--ranks", "3"],
    ],
)
def test_wrong_usage_exits_with_2_and_says_how(run, arguments):
    code, _, err = run(*arguments)
    assert code == 2
    assert "Usage:" in err
    assert "Traceback" not in err


def test_a_fit_that_is_cut_short_is_saved_with_a_warning(run, ratings, tmp_path):
    path = tmp_path / "model.tribit"
    options = ["--max-iter", "1", "--tol", "0", "--rank", "2"]
    code, _, err = run("fit", ratings, "-o", path, *NAMES, *options)
    assert code == 0
    assert err.startswith(
        "Warning: The fit stopped after --max-iter 1 iterations, before --tol 0.0 was"
    )
    assert err.count("\n") == 1
    assert load(path).n_iter_ == 1


def python(*arguments, **options):
    code = "from tribit.cli import main; main()"
    return subprocess.run(
        [sys.executable, "-c", code, *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
        **options,
    )


def test_a_process_of_its_own(ratings, tmp_path):
    path = tmp_path / "model.tribit"
    done = python("fit", ratings, "-o", path, *NAMES, "--rank", 2, "--n-jobs", 1)
    assert (done.returncode, done.stderr) == (0, "")
    assert "6 users and 5 items" in done.stdout
    done = python("evaluate", path, tmp_path / "absent.csv")
    assert done.returncode == 2
    assert not done.stdout
    assert_one_line(done.stderr)


@pytest.fixture
def many(tmp_path):
    """A table with enough entries for a search."""
    draws = np.random.default_rng(0)
    path = tmp_path / "many.csv"
    pairs = [(i, j) for i in range(40) for j in range(30) if draws.random() < 0.5]
    lines = [f"u{i},i{j},{draws.choice([5, 2], p=[0.6, 0.4])}" for i, j in pairs]
    path.write_text("\n".join(["user,item,rating", *lines]) + "\n")
    return path


@pytest.fixture
def pressed(monkeypatch):
    """Ctrl-C, a real signal, before some of the solvers' fits of a command."""

    def press(*fits):
        calls = 0
        original = loop.run

        def run(*arguments, **options):
            nonlocal calls
            calls += 1
            advance = arguments[0]

            def pressing(factors, this=calls):
                if this in fits:
                    signal.raise_signal(signal.SIGINT)
                return advance(factors)

            return original(pressing, *arguments[1:], **options)

        for module in ("newton", "lbfgs"):
            monkeypatch.setattr(f"tribit.solvers.{module}.run", run)

    return press


@pytest.mark.parametrize("fits", [(1,), (5,), (9, 10)])
def test_ctrl_c_leaves_the_old_model(run, pressed, many, tmp_path, fits):
    out = tmp_path / "model"
    out.write_bytes(b"an old model")
    pressed(*fits)
    code, printed, err = run("fit", many, "-o", out, *NAMES)
    assert code == 130
    assert out.read_bytes() == b"an old model"
    assert not printed
    assert_one_line(err, "Interrupted: ")
    assert "--keep-partial" in err
    assert not list(tmp_path.glob(".tribit*"))
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@pytest.mark.parametrize("fit", [1, 7])
def test_ctrl_c_with_keep_partial_writes_the_best_so_far(run, pressed, many, tmp_path, fit):
    out = tmp_path / "model"
    pressed(fit)
    code, printed, err = run("fit", many, "-o", out, *NAMES, "--keep-partial")
    assert code == 130
    model = load(out)
    assert not model.converged_
    assert "interrupted" in model.stop_reason_
    assert "interrupted" in printed
    assert f"Interrupted: {str(out)!r} holds the best model so far." in err


def test_a_second_ctrl_c_leaves_the_old_model_in_any_case(run, pressed, many, tmp_path):
    out = tmp_path / "model"
    out.write_bytes(b"an old model")
    pressed(*range(7, 100))
    code, _, err = run("fit", many, "-o", out, *NAMES, "--keep-partial")
    assert code == 130
    assert out.read_bytes() == b"an old model"
    assert err.splitlines()[-1].startswith("Interrupted: ")


def test_a_fit_that_says_it_was_interrupted_is_not_written(run, monkeypatch, ratings, tmp_path):
    """Whatever handled the signal: a half-fitted model is written only where it was asked for."""
    whole = actions.fit_file

    def interrupted(*arguments, **options):
        model = whole(*arguments, **options)
        fitted = model.model_
        fitted.record_ = dataclasses.replace(fitted.record_, stop_reason=loop.INTERRUPTED)
        return model

    monkeypatch.setattr(actions, "fit_file", interrupted)
    out = tmp_path / "model"
    code, _, err = run("fit", ratings, "-o", out, *NAMES)
    assert code == 130
    assert not out.exists()
    assert_one_line(err, "Interrupted: ")
    code, _, err = run("fit", ratings, "-o", out, *NAMES, "--keep-partial")
    assert code == 130
    assert out.exists()


@pytest.mark.parametrize("command", ["predict", "evaluate", "recommend"])
def test_ctrl_c_in_any_command_is_one_sentence(run, monkeypatch, tmp_path, command):
    monkeypatch.setattr(
        "tribit.cli.answers.answer_question", lambda *_: signal.raise_signal(signal.SIGINT)
    )
    out = [] if command == "evaluate" else ["-o", tmp_path / "out.csv"]
    code, _, err = run(command, tmp_path / "model", tmp_path / "table.csv", *out)
    assert code == 130
    assert_one_line(err, "Interrupted: ")


def test_ctrl_c_before_the_command_line_is_imported_is_one_sentence(monkeypatch, capsys):
    class Pressed:
        def find_spec(self, name, *_):
            if name == "tribit.cli":
                raise KeyboardInterrupt

    monkeypatch.delitem(sys.modules, "tribit.cli")
    monkeypatch.setattr(sys, "meta_path", [Pressed(), *sys.meta_path])
    with pytest.raises(SystemExit) as stop:
        tribit.__main__.main()
    assert stop.value.code == 130
    assert_one_line(capsys.readouterr().err, "Interrupted: ")


# Help


@pytest.mark.parametrize("flag", ["--help", "-h"])
@pytest.mark.parametrize("command", COMMANDS)
def test_help_has_an_example_that_names_real_options(command, flag):
    result = CliRunner().invoke(app, [command, flag], env={"COLUMNS": "200", "NO_COLOR": "1"})
    assert result.exit_code == 0
    example = re.search(r"Example: tribit (\w+) .*", result.output)
    assert example
    assert example[1] == command
    for option in re.findall(r"--[a-z0-9-]+", example[0]):
        assert f"{option} " in result.output.replace(example[0], "")


def test_every_command_is_tested():
    assert [each.name or each.callback.__name__ for each in app.registered_commands] == COMMANDS


def test_every_option_has_a_help_text():
    for command in COMMANDS:
        for name, option in options_of(command).items():
            assert option.help, f"{command} {name}"


def test_no_command_shows_the_help():
    result = CliRunner().invoke(app, [])
    for command in COMMANDS:
        assert command in result.output


def test_version(run):
    assert run("--version") == (0, f"tribit {__version__}\n", "")


def test_a_header_of_numbers_is_a_header(run, tmp_path):
    # pandas writes such a header for columns without names, and so does tribit predict.
    lines = ["0,1,2", *(f"u{i % 5},i{i % 7},{1 if i % 3 else -1}" for i in range(30))]
    path = tmp_path / "numbered.csv"
    path.write_text("\n".join(lines))
    model = tmp_path / "model.tribit"
    names = ["--row", "0", "--column", "1", "--value", "2"]
    assert run("fit", path, "-o", model, *names, "--rank", "2")[0] == 0
    assert load(model).row_factors_.shape[0] == 5
    scores = tmp_path / "scores.csv"
    assert run("predict", model, path, "-o", scores)[0] == 0
    assert re.search(r"pairs +30\n", run("predict", model, scores, "-o", tmp_path / "again.csv")[1])


def test_evaluate_takes_the_threshold_that_the_model_does_not_know(run, ratings, tmp_path):
    path = tmp_path / "model.tribit"
    options = {"gammas": (0, 1, 0), "rho": 0.5, "rank": 2, "n_jobs": 1}
    actions.fit_file(ratings, row="user", column="item", **options).save(path)
    code, out, _ = run("evaluate", path, ratings, "--value", "rating", "--like-at", "4")
    assert code == 0
    assert "error rate" in out


def test_a_handler_of_somebody_else_s_stays(run):
    def theirs(*_):
        pass

    for before in (theirs, signal.SIG_IGN, signal.SIG_DFL):
        old = signal.signal(signal.SIGTERM, before)
        try:
            assert run("--version")[0] == 0
            assert signal.getsignal(signal.SIGTERM) is before
        finally:
            signal.signal(signal.SIGTERM, old)


@pytest.mark.parametrize(
    ("number", "ending"), [(signal.SIGTERM, SystemExit), (signal.SIGINT, StoppedError)]
)
def test_a_signal_while_a_class_is_made_ends_a_command_too(number, ending):
    """As a module is imported, when Python 3.11 makes a RuntimeError of what a handler raises."""

    class Signalled:
        def __set_name__(self, owner, name):
            signal.raise_signal(number)

    with pytest.raises(ending) as ended, orderly_signals():
        type("Imported", (), {"field": Signalled()})
    if ending is SystemExit:
        assert ended.value.code == 128 + signal.SIGTERM
    with pytest.raises(RuntimeError, match="own"), orderly_signals():
        raise RuntimeError("own")

"""For each option of each command: an error that the option is at fault for names it as it is typed."""

import contextlib
import re

import pytest
import typer

from tribit.cli import app, main

RATINGS = "user,item,rating\n" + "".join(
    f"u{user},i{item},{5 if (user + item) % 2 else 2}\n" for user in range(6) for item in range(5)
)
FIT = ["fit", "ratings.csv", "-o", "new", "--row", "user", "--column", "item", "--value", "rating"]
FIT += ["--like-at", "4", "--rank", "1", "--l2", "1"]
PREDICT = ["predict", "model", "ratings.csv", "-o", "scores.csv"]
EVALUATE = ["evaluate", "model", "ratings.csv"]
RECOMMEND = ["recommend", "model", "ratings.csv", "-o", "lists.csv"]
COMPLETE = ["complete", "model"]
ASK = ["ask", "model", "--budget", "3"]
VALUE = ["value", "model", "ratings.csv", "--table", "ratings.csv"]
(
    PREDICT_NEW,
    EXPLAIN_NEW,
    SIMILAR_NEW,
    COMPLETE_NEW,
    POSITIONS_NEW,
    MEANS_NEW,
    ASK_NEW,
    VALUE_NEW,
) = (
    [*command, "--new", "ratings.csv"]
    for command in (
        PREDICT,
        ["explain", "model", "u0", "i1"],
        ["similar", "model", "--row", "u0"],
        COMPLETE,
        ["positions", "model"],
        ["means", "model"],
        ASK,
        VALUE,
    )
)
NEW = (
    PREDICT_NEW,
    EXPLAIN_NEW,
    SIMILAR_NEW,
    COMPLETE_NEW,
    POSITIONS_NEW,
    MEANS_NEW,
    ASK_NEW,
    VALUE_NEW,
)
SPLIT = ["split", "ratings.csv", "-o", "train.csv", "test.csv", "--row", "user", "--column", "item"]
REPORT = ["report", "model", "--test", "ratings.csv", "-o", "report.html"]
UPDATE = ["update", "model", "ratings.csv", "-o", "updated"]
DEMO = ["demo"]
REPRODUCE = ["reproduce", "fig1"]
COMPARE = ["compare"]

#: A command, the words that make it fail, and the option that the error must name: the last one with a dash.
CASES = [
    *((FIT, words) for words in (
        "--like-at nan", "--dislike-at nan", "--like yes", "--dislike ,", "--missing drop",
        "--weight item", "--time item", "--weight-scale log",
        "--zeros maybe", "--delimiter x",
        "--decimal x", "--encoding klingon", "--format xls", "--gammas 0,1",
        "--duplicates all", "--max-size few", "--gammas 1 1 1", "--rho 2", "--rho many",
        "--link cauchy", "--link-scale 0", "--link-scale 1e300", "--rank -1", "--rank few", "--radius 0",
        "--norm nuclear", "--alpha -1", "--l2 -1", "--l2-power 2",
        "--l2-intercept -1", "--implicit-features maybe", "--l2-implicit -1",
        "--activity-floor -1 0", "--side-features maybe", "--l2-side -1",
        "--inverse-power 2", "--target some", "--scoring r2", "--n-candidates 0", "--calibration magic",
        "--members 0", "--members few", "--half-life -1",
        "--solver adam", "--max-iter 0", "--max-time 0", "--tol -1", "--dtype int8", "--n-jobs 0", "--random-state -1",
        "--backend some", "--device gpu",
        "--value item", "--max-size 10", "--layout tall",
    )),
    *((command, words) for command in (PREDICT, EVALUATE, RECOMMEND, REPORT) for words in ("--max-size 10",)),
    *((command, words) for command in (EVALUATE, RECOMMEND, REPORT) for words in (
        "--value item", "--weight item", "--time item", "--like-at nan", "--dislike-at nan", "--duplicates all",
    )),
    *((command, words) for command in (RECOMMEND, EVALUATE) for words in (
        "-n 0", "--avoid-dislikes -1", "--level 2",
    )),
    (["similar", "model", "--column", "i1"], "-n 0"),
    (["positions", "model"], "-n -1"),
    *((["means", "model"], words) for words in (
        "--axis cells", "--by ratings.csv", "--weights ratings.csv", "--selection some", "--q ratings.csv",
        "--guarantee all", "--guarantee rows", "--level 2", "--versus zoe", "--unknown maybe", "--random-state -1",
        "--asked ratings.csv", "--sensitivity 0.5", "--threshold 1",
    )),
    *((ASK, words) for words in (
        "--budget 0", "--batch 0", "--design clever", "--goal fame", "-n 0", "--cost ratings.csv",
        "--asked ratings.csv", "--random-state -1",
    )),
    *((VALUE, words) for words in (
        "--selection some", "--q ratings.csv", "--max-weight 0", "--level 2", "--random-state -1",
    )),
    (["value", "ratings.csv", *VALUE[3:], *FIT[4:12]], "--versus zoe"),
    *((UPDATE, words) for words in (
        "--max-size 10", "--value item", "--weight item", "--time item", "--like-at nan", "--dislike-at nan",
        "--duplicates all",
    )),
    *((command, words) for command in (PREDICT, EVALUATE, RECOMMEND, UPDATE, REPORT) for words in (
        "--delimiter x", "--decimal x", "--encoding klingon", "--format xls", "--missing drop",
        "--layout tall", "--zeros maybe", "--weight-scale log",
    )),
    *((command, words) for command in (EVALUATE, RECOMMEND, UPDATE, REPORT) for words in ("--like yes", "--dislike ,")),
    *((command, words) for command in NEW for words in (
        "--value item", "--weight item", "--time item", "--like-at nan", "--dislike-at nan", "--duplicates all",
        "--like yes", "--dislike ,",
    )),
    *((command, words) for command in NEW[1:] for words in (
        "--delimiter x", "--decimal x", "--encoding klingon", "--format xls", "--missing drop", "--layout tall",
        "--zeros maybe", "--max-size 10", "--weight-scale log",
    )),
    *((command, "--unknown maybe") for command in (PREDICT, EVALUATE, RECOMMEND, REPORT)),
    (["explain", "model", "u1", "i1"], "--unknown skip"),
    (["similar", "model", "--column", "i1"], "--unknown popularity"),
    *((COMPLETE, words) for words in (
        "--what label", "--observed drop", "--threshold 2", "--threshold 0.4", "--without-entries drop",
        "--unknown maybe",
    )),
    *((SPLIT, words) for words in (
        "--test 2.5", "--test few", "--test 100000", "--random-state -1", "--max-size 10", "--delimiter x",
        "--encoding klingon", "--format xls", "--by some", "--last 2", "--time rating",
    )),
    (EVALUATE, "--by some"),
    *((FIT, words) for words in ("--ranker maybe", "--hold-out 2.5", "--hold-out few")),
    (FIT, "--scheduler nowhere"),
    *((["serve", "model"], words) for words in (
        "--host 192.0.2.1", "--port 70000", "--workers 0", "--max-body few", "--max-pairs 0", "--max-rows 0",
        "--max-entries 0", "--max-n 0", "--max-per-address 0", "--allow-host http://a", "--token-file nowhere",
    )),
    (["export", "model", "-o", "f.npz"], "--dtype int8"),
    (REPORT[:2], "--random-state -1"),
    *((DEMO, words) for words in ("--seed -1",)),
    *((REPRODUCE, words) for words in (
        "--trials 1", "--jobs 0", "--protocol fast", "--step -1", "--step 1e9", "--seed -1",
    )),
    (["reproduce", "fig4"], "--data nowhere"),
    *((COMPARE, words) for words in (
        "--data nowhere", "--on mars", "--systems magic", "--jobs 0", "--seed -1",
    )),
]  # fmt: skip
#: Options of a file, a column or an id: an error quotes what was typed, and an unknown id is none.
QUOTED = {
    "--table",
    "--out",
    "--against",
    "--new",
    "--for",
    "--row",
    "--column",
    "--rows",
    "--columns",
    "--data",
    "--among",
    "--polarity",
    "--picture",
    "--report",
    "--test",
    "--title",
    "--row-features",
    "--column-features",
}


@pytest.fixture(scope="module")
def fitted(tmp_path_factory):
    """Return the bytes of a bundle of the ratings, fitted once."""
    folder = tmp_path_factory.mktemp("fitted")
    (folder / "ratings.csv").write_text(RATINGS)
    with contextlib.chdir(folder), pytest.raises(SystemExit) as ended:
        main(FIT)
    assert not ended.value.code
    return (folder / "new").read_bytes()


@pytest.fixture
def here(fitted, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "ratings.csv").write_text(RATINGS)
    (tmp_path / "model").write_bytes(fitted)


def option_of(words):
    return words.split()[0]


@pytest.mark.parametrize(
    ("command", "words"), CASES, ids=lambda part: part[0] if isinstance(part, list) else part
)
def test_an_error_names_the_option_as_it_is_typed(run, here, command, words):
    code, _, err = run(*command, *words.split())
    assert code == 2
    assert re.fullmatch(r"Error: [^\n]+\.\n", err), err
    sentence = err.split("(Usage:")[0]
    assert re.search(rf"(?<![\w-]){option_of(words)}(?![\w-])", sentence), err
    bare = option_of(words).strip("-").replace("-", "_")
    if "_" in bare:
        assert bare not in sentence


def test_every_option_with_a_value_is_among_them():
    group = typer.main.get_command(app)
    tried = {(command[0], option_of(words)) for command, words in CASES}
    for name, command in group.commands.items():
        for each in command.get_params(typer.Context(command)):
            if each.param_type_name == "option" and not each.is_flag and each.opts[0] not in QUOTED:
                assert (name, each.opts[0]) in tried


@pytest.mark.parametrize(
    ("command", "match"),
    [
        ([*EVALUATE[:2], "strangers.csv", "--unknown", "error"], "leave them out with --unknown skip"),
        ([*EVALUATE[:2], "strangers.csv", "--unknown", "skip"], "check --row and --column"),
        ([*EVALUATE[:2], "stars.csv", "--like-at", "nan"], "--like-at is nan"),
        ([*FIT[:8], "--value", "rating"], "if these are ratings, pass --like-at."),
        ([*FIT[:8], "--like-at", "4"], "--like-at needs --value"),
        ([*FIT[:1], "twice.csv", *FIT[2:]], "keep with --duplicates .first, last or majority.[.]$"),
        ([*FIT, "--norm", "trace", "--gammas", "0", "1", "0"], "--norm trace .* needs a --radius .or an --alpha"),
        ([*FIT, "--solver", "lbfgs", "--radius", "1"], "use --solver newton, or leave out --radius and --alpha"),
        ([*FIT, "--solver", "newton", "--radius", "3", "--alpha", "1"], "--radius = 3: .* most 1, .* --solver "),
        (["evaluate", "absent", "ratings.csv"], "write one with tribit fit"),
        (["compare", "--on", "senate"], "pass their folder .--data"),
        (["reproduce", "fig1", "--step", "1", "--protocol", "tuned"], "--step applies only to --protocol paper"),
    ],
)  # fmt: skip
def test_advice_is_in_options(run, here, tmp_path, command, match):
    (tmp_path / "strangers.csv").write_text("user,item,rating\nv0,j0,5\n")
    (tmp_path / "stars.csv").write_text("user,item,rating\nu0,i0,5\n")
    (tmp_path / "twice.csv").write_text(RATINGS + "u0,i0,5\n")
    code, _, err = run(*command)
    assert code == 2
    assert re.search(match, err.rstrip("\n")), err


@pytest.mark.parametrize(
    ("options", "match"),
    [
        (
            ["--gammas", "1", "0", "0"],
            "leave out --gammas to compare them .*, or pass --no-intercept with a --radius, an --alpha or --l2 > 0",
        ),
        (["--gammas", "0", "1", "0", "--rho", "none"], "pass --rho, the probability"),
        (["--calibration", "platt"], "--calibration platt was left out, .* 3 likes are too few"),
    ],
)
def test_warnings_are_in_options(run, here, tmp_path, options, match):
    (tmp_path / "likes.csv").write_text("user,item\nu0,i0\nu1,i1\nu1,i0\n")
    code, out, err = run(
        "fit", "likes.csv", "-o", "m", "--row", "user", "--column", "item", *options
    )
    assert code == 0
    assert re.search(match, err), err
    if options[-1] == "0":
        assert "not tuned" in out
        assert "leave out --gammas to compare them with the cells that were not seen\n" in out


def test_a_warning_of_formulas_is_in_options(run, here, tmp_path):
    table = tmp_path / "ratings.csv"
    table.write_text(RATINGS.replace("i0", "=i0"))
    assert run(*FIT)[0] == 0
    _, _, err = run("predict", "new", "ratings.csv", "-o", "scores.csv")
    assert "write it with --escape-formulas; --no-escape-formulas says that it is not." in err

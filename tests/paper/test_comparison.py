import re

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from tribit import InvalidInputError
from tribit.cli import main
from tribit.evaluation import evaluate
from tribit.paper import comparison
from tribit.paper.comparison import GRIDS, compare, comparison_table, load_data
from tribit.paper.systems import SYSTEMS, cmfrec

TRAIN, TEST = load_data("synthetic", None, 0)


def test_the_best_setting_on_held_out_entries_is_fitted_again():
    (result,) = compare(TRAIN, TEST, systems=["alternating-least-squares"])
    part, held_out = TRAIN.split(0.1, random_state=0)
    losses = []
    for setting in GRIDS["alternating-least-squares"]:
        model = SYSTEMS["alternating-least-squares"](**setting, random_state=0).fit(part)
        losses.append(evaluate(model, held_out).log_loss)
    best = GRIDS["alternating-least-squares"][int(np.argmin(losses))]
    assert result.parameters == ", ".join(f"{key}={value!r}" for key, value in best.items())
    model = SYSTEMS["alternating-least-squares"](**best, random_state=0).fit(TRAIN)
    assert result.error_rate == evaluate(model, TEST).error_rate
    assert result.seconds > 0


def test_the_rasch_model_is_a_logistic_regression_on_rows_and_columns():
    (result,) = compare(TRAIN, TEST, systems=["rasch"])
    penalty = float(result.parameters.split("=")[1])
    d1, d2 = TRAIN.shape

    def design(entries):
        X = np.zeros((entries.n_observed, d1 + d2))
        X[np.arange(entries.n_observed), entries.rows] = 1
        X[np.arange(entries.n_observed), d1 + entries.columns] = 1
        return X

    regression = LogisticRegression(C=1 / penalty, tol=1e-8, max_iter=1000)
    regression.fit(design(TRAIN), TRAIN.labels)
    p = regression.predict_proba(design(TEST))[:, 1]
    loss = -np.mean(np.log(np.where(TEST.labels > 0, p, 1 - p)))
    assert result.log_loss == pytest.approx(loss, rel=1e-3)


def test_a_package_that_is_not_installed_is_left_out_and_named(monkeypatch):
    monkeypatch.setattr(comparison, "has_cmfrec", lambda: False)
    assert "cmfrec" not in comparison.check_systems(None)
    monkeypatch.setattr(cmfrec, "has_cmfrec", lambda: False)
    (result,) = compare(TRAIN, TEST, systems=["cmfrec"])
    assert result.failure.startswith("The package cmfrec is not installed")


def test_cmfrec_predicts_as_the_package_does():
    package = pytest.importorskip("cmfrec")
    ours = cmfrec.CollectiveFactorization(rank=3, n_jobs=1).fit(TRAIN)
    table = TRAIN.to_sparse().astype(float).tocoo()
    theirs = package.CMF(k=3, lambda_=10.0, niter=10, nthreads=1, random_state=0, verbose=False)
    theirs.fit(table)
    np.testing.assert_allclose(
        ours.decision_function(TEST.rows, TEST.columns),
        theirs.predict(TEST.rows, TEST.columns),
        atol=1e-4,
    )


def test_drawn_data_hold_out_what_was_not_seen():
    seen = set(zip(TRAIN.rows.tolist(), TRAIN.columns.tolist(), strict=True))
    assert not seen & set(zip(TEST.rows.tolist(), TEST.columns.tolist(), strict=True))
    assert TRAIN.density == pytest.approx(0.3, abs=0.01)


def test_a_system_that_refuses_the_data_says_why():
    likes = TRAIN.take(np.flatnonzero(TRAIN.labels < 0))
    (result,) = compare(likes, TEST, systems=["pu"], data="dislikes")
    assert result.error_rate is None
    assert re.fullmatch(r"[^\n]+\.", result.failure)
    assert "| pu | - |" in comparison_table([result])


def test_unknown_names():
    with pytest.raises(InvalidInputError, match=r"systems must be some of tribit, .*; got 'magic'"):
        compare(TRAIN, TEST, systems=["magic"])
    with pytest.raises(InvalidInputError, match="on must be some of synthetic, ml-100k"):
        load_data("mars", None, 0)


def test_the_command_writes_a_table_and_goes_on_from_its_journal(tmp_path, capsys):
    command = [
        "compare",
        "--systems",
        "singular-value-thresholding,pu",
        "--out",
        str(tmp_path),
        "-q",
    ]
    outputs = []
    for _ in range(2):
        with pytest.raises(SystemExit) as stop:
            main(command)
        assert not stop.value.code
        outputs.append((tmp_path / "comparison.csv").read_bytes())
        assert "comparison.csv" in capsys.readouterr().out
    assert outputs[0] == outputs[1]  # the seconds too: nothing was fitted again
    table = (tmp_path / "comparison.md").read_text()
    assert re.search(r"\| pu \| 0\.\d{4} / 0\.\d{3} / \d+\.\d\d s \|", table)


@pytest.mark.parametrize(
    ("options", "match"),
    [
        (["--systems", "magic"], "--systems must be some of tribit"),
        (["--on", "mars"], "--on must be some of synthetic, ml-100k"),
        (["--on", "senate"], "pass their folder (--data)"),
        (
            ["--data", "nowhere"],
            "no folder 'nowhere'; pass the folder of ml-100k, senate and coat (--data)",
        ),
        (["--jobs", "0"], "--jobs must be a whole number, at least 1"),
        (["--seed", "-1"], "--seed must be a whole number, at least 0"),
    ],
)
def test_bad_input_is_one_sentence(options, match, tmp_path, capsys):
    out = tmp_path / "results"
    with pytest.raises(SystemExit) as stop:
        main(["compare", *options, "--out", str(out)])
    assert stop.value.code == 2
    errors = capsys.readouterr().err
    assert re.fullmatch(r"Error: [^\n]+\.\n", errors), errors
    assert match in errors
    assert not list(tmp_path.rglob("*.csv"))

"""fit(hold_out=): a second fit without some entries is evaluated on them, and a file keeps the result."""

import json

import numpy as np
import pytest

from model_parts import put_together, taken_apart
from report_models import draw
from tribit import (
    BinaryMatrixCompletion,
    InvalidInputError,
    Observations,
    Recommender,
    TribitWarning,
)
from tribit.solvers.loop import INTERRUPTED

SEEN = draw()
LIKES = SEEN.take(np.flatnonzero(SEEN.labels > 0))
OPTIONS = {"rank": 2, "l2": 1.0, "l2_intercept": 1.0, "implicit_features": False}


def fitted(observations, hold_out=None, **options):
    """Return a recommender without a search; with one label alone unobserved cells count."""
    gammas = (1, 0, 0) if observations.n_dislikes else (0, 1, 0)
    rho = "auto" if observations.n_dislikes else 0.0
    model = BinaryMatrixCompletion(gammas, rho=rho, random_state=0, **OPTIONS, **options)
    return Recommender(model, random_state=0).fit(observations, hold_out=hold_out)


@pytest.mark.parametrize("hold_out", [0.1, 50])
@pytest.mark.parametrize("seen", [SEEN, LIKES], ids=["both labels", "likes alone"])
def test_the_evaluation_is_that_of_a_fit_to_the_other_entries(seen, hold_out):
    train, test = seen.split(hold_out, random_state=0)
    expected = fitted(train).evaluate(test)
    assert fitted(seen, hold_out).evaluation_.to_dict() == expected.to_dict()


def test_the_model_is_fitted_to_all_entries():
    with_it, without = fitted(SEEN, 0.2), fitted(SEEN)
    np.testing.assert_array_equal(with_it.model_.complete(), without.model_.complete())
    assert with_it.seen_ is not None
    assert with_it.seen_.n_observed == SEEN.n_observed
    assert without.evaluation_ is None


@pytest.mark.parametrize("seen", [SEEN, LIKES], ids=["both labels", "likes alone"])
def test_a_file_keeps_the_evaluation(seen, tmp_path):
    found = fitted(seen, 0.1)
    found.save(tmp_path / "model")
    again = Recommender.load(tmp_path / "model")
    assert again.evaluation_ == found.evaluation_
    assert str(again.evaluation_) == str(found.evaluation_)
    assert again.update(seen.take(np.arange(3))).evaluation_ == found.evaluation_
    info = again.info()
    assert info.to_dict()["evaluation"] == found.evaluation_.to_dict()
    for title, fact in found.evaluation_.facts().items():
        assert f"  {title}" in str(info)
        assert fact in str(info)


@pytest.mark.parametrize(
    ("where", "value"),
    [
        ("n_entries", 1.5),
        ("log_loss", "low"),
        ("ranked", 1),
        ("auc", [0.5]),
        ("lists", {"n": 10}),
        ("intervals", {"auc": [0.5]}),
        ("baselines", {"base rate": {"measures": [], "differences": {}}}),
        ("other", 1),
    ],
)
def test_a_damaged_evaluation_is_refused_with_its_field(where, value, tmp_path):
    fitted(SEEN, 0.1).save(tmp_path / "model")
    description, header, tensors = taken_apart((tmp_path / "model").read_bytes())
    header["evaluation"][where] = value
    (tmp_path / "model").write_bytes(put_together(description, header, tensors))
    with pytest.raises(InvalidInputError, match="damaged tribit model") as refused:
        Recommender.load(tmp_path / "model")
    assert len(str(refused.value).splitlines()) == 1


@pytest.mark.parametrize(
    ("hold_out", "message"),
    [
        (1.5, r"hold_out=1\.5 is neither a share nor a count"),
        (0, "hold_out=0 puts 0 of 4 entries into the test set"),
        (3, "hold_out=3 puts every like into the test set; hold out fewer entries"),
    ],
)
def test_what_leaves_nothing_to_fit_on_is_refused_before_the_fit(hold_out, message):
    few = Observations([0, 0, 1, 1], [0, 1, 0, 1], [1, -1, -1, -1], (2, 2))
    with pytest.raises(InvalidInputError, match=message):
        fitted(few, hold_out)


def test_an_interrupted_second_fit_leaves_the_model_without_an_evaluation():
    starts = []

    def press(iteration):
        starts.append(iteration.iteration == 1)
        if sum(starts) == 2:
            raise KeyboardInterrupt

    with pytest.warns(TribitWarning, match="before the evaluation"):
        found = fitted(SEEN, 0.1, callback=press)
    assert found.evaluation_ is None
    assert found.model_.stop_reason_ != INTERRUPTED


def test_the_command_holds_out_evaluates_and_keeps_the_result(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    records = zip(SEEN.row_ids[SEEN.rows], SEEN.column_ids[SEEN.columns], SEEN.labels, strict=True)
    lines = ["person,film,label", *(",".join(map(str, each)) for each in records)]
    (tmp_path / "r.csv").write_text("\n".join(lines), encoding="utf-8")
    words = "--gammas 1,0,0 --rank 2 --l2 1 --l2-intercept 1 --implicit-features no --ranker yes -q"
    options = words.split()
    command = ["fit", "r.csv", *options, "--random-state", 3]
    assert run(*command, "-o", "plain")[0] == 0
    assert run(*command, "-o", "model", "--hold-out", 0.2)[0] == 0
    found = json.loads(run("info", "model", "--json")[1])["evaluation"]
    # As by hand: split, fit, evaluate.
    plain = Recommender.load("plain")
    train, test = plain.seen_.split(0.2, random_state=3)
    plain.set_params(model=plain.model_.set_params(random_state=3), random_state=3)
    expected = plain.fit(train).evaluate(test)
    assert found["n_entries"] == len(test)
    assert found["log_loss"] == pytest.approx(expected.log_loss, rel=1e-9)
    np.testing.assert_array_equal(
        Recommender.load("model").model_.complete(), Recommender.load("plain").model_.complete()
    )
    code, _, err = run(*command, "-o", "model", "--hold-out", 1.5)
    assert code == 2
    assert "--hold-out 1.5 is neither a share nor a count" in err

"""The lines of `tribit fit`: numbers by independent formulas, nouns of the table, and a next command that works."""

import json
import shlex

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from report_models import draw, fixed
from tribit import BinaryMatrixCompletion, Observations, Recommender
from tribit.data.reading import Reading
from tribit.report.summary import fit_facts

SEEN = draw(shape=(50, 30), density=0.5)
#: Few candidates: of biases alone and of factors.
QUICK = {"gammas": (1, 0, 0), "implicit_features": False, "n_candidates": 6, "random_state": 0}


def percent(share):
    return f"{100 * share:.1f}%"


@pytest.fixture(scope="module")
def tuned():
    model = BinaryMatrixCompletion(**QUICK)
    found = Recommender(model, random_state=0).fit(SEEN, hold_out=0.2)
    found.reading_ = Reading(row="user_id", column="film")
    return found


def test_the_data_are_counted_in_the_nouns_of_the_table(tuned):
    likes, dislikes = SEEN.n_likes, SEEN.n_dislikes
    expected = (
        f"50 users and 30 films; {likes} likes and {dislikes} dislikes (base rate "
        f"{percent(likes / (likes + dislikes))}), {percent((likes + dislikes) / 1500)} of all pairs"
    )
    assert fit_facts(tuned)["data"] == expected


def test_weights_are_among_the_facts_and_in_the_base_rate():
    weights = np.where(SEEN.labels > 0, 0.5, 2.0)
    found = Recommender(fixed(), random_state=0).fit(SEEN.with_weights(weights))
    likes, total = 0.5 * SEEN.n_likes, weights.sum()
    assert f"(base rate {percent(likes / total)})" in fit_facts(found)["data"]
    assert fit_facts(found)["data"].endswith(f"; weights 0.5 to 2, {total:.6g} in all")
    assert found.info().about["weights of entries"] == f"0.5 to 2, {total:.6g} in all"
    assert "weights of entries" not in Recommender(fixed(), random_state=0).fit(SEEN).info().about


def test_the_measures_speak_of_the_nouns_of_the_table(tuned):
    found = tuned.evaluate(SEEN.take([0, 1, 40]))
    assert found.title().startswith("3 entries of 2 users")
    assert "NDCG of a user's entries" in found.titles().values()
    assert tuned.evaluate(SEEN.take([0])).title() == "1 entry of 1 user"
    info = tuned.info()
    assert info.about["users x films"] == "50 x 30"
    assert {"entries per user", "entries per film"} <= info.about.keys()
    assert "  baseline: user and film biases" in info.about
    text = str(info)
    assert "clustered by user" in text
    assert "row" not in text.replace("row user_id; column film", "")
    # They are words of texts, and not of files and of JSON.
    assert "nouns" not in found.to_dict()
    assert type(found).from_dict(json.loads(json.dumps(found.to_dict()))) == found


def test_the_model_family_stands_beside_the_next_best(tuned):
    search = tuned.model_.search_
    first, second = sorted(search.families().values(), key=lambda each: each is not search.best)
    found = fit_facts(tuned)["model"]
    assert found.startswith(f"{first.settings.family}: validation log-loss {first.score:.4f}; ")
    gap = second.score / first.score - 1
    assert f"; {second.settings.family} {second.score:.4f}, {percent(abs(gap))} " in found
    assert ("more" if gap > 0 else "less, too little") in found


def test_held_out_measures_stand_beside_those_of_the_baselines(tuned):
    found, facts = tuned.evaluation_, fit_facts(tuned)
    biases = found.baselines["row and column biases"].measures
    rate = found.baselines["base rate"].measures
    assert facts["error rate"] == (
        f"{percent(found.error_rate)} of {found.n_entries} held-out entries; user and film biases "
        f"{percent(biases['error_rate'])}, the more frequent label {percent(rate['error_rate'])}"
    )
    assert facts["AUC"] == (
        f"{percent(found.auc)}, how often a like ranks above a dislike; user and film biases {percent(biases['auc'])}"
    )
    popular = found.baselines["popularity"].measures["lists_recall"]
    assert facts["recall@10"] == (
        f"{percent(found.lists.recall)} of the held-out likes of a user are in the top-10 list; by popularity "
        f"{percent(popular)}"
    )


def test_without_them_the_measures_are_those_of_the_validation_set():
    found = Recommender(BinaryMatrixCompletion(**QUICK), random_state=0).fit(SEEN)
    search = found.model_.search_
    curve = found.model_.scores_.curve
    x, labels, _ = search.held_out
    biases, same, _ = search.held_out_biases
    np.testing.assert_array_equal(labels, same)
    error = np.mean((curve.probability(x) >= 0.5) != (labels > 0))
    rate = np.mean(labels < 0) if SEEN.n_likes > SEEN.n_dislikes else np.mean(labels > 0)
    facts = fit_facts(found)
    assert facts["error rate"] == (
        f"{percent(error)} of {labels.size} validation entries; row and column biases "
        f"{percent(np.mean((biases >= 0) != (labels > 0)))}, the more frequent label {percent(rate)}"
    )
    assert facts["AUC"].startswith(percent(roc_auc_score(labels, x)))
    assert facts["AUC"].endswith(f"row and column biases {percent(roc_auc_score(labels, biases))}")
    # A file has the same numbers.
    assert f"error rate {error:.4f}" in found.info().about["validation set"]
    assert "row and column biases" in "".join(found.info().about)


def test_likes_alone_are_ranked_among_unseen_pairs():
    likes = SEEN.take(np.flatnonzero(SEEN.labels > 0))
    facts = fit_facts(
        Recommender(BinaryMatrixCompletion(random_state=0), random_state=0).fit(likes)
    )
    assert facts["data"].startswith(f"50 rows and 30 columns; {len(likes)} likes and no dislikes")
    assert "validation likes ranks above an unseen pair; row and column biases" in facts["AUC"]
    assert "error rate" not in facts
    assert facts["probabilities"].startswith("of a cell being seen and liked")


def test_what_was_not_measured_is_said():
    facts = fit_facts(Recommender(fixed(), random_state=0).fit(SEEN))
    assert facts["model"] == "factors: rank 2, l2 1, l2_intercept 1, as given"
    assert "--hold-out" in facts["quality"]
    short = fit_facts(Recommender(fixed(tol=0.0), random_state=0).fit(SEEN))
    assert "not converged" in short
    few = SEEN.take(np.arange(30))
    assert "not tuned: " in fit_facts(Recommender(random_state=0).fit(few))["model"]


@pytest.mark.parametrize("user", ["u1", "-5", "anna maria", "it's", "--n"])
@pytest.mark.parametrize("options", [[], ["--no-seen"]])
def test_the_next_command_works(run, tmp_path, monkeypatch, user, options):
    monkeypatch.chdir(tmp_path)
    lines = ["user,item,label", f"{user},a,1", f"{user},b,-1", "v,a,1", "w,c,1", "x,d,-1", "y,e,1"]
    (tmp_path / "r.csv").write_text("\n".join(lines), encoding="utf-8")
    model = ["--rank", "1", "--l2", "1", "--gammas", "1,0,0", "--implicit-features", "no", "-q"]
    code, out, err = run("fit", "r.csv", "-o", "my model", *model, *options)
    assert code == 0, err
    assert len(out.splitlines()) <= 7
    words = shlex.split(out.splitlines()[-1])
    assert words[:2] == ["next", "tribit"]
    assert words[2] == ("info" if options else "recommend")
    code, out, _ = run(*words[2:])
    assert code == 0
    assert options or out.splitlines()[1].startswith(user)


def test_a_full_table_has_nothing_to_recommend(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    full = Observations.from_matrix(np.where(np.random.default_rng(0).random((9, 7)) < 0.5, 1, -1))
    pairs = zip(full.rows, full.columns, full.labels, strict=True)
    lines = ["row,column,label", *(",".join(map(str, each)) for each in pairs)]
    (tmp_path / "r.csv").write_text("\n".join(lines), encoding="utf-8")
    _, out, _ = run("fit", "r.csv", "-o", "m", "--rank", "1", "--l2", "1", "-q")
    assert out.splitlines()[-1].split() == ["next", "tribit", "report", "m"]
    assert run("report", "m")[0] == 0

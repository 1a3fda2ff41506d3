import numpy as np
import pytest
from scipy.special import expit
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV

from tribit import InvalidInputError, InvalidTypeError
from tribit.paper.classification import RiskClassifier
from tribit.paper.classification.examples import kind_folds
from tribit.paper.classification.selection import ETAS, GAMMAS, RIDGES, WIDTHS

pytestmark = pytest.mark.usefixtures("one_blas_thread")

RISKS = ["pn", "pu", "nu", "punu", "pnu"]


def gaussians(seed, n_P, n_N, n_U, *, prior=0.5, n_features=5, shift=1.0):
    draws = np.random.default_rng(seed)
    hidden = np.where(draws.random(n_U) < prior, 1, -1)
    truth = np.concatenate([np.ones(n_P), -np.ones(n_N), hidden])
    X = draws.normal(size=(truth.size, n_features))
    X[:, 0] += shift * truth
    return X, np.repeat([1, -1, 0], [n_P, n_N, n_U]), truth


def test_with_much_data_every_risk_comes_near_the_bayes_rule():
    # Two unit Gaussians at +-1 with P(+1) = 0.3: +1 where 2 x > log(0.7 / 0.3).
    X, y, _ = gaussians(0, 20_000, 20_000, 50_000, prior=0.3, n_features=1)
    grid = np.linspace(-2.5, 2.5, 501)[:, None]
    truth = expit(2 * grid[:, 0] - np.log(0.7 / 0.3))
    for risk in RISKS:
        model = RiskClassifier(
            risk, prior=0.3, eta=0.5, gamma=0.5, loss="logistic", basis="linear", l2=1e-6
        ).fit(X, y)
        edge = -model.intercept_ / model.coef_[0]
        assert edge == pytest.approx(np.log(0.7 / 0.3) / 2, abs=0.05)
        np.testing.assert_allclose(model.predict_proba(grid)[:, 1], truth, atol=0.05)


def test_pu_on_gaussian_bumps_comes_near_the_bayes_rule():
    draws = np.random.default_rng(0)
    hidden = draws.random(5000) < 0.5
    unlabelled = np.where(hidden, 1.0, 3.0) * np.where(draws.random(5000) < 0.5, 1, -1)
    X = np.append(draws.choice([-1.0, 1.0], 3000), unlabelled) + 0.5 * draws.normal(size=8000)
    model = RiskClassifier("pu", prior=0.5, l2=1e-3, random_state=0).fit(
        X[:, None], np.repeat([1, 0], [3000, 5000])
    )
    # Positives at +-1, negatives at +-3: no linear rule would do.
    assert list(model.predict([[-3.0], [-1.0], [0.0], [1.0], [3.0]])) == [-1, 1, 1, 1, -1]


def test_pnu_gains_over_pn_where_positives_are_few():
    # Sakai et al.: with n_P small for its prior, the NU side of PNU has the smaller variance.
    gains = []
    for seed in range(40):
        X, y, _ = gaussians(seed, 5, 50, 500)
        test, _, truth = gaussians(1000 + seed, 1000, 1000, 0)
        error = {}
        for risk in ("pn", "pnu"):
            model = RiskClassifier(risk, prior=0.5, basis="linear", l2=0.1, random_state=0)
            error[risk] = 1 - model.fit(X, y).score(test, truth)
        gains.append(error["pn"] - error["pnu"])
    assert np.mean(gains) > 3 * np.std(gains) / np.sqrt(len(gains))
    assert np.mean(gains) > 0.01


def test_nonnegative_keeps_probabilities_sober_where_the_plain_risk_overfits():
    for seed in range(3):
        X, y, _ = gaussians(seed, 30, 0, 60, n_features=20)
        test, _, truth = gaussians(1000 + seed, 500, 500, 0, n_features=20)
        losses = []
        for flag in (False, True):
            model = RiskClassifier(
                "pu", prior=0.5, loss="logistic", basis="linear", l2=1e-2, nonnegative=flag
            ).fit(X, y)
            losses.append(np.mean(np.logaddexp(0, -truth * model.decision_function(test))))
            assert (model.objective_ >= 0) == flag
        assert losses[1] < losses[0] / 3


@pytest.mark.parametrize("risk", RISKS)
@pytest.mark.parametrize("loss", ["squared", "logistic"])
def test_same_seed_same_bits(risk, loss):
    X, y, _ = gaussians(0, 12, 12, 40, n_features=2)
    model = RiskClassifier(risk, prior=0.5, loss=loss, l2=0.1, n_centres=20, random_state=3)
    first, second = (clone(model).fit(X, y).decision_function(X) for _ in range(2))
    np.testing.assert_array_equal(first, second)
    other = clone(model).set_params(random_state=4).fit(X, y)
    assert np.any(other.decision_function(X) != first)


def test_examples_that_the_risk_does_not_need_play_no_part():
    X, y, _ = gaussians(0, 10, 10, 40)
    kept = y != -1
    whole = RiskClassifier("pu", prior=0.5, l2=0.1, random_state=0).fit(X, y)
    part = RiskClassifier("pu", prior=0.5, l2=0.1, random_state=0).fit(X[kept], y[kept])
    np.testing.assert_array_equal(whole.coef_, part.coef_)


def test_cross_validation_tries_everything_and_takes_the_least():
    X, y, _ = gaussians(0, 10, 10, 40, n_features=2)
    model = RiskClassifier("pnu", prior=0.5, width="cv", n_centres=10, random_state=0).fit(X, y)
    assert len(model.candidates_) == len(ETAS) * len(RIDGES) * len(WIDTHS)
    best, risk = min(model.candidates_, key=lambda pair: pair[1])
    assert (best.mixing, best.width, best.l2) == (model.eta_, model.width_, model.l2_)
    assert risk == min(value for _, value in model.candidates_)
    assert model.gamma_ is None
    mixed = RiskClassifier("punu", prior=0.5, basis="linear", l2=0.1, random_state=0).fit(X, y)
    assert [candidate.mixing for candidate, _ in mixed.candidates_] == list(GAMMAS)
    assert mixed.eta_ is None
    assert mixed.width_ is None
    fixed = RiskClassifier("pnu", prior=0.5, eta=-0.3, l2=0.1, width=2.0).fit(X, y)
    assert (fixed.candidates_, fixed.eta_, fixed.l2_, fixed.width_) == ([], -0.3, 0.1, 2.0)


def test_the_validation_risk_by_hand():
    X, y, _ = gaussians(0, 30, 30, 100, n_features=2)
    model = RiskClassifier("pn", prior=0.3, basis="linear", n_folds=2, random_state=0).fit(X, y)
    X, y = X[y != 0], y[y != 0]
    from tribit.paper.classification.examples import choose_rows, median_distance
    from tribit.randomness import generator

    draws = generator(0)
    choose_rows(X, 200, draws), median_distance(X, draws)
    folds = kind_folds(y, 2, draws, (1, -1))
    for candidate, risk in model.candidates_:
        errors = []
        for fold in range(2):
            test = folds == fold
            fitted = RiskClassifier("pn", prior=0.3, basis="linear", l2=candidate.l2)
            wrong = fitted.fit(X[~test], y[~test]).predict(X[test]) != y[test]
            errors.append(0.3 * wrong[y[test] > 0].mean() + 0.7 * wrong[y[test] < 0].mean())
        assert risk == pytest.approx(np.mean(errors))


def test_folds_share_out_every_kind():
    labels = np.repeat([1, 0, -1], [4, 50, 11])
    folds = kind_folds(labels, 5, np.random.default_rng(0), (1, 0, -1))
    assert folds.max() == 3  # 4 positives make 4 folds
    for kind in (1, 0, -1):
        counts = np.bincount(folds[labels == kind], minlength=4)
        assert counts.max() - counts.min() <= 1


def test_answers_agree():
    X, y, _ = gaussians(0, 20, 20, 60)
    for loss in ("squared", "logistic"):
        model = RiskClassifier("punu", prior=0.5, gamma=0.5, l2=0.1, loss=loss).fit(X, y)
        g, chance = model.decision_function(X), model.predict_proba(X)
        np.testing.assert_array_equal(model.predict(X), np.where(g > 0, 1, -1))
        np.testing.assert_allclose(chance.sum(axis=1), 1)
        assert np.all((chance[:, 1] > 0.5) == (g > 0))
        assert list(model.classes_) == [-1, 1]
    np.testing.assert_allclose(chance[:, 1], expit(g))


def test_score_counts_labelled_examples_alone():
    X, y, _ = gaussians(0, 20, 20, 60)
    model = RiskClassifier("pn", prior=0.5, l2=0.1).fit(X, y)
    labelled = y != 0
    right = model.predict(X[labelled]) == y[labelled]
    assert model.score(X, y) == right.mean()
    weights = np.arange(y.size)
    expected = np.average(right, weights=weights[labelled])
    assert model.score(X, y, weights) == pytest.approx(expected)
    with pytest.raises(InvalidInputError, match="Every label in y is 0"):
        model.score(X, np.zeros(y.size))
    with pytest.raises(InvalidInputError, match="inconsistent numbers of samples"):
        model.score(X, y[:-1])
    with pytest.raises(InvalidInputError, match="one weight for each of the"):
        model.score(X, y, weights[:-1])


def test_in_a_grid_search():
    X, y, _ = gaussians(0, 20, 20, 60)
    model = RiskClassifier("pnu", prior=0.5, basis="linear", eta=0.2, random_state=0)
    search = GridSearchCV(model, {"l2": [1e-3, 1.0]}, cv=2, error_score="raise").fit(X, y)
    assert search.best_params_["l2"] in (1e-3, 1.0)


def test_stopping_early_warns():
    X, y, _ = gaussians(0, 20, 20, 60)
    model = RiskClassifier("pn", prior=0.5, loss="logistic", l2=1e-4, max_iter=1)
    with pytest.warns(ConvergenceWarning, match="raise max_iter"):
        model.fit(X, y)
    assert not model.converged_
    assert model.n_iter_ == 1


GOOD = np.array([[0.0, 1.0], [1.0, 0.0], [2.0, 2.0], [0.5, 0.1], [3.0, 1.0], [0.2, 0.7]])
LABELS = np.array([1, 1, 0, 0, -1, -1])


@pytest.mark.parametrize(
    ("options", "X", "y", "words"),
    [
        ({"prior": 0.0}, GOOD, LABELS, r"prior must be in (0, 1); got 0"),
        ({"prior": 1.0}, GOOD, LABELS, r"prior must be in (0, 1); got 1"),
        ({"prior": float("nan")}, GOOD, LABELS, "prior must be in (0, 1); got nan"),
        ({"prior": "half"}, GOOD, LABELS, "prior must be a number"),
        ({"prior": None}, GOOD, LABELS, "prior must be a number"),
        ({"risk": "tri"}, GOOD, LABELS, "risk must be one of pn, pu, nu, punu, pnu"),
        ({"loss": "hinge"}, GOOD, LABELS, "There is no loss 'hinge'"),
        ({"basis": "poly"}, GOOD, LABELS, "basis must be one of gaussian, linear"),
        ({"eta": 1.5}, GOOD, LABELS, "eta must be in"),
        ({"eta": "best"}, GOOD, LABELS, "eta must be a number or"),
        ({"risk": "punu", "gamma": -0.1}, GOOD, LABELS, "gamma must be in"),
        ({"l2": 0.0}, GOOD, LABELS, "l2 must be a positive finite number"),
        ({"l2": "auto"}, GOOD, LABELS, "l2 must be a positive finite number"),
        ({"width": -1}, GOOD, LABELS, "width must be a positive finite number"),
        ({"width": "wide"}, GOOD, LABELS, "width must be a positive finite number"),
        ({"n_centres": 0}, GOOD, LABELS, "n_centres must be a whole number"),
        ({"n_folds": 1, "eta": "cv"}, GOOD, LABELS, "n_folds must be a whole number"),
        ({"max_iter": 0}, GOOD, LABELS, "max_iter must be a whole number"),
        ({"tol": 0.0}, GOOD, LABELS, "tol must be a positive finite number"),
        ({"random_state": -1}, GOOD, LABELS, "random_state is -1"),
        ({"risk": "pu"}, GOOD, [0, 0, 0, 0, -1, -1], "has the label 1 (positive class)"),
        ({"risk": "nu"}, GOOD, [0, 0, 0, 0, 1, 1], "has the label -1 (negative class)"),
        ({"risk": "pu"}, GOOD, [1, 1, 1, -1, -1, -1], "has the label 0 (unlabelled class)"),
        ({"risk": "pn"}, GOOD, [1, 1, 1, 0, 0, 0], "has the label -1 (negative class)"),
        ({}, GOOD, [1, 1, -1, -1, -1, -1], "has the label 0"),
        ({}, GOOD, [1, 2, 0, 0, -1, -1], "y holds 2"),
        ({}, GOOD, [1, 0.5, 0, 0, -1, -1], "y holds 0.5"),
        ({}, GOOD, [1, np.nan, 0, 0, -1, -1], "y holds nan"),
        ({}, GOOD, list("aabbcc"), "y holds 'a'"),
        ({}, GOOD, None, "requires y to be passed"),
        ({}, GOOD, [1, 0, -1], "inconsistent numbers of samples"),
        ({}, GOOD, np.ones((6, 2)), "y should be a 1d array"),
        ({}, np.where(GOOD == 3.0, np.nan, GOOD), LABELS, "X holds nan (row 4, column 0)"),
        ({}, np.where(GOOD == 3.0, np.inf, GOOD), LABELS, "X holds inf (row 4, column 0)"),
        ({}, GOOD[:, 0], LABELS, "Reshape your data"),
        ({"eta": "cv"}, GOOD[1:], LABELS[1:], "Only 1 example is labelled 1"),
    ],
)
def test_bad_input(options, X, y, words):
    settings = {"prior": 0.5, "eta": 0.5, "gamma": 0.5, "l2": 0.1, **options}
    with pytest.raises((InvalidInputError, InvalidTypeError)) as caught:
        RiskClassifier(**settings).fit(X, y)
    message = str(caught.value)
    assert words in message
    assert "\n" not in message


def test_bad_input_to_predict():
    model = RiskClassifier(prior=0.5, eta=0.5, l2=0.1).fit(GOOD, LABELS)
    with pytest.raises(
        InvalidInputError, match="X has 3 features, but RiskClassifier is expecting 2"
    ):
        model.predict(np.ones((2, 3)))
    with pytest.raises(InvalidInputError, match="X holds nan"):
        model.predict([[np.nan, 1.0]])

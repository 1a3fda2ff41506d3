"""Calibrators against plain formulae, independent solvers and cases made by hand."""

import numpy as np
import pytest
from scipy.optimize import minimize, minimize_scalar
from scipy.special import expit
from sklearn.isotonic import IsotonicRegression

from tribit import BinaryMatrixCompletion, InvalidInputError, InvalidTypeError, Logistic, Probit
from tribit.propensity import row_column
from tribit.randomness import fold_numbers
from tribit.simulate import low_rank_target, observe, quantise
from tribit.uncertainty import (
    CALIBRATORS,
    Beta,
    Identity,
    Isotonic,
    Platt,
    beta,
    calibrate,
    calibration_losses,
    calibrator_from,
    cross_fit_probabilities,
    isotonic,
    platt,
)


def drawn(n, *, slope=0.5, offset=0.3, link=None, seed=0):
    draws = np.random.default_rng(seed)
    x = 2 * draws.standard_normal(n)
    link = Logistic() if link is None else link
    return x, quantise(slope * x + offset, link, random_state=draws)


@pytest.mark.parametrize("link", [Logistic(), Logistic(7.0), Probit(), Probit(0.1)], ids=repr)
def test_platt_finds_the_minimum_of_its_formula(link):
    x, labels = drawn(300, link=link)
    weights = np.random.default_rng(1).uniform(0.1, 3.0, 300)
    unit = link.level(1 / (1 + np.exp(-1)))
    w = weights * weights.sum() / np.sum(weights**2)

    def formula(line):
        if line[0] <= 0:
            return np.inf
        z = line[0] * x + line[1]
        losses = np.where(labels > 0, link.loss(z, 1), link.loss(z, -1))
        return w @ losses + line[0] - np.log(line[0]) + (line[1] / unit) ** 2 / 2

    best = minimize(
        formula,
        [1.0, 0.0],
        method="Nelder-Mead",
        options={"xatol": 1e-9, "fatol": 1e-12, "maxiter": 4000},
    )
    found = platt(x, labels, weights, link=link)
    assert formula([found.slope, found.offset]) <= best.fun + 1e-8
    np.testing.assert_allclose([found.slope, found.offset], best.x, atol=2e-4)


@pytest.mark.parametrize("link", [Logistic(), Probit(0.5)], ids=repr)
def test_platt_recovers_the_line_labels_were_drawn_from(link):
    x, labels = drawn(40_000, slope=0.4, offset=-0.2, link=link)
    found = platt(x, labels, link=link)
    assert found.slope == pytest.approx(0.4, rel=0.05)
    assert found.offset == pytest.approx(-0.2, abs=0.05)


#: Labels from which a slope would be infinite, negative or undefined without a prior.
HARD_LABELS = pytest.mark.parametrize(
    ("x", "labels"),
    [
        ([-1.0, 1.0], [-1, 1]),
        ([-1e6, 1e6] * 50, [-1, 1] * 50),
        ([1.0, -1.0] * 50, [-1, 1] * 50),
        ([0.0, 0.0], [1, 1]),
        ([3.0], [-1]),
        (np.linspace(-900, 900, 60), np.tile([1, -1], 30)),
    ],
)


@HARD_LABELS
def test_platt_stays_positive_and_finite_whatever_the_labels(x, labels):
    found = platt(x, labels)
    assert 0 < found.slope < np.inf
    assert np.all(np.isfinite(found(np.array([-1e3, 0.0, 1e3]))))


@pytest.mark.parametrize("size", [1e6, 1e12, 1e16, 1e30])
def test_scores_of_any_size_in_the_wrong_order_have_the_slope_of_the_formula(size):
    """The first Newton step is then some size times too long."""
    x, labels = [-size, size] * 50, [1, -1] * 50

    def formula(
        t,
    ):  # of t = slope * size; by symmetry the offset is 0, and the terms of beta are -t/2 and t/2
        return 100 * np.logaddexp(0.0, t) + t / size - np.log(t)

    best = minimize_scalar(formula, bounds=(1e-9, 1.0), method="bounded", options={"xatol": 1e-9})
    assert platt(x, labels).slope * size == pytest.approx(best.x, rel=1e-4)
    two = beta(x, labels)
    assert two.like_slope == pytest.approx(two.dislike_slope, rel=1e-4)


@pytest.mark.parametrize("link", [Logistic(), Logistic(7.0), Probit(), Probit(0.3)], ids=repr)
@pytest.mark.parametrize("seed", range(3))
def test_beta_finds_the_minimum_of_its_formula(link, seed):
    x, labels = drawn(300, slope=0.5, offset=0.3 * seed, link=link, seed=seed)
    x = np.where(x < 0, 0.3 * x, x) / (Logistic().level(0.75) / link.level(0.75))
    weights = np.random.default_rng(seed).uniform(0.1, 3.0, 300)
    w = weights * weights.sum() / np.sum(weights**2)
    p = link.probability(x)

    def formula(unknowns):
        (a, b), c = np.exp(unknowns[:2]), unknowns[2]
        log_odds = a * np.log(p) - b * np.log1p(-p) + c
        return w @ np.logaddexp(0.0, -labels * log_odds) + a - np.log(a) + b - np.log(b) + c**2 / 2

    best = minimize(formula, np.zeros(3), method="BFGS", options={"gtol": 1e-8})
    found = beta(x, labels, weights, link=link)
    slopes = [found.like_slope, found.dislike_slope]
    assert formula(np.append(np.log(slopes), found.offset)) <= best.fun + 1e-8
    np.testing.assert_allclose(
        [*slopes, found.offset], [*np.exp(best.x[:2]), best.x[2]], rtol=1e-4, atol=1e-4
    )
    # By hand at one place: log-odds of the calibrated probability.
    q = found(x[:1])[0]
    assert np.log(q / (1 - q)) == pytest.approx(
        slopes[0] * np.log(p[0]) - slopes[1] * np.log1p(-p[0]) + found.offset, abs=1e-9
    )


@pytest.mark.parametrize("link", [Logistic(), Probit(0.5)], ids=repr)
def test_beta_recovers_the_curve_labels_were_drawn_from(link):
    draws = np.random.default_rng(0)
    x = 2.0 * link.level(0.75) * draws.standard_normal(60_000)
    truth = Beta(0.4, 1.5, -0.3, link)
    labels = np.where(draws.random(x.size) < truth(x), 1, -1)
    found = beta(x, labels, link=link)
    assert found.like_slope == pytest.approx(0.4, abs=0.05)
    assert found.dislike_slope == pytest.approx(1.5, abs=0.12)
    assert found.offset == pytest.approx(-0.3, abs=0.1)


def test_guessing_bounds_the_chance_from_below_and_beta_follows():
    """A quarter of right answers by guessing: no line in the log-odds has that curve."""
    draws = np.random.default_rng(1)
    x = 3.0 * draws.standard_normal(20_000)
    chance = 0.25 + 0.75 * Logistic().probability(x)
    labels = np.where(draws.random(x.size) < chance, 1, -1)
    errors = {
        name: np.mean((CALIBRATORS[name](x, labels)(x) - chance) ** 2) for name in ("beta", "platt")
    }
    assert errors["beta"] < errors["platt"] / 5
    assert beta(x, labels).like_slope < 0.5 < beta(x, labels).dislike_slope


@pytest.mark.parametrize("link", [Logistic(), Logistic(3.0), Probit(), Probit(0.2)], ids=repr)
def test_beta_with_slopes_of_one_is_the_link_and_always_increases(link):
    x = np.linspace(-8, 8, 401) * link.level(0.75)
    np.testing.assert_allclose(Beta(1.0, 1.0, 0.0, link)(x), link.probability(x), rtol=1e-12)
    two = Beta(2.0, 2.0, 0.3, Logistic())(x)
    np.testing.assert_allclose(two, Platt(2.0, 0.3)(x), rtol=1e-12)
    for slopes in ((0.01, 0.01), (0.2, 5.0), (5.0, 0.2)):
        p = Beta(*slopes, -0.7, link)(x)
        assert np.all(np.diff(p) >= 0.0)
        assert np.all((p >= 0.0) & (p <= 1.0))
        assert np.ptp(p) > 0.01


@HARD_LABELS
@pytest.mark.parametrize("link", [Logistic(), Probit()], ids=repr)
def test_beta_stays_positive_and_finite_whatever_the_labels(x, labels, link):
    found = beta(x, labels, link=link)
    assert 0 < found.like_slope < np.inf
    assert 0 < found.dislike_slope < np.inf
    p = found(np.array([-1e6, -1e3, 0.0, 1e3, 1e6]))
    assert np.all((p >= 0.0) & (p <= 1.0))
    assert np.all(np.diff(p) >= 0.0)


def test_beta_of_few_labels_is_near_the_link_and_weights_are_copies():
    near = beta([0.5, -0.5], [-1, 1])
    assert near.like_slope == pytest.approx(1.0, abs=0.3)
    assert near.dislike_slope == pytest.approx(1.0, abs=0.3)
    x, labels = drawn(200)
    grid = np.linspace(-4, 4, 9)
    np.testing.assert_allclose(
        beta(x, labels, np.full(200, 1e-9))(grid), beta(x, labels)(grid), rtol=1e-9
    )
    weights = np.r_[np.ones(150), np.zeros(50)]
    np.testing.assert_allclose(
        beta(x, labels, weights)(grid), beta(x[:150], labels[:150])(grid), rtol=1e-9
    )


def test_few_labels_change_little_and_many_decide():
    wrong = [platt([0.5, -0.5] * n, [-1, 1] * n).slope for n in (1, 10, 100)]
    assert 1 > wrong[0] > 0.6 > wrong[1] > 0.1 > wrong[2] > 0


def test_only_proportions_of_weights_matter_and_copies_are_weights():
    x, labels = drawn(200)
    one, other = platt(x, labels, np.full(200, 1e-9)), platt(x, labels, np.full(200, 1e9))
    assert one.slope == pytest.approx(other.slope)
    assert one.slope == pytest.approx(platt(x, labels).slope)
    for size in (1e-300, 1e300):
        assert platt(x, labels, np.full(200, size)).slope == pytest.approx(one.slope)
    # An entry of no weight is no entry.
    weights = np.r_[np.ones(150), np.zeros(50)]
    assert platt(x, labels, weights).slope == pytest.approx(platt(x[:150], labels[:150]).slope)
    np.testing.assert_allclose(
        isotonic(x, labels, weights)(x[:150]), isotonic(x[:150], labels[:150])(x[:150]), atol=0.02
    )


def test_isotonic_agrees_with_scikit_learn_given_the_same_added_entries():
    x, labels = drawn(400)
    found = isotonic(x, labels)
    added = np.repeat([x.min(), x.max()], 2)
    theirs = IsotonicRegression(out_of_bounds="clip").fit(
        np.r_[x, added], np.r_[labels > 0, True, False, True, False]
    )
    grid = np.linspace(-9, 9, 500)
    np.testing.assert_allclose(found(grid), theirs.predict(grid), atol=1e-12)
    assert np.all(np.diff(found(grid)) >= 0)


def test_isotonic_by_hand_is_never_certain():
    found = isotonic([0.0, 1.0], [-1, 1])
    # One dislike with a like and a dislike added: one like in three. The mirror image above.
    np.testing.assert_allclose(found.places, [0.0, 1.0])
    np.testing.assert_allclose(found.probabilities, [1 / 3, 2 / 3])
    assert found(np.array([-5.0, 0.5, 5.0])) == pytest.approx([1 / 3, 1 / 2, 2 / 3])
    equal = isotonic([2.0, 2.0, 2.0], [1, 1, -1])
    np.testing.assert_allclose(equal(np.array([2.0])), [4 / 7])


def test_isotonic_keeps_the_corners_alone():
    x = np.arange(1000.0)
    found = isotonic(x, np.where(x < 500, -1, 1))
    assert found.places.size <= 8


@pytest.mark.parametrize("name", CALIBRATORS)
def test_arrays_make_the_same_calibrator_again(name):
    x, labels = drawn(100)
    link = Probit(0.7)
    made = CALIBRATORS[name](x, labels, None, link=link)
    again = calibrator_from(name, made.arrays(), link)
    assert made.name == again.name == name
    grid = np.linspace(-5, 5, 50)
    np.testing.assert_array_equal(made(grid), again(grid))
    assert np.all(np.diff(made(grid)) >= 0)


def test_an_isotonic_calibrator_is_a_copy_that_nobody_can_change():
    places, probabilities = np.array([-1.0, 1.0]), np.array([0.2, 0.8])
    calibrator = Isotonic(places, probabilities)
    places[:], probabilities[:] = 0.0, 0.5
    assert calibrator(np.array([-1.0, 1.0])).tolist() == [0.2, 0.8]
    for array in calibrator.arrays().values():
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 0.0


def test_an_isotonic_calibrator_has_a_knot():
    with pytest.raises(InvalidInputError, match="places must increase"):
        Isotonic(np.array([]), np.array([]))
    assert Isotonic(np.array([0.0]), np.array([0.3]))(np.array([-9.0, 9.0])).tolist() == [0.3, 0.3]


@pytest.mark.parametrize("places", [[0.0, 0.0], [-1.0, 2.0, 2.0], [1.0, 0.0], [0.0, np.nan]])
def test_knots_of_an_isotonic_calibrator_increase_strictly(places):
    with pytest.raises(InvalidInputError, match="places must increase"):
        Isotonic(np.array(places), np.linspace(0.2, 0.8, len(places)))


@pytest.mark.parametrize("probabilities", [[0.0, 0.5], [0.5, 1.0], [0.5, 0.4], [0.5, np.nan]])
def test_probabilities_of_an_isotonic_calibrator_are_inside_0_and_1_and_never_decrease(
    probabilities,
):
    with pytest.raises(InvalidInputError, match="places must increase"):
        Isotonic(np.array([0.0, 1.0]), np.array(probabilities))
    assert Isotonic([0.0, 1.0], [0.3, 0.3])(np.array([0.5])).tolist() == [0.3]


@pytest.mark.parametrize("shape", [((2, 1), (2, 1)), ((2,), (3,)), ((0,), (0,))], ids=repr)
def test_an_isotonic_calibrator_has_one_probability_for_each_knot(shape):
    with pytest.raises(InvalidInputError, match="one for each"):
        Isotonic(*(np.linspace(0.2, 0.8, int(np.prod(each))).reshape(each) for each in shape))


@pytest.mark.parametrize(("folds", "seed"), [(2, 0), (2, 1), (5, 0), (5, 1), (400, 0)])
def test_a_cross_fit_predicts_each_fold_from_the_others(folds, seed):
    x, labels = drawn(47, seed=seed)
    weights = np.random.default_rng(seed).uniform(0.5, 2.0, 47)
    found = cross_fit_probabilities(x, labels, weights, folds=folds, random_state=seed)
    assert list(found) == list(CALIBRATORS)
    number = fold_numbers(47, min(folds, 47), seed)
    for name, probabilities in found.items():
        for part in range(number.max() + 1):
            rest, here = number != part, number == part
            fitted = CALIBRATORS[name](x[rest], labels[rest], weights[rest])
            np.testing.assert_allclose(probabilities[here], fitted(x[here]), rtol=1e-9)


def test_where_one_fold_has_all_the_weight_it_is_fitted_to_itself():
    x, labels = drawn(20)
    weights = np.zeros(20)
    weights[7] = 3.0
    number = fold_numbers(20, 5, 0)
    found = cross_fit_probabilities(x, labels, weights, names=["platt"], random_state=0)["platt"]
    fitted = platt(x, labels, weights)(x)
    np.testing.assert_allclose(found, fitted, rtol=1e-9)
    assert len(np.unique(number)) == 5


@pytest.mark.parametrize("link", [None, Probit(0.5)])
def test_cross_fits_are_of_the_link_of_the_model(link):
    x, labels = drawn(60)
    found = cross_fit_probabilities(x, labels, link=link, names=["identity"], random_state=0)
    expected = (Logistic() if link is None else link).probability(x)
    np.testing.assert_array_equal(found["identity"], expected)


def test_identity_is_the_link():
    x = np.linspace(-3, 3, 7)
    np.testing.assert_array_equal(Identity(Probit())(x), Probit().probability(x))


def test_platt_is_the_link_of_a_line():
    x = np.linspace(-3, 3, 7)
    np.testing.assert_array_equal(Platt(2.0, 1.0, Probit())(x), Probit().probability(2 * x + 1))


def test_losses_are_those_of_entries_left_out():
    draws = np.random.default_rng(0)
    x = draws.standard_normal(60)
    labels = np.where(draws.random(60) < 0.5, 1, -1)  # x says nothing
    losses = calibration_losses(x, labels, random_state=0)
    fitted = isotonic(x, labels)(x)
    within = -np.mean(np.log(np.where(labels > 0, fitted, 1 - fitted)))
    assert losses["isotonic"] > np.log(2) > within
    assert losses == calibration_losses(x, labels, random_state=0)


def test_weights_enter_the_losses():
    x = np.r_[np.full(50, 3.0), np.full(50, -3.0)]
    labels = np.r_[np.ones(50), np.ones(50)].astype(int)  # right where x > 0, wrong where x < 0
    some = calibration_losses(x, labels, np.r_[np.ones(50), np.full(50, 1e-6)], random_state=0)
    assert some["identity"] == pytest.approx(np.log1p(np.exp(-3)), rel=1e-3)


def fixed_model(rank, l2):
    """Return a model with nothing left to choose from the data."""
    return BinaryMatrixCompletion(
        rank=rank, l2=l2, l2_intercept=l2, search=False, n_jobs=1, random_state=0
    )


def fitted_model(seed=0, l2=3.0):
    M = low_rank_target((60, 50), 2, alpha=9.0, random_state=seed)
    seen = observe(quantise(M, Logistic(), random_state=seed + 1), 0.4, random_state=seed + 2)
    train, held_out = seen.split(0.3, random_state=seed + 3)
    model = fixed_model(rank=3, l2=l2).fit(train)
    return model, train, held_out


def test_auto_takes_the_calibrator_of_least_loss_and_calibrates():
    model, _, held_out = fitted_model(l2=4.0)  # far underconfident: a steeper line must pay
    x = model.decision_function(held_out.rows, held_out.columns)
    losses = calibration_losses(x, held_out.labels, random_state=0)
    found = calibrate(model, held_out, random_state=0)
    assert found.name == min(losses, key=losses.get) != "identity"
    line = calibrate(model, held_out, method="platt")
    assert isinstance(line, Platt)
    assert line.slope > 1.2
    same = platt(x, held_out.labels)
    assert line.slope == pytest.approx(same.slope)


def test_the_links_own_probabilities_win_where_they_are_the_truth():
    draws = np.random.default_rng(0)
    x = 2 * draws.standard_normal(50)
    losses = calibration_losses(x, quantise(x, Logistic(), random_state=draws), random_state=0)
    assert losses["identity"] < losses["isotonic"]


def test_target_all_weighs_by_the_inverse_propensity():
    model, train, held_out = fitted_model()
    mask = row_column(train)
    x = model.decision_function(held_out.rows, held_out.columns)
    q = mask.probability_at(held_out.rows, held_out.columns)
    for target, weights in ((None, 1 / q), ("all", 1 / q), ("unobserved", (1 - q) / q)):
        found = calibrate(model, held_out, method="platt", propensity=mask, target=target)
        assert found.slope == pytest.approx(platt(x, held_out.labels, weights).slope, rel=1e-9)
    plain = calibrate(model, held_out, method="platt", propensity=mask, target="observed")
    assert plain.slope == pytest.approx(platt(x, held_out.labels).slope, rel=1e-9)


def test_bad_input_is_named():
    model, train, held_out = fitted_model()
    with pytest.raises(InvalidInputError, match="no calibrator 'plat'"):
        calibrate(model, held_out, method="plat")
    with pytest.raises(InvalidInputError, match="needs to know why"):
        calibrate(model, held_out, target="all")
    with pytest.raises(InvalidInputError, match="target must be one of"):
        calibrate(model, held_out, target="some")
    with pytest.raises(InvalidTypeError, match="model of the mask"):
        calibrate(model, held_out, propensity=0.3)
    with pytest.raises(InvalidInputError, match="model of the mask is 50 x 60"):
        calibrate(model, held_out, propensity=row_column(train.transpose()))
    with pytest.raises(InvalidInputError, match="one label for each score"):
        platt([1.0], [1, 1])
    with pytest.raises(InvalidInputError, match="position 1: the score nan"):
        platt([1.0, np.nan], [1, 1])
    with pytest.raises(InvalidInputError, match="position 0: the label 0"):
        isotonic([1.0], [0])
    for weights in (
        [0.0, 0.0],
        [1.0, np.inf],
        [1.0, -1.0],
        [1.0, -np.inf],
        [1.0, np.nan],
        [1.0],
        [[1.0, 1.0]],
    ):
        for fit in (platt, beta, isotonic):
            with pytest.raises(InvalidInputError, match="weights must be one finite number"):
                fit([1.0, 2.0], [1, -1], weights)
    with pytest.raises(InvalidInputError, match="slope must be"):
        Platt(0.0, 0.0)
    with pytest.raises(InvalidInputError, match="offset must be"):
        Platt(1.0, np.nan)
    for values, name in (((0.0, 1.0, 0.0), "like_slope"), ((1.0, -1.0, 0.0), "dislike_slope")):
        with pytest.raises(InvalidInputError, match=f"^{name} must be"):
            Beta(*values)
    with pytest.raises(InvalidInputError, match="offset must be"):
        Beta(1.0, 1.0, np.inf)
    with pytest.raises(InvalidInputError, match="position 1: the score nan"):
        beta([1.0, np.nan], [1, 1])
    with pytest.raises(InvalidInputError, match="damaged"):
        calibrator_from("beta", {"beta": np.array([1.0, 2.0])}, Logistic())
    with pytest.raises(InvalidInputError, match="places must increase"):
        Isotonic(np.array([0.0, 1.0]), np.array([0.5, 0.4]))
    for places in ([-np.inf, 1.0], [0.0, np.inf], [-1.5e308, 1.5e308]):
        with pytest.raises(InvalidInputError, match="places must increase and be finite"):
            Isotonic(np.array(places), np.array([0.4, 0.5]))
    with pytest.raises(InvalidInputError, match="damaged"):
        calibrator_from("platt", {}, Logistic())


def test_cross_fits_have_five_folds_unless_told():
    rng = np.random.default_rng(0)
    x = rng.normal(size=200)
    labels = np.where(rng.random(200) < expit(x), 1, -1)
    usual, told, more = (
        cross_fit_probabilities(x, labels, names=["platt"], random_state=0, **folds)["platt"]
        for folds in ({}, {"folds": 5}, {"folds": 6})
    )
    np.testing.assert_array_equal(usual, told)
    assert not np.array_equal(usual, more)

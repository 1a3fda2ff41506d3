"""One battery for every system in the registry: same inputs, same answers."""

import inspect
import re

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from tribit import InvalidInputError, Logistic, Observations, evaluate
from tribit.data.measurements import Measurements
from tribit.paper.comparison import COMPARABLE, GRIDS
from tribit.paper.systems import SYSTEMS
from tribit.simulate import low_rank_target, observe, quantise

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

M = low_rank_target((40, 30), 1, alpha=8.0, random_state=0)
SEEN = observe(quantise(M, Logistic(), random_state=1), 0.2, random_state=2)
TRAIN, TEST = SEEN.split(0.2, random_state=3)
#: Likes are the business of PU alone, and it must be told how many are missing; noise has the full rank.
NEEDED = {"pu": {"rho": 0.36}, "minimum-rank": {"budget_share": 0.8}}
REAL = ["alternating-least-squares", "minimum-rank", "nuclear-norm", "max-norm-least-squares",
        "singular-value-thresholding", "conditional-gradient"]  # fmt: skip


def make(name):
    model = SYSTEMS[name](**NEEDED.get(name, {}))
    if "random_state" in model.get_params():
        model.set_params(random_state=0)
    return model


@pytest.fixture(scope="module", params=SYSTEMS)
def fitted(request):
    return request.param, make(request.param).fit(TRAIN)


def test_every_system_has_settings_to_compare():
    assert set(GRIDS) == set(COMPARABLE) == {*SYSTEMS, "rasch", "logistic-factorization", "cmfrec"}
    for name, grid in GRIDS.items():
        for setting in grid:
            COMPARABLE[name](**setting)


@pytest.mark.parametrize("name", SYSTEMS)
def test_the_docstring_states_the_problem_and_the_source(name):
    text = inspect.getdoc(SYSTEMS[name])
    problem, options = text.split("Parameters\n----------")
    if name == "singular-value-thresholding":  # it minimises nothing: a formula says what X is
        assert re.search(r"^ +X = .*s_k >= ", problem, re.MULTILINE)
    else:
        assert re.search(r"\b[Mm]inimises?\b", problem)
    # The proposal's paper is named by its authors, every other by its year too.
    assert "Hayashi" in problem or re.search(r"\b20(0\d|1\d)\b", problem)
    assert "Examples\n--------\n>>> " in options


def test_predictions_are_of_one_matrix(fitted):
    _, model = fitted
    X, likely = model.complete("score"), model.complete()
    assert X.shape == likely.shape == (40, 30)
    assert np.isfinite(X).all()
    assert ((likely >= 0) & (likely <= 1)).all()
    rows, columns = TEST.rows, TEST.columns
    np.testing.assert_allclose(model.decision_function(rows, columns), X[rows, columns], atol=1e-5)
    np.testing.assert_allclose(model.predict_proba(rows, columns), likely[rows, columns], atol=1e-5)
    np.testing.assert_array_equal(
        model.predict(rows, columns), np.where(model.predict_proba(rows, columns) >= 0.5, 1, -1)
    )


def test_held_out_signs_are_predicted_better_than_by_chance(fitted):
    name, model = fitted
    result = evaluate(model, TEST)
    assert result.auc > 0.6, name
    assert result.error_rate < 0.45, name
    assert model.score(TEST) == pytest.approx(1 - result.error_rate)


@pytest.mark.parametrize("name", SYSTEMS)
@pytest.mark.usefixtures("short_trials")
def test_the_same_seed_gives_the_same_bits_and_inputs_are_alike(name):
    first = make(name).fit(TRAIN)
    again = clone(first).fit(TRAIN)
    matrix = TRAIN.to_sparse()
    dense = make(name).fit(matrix.toarray())
    sparse = make(name).fit(sp.csr_array(matrix))
    for other in (again, dense, sparse):
        np.testing.assert_array_equal(first.row_factors_, other.row_factors_)
        np.testing.assert_array_equal(first.column_factors_, other.column_factors_)


@pytest.mark.parametrize("name", SYSTEMS)
@pytest.mark.usefixtures("short_trials")
def test_ids_of_a_frame_name_the_predictions(name):
    frame = pd.DataFrame(
        TRAIN.to_sparse().toarray(),
        index=[f"r{i}" for i in range(40)],
        columns=[f"c{j}" for j in range(30)],
    )
    named, plain = make(name).fit(frame), make(name).fit(TRAIN)
    np.testing.assert_array_equal(
        named.decision_function(["r3", "r7"], ["c0", "c29"]),
        plain.decision_function([3, 7], [0, 29]),
    )
    with pytest.raises(InvalidInputError, match="'nobody'"):
        named.predict(["nobody"], ["c0"])


@pytest.mark.parametrize("name", SYSTEMS)
def test_parameters_are_kept_as_given(name):
    model = SYSTEMS[name]()
    given = {key: object() for key in model.get_params()}
    model.set_params(**given)
    assert model.get_params() == given
    assert not [key for key in vars(model) if key.endswith("_")]


@pytest.mark.parametrize("name", SYSTEMS)
def test_unfitted_and_empty(name):
    with pytest.raises(NotFittedError):
        make(name).predict([0], [0])
    with pytest.raises(InvalidInputError, match=r"^[^\n]+\.$"):
        make(name).fit(np.zeros((3, 4)) if name not in REAL else np.full((3, 4), np.nan))


@pytest.mark.parametrize("name", REAL)
def test_real_values_are_measurements(name):
    rows, columns = TRAIN.rows, TRAIN.columns
    values = M[rows, columns]
    seen = Measurements(rows, columns, values, (40, 30))
    matrix = np.full((40, 30), np.nan)
    matrix[rows, columns] = values
    a, b = make(name).fit(seen), make(name).fit(matrix)
    np.testing.assert_array_equal(a.complete("score"), b.complete("score"))
    with pytest.raises(InvalidInputError, match=r"^[^\n]+\.$"):
        make(name).fit(Measurements(rows, columns, np.where(rows == 3, np.inf, values), (40, 30)))


@pytest.mark.parametrize("name", [name for name in SYSTEMS if name not in REAL])
def test_signs_alone_are_refused_as_real_values(name):
    with pytest.raises(InvalidInputError, match=r"^[^\n]+\.$"):
        make(name).fit(np.array([[1.0, 0.5], [0.0, -1.0]]))


def test_likes_alone_suit_pu():
    likes = Observations.from_pairs(
        *(part[TRAIN.labels > 0] for part in (TRAIN.rows, TRAIN.columns, TRAIN.labels)),
        shape=TRAIN.shape,
    )
    a, b = make("pu").fit(likes), make("pu").fit(TRAIN)
    np.testing.assert_array_equal(a.complete("score"), b.complete("score"))

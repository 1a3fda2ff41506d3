"""Members of a stack, and calibrators, in files."""

import numpy as np
import pytest
from test_storage import rewrite

from other_parts import stacked, with_parts
from tribit import BinaryMatrixCompletion, InvalidInputError, load
from tribit.uncertainty import Beta, Identity, Isotonic, Platt

A = np.random.default_rng(0).choice([-1, 0, 1], (40, 30))
FIXED = {
    "rank": 2,
    "l2": 0.5,
    "l2_intercept": 1.0,
    "search": False,
    "n_jobs": 1,
    "random_state": 0,
}


@pytest.fixture(params=[False, True], scope="module")
def stacked_model(request):
    fixed = {**FIXED, "implicit_features": request.param, "l2_implicit": 1.0}
    fits = [BinaryMatrixCompletion(**{**fixed, "rank": rank}).fit(A) for rank in (2, 4)]
    return stacked(fits, (0.7, 0.3))


ARRAYS = ("row_factors", "column_factors", "intercept", "row_intercepts", "column_intercepts")


def test_a_file_keeps_every_fit(stacked_model, tmp_path):
    stacked_model.save(tmp_path / "a")
    copy = load(tmp_path / "a")
    assert copy.n_members_ == 2
    pairs = list(zip(stacked_model.fitted_.members, copy.fitted_.members, strict=True))
    for ours, theirs in pairs:
        assert theirs.spec == ours.spec
        assert (theirs.own_rank, theirs.weight) == (ours.own_rank, ours.weight)
    for name in ARRAYS:
        for ours, theirs in pairs:
            for kind in ("unknowns", "factors"):
                one, other = (getattr(getattr(each, kind), name) for each in (ours, theirs))
                np.testing.assert_array_equal(one, other)
        np.testing.assert_array_equal(
            getattr(copy.unknowns_, name), getattr(stacked_model.unknowns_, name)
        )
    np.testing.assert_array_equal(copy.complete(), stacked_model.complete())
    copy.save(tmp_path / "b")
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def member(number, **values):
    return lambda header, _: header["fitted"]["members"][number].update(values)


def spec_of(number, **values):
    return lambda header, _: header["fitted"]["members"][number]["spec"].update(values)


def columns(number, rank):
    """Unknowns and, with implicit features, factors of a member with another number of columns."""

    def change(_, tensors):
        for name, array in tensors.items():
            if name.startswith(f"member {number}:") and array.ndim == 2:
                tensors[name] = np.ones((array.shape[0], rank), np.float32)

    return change


def rows(number, n):
    def change(_, tensors):
        for name, array in tensors.items():
            if name.startswith(f"member {number}:") and " row_" in name:
                tensors[name] = array[:n]

    return change


DAMAGE = {
    "one member": (lambda header, _: header["fitted"]["members"].pop(), "'member 1:"),
    "a third member": (
        lambda h, _: h["fitted"]["members"].append(h["fitted"]["members"][1]),
        "member 2:unknowns row_factors is missing",
    ),
    "no list": (lambda h, _: h["fitted"].update(members={"a": 1}), "members must be a list"),
    "no member": (lambda h, _: h["fitted"].update(members=[]), "members must be a list"),
    "a member that is none": (
        lambda h, _: h["fitted"].update(members=[h["fitted"]["members"][0], 3]),
        "members must be a list",
    ),
    "another spec first": (spec_of(0, rank=1), "rank of member 0 must be at least 2"),
    "a wrong spec": (spec_of(1, l2=-7.0), "l2"),
    "no intercept": (
        lambda h, _: h["fitted"]["members"][1].pop("intercept"),
        "intercept is missing",
    ),
    "no weight": (lambda h, _: h["fitted"]["members"][1].pop("weight"), "weight is missing"),
    "no own_rank": (lambda h, _: h["fitted"]["members"][1].pop("own_rank"), "own_rank is missing"),
    "no spec": (lambda h, _: h["fitted"]["members"][1].pop("spec"), "spec is missing"),
    "an unknown field": (member(1, colour="red"), "'colour' is unknown"),
    **{
        f"a weight of {value!r}": (member(1, weight=value), "weight must be a positive finite")
        for value in (0, -1.0, True, None, "1", [1.0], float("nan"), float("inf"), 10**400)
    },
    **{
        f"an own_rank of {value!r}": (member(1, own_rank=value), "own_rank")
        for value in (-1, 5, 2.0, True, None, "1", 10**400)
    },
    "a tensor is missing": (
        lambda _, tensors: tensors.pop("member 1:unknowns row_factors"),
        "member 1:unknowns row_factors is missing",
    ),
    # A regression adds as many columns as the smaller side has rows, and no more.
    "columns beyond the rank": (columns(0, 3 + min(A.shape)), "member 0 must have at most"),
    "a rank below the columns": (spec_of(1, rank=3), "rank of member 1 must be at least 4"),
    "another matrix": (rows(1, 39), "member 1:"),
    "NaN": (
        lambda _, tensors: tensors["member 1:unknowns row_intercepts"].fill(np.nan),
        "the factors hold NaN or infinity",
    ),
    "another dtype": (
        lambda _, tensors: tensors.update(
            {name: array.astype(float) for name, array in tensors.items() if "member 1" in name}
        ),
        "the dtypes of the factors do not agree",
    ),
    "another implicit": (
        lambda h, _: h["fitted"]["members"][1]["spec"].update(
            implicit_features=not h["fitted"]["members"][1]["spec"]["implicit_features"]
        ),
        "",
    ),
}


@pytest.mark.parametrize("what", DAMAGE)
def test_a_damaged_stack_is_refused(stacked_model, tmp_path, what):
    path = tmp_path / "model"
    stacked_model.save(path)
    change, words = DAMAGE[what]
    rewrite(path, change)
    with pytest.raises(InvalidInputError, match="damaged tribit model") as caught:
        load(path)
    assert words in str(caught.value)


@pytest.mark.parametrize("link", ["logistic", "probit"])
@pytest.mark.parametrize(
    "make",
    [
        lambda _: None,
        Identity,
        lambda link: Platt(0.7, 0.1, link),
        lambda link: Beta(0.4, 1.7, -0.2, link),
        lambda _: Isotonic([-1.0, 0.5, 2.0], [0.2, 0.4, 0.9]),
    ],
    ids=["none", "identity", "platt", "beta", "isotonic"],
)
def test_a_file_keeps_the_calibrator(make, link, tmp_path):
    model = BinaryMatrixCompletion(**FIXED, link=link).fit(A)
    model = with_parts(model, calibrator=make(model.spec_.link))
    model.save(tmp_path / "a")
    copy = load(tmp_path / "a")
    assert type(copy.calibration_) is type(model.calibration_)
    np.testing.assert_array_equal(copy.complete(), model.complete())
    x = model.decision_function(np.arange(30), np.arange(30))
    curve = model.spec_.link.probability if model.calibration_ is None else model.calibration_
    np.testing.assert_allclose(
        copy.predict_proba(np.arange(30), np.arange(30)), curve(x), rtol=1e-6
    )

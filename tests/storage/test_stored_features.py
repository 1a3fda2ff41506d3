"""Implicit and side features in files: encoders, maps of a cold start, slopes, popularity."""

import dataclasses

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from test_storage import rewrite, unwrapped

from tribit import BinaryMatrixCompletion, InvalidInputError, load
from tribit.model.features import FeatureRegression

RNG = np.random.default_rng(11)
N_ROWS, N_COLUMNS, RANK = 60, 40, 3
KINDS = RNG.integers(4, size=N_COLUMNS)
TRUTH = 1.6 * RNG.normal(size=(N_ROWS, 4))[:, KINDS] + 0.5 * RNG.normal(size=(N_ROWS, 1))
A = np.where(RNG.random(TRUTH.shape) < 1 / (1 + np.exp(-TRUTH)), 1, -1)
A = np.where(RNG.random(TRUTH.shape) < 0.5, A, 0)
A[:, 35:] = 0
A[55:] = 0
OF_COLUMNS = pd.DataFrame({"kind": [f"k{kind}" for kind in KINDS], "year": RNG.normal(size=40)})
OF_ROWS = sp.csr_array(RNG.normal(size=(N_ROWS, 2)))
NEW_COLUMNS = pd.DataFrame({"kind": ["k0", "k3", "new"], "year": [0.5, np.nan, 1e9]})
WIDTHS = {"row": 3, "column": 1 + 4 + 8}

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


@pytest.fixture(scope="module", params=[False, True], ids=["plain", "implicit"])
def model(request):
    """A model with features of both sides, of which the rows 55 to 59 and the columns 35 to 39 have no more."""
    fixed = {"search": False, "rank": RANK, "l2": 3.0, "l2_intercept": 1.0, "l2_side": 5.0}
    fixed |= {"l2_implicit": 4.0, "activity_floor": (0.5, 0.5), "side_features": True}
    fixed |= {"n_jobs": 1, "random_state": 0, "max_iter": 30}
    found = BinaryMatrixCompletion(**fixed, implicit_features=request.param)
    found.fit(A, row_features=OF_ROWS, column_features=OF_COLUMNS)
    assert all(each.cold_start is not None for each in found.fitted_.members[0].maps)
    # A search adds them where they gain; here they are what they may be.
    draws = np.random.default_rng(3)
    slopes = tuple(
        FeatureRegression(
            np.float32(draws.normal(size=(n, width)) * (np.arange(n) >= n - 5)[:, None]),
            np.float32(0.1 * draws.normal(size=(other, width))),
        )
        for n, other, width in ((N_ROWS, N_COLUMNS, 3), (N_COLUMNS, N_ROWS, 13))
    )
    found.fitted_ = dataclasses.replace(found.fitted_, feature_regressions=slopes)
    return found


@pytest.fixture
def path(model, tmp_path):
    model.save(tmp_path / "model")
    return tmp_path / "model"


def test_features_come_back(model, path):
    copy = load(path)
    for ours, theirs in zip(
        model.fitted_.members[0].maps, copy.fitted_.members[0].maps, strict=True
    ):
        assert theirs.encoder == ours.encoder
        assert theirs.shared is ours.shared is True
        np.testing.assert_array_equal(theirs.cold_start, ours.cold_start, strict=True)
        assert (theirs.activity is None) == (ours.activity is None)
        if ours.activity is not None:
            popularity = theirs.activity.popularity, ours.activity.popularity
            np.testing.assert_array_equal(*popularity, strict=True)
            assert theirs.activity.typical == ours.activity.typical
            assert theirs.activity.floor == ours.activity.floor
    for ours, theirs in zip(
        model.fitted_.feature_regressions, copy.fitted_.feature_regressions, strict=True
    ):
        np.testing.assert_array_equal(theirs.features, ours.features, strict=True)
        np.testing.assert_array_equal(theirs.own, ours.own, strict=True)
    copy.save(path.with_name("again"))
    assert path.read_bytes() == path.with_name("again").read_bytes()


def test_every_answer_of_a_loaded_model_is_that_of_the_saved_one_to_the_bit(model, path):
    copy = load(path)
    new_rows, entries = sp.csr_array([[0.1, -2.0], [1.0, 1.0]]), np.zeros((N_ROWS, 3))
    entries[:20, 0] = 1
    more = np.zeros_like(A)
    more[:5, 36], more[57, :9] = 1, -1
    answers = (
        lambda each: each,
        lambda each: each.fold_in(A[:6]),
        lambda each: each.fold_in(A[:2], row_features=new_rows),
        lambda each: each.fold_in(row_features=new_rows),
        lambda each: each.fold_in(A[:, :4], axis="columns"),
        lambda each: each.fold_in(axis="columns", column_features=NEW_COLUMNS),
        lambda each: each.fold_in(entries, axis="columns", column_features=NEW_COLUMNS),
        lambda each: each.update(more, A),
    )
    for answer in answers:
        ours, theirs = answer(model), answer(copy)
        np.testing.assert_array_equal(theirs.complete("score"), ours.complete("score"))
        np.testing.assert_array_equal(theirs.complete(), ours.complete())
    assert str(copy.explain(0, 3, A)) == str(model.explain(0, 3, A))


# Damage


def group(number, **values):
    return lambda header, _: header["fitted"]["encoders"][1][number].update(values)


def fact(name, value):
    return lambda header, _: header["fitted"].update({name: value})


def tensor(name, *shape, dtype="f8", value=1.0):
    return lambda _, tensors: tensors.update({name: np.full(shape, value, dtype)})


def spoiled(name, value):
    def change(_, tensors):
        tensors[name] = tensors[name].copy()
        tensors[name].flat[1] = value

    return change


def without(*names):
    return lambda _, tensors: [tensors.pop(name) for name in names]


NAN, INFINITY, HUGE = float("nan"), float("inf"), 10**400
COLD, SLOPES = "member 0:cold columns", ("column slopes:features", "column slopes:own")
YEARS = [float(n) for n in range(8)]
WRONG_GROUPS = {
    "name": [3, None, ["kind"]],
    "kind": ["numbers", None, ["tags"], 1],
    "levels": [None, "abcd", {"a": 1}, [None] * 8, [["a"]] * 8, [{}] * 8],
    "means": [None, [0.0], [0.0] * 9, ["0"] * 8, [NAN] * 8, [INFINITY] * 8, [HUGE] * 8, [True] * 8],
    "scale": [0, -1.0, None, "1", True, NAN, INFINITY, HUGE],
}
DAMAGE = {
    **{
        f"a {name} of {str(value)[:20]}": (group(1, **{name: value}), name)
        for name, values in WRONG_GROUPS.items()
        for value in values
    },
    **{
        f"a group without {name}": (
            lambda header, _, name=name: header["fitted"]["encoders"][1][0].pop(name),
            f"{name} is missing",
        )
        for name in WRONG_GROUPS
    },
    "an unknown field of a group": (group(0, colour="red"), "'colour' is unknown"),
    **{
        f"a quantity whose knots {words}": (group(1, levels=levels), "levels of a quantity must be")
        for words, levels in {
            "fall": YEARS[::-1],
            "stay": [1.0] * 8,
            "are text": list("abcdefgh"),
            "are infinite": [*YEARS[:7], INFINITY],
            "are NaN": [NAN, *YEARS[1:]],
            "are no float": [*YEARS[:7], HUGE],
            "are truth values": [False, True, *YEARS[2:]],
        }.items()
    },
    "a quantity of one knot": (group(1, levels=[1.0], means=[0.0]), "levels of a quantity must be"),
    "tags that are a quantity": (group(0, kind="quantity"), "levels of a quantity must be"),
    "a level too few": (group(0, levels=["k0"], means=[0.0]), "must have the shape 10 x columns"),
    "no encoders": (fact("encoders", [None, None]), "is unknown"),
    "no encoder of columns": (
        lambda h, _: h["fitted"].update(encoders=[h["fitted"]["encoders"][0], None]),
        "is unknown",
    ),
    "encoders exchanged": (
        lambda h, _: h["fitted"].update(encoders=h["fitted"]["encoders"][::-1]),
        "must have the shape",
    ),
    "three encoders": (fact("encoders", [None] * 3), "encoders must be two lists"),
    "features that are no parts": (
        lambda h, _: h["fitted"]["members"][0]["spec"].update(side_features=False),
        "",
    ),
    "a map of too many columns": (tensor(COLD, 13, 5), f"{COLD} must have the shape 13 x"),
    "maps of too many columns": (
        lambda _, t: t.update({COLD: np.ones((13, 5)), "member 0:cold rows": np.ones((3, 5))}),
        "the maps of member 0 must have 4 columns",
    ),
    "maps of too few columns": (
        lambda _, t: t.update({COLD: np.ones((13, 3)), "member 0:cold rows": np.ones((3, 3))}),
        "the maps of member 0 must have 4 columns",
    ),
    "a map of too few features": (tensor(COLD, 12, 4), f"{COLD} must have the shape 13 x"),
    "a map that is flat": (tensor(COLD, 52), f"{COLD} must have 2 dimensions"),
    "a map in single precision": (tensor(COLD, 13, 4, dtype="f4"), f"{COLD} must have the dtype F64"),
    "a map of another member": (tensor("member 1:cold rows", 3, 4), "'member 1:cold rows' is unknown"),
    **{
        f"a map with {value}": (spoiled(COLD, value), "the maps of features hold NaN or infinity")
        for value in (NAN, INFINITY, -INFINITY)
    },
    **{
        f"no {name}": (without(name), f"{name} is missing")
        for name in (*SLOPES, "row slopes:features", "row slopes:own")
    },
    **{
        f"{name} of {words}": (change, f"{name} must have")
        for name, n in zip(SLOPES, (N_COLUMNS, N_ROWS), strict=True)
        for words, change in {
            "too many features": tensor(name, n, 14, dtype="f4"),
            "too few rows": tensor(name, n - 1, 13, dtype="f4"),
            "one dimension": tensor(name, n, dtype="f4"),
            "integers": tensor(name, n, 13, dtype="i4"),
        }.items()
    },
    "slopes of another dtype": (
        lambda _, t: t.update({name: t[name].astype("f8") for name in SLOPES}),
        "the dtypes of the factors do not agree",
    ),
    "slopes with NaN": (spoiled(SLOPES[0], NAN), "the factors hold NaN or infinity"),
    "slopes with infinity": (spoiled(SLOPES[1], INFINITY), "the factors hold NaN or infinity"),
}  # fmt: skip


def check_refused(path, change, words):
    rewrite(path, change)
    with pytest.raises(
        InvalidInputError, match=r"is a damaged tribit model \(.*fit it again"
    ) as caught:
        load(path)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(("change", "words"), DAMAGE.values(), ids=DAMAGE)
def test_damaged_side_features_are_refused(path, change, words):
    check_refused(path, change, words)


POPULARITY = ("row popularity", "column popularity")


@pytest.mark.parametrize("model", [True], indirect=True, ids=["implicit"])
@pytest.mark.parametrize(
    ("change", "words"),
    [
        (fact("typical", None), "implicit features need typical"),
        *((without(name), f"{name} is missing") for name in POPULARITY),
        (tensor(POPULARITY[0], N_COLUMNS - 1), "must have the shape"),
        (tensor(POPULARITY[1], N_ROWS + 1), "must have the shape"),
        (tensor(POPULARITY[0], N_COLUMNS, 1), "must have 1 dimensions; got 2"),
        (tensor(POPULARITY[0], N_COLUMNS, dtype="f4"), "must have the dtype F64"),
        *(
            (spoiled(name, value), "popularity must be shares, from 0 to 1")
            for name in POPULARITY
            for value in (NAN, INFINITY, -0.5, 1.5)
        ),
    ],
)
def test_damaged_implicit_features_are_refused(path, change, words):
    check_refused(path, change, words)


@pytest.mark.parametrize("model", [False], indirect=True, ids=["plain"])
def test_implicit_features_that_the_models_do_not_have_are_refused(path):
    before = path.read_bytes()
    check_refused(path, fact("typical", [10.0, 10.0]), "row popularity is missing")
    path.write_bytes(before)
    check_refused(path, tensor("row popularity", N_COLUMNS), "'row popularity' is unknown")


def test_the_file_names_what_it_keeps(model, path):
    header, tensors = unwrapped(path)
    names = {f"member 0:cold {side}s" for side in WIDTHS}
    names |= {f"{side} slopes:{part}" for side in WIDTHS for part in ("features", "own")}
    if model.implicit_features_:
        names |= set(POPULARITY)
    parts = {name for name in tensors if name.startswith(("member 0:unknowns", "member 0:factors"))}
    assert len(parts) == 8
    assert set(tensors) == {*names, *parts, "history"}
    assert [[each["kind"] for each in side] for side in header["fitted"]["encoders"]] == [
        ["matrix"],
        ["tags", "quantity"],
    ]

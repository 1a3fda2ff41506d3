import dataclasses
import inspect
import json
import math
import os
import pickle
import tempfile
from pathlib import Path

import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import save_file

from tribit import (
    BinaryMatrixCompletion,
    InvalidInputError,
    Logistic,
    Newton,
    Observations,
    Probit,
    ProjectedGradient,
    __version__,
    completion,
    load,
    save,
    storage,
)
from tribit.backends.objective import features_of
from tribit.model.fitted import Fitted
from tribit.model.links import LINKS
from tribit.model.spec import CHOOSABLE
from tribit.solvers import LBFGS, SOLVERS

RNG = np.random.default_rng(0)
A = np.where(RNG.random((9, 7)) < 0.6, RNG.choice([-1, 1], (9, 7)), 0)
ARRAYS = ("row_factors_", "column_factors_", "row_intercepts_", "column_intercepts_")
#: The unknowns of a model of one member in a file, in the same order; those that features share make further factors.
UNKNOWNS, FACTORS = (
    tuple(f"member 0:{kind} {name.strip('_')}" for name in ARRAYS)
    for kind in ("unknowns", "factors")
)
MIXTURE = (0.5, 0.3, 0.2)

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


def fitted(X=A, **parameters):
    defaults = {"rank": 2, "n_jobs": 1, "random_state": 0, "max_iter": 5}
    return BinaryMatrixCompletion(**{**defaults, **parameters}).fit(X)


def with_ids(row_ids=None, column_ids=None):
    i, j = np.nonzero(A)
    return Observations.from_pairs(
        i, j, A[i, j], shape=A.shape, row_ids=row_ids, column_ids=column_ids
    )


def round_trip(model, tmp_path):
    model.save(tmp_path / "model.tribit")
    return load(tmp_path / "model.tribit")


@pytest.fixture(scope="module")
def saved():
    """The bytes of a file with a model that has ids of both kinds."""
    with tempfile.TemporaryDirectory() as folder:
        fitted(with_ids(list("abcdefghi"), list(range(7)))).save(Path(folder) / "model.tribit")
        return (Path(folder) / "model.tribit").read_bytes()


@pytest.fixture
def path(saved, tmp_path):
    (tmp_path / "model.tribit").write_bytes(saved)
    return tmp_path / "model.tribit"


def unwrapped(path):
    with safe_open(path, framework="numpy") as opened:
        header = json.loads(opened.metadata()["tribit"])
        return header, {key: opened.get_tensor(key) for key in opened.keys()}  # noqa: SIM118


def rewrite(path, change):
    header, tensors = unwrapped(path)
    change(header, tensors)
    save_file(tensors, path, metadata={"tribit": json.dumps(header)})


# What comes back


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("gammas", [(1, 0, 0), MIXTURE])
def test_a_loaded_model_is_the_saved_one(tmp_path, dtype, gammas):
    model = fitted(dtype=dtype, gammas=gammas, max_iter=100)
    copy = round_trip(model, tmp_path)
    for name in ARRAYS:
        np.testing.assert_array_equal(getattr(copy, name), getattr(model, name), strict=True)
    for what in ("probability", "score", "sign"):
        np.testing.assert_array_equal(copy.complete(what), model.complete(what))
    for name in (
        "intercept_",
        "objective_",
        "n_iter_",
        "converged_",
        "stop_reason_",
        "radius_",
        "rho_",
        "n_features_in_",
        "gammas_",
    ):
        assert getattr(copy, name) == getattr(model, name), name
        assert type(getattr(copy, name)) is type(getattr(model, name)), name
    # Times are not kept, so that equal fits are equal files.
    assert copy.history_ == [dataclasses.replace(entry, seconds=None) for entry in model.history_]
    assert len(copy.history_) == model.n_iter_ > 1
    assert copy.converged_
    copy.fit(A)  # it can be fitted again


@pytest.mark.parametrize(
    "parameters",
    [
        {"gammas": MIXTURE, "rho": 0.25},
        {"gammas": np.array(MIXTURE), "rho": 0},
        {"rho": np.float32(0.5)},
        {"link": "probit"},
        {"link": Logistic(7.0)},
        {"link": Logistic(np.float32(7.0))},
        {"link": Logistic(np.int64(7))},
        {"link": Probit(0.1)},
        {"rank": np.int64(3)},
        {"radius": 1.5, "alpha": 2},
        {"radius": np.float32(1.5)},
        {"radius": 1.5, "norm": "trace", "solver": "projected_gradient"},
        {"l2": 0.0, "intercept": False},
        {"l2": 1.0, "l2_intercept": 0.5},
        {"l2_intercept": None},
        {"rank": 0},
        {"implicit_features": True, "l2_implicit": np.float32(2.0)},
        {"implicit_features": False, "l2_implicit": None},
        {"inverse_power": 0.5, "rho": "constant"},
        {"target": "all", "rho": "constant", "scoring": "auc", "n_candidates": np.int64(7)},
        {"calibration": None},
        {"solver": LBFGS(memory=5)},
        {"solver": "lbfgs"},
        {"solver": Newton()},
        {"solver": ProjectedGradient(step=0.01)},
        {"solver": ProjectedGradient(grow=True)},
        {"max_iter": 3, "max_time": 60.0, "tol": 1e-3},
        {"dtype": "float64"},
    ],
    ids=str,
)
def test_parameters_come_back(tmp_path, parameters):
    model = fitted(**parameters)
    copy = round_trip(model, tmp_path)
    before, after = model.get_params(deep=False), copy.get_params(deep=False)
    for name, value in before.items():
        if name == "gammas" and not isinstance(value, str):
            assert after[name] == tuple(value)
        elif name not in ("n_jobs", "random_state", "verbose", "callback", "imputed"):
            assert after[name] == value, name
    assert copy.rho_ == pytest.approx(model.rho_)
    assert copy.radius_ == model.radius_
    np.testing.assert_array_equal(copy.complete(), model.complete())


def test_like_at_comes_back_and_reads_the_test_set(tmp_path):
    ratings = np.select([A == 1, A == -1], [4.0, 2.0], 0.0)
    model = fitted(ratings, like_at=3.5)
    copy = round_trip(model, tmp_path)
    assert copy.like_at == 3.5
    assert copy.score(ratings) == model.score(ratings)


def test_live_objects_are_not_kept(tmp_path):
    model = fitted(callback=print, random_state=np.random.default_rng(0), verbose=1, n_jobs=2)
    parameters = round_trip(model, tmp_path).get_params(deep=False)
    defaults = inspect.signature(BinaryMatrixCompletion).parameters
    for name in ("callback", "random_state", "verbose", "n_jobs"):
        assert parameters[name] == defaults[name].default


IDS = {
    "text": ["a", "b", "ü", "d e", "1", "", "\n", "'", '"'],
    "numpy text": np.array(list("abcdefghi")),
    "integers": [5, -3, 0, 10**12, 1, 2, 3, 4, 6],
    "small integers": np.arange(9, dtype=np.uint8),
    "floats": [0.1, 1e-300, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, float("inf")],
    "NumPy's numbers among text": [np.int64(1), "1", np.float32(0.5), np.str_("b"), *range(2, 7)],
    "mixed": ["1", 1, 2.5, "b", -7, "c", "d", "e", "f"],
}


@pytest.mark.parametrize("ids", IDS.values(), ids=IDS)
def test_ids_come_back_with_their_types(tmp_path, ids):
    model = fitted(with_ids(row_ids=ids))
    copy = round_trip(model, tmp_path)
    assert copy.column_ids_ is None
    assert copy.row_ids_.dtype == model.row_ids_.dtype
    assert copy.row_ids_.tolist() == model.row_ids_.tolist()
    assert [isinstance(i, str) for i in copy.row_ids_] == [isinstance(i, str) for i in ids]
    columns = np.zeros(9, dtype=int)
    np.testing.assert_array_equal(
        copy.predict_proba(ids, columns), model.predict_proba(ids, columns)
    )
    with pytest.raises(InvalidInputError, match="is unknown"):
        copy.predict(["zz"], [0])


@pytest.mark.parametrize(
    "parameters",
    [
        {"gammas": MIXTURE},
        {"solver": "lbfgs", "gammas": (1, 0, 0)},
        {"rank": "auto", "n_candidates": 3},
    ],
    ids=str,
)
def test_equal_fits_give_equal_bytes(tmp_path, parameters):
    def written(name, n_jobs):
        fitted(with_ids(list("abcdefghi")), n_jobs=n_jobs, **parameters).save(tmp_path / name)
        return (tmp_path / name).read_bytes()

    assert written("a", 1) == written("b", 1) == written("c", 2)
    load(tmp_path / "a").save(tmp_path / "d")
    assert written("a", 1) == (tmp_path / "d").read_bytes()


def with_members(fit, *members):
    return dataclasses.replace(fit, members=members)


def recorded(record, **changes):
    """The record with another value in the last line of its history."""
    last = dataclasses.replace(record.history[-1], **changes)
    return dataclasses.replace(record, history=(*record.history[:-1], last))


def filled(member, value):
    """The member with all of its factors at one value."""
    factors = member.unknowns.map_arrays(lambda part: np.full(part.shape, value))
    return dataclasses.replace(member, unknowns=factors, factors=factors)


def test_a_model_that_no_file_may_hold_is_not_written(tmp_path):
    fit, record = fitted().fitted_, fitted().record_
    (member,) = fit.members
    narrow = dataclasses.replace(member.spec, rank=1)
    nowhere = dataclasses.replace(member.unknowns, intercept=math.inf)
    spoilt = {
        "objective": dataclasses.replace(record, objective=math.inf),
        "history holds NaN": recorded(record, objective=math.nan),
        "history must count": recorded(record, iteration=7),
        "history must have the shape n_iter x 3": dataclasses.replace(record, n_iter=4),
        "stop_reason": dataclasses.replace(record, stop_reason=None),
        "the factors hold NaN": with_members(fit, filled(member, math.nan)),
        "its factors are too large": with_members(fit, filled(member, 1e300)),
        "intercept": with_members(fit, dataclasses.replace(member, unknowns=nowhere)),
        "own_rank of member 0": with_members(fit, dataclasses.replace(member, own_rank=3)),
        "weight must be a pos": with_members(fit, dataclasses.replace(member, weight=0.0)),
        "rank of member 1": with_members(fit, member, dataclasses.replace(member, spec=narrow)),
        "meaning": dataclasses.replace(fit, meaning=3),
    }
    for name, value in spoilt.items():
        model = fitted()
        if isinstance(value, Fitted):
            model.fitted_ = value
        else:
            model.record_ = value
        with pytest.raises(InvalidInputError, match=rf"cannot be saved.*\({name}.*fit it again"):
            model.save(tmp_path / "model.tribit")
    model = fitted().set_params(l2=-1.0)
    with pytest.raises(InvalidInputError, match=r"cannot be saved.*\(l2.*fit it again"):
        model.save(tmp_path / "model.tribit")
    assert list(tmp_path.iterdir()) == []


def test_paths_that_no_file_can_have(tmp_path):
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    for path in (tmp_path / ("x" * 256), tmp_path / "loop", f"{tmp_path}/a\0b"):
        for use in (load, fitted().save):
            with pytest.raises(InvalidInputError, match="cannot be the path of a file"):
                use(path)


def test_save_and_the_method_are_one(tmp_path):
    model = fitted()
    save(model, str(tmp_path / "a"))
    model.save(tmp_path / "b")
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    header, _ = unwrapped(tmp_path / "a")
    assert header["format"] == storage.contents.FORMAT == 10
    assert header["version"] == __version__


def test_nothing_is_unpickled(path, monkeypatch):
    def refuse(*_, **__):
        raise AssertionError("a model file must not be unpickled")

    for name in ("loads", "load", "Unpickler"):
        monkeypatch.setattr(pickle, name, refuse)
    assert np.isfinite(load(path).complete()).all()


# Writing


def test_a_failing_write_leaves_the_old_file(path, monkeypatch):
    def fail(target, data):
        with target.open("wb") as half:
            half.write(data[: len(data) // 2])
        raise OSError(28, "No space left on device")

    before = path.read_bytes()
    monkeypatch.setattr(Path, "write_bytes", fail)
    with pytest.raises(InvalidInputError, match="could not be written"):
        fitted().save(path)
    assert path.read_bytes() == before
    assert list(path.parent.iterdir()) == [path]


def test_a_model_can_be_read_by_whom_the_umask_lets(tmp_path):
    before = os.umask(0o022)
    try:
        fitted().save(tmp_path / "model.tribit")
    finally:
        os.umask(before)
    assert (tmp_path / "model.tribit").stat().st_mode & 0o777 == 0o644


def test_a_missing_directory_is_one_sentence(tmp_path):
    with pytest.raises(InvalidInputError, match="its directory does not exist"):
        fitted().save(tmp_path / "absent" / "model.tribit")
    with pytest.raises(InvalidInputError, match="is not a regular file"):
        fitted().save(tmp_path)


class Steep(Logistic):
    """Not registered, so that no file can name it."""


class Given:
    """A model of the mask."""

    def rho_at(self, rows, _):
        return np.full(rows.shape, 0.5)


class Lazy(Newton):
    """A user's own solver."""


@pytest.mark.parametrize(
    ("parameters", "name"),
    [({"link": Steep()}, "link"), ({"solver": Lazy()}, "solver"), ({"rho": Given()}, "rho")],
)
def test_a_parameter_that_is_code_cannot_be_saved(tmp_path, parameters, name):
    model = fitted(**parameters)
    with pytest.raises(
        InvalidInputError, match=rf"The parameter {name}=.* cannot be saved: .*code"
    ):
        model.save(tmp_path / "model.tribit")
    assert list(tmp_path.iterdir()) == []


# Files that are no models


def refusal(path):
    with pytest.raises(InvalidInputError) as caught:
        load(path)
    text = str(caught.value)
    assert "\n" not in text
    assert text.endswith(".")
    return text


@pytest.mark.parametrize("tenth", range(10))
def test_a_file_cut_short(path, tenth):
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) * tenth // 10])
    assert "is not a readable tribit model" in refusal(path)


def test_no_file_at_all(tmp_path):
    assert "There is no model file" in refusal(tmp_path / "absent")
    assert "There is no model file" in refusal(tmp_path)


@pytest.mark.parametrize("size", [0, 7, 8, 9, 1000])
@pytest.mark.parametrize("seed", range(3))
def test_a_file_of_random_bytes(tmp_path, size, seed):
    path = tmp_path / "noise"
    path.write_bytes(np.random.default_rng(seed).bytes(size))
    assert "is not a readable tribit model" in refusal(path)


@pytest.mark.parametrize("text", [b"user,item\n1,2\n" * 50, pickle.dumps({"a": 1}), b"{}" * 99])
def test_another_kind_of_file(tmp_path, text):
    path = tmp_path / "other"
    path.write_bytes(text)
    assert "is not a readable tribit model" in refusal(path)


@pytest.mark.parametrize("metadata", [None, {"format": "pt"}, {"tribit": "null"}])
def test_a_foreign_safetensors_file(tmp_path, metadata):
    path = tmp_path / "foreign"
    save_file({"weight": np.zeros(3)}, path, metadata=metadata)
    assert refusal(path).endswith("is a safetensors file, but not a tribit model.")


@pytest.mark.parametrize("text", ["", "{", "[1, 2]", "3", '"text"', "{}", "[" * 100_000])
def test_a_damaged_header(path, text):
    _, tensors = unwrapped(path)
    save_file(tensors, path, metadata={"tribit": text})
    assert "model" in refusal(path)


@pytest.mark.parametrize("number", [1, 9, 11, 0, None, "10", 10.0, True])
def test_another_format(path, number):
    rewrite(path, lambda header, _: header.update(format=number, version="9.9.9"))
    text = refusal(path)
    assert f"has model format {number!r}" in text
    assert "written by tribit 9.9.9" in text
    assert f"tribit {__version__} reads format 10 alone;" in text


def test_a_format_that_is_no_number_is_refused_in_one_sentence(path):
    rewrite(path, lambda header, _: header.update(format=header["fitted"]))
    text = refusal(path)
    assert "has model format {'calibrator': None" in text
    assert len(text) < 700


def test_a_file_that_names_no_format(path):
    rewrite(path, lambda header, _: header.pop("format"))
    assert f"has model format None, and tribit {__version__} reads format 10 alone;" in refusal(
        path
    )


def without(name):
    return lambda _, tensors: tensors.pop(name)


def tensor(name, value):
    return lambda _, tensors: tensors.update({name: np.asarray(value)})


def spoil(name, value):
    def change(_, tensors):
        tensors[name] = tensors[name].copy()
        tensors[name].flat[1] = value

    return change


def fact(name, value):
    return lambda header, _: header["fitted"].update({name: value})


def parameter(name, value):
    return lambda header, _: header["parameters"].update({name: value})


def calibrated(name, **arrays):
    def change(header, tensors):
        header["fitted"]["calibrator"] = name
        tensors.update({f"calibrator:{key}": np.array(array) for key, array in arrays.items()})

    return change


IDS_2 = np.frombuffer(b'{"dtype": "O", "ids": ["a", "b"]}', dtype=np.uint8)
U, V, A_ROW, C_COLUMN = UNKNOWNS
DAMAGE = {
    **{f"no {name}": (without(name), f"{name} is missing") for name in (*UNKNOWNS, "history")},
    **{f"NaN in {name}": (spoil(name, np.nan), "NaN or infinity") for name in UNKNOWNS},
    **{f"infinity in {name}": (spoil(name, np.inf), "NaN or infinity") for name in UNKNOWNS},
    "narrower U": (tensor(U, np.zeros((9, 1))), f"{V} must have the shape"),
    "flat U": (tensor(U, np.zeros(18)), f"{U} must have 2 dimensions"),
    "flat V": (tensor(V, np.zeros(14)), f"{V} must have 2 dimensions"),
    "deep U and V": (
        lambda _, t: t.update({U: np.zeros((9, 2, 1)), V: np.zeros((7, 2, 1))}),
        f"{U} must have 2 dimensions; got 3",
    ),
    "short a": (tensor(A_ROW, np.zeros(8)), f"{A_ROW} must have the shape rows = 9"),
    "long c": (tensor(C_COLUMN, np.zeros(8)), f"{C_COLUMN} must have the shape columns = 7"),
    "more columns than the rank": (
        lambda _, t: t.update({U: np.zeros((9, 10)), V: np.zeros((7, 10))}),
        "member 0 must have at most 9 columns, those of its regression included",
    ),
    "narrow history": (
        tensor("history", np.zeros((5, 2))),
        "history must have the shape n_iter x 3",
    ),
    "short history": (
        tensor("history", np.zeros((3, 3))),
        "history must have the shape n_iter x 3",
    ),
    "flat history": (tensor("history", np.zeros(15)), "history must have 2 dimensions"),
    "NaN in history": (tensor("history", np.full((5, 3), np.nan)), "history holds NaN"),
    "infinity in history": (tensor("history", np.full((5, 3), np.inf)), "history holds NaN or inf"),
    "few ids": (tensor("row_ids_", IDS_2), "row_ids_ must be a list of 9 ids"),
    "ids that are no JSON": (tensor("row_ids_", np.frombuffer(b"{]", dtype=np.uint8)), "row_ids_"),
    "ids that are no text": (tensor("row_ids_", np.full(5, 255, dtype=np.uint8)), "row_ids_"),
    "ids without names": (
        tensor("row_ids_", np.frombuffer(b"[1, 2]", dtype=np.uint8)),
        "row_ids_ must be an object",
    ),
    "record of another kind": (lambda h, _: h.update(record=3), "record must be an object"),
    "a fit of another kind": (lambda h, _: h.update(fitted=3), "fitted must be an object"),
    "no members": (fact("members", []), "members must be a list of objects, at least one"),
    "parameters of another kind": (lambda h, _: h.update(parameters=[1]), "parameters must be"),
    "unknown calibrator": (fact("calibrator", "magic"), "calibrator must be one of"),
    "calibrator without its arrays": (fact("calibrator", "platt"), "calibrator:line is missing"),
    "calibrator that is no number": (calibrated("platt", line=[np.nan, 0.0]), "slope"),
    "calibrator with a third number": (
        calibrated("platt", line=[1.0, 0.0, 0.0]),
        "calibrator:line must have the shape 2",
    ),
    "calibrator whose slope is negative": (
        calibrated("beta", beta=[1.0, -1.0, 0.0]),
        "dislike_slope must be",
    ),
    "calibrator with a slope too few": (
        calibrated("beta", beta=[1.0, 0.0]),
        "calibrator:beta must have the shape 3",
    ),
    "calibrator that falls": (
        calibrated("isotonic", places=[0.0, 1.0], probabilities=[0.6, 0.4]),
        "must not decrease",
    ),
    "calibrator with a point too many": (
        calibrated("isotonic", places=[0.0, 1.0, 2.0], probabilities=[0.4, 0.6]),
        "calibrator:probabilities must have the shape points = 3",
    ),
    "calibrator in single precision": (
        calibrated("platt", line=np.ones(2, np.float32)),
        "calibrator:line must have the dtype F64",
    ),
    "a horizon that falls": (
        tensor("horizon", np.array([[0.0, 1.0], [0.6, 0.4]])),
        "horizon must be a non-decreasing function",
    ),
    "a horizon of another shape": (
        tensor("horizon", np.ones((3, 2))),
        "horizon must have the shape 2",
    ),
    "unknown link": (parameter("link", {"name": "cauchy"}), "link"),
    "unknown link by name": (parameter("link", "cauchy"), "cauchy"),
    "link without name": (parameter("link", {"scale": 3.0}), "link"),
    "wrong scale": (parameter("link", {"name": "logistic", "scale": -1.0}), "scale"),
    "unknown option": (parameter("link", {"name": "logistic", "speed": 1.0}), "speed"),
    "unknown solver": (parameter("solver", {"name": "adam"}), "solver"),
    "an object where none belongs": (parameter("rank", {"name": "logistic"}), "rank"),
    "entries that are not there": (
        lambda h, _: h.update(entries=True),
        "entries:counts is missing",
    ),
    "a ranker without entries": (
        lambda h, _: h.update(ranker=True),
        "a ranker needs the entries that it was fitted on",
    ),
}


@pytest.mark.parametrize(("change", "words"), DAMAGE.values(), ids=DAMAGE)
def test_a_damaged_model(path, change, words):
    rewrite(path, change)
    text = refusal(path)
    assert "is a damaged tribit model" in text
    assert "fit it again" in text
    assert words in text.split("damaged tribit model")[1]


def test_whatever_byte_of_the_description_is_wrong_the_error_is_ours(path):
    whole = bytearray(path.read_bytes())
    length = 8 + int.from_bytes(whole[:8], "little")
    rng = np.random.default_rng(0)
    refused = 0
    for _ in range(400):
        damaged = whole.copy()
        for place in rng.integers(0, length, rng.integers(1, 4)):
            damaged[place] = rng.integers(0, 256)
        path.write_bytes(damaged)
        try:
            load(path)
        except InvalidInputError:
            refused += 1
    assert refused > 200


def test_the_registries_of_the_format_are_the_library_s():
    assert completion.files.REGISTRIES["link"] is LINKS
    assert completion.files.REGISTRIES["solver"] is SOLVERS


def test_the_type_of_a_number_changes_no_byte_of_the_file(tmp_path):
    settings = {"rank": 1, "l2_intercept": None, "radius": None, "random_state": 0}
    for name, one in {"a": 1, "b": 1.0, "c": np.float32(1)}.items():
        gammas = (one, 0 * one, 0 * one)
        BinaryMatrixCompletion(gammas, l2=one, **settings).fit(A).save(tmp_path / name)
    assert len({(tmp_path / name).read_bytes() for name in "abc"}) == 1


# What was minimised over


FEATURED = {
    "implicit_features": True,
    "rank": 2,
    "l2": 1.0,
    "l2_implicit": 2.0,
    "gammas": (1, 0, 0),
}


def featured():
    return BinaryMatrixCompletion(**FEATURED, dtype="float64", random_state=0).fit(A)


def same(a, b):
    pairs = zip(dataclasses.astuple(a), dataclasses.astuple(b), strict=True)
    return all(np.array_equal(x, y) for x, y in pairs)


def test_the_unknowns_of_a_plain_model_are_its_factors(tmp_path):
    model = fitted()
    assert same(model.unknowns_, model._factors())
    model.save(tmp_path / "model")
    assert same(load(tmp_path / "model").unknowns_, model._factors())


def test_a_model_and_its_file_keep_the_parts_of_implicit_features(tmp_path):
    model = featured()
    features = features_of(model.spec_, Observations.from_matrix(A), None)
    combined = features.combine(model.unknowns_)
    np.testing.assert_allclose(combined.row_factors, model.row_factors_, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(combined.column_intercepts, model.column_intercepts_, atol=1e-12)
    assert model.unknowns_.row_factors.shape == (sum(A.shape), 2)
    model.save(tmp_path / "model")
    again = load(tmp_path / "model")
    assert same(again.unknowns_, model.unknowns_)
    again.save(tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == (tmp_path / "model").read_bytes()


def test_implicit_features_without_their_activity_are_refused(tmp_path):
    path = tmp_path / "model"
    featured().save(path)
    rewrite(path, lambda header, _: header["fitted"].update(typical=None))
    assert "implicit features need typical" in refusal(path)


#: The tensors of a model with implicit features, beside its history: those of the unknowns come first.
PARTS = (*UNKNOWNS, *FACTORS, "row popularity", "column popularity")


def test_the_parts_are_the_tensors_of_the_file(tmp_path):
    featured().save(tmp_path / "model")
    _, tensors = unwrapped(tmp_path / "model")
    assert set(tensors) == {*PARTS, "history", "search"}


@pytest.mark.parametrize("name", PARTS)
def test_missing_or_misshapen_parts_are_named(tmp_path, name):
    path = tmp_path / "model"
    featured().save(path)
    rewrite(path, lambda _, tensors: tensors.pop(name))
    assert f"{name} is missing" in refusal(path)
    featured().save(path)
    rewrite(path, lambda _, tensors: tensors.update({name: tensors[name][:-1]}))
    assert "must have the shape" in refusal(path)
    featured().save(path)
    rewrite(path, lambda _, tensors: tensors.update({name: tensors[name][..., None]}))
    assert f"{name} must have" in refusal(path)
    featured().save(path)
    rewrite(path, lambda _, tensors: tensors[name].fill(np.nan))
    words = "popularity must be shares" if "popularity" in name else "the factors hold NaN"
    assert words in refusal(path)


@pytest.mark.parametrize("side", ["row", "column"])
def test_a_part_too_few_is_refused_with_the_number_wanted(tmp_path, side):
    path = tmp_path / "model"
    featured().save(path)

    def shorten(_, tensors):
        for name in (f"member 0:unknowns {side}_factors", f"member 0:unknowns {side}_intercepts"):
            tensors[name] = tensors[name][:-1]

    rewrite(path, shorten)
    assert f"the unknowns of member 0 must have 16 parts of {side}s" in refusal(path)


def test_the_spec_of_a_loaded_model_is_that_of_the_fit(tmp_path):
    probit = fitted(link=Probit(2.0), gammas=(0.5, 0.3, 0.2), radius=None)
    for model in (fitted(), featured(), probit, BinaryMatrixCompletion(random_state=0).fit(A)):
        model.save(tmp_path / "model")
        again = load(tmp_path / "model")
        assert again.spec_ == model.spec_
        assert again.spec_.rho == model.spec_.rho
        for name in CHOOSABLE:
            assert getattr(again.spec_, name) == getattr(again, f"{name}_")

"""Model files changed at random: each loads to a model that answers, or is refused in one sentence."""

import copy
import json
import re
import tracemalloc
import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from model_parts import put_together, taken_apart
from other_parts import stacked
from tribit import (
    BinaryMatrixCompletion,
    InvalidInputError,
    Observations,
    ProjectedGradient,
    Recommender,
    load,
)

RNG = np.random.default_rng(0)
A = np.where(RNG.random((12, 8)) < 0.8, RNG.choice([-1, 1], (12, 8)), 0)
#: More of the file than this is never needed, beside what any load takes.
MULTIPLE, BASE = 40, 2**20
DEEP = json.loads("[" * 200 + "]" * 200)
ODD = [
    None, True, False, 0, 1, -1, 2, 3, 2**31, 2**63, -(2**63), 10**30, 10**400, 0.5, -0.0, 1e-320, 1e300, 1e999, -1e999,
    float("nan"), "", "x", "auto", "nan", "1", "\n", "\0", "\ud800", "é" * 50, "x" * 5000, [], [1, 2, 3], ["a"],
    [0.2, 0.3, 0.5], {}, {"name": "logistic"}, {"name": "newton"}, {"name": "lbfgs", "memory": 3}, DEEP, "platt",
    "isotonic", "beta", "identity", "float64", "F8_E4M3", "F4", "F64", "F32", "U8", "BOOL", "<U1",
    "<U400000000", ">i8", "O", "|O", "M8[s]", "V8",
]  # fmt: skip
NUMBERS = [np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-320, 1e30, -1e38, 1e150, 1e308, -1e308]


def models():
    """Yield models that differ in what their files hold."""
    i, j = np.nonzero(A)
    seen = {"rows": i, "columns": j, "labels": A[i, j], "shape": A.shape}
    fixed = {"rank": 2, "l2": 0.5, "max_iter": 4, "random_state": 0, "n_jobs": 1}
    named = Observations.from_pairs(
        **seen, row_ids=np.array([f"r{n}" for n in range(12)]), column_ids=list(range(8))
    )
    mixed = Observations.from_pairs(**seen, row_ids=["a", 1, 2.5, *range(2, 11)])
    yield BinaryMatrixCompletion(**fixed).fit(named)
    yield BinaryMatrixCompletion((0.5, 0.3, 0.2), **{**fixed, "dtype": "float64"}).fit(mixed)
    yield BinaryMatrixCompletion(**fixed, solver=ProjectedGradient(grow=True), link="probit").fit(A)
    for calibration in ("platt", "beta", "isotonic"):
        yield BinaryMatrixCompletion(**{**fixed, "rank": 0}, calibration=calibration).fit(named)
    fixed |= {"search": False}
    fixed["implicit_features"] = True
    yield stacked([BinaryMatrixCompletion(**fixed, l2_implicit=x).fit(named) for x in (1.0, 9.0)])
    del fixed["implicit_features"]
    # A recommender of the mean of two members of different families, with features of one side.
    table = {"column": range(8), "kind": list("abcabcab"), "year": np.arange(8.0)}
    plain = BinaryMatrixCompletion(**fixed).fit(named)
    featured = BinaryMatrixCompletion(**fixed, implicit_features=True, side_features=True)
    both = Recommender(featured, random_state=0).fit(named, column_features=pd.DataFrame(table))
    (first,), (second,) = (each.fitted_.members for each in (both.model_, plain))
    members = replace(first, weight=3.0), second
    yield both.replace(fitted=replace(both.model_.fitted_, members=members))


@pytest.fixture(scope="module")
def wholes(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    files = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for number, model in enumerate(models()):
            model.save(folder / str(number))
            files.append((folder / str(number)).read_bytes())
    return files


def flipped(whole, draws):
    """Flip bits anywhere, or in the description alone."""
    changed = bytearray(whole)
    end = len(whole) if draws.random() < 0.5 else 8 + int.from_bytes(whole[:8], "little")
    for place in draws.integers(0, end, draws.integers(1, 6)):
        changed[place] ^= 1 << int(draws.integers(8))
    return bytes(changed)


def overwritten(whole, draws):
    """Put random bytes, or a piece from elsewhere in the file, over a part of it."""
    size = int(draws.integers(1, 40))
    place, source = draws.integers(0, len(whole) - size, 2)
    piece = draws.bytes(size) if draws.random() < 0.5 else whole[source : source + size]
    return whole[:place] + piece + whole[place + size :]


def cut(whole, draws):
    """Cut the file short, take a piece out, or add to it."""
    place = int(draws.integers(0, len(whole)))
    return [
        whole[:place],
        whole[:place] + whole[place + 1 + draws.integers(50) :],
        whole + draws.bytes(place % 9 + 1),
    ][draws.integers(3)]


def odd(draws):
    return copy.deepcopy(ODD[draws.integers(len(ODD))])


def spoil(value, draws):
    """Change one place of a value made of dicts and lists: another value, one less, one more."""
    if not isinstance(value, dict | list) or not value or draws.random() < 0.15:
        return odd(draws)
    keys = list(value) if isinstance(value, dict) else list(range(len(value)))
    key = keys[draws.integers(len(keys))]
    what = draws.random()
    if what < 0.1:
        del value[key]
    elif what < 0.2 and isinstance(value, dict):
        value[str(odd(draws))[:50]] = odd(draws)
    elif what < 0.3 and isinstance(value, list):
        value.insert(key, value[draws.integers(len(value))])
    elif what < 0.4:
        value[key] = value[keys[draws.integers(len(keys))]]
    else:
        value[key] = spoil(value[key], draws)
    return value


def other_header(whole, draws):
    description, header, tensors = taken_apart(whole)
    for _ in range(draws.integers(1, 3)):
        header = spoil(header, draws)
    return put_together(description, header, tensors)


def other_description(whole, draws):
    """Change dtypes, shapes and offsets; drop, add or exchange tensors."""
    description, header, tensors = taken_apart(whole)
    what = draws.random()
    names = list(description)
    one, two = names[draws.integers(len(names))], names[draws.integers(len(names))]
    if what < 0.2:
        del description[one]
    elif what < 0.4:
        description[one], description[two] = description[two], description[one]
        tensors[one], tensors[two] = tensors[two], tensors[one]
    elif what < 0.5:
        new = str(odd(draws))[:50]
        description[new], tensors[new] = description[one], tensors[one]
    elif what < 0.6:
        description[one]["data_offsets"] = [int(n) for n in draws.integers(-5, 2**40, 2)]
    else:
        description[one] = spoil(description[one], draws)
    return put_together(description, header, tensors)


def other_ids(whole, draws):
    description, header, tensors = taken_apart(whole)
    name = ("row_ids_", "column_ids_")[draws.integers(2)]
    if name not in tensors:
        return flipped(whole, draws)
    text = json.dumps(spoil(json.loads(tensors[name]), draws))
    if draws.random() < 0.1:
        text = text.replace('"ids": [', '"ids": [' + "[" * 50_000)
    tensors[name] = text.encode()
    description[name]["shape"] = [len(tensors[name])]
    return put_together(description, header, tensors)


def other_numbers(whole, draws):
    description, header, tensors = taken_apart(whole)
    floats = [
        name for name in tensors if description[name]["dtype"] in ("F32", "F64") and tensors[name]
    ]
    name = floats[draws.integers(len(floats))]
    dtype = {"F32": np.float32, "F64": np.float64}[description[name]["dtype"]]
    values = np.frombuffer(tensors[name], dtype=dtype).copy()
    with np.errstate(over="ignore"):
        for place in draws.integers(0, values.size, draws.integers(1, 4)):
            values[place] = NUMBERS[draws.integers(len(NUMBERS))]
    tensors[name] = values.tobytes()
    return put_together(description, header, tensors)


CHANGES = [
    flipped,
    overwritten,
    cut,
    other_header,
    other_header,
    other_description,
    other_ids,
    other_numbers,
]


def loaded(path, read=load):
    """Return the model, or the sentence with which the file or its search is refused; nothing else may happen."""
    tracemalloc.start()
    try:
        found = read(path)
        # A search is parsed when it is asked for, as a file that is written is.
        _ = (found.model_ if isinstance(found, Recommender) else found).search_
        return found
    except InvalidInputError as error:
        return str(error)
    finally:
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < BASE + MULTIPLE * path.stat().st_size


def some_row(model):
    return 0 if model.row_ids_ is None else model.row_ids_[0]


def test_a_changed_file_is_a_model_or_is_refused(cases, wholes, tmp_path):
    path, again = tmp_path / "model.tribit", tmp_path / "again.tribit"
    answered = refused = 0
    for seed in cases(6000):
        draws = np.random.default_rng(seed)
        change = CHANGES[seed % len(CHANGES)]
        path.write_bytes(change(wholes[draws.integers(len(wholes))], draws))
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            try:
                model = loaded(path)
                if isinstance(model, str):
                    assert re.fullmatch(r".{1,999}\.", model), model
                    refused += 1
                    continue
                whole = model.complete()
                assert np.all((whole >= 0.0) & (whole <= 1.0))
                model.save(again)
                copied = load(again)
                np.testing.assert_array_equal(copied.complete(), whole)
                for name in ("row_ids_", "column_ids_"):
                    ids, same = getattr(model, name), getattr(copied, name)
                    assert (ids is None and same is None) or ids.tolist() == same.tolist()
                answered += 1
                whole_file = loaded(path, Recommender.load)
                if isinstance(whole_file, str):
                    assert re.fullmatch(r".{1,999}\.", whole_file), whole_file
                elif whole_file.seen_ is not None:
                    warnings.simplefilter("ignore")  # numbers of a ranker may be finite and absurd
                    columns = whole_file.recommend(some_row(model), 1).columns
                    whole_file.axes_.columns.find(columns.values)
            except BaseException as error:
                error.add_note(f"seed {seed}, {change.__name__}")
                raise
    # Both happen, or the changes are too mild or too wild to teach anything.
    assert min(answered, refused) > 0.05 * (answered + refused)

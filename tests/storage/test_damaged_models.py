"""Model files that are damaged or made to do harm: one sentence that names the field, and little memory."""

import json
import os
import subprocess
import sys
import tracemalloc

import numpy as np
import pytest

from model_parts import put_together, taken_apart
from tribit import BinaryMatrixCompletion, InvalidInputError, Observations, load, storage

RNG = np.random.default_rng(0)
A = np.where(RNG.random((9, 7)) < 0.6, RNG.choice([-1, 1], (9, 7)), 0)
ROW_IDS, COLUMN_IDS = list("abcdefghi"), list(range(7))

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The bytes of a model with ids and a calibrator."""
    i, j = np.nonzero(A)
    seen = Observations.from_pairs(
        i, j, A[i, j], shape=A.shape, row_ids=np.array(ROW_IDS), column_ids=COLUMN_IDS
    )
    model = BinaryMatrixCompletion(rank=2, n_jobs=1, random_state=0, max_iter=5).fit(seen)
    path = tmp_path_factory.mktemp("model") / "model.tribit"
    model.save(path)
    return path.read_bytes()


@pytest.fixture
def refusal(whole, tmp_path):
    """Change the parts of a file; returns the sentence with which it is refused."""

    def refused(change):
        changed(whole, tmp_path / "model.tribit", change)
        with pytest.raises(InvalidInputError) as caught:
            load(tmp_path / "model.tribit")
        text = str(caught.value)
        assert "\n" not in text
        assert text.endswith(".")
        assert len(text) < 700
        return text

    return refused


def changed(whole, path, change):
    """Write a file after ``change(description, header, tensors)``."""
    parts = taken_apart(whole)
    change(*parts)
    path.write_bytes(put_together(*parts))


def top(name, value):
    return lambda _, header, __: header.update({name: value})


def record(name, value):
    return lambda _, header, __: header["record"].update({name: value})


def fact(name, value):
    return lambda _, header, __: header["fitted"].update({name: value})


def of_member(name, value):
    return lambda _, header, __: header["fitted"]["members"][0].update({name: value})


def spec(name, value):
    return lambda _, header, __: header["fitted"]["members"][0]["spec"].update({name: value})


def parameter(name, value):
    return lambda _, header, __: header["parameters"].update({name: value})


def array(name, value):
    """Put another array in the place of one, with a dtype of the format."""
    names = {
        "f4": "F32",
        "f8": "F64",
        "c8": "C64",
        "b1": "BOOL",
        "i1": "I8",
        "u1": "U8",
        "f2": "F16",
    }

    def change(description, _, tensors):
        description[name] = {"dtype": names[value.dtype.str[1:]], "shape": list(value.shape)}
        tensors[name] = value.tobytes()

    return change


def arrays(values):
    def change(*parts):
        for name, value in values.items():
            array(name, value)(*parts)

    return change


def entry(name, **fields):
    return lambda description, _, __: description[name].update(fields)


def ids(text, name="row_ids_"):
    return array(name, np.frombuffer(text.encode(), dtype=np.uint8))


def id_list(dtype, values, name="row_ids_"):
    return ids(json.dumps({"dtype": dtype, "ids": values}), name)


def test_the_file_as_it_is_loads(whole, tmp_path):
    changed(whole, tmp_path / "model.tribit", lambda *_: None)
    model = load(tmp_path / "model.tribit")
    assert model.row_ids_.tolist() == ROW_IDS
    assert type(model.gammas_) is tuple


HUGE, NAN, INFINITY = 10**400, float("nan"), float("inf")
DECAY = {"half_life": 30.0, "latest": 1.7e15, "scale": 1.5}
HALF_LIFE = {"decay": DECAY, "trials": [], "n_latest": 0, "stop_reason": ""}
#: The objects of a header, and wrong values of each of their fields.
OBJECTS = {
    "header": (
        top,
        {
            "version": [3, None],
            "parameters": [None, [1], "a", 3],
            "fitted": [None, [1], "a", 3],
            "record": [None, [1], "a", 3],
            "entries": [None, 0, "yes"],
            "ranker": [None, 1, "no"],
            "reading": [[], "a", 1, True],
            "summary": [[1], "a", 1, False],
            "evaluation": [[1], "a", 1, False],
        },
    ),
    "record": (
        record,
        {
            "n_iter": [-1, 2.0, True, None, "5", HUGE, 4, 6],
            "converged": ["yes", 1, None],
            "stop_reason": [3, None, ["a"]],
            "objective": [NAN, INFINITY, "1", True, HUGE, None],
            "half_life": [
                [],
                3,
                "a",
                HALF_LIFE | {"half_life": 3},
                HALF_LIFE | {"decay": DECAY | {"half_life": -1.0}},
            ],
        },
    ),
    "fitted": (
        fact,
        {
            "members": [None, {}, {"a": 1}, [], [1], [[]], "a", 3],
            "calibrator": [["platt"], 3, True, "magic", "platt", {}],
            "meaning": [3, None, ["a"]],
            "typical": [1, "ab", [1.0], [1.0] * 3, [0, 1], [-1.0, 1], ["a", 1], [True, 1.0]],
            "encoders": [None, [None], [None] * 3, [None, {}], [[1], None], [None, "a"], "ab"],
        },
    ),
    "member": (
        of_member,
        {
            "spec": [None, [1], "a", 3],
            "intercept": [NAN, -INFINITY, "0", True, HUGE, None, [0.0]],
            "own_rank": [-1, 2.0, True, "2", None, 3, HUGE],
            "weight": [0, -1.0, NAN, INFINITY, "1", True, HUGE, None, [1.0]],
            "mean_totals": [None, 1, [1.0], [1.0] * 3, [0, 1], ["a", 1], [NAN, 1.0], [1.0, HUGE]],
        },
    ),
}
FIELDS = {
    **{
        f"{where} {name} {str(value)[:20]} {type(value).__name__}": (change(name, value), name)
        for where, (change, fields) in OBJECTS.items()
        for name, values in fields.items()
        for value in values
    },
    **{
        f"typical {value}": (fact("typical", [value, 1.0]), "typical")
        for value in (NAN, INFINITY, -INFINITY, None)
    },
    "typical of more than there is": (fact("typical", [HUGE, 1.0]), "typical"),
    **{
        f"unknown field of the {where}": (change("colour", "red"), "'colour' is unknown")
        for where, (change, _) in OBJECTS.items()
    },
    **{
        f"spec {name} {str(value)[:20]}": (spec(name, value), name)
        for name, values in {
            "gammas": [
                "xyz",
                [1, 0],
                [1, 0, True],
                [2, -1, 0],
                [float("nan"), 0, 1],
                [HUGE, 0, 0],
                1,
                None,
            ],
            "rank": [-1, 1, 2.0, True, "2"],
            "radius": [0, -1.0, "1", True, float("inf"), HUGE],
            "alpha": [0, [1.0]],
            "l2": [-1.0, None, "1", float("nan"), HUGE],
            "l2_intercept": [-1.0, True],
            "implicit_features": [0, "no", None],
            "l2_implicit": [float("-inf")],
        }.items()
        for value in values
    },
    **{
        f"spec {name} {str(value)[:20]}": (spec(name, value), name)
        for name, values in {
            "rho": [1.5, "low-rank", "auto", True],
            "imputed": [1, {}],
            "norm": ["l1", 3],
            "intercept": [1],
            "inverse_power": [2.0],
            "speed": [1],
        }.items()
        for value in values
    },
    "spec with no link": (spec("link", {"name": "cauchy"}), "cauchy"),
    "spec with a link of text": (spec("link", "probit"), "model in JSON"),
    "spec with a wrong scale": (spec("link", {"name": "logistic", "scale": -1}), "scale"),
    **{
        f"parameter {name} {str(value)[:20]}": (parameter(name, value), name)
        for name, values in {
            "like_at": [HUGE, "4", True, float("nan")],
            "l2": [HUGE, -1, "x", True],
            "gammas": [[HUGE, 0, 0], "xyz", [1, 2, 3]],
            "rank": [-1, 10, 2.5, True],
            "radius": [0, "r", HUGE],
            "rho": [1.0, "magic", True, -0.1],
            "norm": ["l1", 3],
            "intercept": [1, "yes"],
            "inverse_power": [2.0, "a"],
            "target": ["some"],
            "scoring": [7],
            "n_candidates": [0, True],
            "calibration": ["magic"],
            "max_iter": [0, 1.5],
            "max_time": [0, HUGE],
            "tol": [-1, float("nan")],
            "dtype": ["float16", 4],
            "link": [
                {"name": "logistic", "scale": HUGE},
                {"name": "logistic", "speed": 1},
                "cauchy",
                3,
            ],
            "solver": [
                {"name": "projected_gradient", "grow": "yes"},
                {"name": "lbfgs", "memory": 0},
                3,
            ],
            "n_jobs": [2],
            "callback": ["print"],
            "ranks": [3],
        }.items()
        for value in values
    },
}


@pytest.mark.parametrize(("change", "name"), FIELDS.values(), ids=FIELDS)
def test_a_wrong_field_is_named(refusal, change, name):
    text = refusal(change)
    assert "is a damaged tribit model (" in text
    assert name in text.split("damaged tribit model")[1]


def objects_of(header):
    fitted = header["fitted"]
    member = fitted["members"][0]
    objects = {"header": header, "record": header["record"], "fitted": fitted}
    return {**objects, "member": member, "spec": member["spec"]}


@pytest.mark.parametrize("where", [*OBJECTS, "spec"])
def test_a_missing_field_is_named(whole, refusal, where):
    _, header, _ = taken_apart(whole)
    names = set(objects_of(header)[where]) - {"format"}
    assert len(names) > 3
    if where in OBJECTS:
        assert set(OBJECTS[where][1]) == names  # each is also given wrong values, above
    for name in names:
        text = refusal(lambda _, header, __, name=name: objects_of(header)[where].pop(name))
        assert "is a damaged tribit model (" in text
        reason = f"{name} is missing" if where in OBJECTS else name
        assert reason in text.split("damaged tribit model")[1]


U, V, A_ROW, C_COLUMN = (f"member 0:unknowns {name}" for name in storage.fitted.ARRAYS)
ZEROS = np.zeros((9, 2), dtype=np.float32)
TENSORS = {
    **{
        f"{kind} factors": (entry(U, dtype=kind), f"{U} must have the dtype F32 or F64; got")
        for kind in ("F8_E4M3", "F8_E5M2", "F4", "F6_E2M3", "BF16", "F16", "I32", "X" * 999, "C64")
    },
    "complex factors": (array(U, ZEROS.astype(np.complex64)), "'C64'"),
    "bool factors": (array(U, ZEROS.astype(bool)), "'BOOL'"),
    "int8 factors": (array(V, np.zeros((7, 2), np.int8)), "'I8'"),
    "half factors": (array(A_ROW, np.zeros(9, np.float16)), "'F16'"),
    "one factor of another dtype": (array(U, ZEROS.astype(np.float64)), "dtypes of the factors"),
    "factors beside the unknowns of a plain model": (array("member 0:factors row_factors", ZEROS), "is unknown"),
    "a member too many": (array("member 1:unknowns row_factors", ZEROS), "is unknown"),
    "a popularity without implicit features": (array("row popularity", np.ones(7)), "'row popularity' is unknown"),
    "maps without side features": (array("member 0:cold rows", np.ones((2, 3))), "'member 0:cold rows' is unknown"),
    "slopes without side features": (array("row slopes:own", np.ones((7, 2))), "'row slopes:own' is unknown"),
    "entries that the header denies": (array("entries:labels", np.ones(3, np.int8)), "'entries:labels' is unknown"),
    "a ranker that the header denies": (array("ranker:w", np.ones(3)), "'ranker:w' is unknown"),
    "a history of float32": (array("history", np.ones((5, 3), np.float32)), "history"),
    "a history that does not count": (array("history", np.ones((5, 3))), "history must count"),
    "a history with NaN": (array("history", np.full((5, 3), np.nan)), "history holds NaN"),
    "an unknown tensor": (array("more", np.zeros(3)), "'more' is unknown"),
    "a calibrator's tensor without it": (array("calibrator:line", np.ones(2)), "'calibrator:line' is unknown"),
    "no rows": (
        arrays({U: np.zeros((0, 2), np.float32), A_ROW: np.zeros(0, np.float32)}),
        "row_factors must have a row",
    ),
    "no columns": (
        arrays({V: np.zeros((0, 2), np.float32), C_COLUMN: np.zeros(0, np.float32)}),
        "row_factors must have a row, and column_factors too",
    ),
    "factors too large": (
        arrays({
            U: np.full((9, 2), 1e300),
            V: np.full((7, 2), 1e300),
            A_ROW: np.zeros(9),
            C_COLUMN: np.zeros(7),
        }),
        "too large to predict with",
    ),
    "a shape that its bytes do not fill": (entry("row_ids_", shape=[10**6]), "row_ids_ has"),
    "a shape beyond all memory": (entry("row_ids_", shape=[10**30]), "row_ids_ has"),
}  # fmt: skip


CONTAINERS = {
    "negative offset": entry("row_ids_", data_offsets=[-1, 5]),
    "offsets backwards": entry("row_ids_", data_offsets=[9, 5]),
    "offsets beyond the file": entry("row_ids_", data_offsets=[0, 10**15]),
    "overlapping tensors": entry("row_ids_", data_offsets=[0, 8]),
    "three offsets": entry("row_ids_", data_offsets=[0, 1, 2]),
    "a shape of text": entry(U, shape="92"),
    "a shape with a fraction": entry(U, shape=[9.0, 2]),
    "a negative shape": entry(U, shape=[-9, -2]),
    "a dtype that is a number": entry(U, dtype=32),
    "one word too many": entry(U, colour="red"),
}


@pytest.mark.parametrize("change", CONTAINERS.values(), ids=CONTAINERS)
def test_a_wrong_description_is_no_readable_file(refusal, change):
    assert "is not a readable tribit model" in refusal(change)


@pytest.mark.parametrize(
    "text", [b'{"member 0:unknowns row_factors": [1]}', b"[]", b'{"__metadata__": 3}', b"\xff{}"]
)
def test_a_description_that_is_none(whole, tmp_path, text):
    length = int.from_bytes(whole[:8], "little")
    (tmp_path / "model").write_bytes(whole[:8] + text.ljust(length) + whole[8 + length :])
    with pytest.raises(InvalidInputError, match="is not a readable tribit model"):
        load(tmp_path / "model")


def test_bytes_after_the_last_tensor(whole, tmp_path):
    (tmp_path / "model").write_bytes(whole + b"x")
    with pytest.raises(InvalidInputError, match=r"not a readable.*its tensors end at byte"):
        load(tmp_path / "model")


DEEP = "[" * 100_000 + "]" * 100_000
IDS = {
    "deep": (ids(f'{{"dtype": "O", "ids": {DEEP}}}'), "row_ids_: its JSON is nested too deep"),
    "no object": (ids("[1, 2]"), "row_ids_ must be an object"),
    "a third word": (ids('{"dtype": "O", "ids": [], "more": 1}'), "row_ids_ must be an object"),
    "a word twice": (ids('{"dtype": "O", "dtype": "O", "ids": []}'), "row_ids_: its JSON names a key twice"),
    "too few": (id_list("O", ["a"]), "row_ids_ must be a list of 9 ids"),
    "text": (id_list("O", "abcdefghi"), "row_ids_ must be a list of 9 ids"),
    "one twice": (id_list("<U1", list("abcdefgha")), "row_ids_ holds 'a' at positions 0 and 8"),
    "one twice among objects": (id_list("O", [1, 1.0, *"abcdefg"]), "row_ids_ holds 1.0 at positions 0 and 1"),
    "longer than their dtype": (id_list("<U3", [*"abcdefgh", "long"]), "row_ids_ holds ids that its dtype '<U3' would"),
    "beyond their dtype": (id_list("|i1", [*range(8), 300]), "row_ids_ does not have the dtype '|i1'"),
    "rounded by their dtype": (id_list("<f4", [*map(float, range(8)), 0.1]), "its dtype '<f4' would change"),
    "infinite in their dtype": (id_list("<f4", [*map(float, range(8)), 1e300]), "would change"),
    "NaN": (id_list("<f8", [*map(float, range(8)), float("nan")]), "row_ids_"),
    "NaN among objects": (id_list("O", [*"abcdefgh", float("nan")]), "the id is missing"),
    "null": (id_list("O", [*"abcdefgh", None]), "row_ids_ holds an id that is neither text nor a number"),
    "lists": (id_list("O", [[n] for n in range(9)]), "row_ids_ holds an id that is neither text nor a number"),
    "numbers as text": (id_list("<U1", [*range(9)]), "row_ids_ holds other values than its dtype"),
    "booleans as integers": (id_list("<i8", [True, *range(2, 10)]), "row_ids_ holds other values than its dtype"),
    "fractions as integers": (id_list("<i8", [0.5, *range(8)]), "row_ids_ holds other values than its dtype"),
    "pickled objects": (id_list("|O8", list("abcdefghi")), "row_ids_ has no dtype of ids"),
    "no dtype": (id_list(None, list("abcdefghi")), "row_ids_ has no dtype of ids"),
    "a list of dtypes": (id_list(["<i8"], list("abcdefghi")), "row_ids_ has no dtype of ids"),
    "a dtype that is none": (id_list("<i3", list(range(9))), "row_ids_ does not have the dtype '<i3'"),
    "of columns": (id_list("<i8", [1] * 7, "column_ids_"), "column_ids_ holds 1 at positions 0 and 1"),
}  # fmt: skip


@pytest.mark.parametrize(
    ("change", "words"), [*TENSORS.values(), *IDS.values()], ids=[*TENSORS, *IDS]
)
def test_a_wrong_tensor_is_named(refusal, change, words):
    text = refusal(change)
    assert "is a damaged tribit model (" in text
    assert words in text


@pytest.mark.parametrize("text", [DEEP, '{"format": ' + DEEP + "}"])
def test_a_header_nested_too_deep(whole, tmp_path, text):
    length = int.from_bytes(whole[:8], "little")
    description = json.loads(whole[8 : 8 + length])
    description["__metadata__"]["tribit"] = text
    packed = json.dumps(description).encode()
    path = tmp_path / "model"
    for begin in (packed, text.encode()):
        path.write_bytes(len(begin).to_bytes(8, "little") + begin + whole[8 + length :])
        with pytest.raises(InvalidInputError, match=r"not a readable.*nested too deep"):
            load(path)


def test_a_description_longer_than_any_model_s(tmp_path):
    (tmp_path / "model").write_bytes((2**21).to_bytes(8, "little") + b" " * 2**21)
    with pytest.raises(InvalidInputError, match="its description has 2097152 bytes"):
        load(tmp_path / "model")


# Memory


def peak(path):
    tracemalloc.start()
    try:
        return load(path), tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(("dtype", "values"), [
    ("<U400000000", ROW_IDS),
    ("<U9999999999", [*"abcdefgh", "x" * 100_000]),
])  # fmt: skip
def test_the_size_of_ids_is_that_of_the_ids(whole, tmp_path, dtype, values):
    changed(whole, tmp_path / "model", id_list(dtype, values))
    model, most = peak(tmp_path / "model")
    assert model.row_ids_.tolist() == values
    assert model.row_ids_.nbytes <= 72
    assert most < 2**20 + 10 * os.path.getsize(tmp_path / "model")  # noqa: PTH202
    assert np.isfinite(model.predict_proba(["a", values[-1]], [0, 6])).all()


SPARSE = """
import resource, sys
import numpy as np
from tribit import InvalidInputError, load
resource.setrlimit(resource.RLIMIT_AS, (int(sys.argv[2]), resource.RLIM_INFINITY))
try:
    load(sys.argv[1])
except InvalidInputError as error:
    print(error)
"""


def test_a_file_larger_than_the_memory_is_one_sentence(whole, tmp_path):
    """A file with a hole of 3.5 GB, where there are 2 GB of addresses."""
    path, rows = tmp_path / "model.tribit", 3_500_000_000 // 12
    description, header, _ = taken_apart(whole)
    del description["row_ids_"], description["column_ids_"]
    description[U]["shape"], description[A_ROW]["shape"] = [rows, 2], [rows]
    offset = 0
    for item in description.values():
        size = {"F32": 4, "F64": 8, "U8": 1}[item["dtype"]] * int(np.prod(item["shape"]))
        item["data_offsets"] = [offset, offset + size]
        offset += size
    begin = put_together(description, header, dict.fromkeys(description, b""))
    with path.open("wb") as file:
        file.write(begin)
        file.truncate(len(begin) + offset)
    run = subprocess.run(
        [sys.executable, "-c", SPARSE, str(path), str(2 * 10**9)],
        capture_output=True,
        text=True,
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
        check=False,
    )
    assert run.returncode == 0, run.stderr
    assert "needs more memory than there is" in run.stdout
    assert run.stdout.count("\n") == 1

"""Averages of several fits in files."""

import numpy as np
import pytest
from test_storage import rewrite

from tribit import BinaryMatrixCompletion, InvalidInputError, load

A = np.random.default_rng(0).choice([-1, 0, 1], (40, 30))
FIXED = {
    "gammas": (1.0, 0.0, 0.0),
    "rank": 2,
    "l2": 0.5,
    "l2_intercept": 1.0,
    "implicit_features": False,
    "calibration": None,
    "n_jobs": 1,
    "random_state": 0,
}


@pytest.fixture(params=[False, True])
def averaged_model(request):
    fixed = {**FIXED, "implicit_features": request.param, "l2_implicit": 1.0}
    return BinaryMatrixCompletion(**fixed, n_fits=2).fit(A)


def test_a_file_keeps_every_fit(averaged_model, tmp_path):
    averaged_model.save(tmp_path / "a")
    copy = load(tmp_path / "a")
    assert copy.n_fits == copy.n_fits_ == 2
    assert copy.member_specs_ == averaged_model.member_specs_
    for name in ("row_factors", "column_factors", "intercept", "row_intercepts"):
        for ours, theirs in zip(averaged_model.members_, copy.members_, strict=True):
            np.testing.assert_array_equal(getattr(ours, name), getattr(theirs, name))
        np.testing.assert_array_equal(
            getattr(copy.unknowns_, name), getattr(averaged_model.unknowns_, name)
        )
    np.testing.assert_array_equal(copy.complete(), averaged_model.complete())
    copy.save(tmp_path / "b")
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


DAMAGE = {
    "one member": lambda header, _: header["members"].pop(),
    "no list": lambda header, _: header.update(members={"a": 1}),
    "another spec first": lambda header, _: header["members"][0]["spec"].update(l2=7.0),
    "no intercept": lambda header, _: header["members"][1].pop("intercept"),
    "a tensor is missing": lambda _, tensors: tensors.pop("member 1:row_factors"),
    "one column too many": lambda _, tensors: tensors.update(
        {
            "row_factors_": np.ones((40, 7), np.float32),
            "column_factors_": np.ones((30, 7), np.float32),
        }
    ),
    "a rank below the columns": lambda header, _: header["members"][1]["spec"].update(rank=3),
    "NaN": lambda _, tensors: tensors["member 1:row_intercepts"].fill(np.nan),
}


@pytest.mark.parametrize("what", DAMAGE)
def test_a_damaged_average_is_refused(averaged_model, tmp_path, what):
    path = tmp_path / "model"
    averaged_model.save(path)
    rewrite(path, DAMAGE[what])
    with pytest.raises(InvalidInputError, match="damaged tribit model"):
        load(path)

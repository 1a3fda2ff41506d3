"""The model as one object: its constraints and bounds, and its text."""

import json
from dataclasses import fields, replace

import numpy as np
import pytest

from tribit import EntryBound, InvalidInputError, Logistic, MaxNorm, Probit, TraceNorm
from tribit.errors import InvalidTypeError
from tribit.model.constraints import Unconstrained
from tribit.model.spec import ModelSpec

MIXTURE = (0.5, 0.3, 0.2)
EVERY_FIELD = ModelSpec(
    gammas=(0.1, 0.2, 0.7),
    rho=1 / 3,
    link=Probit(0.1 + 0.2),
    rank=7,
    radius=1e-300,
    norm="trace",
    alpha=np.pi,
    l2=1e300,
    l2_power=0.3,
    l2_intercept=0.0,
    implicit_features=True,
    l2_implicit=5e-324,
    intercept=False,
    inverse_power=0.7,
    activity_floor=(0.5, 0.0),
    side_features=True,
    l2_side=2.5,
)


class ByColumn:
    def rho_at(self, rows, columns):
        return 0.5 + 0.0 * (rows + columns)


class Unregistered(Logistic):
    pass


@pytest.mark.parametrize(
    "spec", [ModelSpec(), EVERY_FIELD, ModelSpec(rho="low-rank", gammas=MIXTURE)], ids=str
)
def test_a_text_gives_the_same_model_to_the_last_bit(spec):
    again = ModelSpec.from_json(spec.to_json())
    for field in fields(ModelSpec):
        mine, other = getattr(spec, field.name), getattr(again, field.name)
        assert type(mine) is type(other), field.name
        assert mine == other, field.name
    assert again.to_json() == spec.to_json()


def test_every_field_of_the_example_differs_from_its_default():
    same = [f.name for f in fields(ModelSpec) if getattr(EVERY_FIELD, f.name) == f.default]
    assert same == ["imputed"]


@pytest.mark.parametrize(
    ("name", "value"),
    [("rho", ByColumn()), ("link", Unregistered()), ("imputed", object())],
    ids=["rho", "link", "imputed"],
)
def test_what_a_text_cannot_hold_is_refused(name, value):
    with pytest.raises(
        InvalidInputError, match=rf"^{name} is .*, which has no form in JSON: replace"
    ):
        ModelSpec(**{name: value}).to_json()


def changed(**values):
    return json.dumps({**json.loads(ModelSpec().to_json()), **values})


@pytest.mark.parametrize(
    ("text", "kind", "words"),
    [
        ("", InvalidInputError, "not a model in JSON"),
        ("[1]", InvalidInputError, "is missing"),
        ("{}", InvalidInputError, "'activity_floor' is missing"),
        ("[" * 100_000, InvalidInputError, "not a model in JSON"),
        (changed(speed=1), InvalidInputError, "'speed' is unknown"),
        (changed(link={"name": "cauchy"}), InvalidInputError, "cauchy"),
        (changed(link=3), InvalidInputError, "not a model in JSON"),
        (changed(link={"name": "logistic", "speed": 2}), InvalidInputError, "speed"),
        (changed(imputed=1), InvalidInputError, "imputed must be null"),
        (changed(l2=-1), InvalidInputError, "l2 must be a finite number, at least 0"),
        (changed(rank=2.5), InvalidTypeError, "rank must be a whole number"),
        (changed(norm="box"), InvalidInputError, "norm must be one of max, trace"),
    ],
)
def test_a_text_that_is_no_model_is_refused(text, kind, words):
    with pytest.raises(kind, match=words):
        ModelSpec.from_json(text)


@pytest.mark.parametrize(
    ("settings", "constraints", "row_radius", "intercept_bound"),
    [
        ({}, [Unconstrained()], np.inf, np.inf),
        ({"radius": 2.0}, [MaxNorm(2.0)], 2.0, np.inf),
        ({"radius": 2.0, "norm": "trace"}, [TraceNorm(2.0)], np.inf, np.inf),
        ({"radius": 2.0, "gammas": MIXTURE}, [MaxNorm(2.0)], 2.0, 2.0),
        ({"radius": 2.0, "alpha": 0.5, "gammas": MIXTURE}, [MaxNorm(2.0), EntryBound(0.5)], 2.0, 0.5),
        ({"radius": 2.0, "norm": "trace", "gammas": MIXTURE}, [TraceNorm(2.0)], np.inf, np.log(3)),
        ({"alpha": 9.0, "gammas": MIXTURE}, [Unconstrained(), EntryBound(9.0)], np.inf, 9.0),
    ],
)  # fmt: skip
def test_the_constraints_and_bounds_of_a_model(settings, constraints, row_radius, intercept_bound):
    spec = ModelSpec(**settings)
    assert spec.constraints() == constraints
    assert spec.row_radius == row_radius
    assert spec.intercept_bound == pytest.approx(intercept_bound)


def test_a_mixture_without_a_bound_is_completed_by_one():
    spec = ModelSpec(gammas=MIXTURE, link=Logistic(2.0))
    assert spec.with_default_radius() == replace(spec, radius=spec.link.level(0.75))
    for whole in (ModelSpec(), ModelSpec(gammas=MIXTURE, alpha=1.0), spec.with_default_radius()):
        assert whole.with_default_radius() is whole


def test_a_norm_without_balls_of_rows_has_no_default_radius():
    with pytest.raises(InvalidInputError, match=r"norm='trace' .* needs a radius"):
        ModelSpec(gammas=MIXTURE, norm="trace").with_default_radius()

"""Checks of fields of a model that are more than one number.

A model as the text of a JSON object.

The model: all that decides what a fit minimises, in one frozen object.

    min over U, V (and intercepts)   g_PN L_PN + g_PU L_PU + g_NU L_NU  +  l2 / 2 (|U|^2 + |V|^2)
                                     +  l2_intercept / 2 (|a|^2 + |c|^2)
    subject to                       |X|_max <= radius  (or |X|_* <= radius),   |U V'|_inf <= alpha

The fields are the parameters of the same names of :class:`tribit.BinaryMatrixCompletion`, of the types that the
arithmetic needs; the estimator, the search and model files read the list of them from here.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, fields, replace
from typing import Any, Self

import numpy as np

from tribit.checks import (
    check_between,
    check_choice,
    check_field,
    check_not_negative,
    check_positive,
    check_switch,
    check_whole,
)
from tribit.errors import InvalidInputError, InvalidTypeError, parameter, quoted
from tribit.model.constraints import NORMS, Constraint, EntryBound, Unconstrained
from tribit.model.links import LINKS, Link, Logistic, as_link
from tribit.model.risks import Imputation, Missingness, Risk, check_gammas, check_rho

__all__ = ["ModelSpec"]


def optional(check: Callable[[str, Any], float]) -> Callable[[str, Any], float | None]:
    """Return the check that also takes None."""
    return lambda name, value: None if value is None else check(name, value)


def two_shares(name: str, value: Any) -> tuple[float, float]:
    """Return two numbers, for the rows and for the columns."""
    try:
        rows, columns = value
    except (TypeError, ValueError):
        raise InvalidTypeError(
            f"{parameter(name)} must be two numbers, for rows and for columns; got {quoted(value)}."
        ) from None
    return check_not_negative(name, rows), check_not_negative(name, columns)


def missingness(_: str, value: Any) -> Any:
    """Return a number as a float; a name or a model, which somebody else knows, as it is."""
    return value if value is None or isinstance(value, str | Missingness) else check_rho(value)


def written(values: dict[str, Any]) -> str:
    """Return the fields of a model as text; one that JSON cannot hold is refused."""
    for name, kind in LINKS.items():
        if type(values["link"]) is kind:
            values = {**values, "link": {"name": name, **vars(values["link"])}}
            break
    for name, value in values.items():
        try:
            json.dumps(value)
        except TypeError:
            raise InvalidInputError(
                f"{name} is {quoted(value)}, which JSON cannot hold: replace it by a name, a number or None."
            ) from None
    return json.dumps(values)


def read(text: str, wanted: Iterable[str]) -> dict[str, Any]:
    """Return the fields of a model by name, all of them; not yet checked but for the link."""
    try:
        values: dict[str, Any] = json.loads(text)
        names = set(values) if isinstance(values, dict) else set()
        if odd := sorted(names ^ set(wanted)):
            raise ValueError(f"{quoted(odd[0])} is {'unknown' if odd[0] in names else 'missing'}")
        if values["imputed"] is not None:
            raise ValueError("imputed must be null")
        options = dict(values["link"])
        values["link"] = LINKS[options.pop("name")](**options)
    except (LookupError, TypeError, ValueError, RecursionError) as error:
        raise InvalidInputError(
            f"The text is not a model in JSON ({error}); write one with to_json."
        ) from None
    return values


#: Value of a parameter that is to be chosen from the data.
AUTO = "auto"
#: Default bound of a mixture, as a probability: neither the low-rank part of an entry nor an intercept may move the
#: probability of a like beyond it, from even odds. Three to one is cautious; tune it.
DEFAULT_BOUND_PROBABILITY = 0.75
#: Relative difference up to which two weights are the same: far above rounding, far below a step of a search.
SAME = 1e-6


def _parameter(
    value: Any, check: Callable[[str, Any], Any] | None, *, compare: bool = True, **metadata: Any
) -> Any:
    """Return a field with its default, its check, and what the estimator and the command line make of it."""
    return field(default=value, compare=compare, metadata={"check": check, **metadata})


@dataclass(frozen=True)
class ModelSpec:
    """One model, not yet fitted; the defaults are those of a fit with nothing to choose on.

    Each field is the parameter of the same name of :class:`tribit.BinaryMatrixCompletion`, with its value checked. A
    field with a ``help`` is an option of ``tribit fit``; ``default`` is the estimator's default where that is neither
    "auto", for what may be chosen, nor the field's own.
    """

    gammas: tuple[float, float, float] = _parameter(
        (1.0, 0.0, 0.0),
        lambda _, value: check_gammas(value),
        choosable=True,
        help="Weights of the PN, PU and NU risks, summing to 1 [auto].",
    )
    #: Not compared: it is the same for every candidate, and comparing the arrays of a propensity model gives no bool.
    rho: Any = _parameter(  # noqa: RUF009 - a field
        None,
        missingness,
        compare=False,
        choosable=True,
        help="P(unobserved), or constant, row-column, low-rank.",
    )
    link: Link = _parameter(  # noqa: RUF009 - a field
        Logistic(),
        lambda _, value: as_link(value),
        default="logistic",
        help="logistic or probit.",
    )
    rank: int = _parameter(10, check_whole, choosable=True, help="Columns of the factors.")
    radius: float | None = _parameter(
        None, optional(check_positive), choosable=True, help="Radius of the norm ball, or none."
    )
    norm: str = _parameter(
        "max",
        lambda name, value: check_choice(name, value, NORMS),
        help="Norm of the ball: max or trace.",
    )
    alpha: float | None = _parameter(
        None,
        optional(check_positive),
        choosable=True,
        default=None,
        help="Bound on the entries.",
    )
    l2: float = _parameter(
        5.0, check_not_negative, choosable=True, help="Weight of the ridge on factors."
    )
    l2_intercept: float | None = _parameter(
        None,
        optional(check_not_negative),
        choosable=True,
        help="Weight of the ridge on intercepts.",
    )
    implicit_features: bool = _parameter(
        False,
        check_switch,
        choosable=True,
        help="Learn from which entries were observed (SVD++).",
    )
    l2_implicit: float | None = _parameter(
        None,
        optional(check_not_negative),
        choosable=True,
        help="Weight of the ridge on implicit features.",
    )
    activity_floor: tuple[float, float] = _parameter(
        (1.0, 1.0),
        two_shares,
        choosable=True,
        help="Least activity of rows and of columns in implicit features, in means [auto].",
    )
    side_features: bool = _parameter(
        False,
        check_switch,
        choosable=True,
        help="Use the features of rows and columns that are given.",
    )
    l2_side: float | None = _parameter(
        None,
        optional(check_not_negative),
        choosable=True,
        help="Weight of the ridge on side features.",
    )
    intercept: bool = _parameter(True, check_switch, help="Fit intercepts.")
    inverse_power: float = _parameter(
        0.0,
        lambda name, value: check_between(name, value, 0.0, 1.0),
        help="Weigh PN by this power of 1 / P(observed), 0 to 1.",
    )
    #: Checked together with the observations.
    imputed: Any = _parameter(None, None, compare=False)  # noqa: RUF009 - a field

    def __post_init__(self) -> None:
        for each in fields(self):
            if (check := each.metadata.get("check")) is not None:
                check_field(self, each.name, check)

    @classmethod
    def of(cls, estimator: Any, **chosen: Any) -> Self:
        """Return the model of an estimator's parameters, with the values that were chosen in the place of "auto"."""
        given = {name: getattr(estimator, name) for name in NAMES}
        return cls(**{**given, **chosen})

    def is_close(self, other: ModelSpec) -> bool:
        """Return whether two models are the same but for the rounding of their weights; rho is not compared."""
        return all(
            _close(getattr(self, each.name), getattr(other, each.name))
            for each in fields(self)
            if each.compare
        )

    @property
    def uses_unobserved(self) -> bool:
        """Whether unobserved entries count."""
        return sum(self.gammas[1:]) > 0.0

    @property
    def shares_unknowns(self) -> bool:
        """Whether rows share unknowns through features."""
        return self.implicit_features or self.side_features

    @property
    def without_features(self) -> ModelSpec:
        """The same model in the factors of the matrix alone."""
        return replace(self, implicit_features=False, side_features=False)

    @property
    def has_unbounded_risk(self) -> bool:
        """Whether risk and ridge have no minimum: unobserved entries count, and observed ones correct for them.

        With ``rho = 0`` nothing is corrected: every unobserved entry is a dislike to PU and a like to NU, no loss has a
        negative weight, and a ridge is enough.
        """
        corrected = isinstance(self.rho, str | Missingness) or self.rho != 0.0
        return self.uses_unobserved and (corrected or (self.rank > 0 and not self.l2))

    @property
    def family(self) -> str:
        """Family of the model, in the order of the search.

        Intercepts, factors, those with features, mixture, mixture with features.
        """
        kinds = ["implicit"] * self.implicit_features + ["side"] * self.side_features
        features = " and ".join(kinds) + " features"
        if self.has_unbounded_risk:
            return f"mixture with {features}" if kinds else "mixture"
        if kinds:
            return features
        return "factors" if self.rank else "intercepts"

    def with_default_radius(self) -> Self:
        """Return the model that is fitted: a mixture that needs a bound and has none is given the default radius.

        Refused are such a mixture whose norm has no default radius, and features with a bound that balls of single
        rows do not imply.
        """
        bounded = self.radius is not None or self.alpha is not None
        if self.shares_unknowns and any(
            each.inner_radius < self.row_radius for each in self.sets() if each.restricts
        ):
            what = parameter("norm", self.norm) if self.norm != "max" else parameter("alpha")
            feature = "implicit_features" if self.implicit_features else "side_features"
            raise InvalidInputError(
                f"{parameter(feature, True)} does not go with {what}, which the balls of single rows do not imply: "
                f"pass a max-norm {parameter('radius')}{'' if self.norm != 'max' else f' of at most {what}'}, or leave "
                "out the features."
            )
        if bounded or not self.has_unbounded_risk:
            return self
        level = self.link.level(DEFAULT_BOUND_PROBABILITY)
        if NORMS[self.norm](level).row_radius > level:
            raise InvalidInputError(
                f"{parameter('norm', self.norm)} with weight on unobserved entries needs a {parameter('radius')} (or "
                f"an {parameter('alpha')}); none has a default."
            )
        return replace(self, radius=level)

    def constraints(self) -> list[Constraint]:
        """Return the sets that a solver must keep; none with features, whose objective has a smooth bound instead."""
        return [Unconstrained()] if self.shares_unknowns else self.sets()

    def sets(self) -> list[Constraint]:
        """Return the sets in which the factors must be: the ball of ``norm`` and the bound on entries."""
        ball = Unconstrained() if self.radius is None else NORMS[self.norm](self.radius)
        return [ball] if self.alpha is None else [ball, EntryBound(self.alpha)]

    @property
    def row_radius(self) -> float:
        """Squared radius of the ball in which each row of a factor is; infinite where there is none."""
        return min(constraint.row_radius for constraint in self.sets())

    @property
    def intercept_bound(self) -> float:
        """Largest absolute intercept: the tighter of the radius of the rows and alpha; infinite for a bounded risk."""
        if not self.has_unbounded_risk:
            return np.inf
        bound = min(self.row_radius, np.inf if self.alpha is None else self.alpha)
        return bound if np.isfinite(bound) else self.link.level(DEFAULT_BOUND_PROBABILITY)

    def risk(self, rho: float | Missingness, imputed: Imputation | None = None) -> Risk:
        """Return how much each kind of entry counts, with the ``rho`` and the imputation that were found."""
        return Risk(*self.gammas, rho, inverse_power=self.inverse_power, imputed=imputed)

    def to_json(self) -> str:
        """Return the model as the text of a JSON object, from which :meth:`from_json` makes an equal one.

        A link is written as its name in ``LINKS`` and its fields. Refused are a link that is not registered, and a
        model as ``rho`` or ``imputed``, whose arrays have no place in a text.
        """
        return written({name: getattr(self, name) for name in NAMES})

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Return the model that :meth:`to_json` has written; every value is checked again."""
        return cls(**read(text, NAMES))

    def choices(self) -> dict[str, Any]:
        """Return the values of what may be chosen from the data, by name."""
        # Not asdict: it would copy a model of the mask.
        return {name: getattr(self, name) for name in CHOOSABLE}

    def check_shape(self, shape: tuple[int, int]) -> None:
        """Refuse a rank that no matrix of that shape can have."""
        if self.rank == 0 and self.intercept:
            return
        if not 1 <= self.rank <= max(shape):
            raise InvalidInputError(
                f"{parameter('rank')} must be from {0 if self.intercept else 1} to {max(shape)}, the larger side of "
                f"the {shape[0]} x {shape[1]} matrix; got {quoted(self.rank)}."
            )

    def __str__(self) -> str:
        words = []
        if self.uses_unobserved:
            words.append("gammas " + " ".join(f"{weight:.3g}" for weight in self.gammas))
        words.append(f"rank {self.rank}")
        named = [name for name in CHOOSABLE if name.startswith("l2")]
        for name in ["radius", "alpha", *named]:
            value = getattr(self, name)
            used = {"l2_implicit": self.implicit_features, "l2_side": self.side_features}.get(
                name, True
            )
            if value is not None and used and not (name == "l2" and not self.rank):
                words.append(f"{name} {value:.3g}")
        if self.implicit_features:
            words.append(
                "activity_floor " + " ".join(f"{share:g}" for share in self.activity_floor)
            )
        return f"{self.family}: " + ", ".join(words)


#: The names of all fields, and of those that may be "auto".
NAMES = tuple(each.name for each in fields(ModelSpec))
CHOOSABLE = tuple(each.name for each in fields(ModelSpec) if each.metadata.get("choosable"))


def is_auto(value: Any) -> bool:
    """Return whether a parameter is left open."""
    return isinstance(value, str) and value == AUTO


def _close(value: Any, other: Any) -> bool:
    """Return whether two values of a field are equal, numbers and triples of them up to rounding."""
    if isinstance(value, tuple | float) and isinstance(other, tuple | float):
        return bool(np.allclose(value, other, rtol=SAME, atol=0.0))
    return bool(value == other)

"""The model before a fit: every choice that defines the objective, in one frozen object.

    min over U, V (and intercepts)   g_PN L_PN + g_PU L_PU + g_NU L_NU  +  l2 / 2 (|U|^2 + |V|^2)
                                     +  l2_intercept / 2 (|a|^2 + |c|^2)
    subject to                       |X|_max <= radius  (or |X|_* <= radius),   |U V'|_inf <= alpha

The fields are the parameters of the same names of :class:`tribit.BinaryMatrixCompletion`, with checked values. The
estimator, the search, the command line and model files use this list of parameters.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, fields, replace
from typing import Any, Final, Literal, Self, TypeAlias

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


def _optional(check: Callable[[str, Any], float]) -> Callable[[str, Any], float | None]:
    """Return a check that accepts None too."""
    return lambda name, value: None if value is None else check(name, value)


def _two_shares(name: str, value: Any) -> tuple[float, float]:
    """Return a pair of numbers, for rows and for columns."""
    try:
        rows, columns = value
    except (TypeError, ValueError):
        raise InvalidTypeError(
            f"{parameter(name)} must be two numbers, for rows and for columns; got {quoted(value)}."
        ) from None
    return check_not_negative(name, rows), check_not_negative(name, columns)


def _check_missingness(_: str, value: object) -> Any:
    """Return a number as a float, and a name or a model of the mask as it is."""
    return value if value is None or isinstance(value, str | Missingness) else check_rho(value)


def _to_json(values: dict[str, Any]) -> str:
    """Return the fields of a model as JSON; raise an error for a value without a JSON form."""
    for name, kind in LINKS.items():
        if type(values["link"]) is kind:
            values = {**values, "link": {"name": name, **vars(values["link"])}}
            break
    for name, value in values.items():
        try:
            json.dumps(value)
        except TypeError:
            raise InvalidInputError(
                f"{name} is {quoted(value)}, which has no form in JSON: replace it with a name, a number or None."
            ) from None
    return json.dumps(values)


def _from_json(text: str, wanted: Iterable[str]) -> dict[str, Any]:
    """Return all fields of a model by name; only the link is checked."""
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


#: Value of a hyperparameter that the search chooses.
AUTO: Final = "auto"
#: Type of the word that leaves a parameter to the search.
Auto: TypeAlias = Literal["auto"]
#: Default bound of a mixture, as a probability of a like: neither the low-rank part of an entry nor an intercept alone
#: exceeds it. Odds of three to one are cautious; tune it.
DEFAULT_BOUND_PROBABILITY = 0.75
#: Relative difference up to which two weights are equal: far above rounding, far below a step of a search.
WEIGHT_TOLERANCE = 1e-6


def _parameter(
    value: object,
    check: Callable[[str, Any], Any] | None,
    *,
    compare: bool = True,
    **metadata: object,
) -> Any:
    """Return a field with its default, its check, and metadata for the estimator and the command line."""
    return field(default=value, compare=compare, metadata={"check": check, **metadata})


@dataclass(frozen=True)
class ModelSpec:
    """A model before its fit; the defaults are those of a fit without a search.

    Each field is the parameter of the same name of :class:`tribit.BinaryMatrixCompletion`, with its value checked. A
    field with a ``help`` is an option of ``tribit fit``. ``default`` is the estimator's default where it is neither
    "auto" (for hyperparameters that the search may choose) nor the field's own.

    Examples
    --------
    >>> from tribit.model.spec import ModelSpec
    >>> spec = ModelSpec(rank=5, l2=2.0)
    >>> spec.rank, spec.gammas
    (5, (1.0, 0.0, 0.0))
    """

    gammas: tuple[float, float, float] = _parameter(
        (1.0, 0.0, 0.0),
        lambda _, value: check_gammas(value),
        choosable=True,
        help="Weights of the PN, PU and NU risks, summing to 1 [auto].",
    )
    #: Not compared: it is the same for every candidate, and a propensity model has arrays.
    rho: Any = _parameter(  # noqa: RUF009 - a field
        None,
        _check_missingness,
        compare=False,
        choosable=True,
        help="P(unobserved), or a model of it: constant, row-column or low-rank.",
    )
    link: Link = _parameter(  # noqa: RUF009 - a field
        Logistic(),
        lambda _, value: as_link(value),
        default="logistic",
        help="Link: logistic or probit.",
    )
    rank: int = _parameter(10, check_whole, choosable=True, help="Number of latent factors (rank).")
    radius: float | None = _parameter(
        None, _optional(check_positive), choosable=True, help="Radius of the norm ball, or none."
    )
    norm: str = _parameter(
        "max",
        lambda name, value: check_choice(name, value, NORMS),
        help="Norm of the ball: max or trace.",
    )
    alpha: float | None = _parameter(
        None,
        _optional(check_positive),
        choosable=True,
        default=None,
        help="Bound on the entries of U V'.",
    )
    l2: float = _parameter(
        5.0, check_not_negative, choosable=True, help="Ridge penalty on the factors."
    )
    l2_power: float = _parameter(
        0.0,
        lambda name, value: check_between(name, value, 0.0, 1.0),
        choosable=True,
        help="Power of the number of entries of a row or column in the penalty of its factors, from 0 to 1.",
    )
    l2_intercept: float | None = _parameter(
        None,
        _optional(check_not_negative),
        choosable=True,
        help="Ridge penalty on row and column biases.",
    )
    implicit_features: bool = _parameter(
        False,
        check_switch,
        choosable=True,
        help="Use the positions of observed entries as implicit feedback (SVD++).",
    )
    l2_implicit: float | None = _parameter(
        None,
        _optional(check_not_negative),
        choosable=True,
        help="Ridge penalty on implicit features.",
    )
    activity_floor: tuple[float, float] = _parameter(
        (1.0, 1.0),
        _two_shares,
        choosable=True,
        help="Minimum activity of rows and of columns in implicit features, relative to the mean [auto].",
    )
    side_features: bool = _parameter(
        False,
        check_switch,
        choosable=True,
        help="Use the side features of rows and columns.",
    )
    l2_side: float | None = _parameter(
        None,
        _optional(check_not_negative),
        choosable=True,
        help="Ridge penalty on side features.",
    )
    intercept: bool = _parameter(
        True, check_switch, help="Fit a global intercept and row and column biases."
    )
    inverse_power: float = _parameter(
        0.0,
        lambda name, value: check_between(name, value, 0.0, 1.0),
        help="Weight PN by this power of 1 / P(observed), from 0 to 1.",
    )
    #: Checked together with the observations.
    imputed: Any = _parameter(None, None, compare=False)  # noqa: RUF009 - a field

    def __post_init__(self) -> None:
        for each in fields(self):
            if (check := each.metadata.get("check")) is not None:
                check_field(self, each.name, check)

    @classmethod
    def of(cls, estimator: object, **chosen: object) -> Self:
        """Return the model of an estimator's parameters, with the chosen values for "auto"."""
        given = {name: getattr(estimator, name) for name in NAMES}
        return cls(**{**given, **chosen})

    def is_close(self, other: ModelSpec) -> bool:
        """Return whether two models are equal up to rounding of their weights; rho is not compared."""
        return all(
            _close(getattr(self, each.name), getattr(other, each.name))
            for each in fields(self)
            if each.compare
        )

    @property
    def uses_unobserved(self) -> bool:
        """Whether unobserved entries have weight in the risk."""
        return sum(self.gammas[1:]) > 0.0

    @property
    def shares_unknowns(self) -> bool:
        """Whether rows share coefficients through features."""
        return self.implicit_features or self.side_features

    @property
    def without_features(self) -> ModelSpec:
        """The same model in the factors of the matrix alone."""
        return replace(self, implicit_features=False, side_features=False)

    @property
    def has_unbounded_risk(self) -> bool:
        """Whether risk and ridge may be unbounded below: observed entries then correct for unobserved ones.

        With ``rho = 0`` nothing is corrected, no loss has a negative weight, and a ridge is enough.
        """
        corrected = isinstance(self.rho, str | Missingness) or self.rho != 0.0
        return self.uses_unobserved and (corrected or (self.rank > 0 and not self.l2))

    @property
    def family(self) -> str:
        """Model family, in the order of the search: intercepts, factors, features, mixture, mixture with features."""
        kinds = ["implicit"] * self.implicit_features + ["side"] * self.side_features
        features = " and ".join(kinds) + " features"
        if self.has_unbounded_risk:
            return f"mixture with {features}" if kinds else "mixture"
        if kinds:
            return features
        return "factors" if self.rank else "intercepts"

    def with_default_radius(self) -> Self:
        """Return the model, with the default radius for a mixture that needs a bound and has none.

        Raises
        ------
        InvalidInputError
            If the norm of such a mixture has no default radius, or features have a bound that balls of single rows do
            not imply.
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
        """Return the constraints of the solver; none with features, whose objective has a smooth bound instead."""
        return [Unconstrained()] if self.shares_unknowns else self.sets()

    def sets(self) -> list[Constraint]:
        """Return the constraints on the factors: the ball of ``norm`` and the bound on entries."""
        ball = Unconstrained() if self.radius is None else NORMS[self.norm](self.radius)
        return [ball] if self.alpha is None else [ball, EntryBound(self.alpha)]

    @property
    def row_radius(self) -> float:
        """Squared radius of the ball that holds each row of a factor; infinite without one."""
        return min(constraint.row_radius for constraint in self.sets())

    @property
    def intercept_bound(self) -> float:
        """Largest absolute intercept: the tighter of the radius of the rows and alpha; infinite for a bounded risk."""
        if not self.has_unbounded_risk:
            return np.inf
        bound = min(self.row_radius, np.inf if self.alpha is None else self.alpha)
        return bound if np.isfinite(bound) else self.link.level(DEFAULT_BOUND_PROBABILITY)

    def risk(self, rho: float | Missingness, imputed: Imputation | None = None) -> Risk:
        """Return the risk with a ``rho`` and an imputation."""
        return Risk(*self.gammas, rho, inverse_power=self.inverse_power, imputed=imputed)

    def to_json(self) -> str:
        """Return the model as JSON, from which :meth:`from_json` makes an equal one.

        A link is written as its name in ``LINKS`` and its fields. An unregistered link, and a model as ``rho`` or
        ``imputed``, cannot be written.
        """
        return _to_json({name: getattr(self, name) for name in NAMES})

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Return the model of :meth:`to_json`; every value is checked."""
        return cls(**_from_json(text, NAMES))

    def choices(self) -> dict[str, Any]:
        """Return the values of the hyperparameters that a search may choose, by name."""
        # asdict would copy a model of the mask.
        return {name: getattr(self, name) for name in CHOOSABLE}

    def check_shape(self, shape: tuple[int, int]) -> None:
        """Raise an error for a rank that no matrix of that shape can have."""
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
            used &= bool(self.rank) or name not in ("l2", "l2_power")
            if value is not None and used and (value or name != "l2_power"):
                words.append(f"{name} {value:.3g}")
        if self.implicit_features:
            words.append(
                "activity_floor " + " ".join(f"{share:g}" for share in self.activity_floor)
            )
        return f"{self.family}: " + ", ".join(words)


#: Names of all fields, and of those that may be "auto".
NAMES = tuple(each.name for each in fields(ModelSpec))
CHOOSABLE = tuple(each.name for each in fields(ModelSpec) if each.metadata.get("choosable"))


def is_auto(value: object) -> bool:
    """Return whether a parameter is left to the search."""
    return isinstance(value, str) and value == AUTO


def _close(value: object, other: object) -> bool:
    """Return whether two values of a field are equal, numbers and tuples of them up to rounding."""
    if isinstance(value, tuple | float) and isinstance(other, tuple | float):
        return bool(np.allclose(value, other, rtol=WEIGHT_TOLERANCE, atol=0.0))
    return bool(value == other)

"""What a fit on a cluster cannot do: each refused in a sentence before anything is computed."""

from __future__ import annotations

from typing import Any

from tribit.data.observations import Observations
from tribit.errors import InvalidInputError, parameter
from tribit.model.risks import Risk
from tribit.model.spec import is_auto

#: What remains in any case.
HERE = "or fit on one machine, without a client"


def check_risk(risk: Risk) -> None:
    """Refuse a risk whose weights need all observed entries at once, and imputed labels."""
    if risk.inverse_power and not isinstance(risk.rho, float):
        raise InvalidInputError(
            f"{parameter('inverse_power')} scales weights to their mean over all entries, which no partition knows: "
            f"leave it out, {HERE}."
        )
    if risk.imputed is not None:
        raise InvalidInputError(
            f"{parameter('imputed')} is not known on a cluster: leave it out, {HERE}."
        )


def check_fit(estimator: Any, side: Any) -> None:
    """Refuse parameters of a fit that partitions of rows cannot serve."""
    if side is not None:
        raise InvalidInputError(
            f"Features of rows and columns are not known on a cluster: leave out {parameter('row_features')} and "
            f"{parameter('column_features')}, {HERE}."
        )
    if estimator.target == "all":
        raise InvalidInputError(
            f"{parameter('target', 'all')} needs a model of why entries are missing, which is fitted to all of them at "
            f"once: leave it out, {HERE}."
        )
    if (
        isinstance(estimator.rho, str)
        and not is_auto(estimator.rho)
        and estimator.rho != "constant"
    ):
        raise InvalidInputError(
            f"{parameter('rho', estimator.rho)} is a model of where entries are, which is fitted to all of them at "
            f"once: pass a number, {HERE}."
        )


def check_search(observations: Observations) -> None:
    """Refuse the search for a model of one label alone, which ranks held-out entries among all unseen cells."""
    if not (observations.n_likes and observations.n_dislikes):
        fixed = ", ".join(parameter(name) for name in ("rank", "l2", "l2_intercept"))
        raise InvalidInputError(
            "Likes and dislikes were not both observed, and the search for a model of one label alone is not known on "
            f"a cluster: pass {fixed} and whatever else is left to choose, {HERE}."
        )

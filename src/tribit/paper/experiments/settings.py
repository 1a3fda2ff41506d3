"""Mixtures of the three risks, and the options of ``tribit reproduce``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

from tribit.checks import check_choice, check_count, check_positive
from tribit.errors import InvalidInputError, parameter
from tribit.paper.theory import mixture_coordinates
from tribit.selection.gammas import mixture

#: (g_PN, g_PU, g_NU), and the name of each in a table.
Mixture: TypeAlias = tuple[float, float, float]
WEIGHTS = ("g_pn", "g_pu", "g_nu")
PN: Mixture = (1.0, 0.0, 0.0)
PU: Mixture = (0.0, 1.0, 0.0)
NU: Mixture = (0.0, 0.0, 1.0)
#: The middle of the edge of PUNU, and a mixture of all three.
HALF: Mixture = (0.0, 0.5, 0.5)
INSIDE: Mixture = (0.6, 0.2, 0.2)

PROTOCOLS = ("paper", "solved", "tuned")
#: Numbers of trials: the paper's, and of a quick run.
TRIALS, QUICK_TRIALS = 10, 2
#: Weights of imputation t of the figures along t, and those of a quick run.
IMPUTED = (0.0, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
QUICK_IMPUTED = (0.0, 0.1, 0.5, 1.0)
#: No iteration settles with steps this long; much longer steps overflow.
MAX_STEP = 1e6


@dataclass(frozen=True)
class Settings:
    """The number of trials, their seed and their protocol.

    Parameters
    ----------
    trials : int or None
        Simulated tables, or splits of the ratings; 10 as in the paper, 2 when ``quick``.
    seed : int
        Seed of the first trial.
    protocol : {"paper", "solved", "tuned"}
        ``paper`` runs the paper's iteration inside its set K_max(alpha, alpha sqrt r); ``solved`` finds the minimum
        there, on coarser grids; ``tuned`` solves inside a max-norm ball whose radius is chosen on a validation set,
        for each mixture.
    quick : bool
        Coarse grids and few trials, for a first look at the figures.
    step : float or None
        The paper's tau; by default each experiment's own.

    Examples
    --------
    >>> from tribit.paper.experiments import Settings
    >>> Settings(trials=3, protocol="solved").protocol
    'solved'
    """

    trials: int | None = None
    seed: int = 0
    protocol: str = "paper"
    quick: bool = False
    step: float | None = None

    def __post_init__(self) -> None:
        check_choice("protocol", self.protocol, PROTOCOLS)
        if self.trials is not None:
            check_count("trials", self.trials, 2)  # a standard deviation needs two
        check_count("seed", self.seed, 0)
        if self.step is not None:
            if check_positive("step", self.step) > MAX_STEP:
                raise InvalidInputError(
                    f"{parameter('step')} must be at most {MAX_STEP:g}; got {self.step!r}."
                )
            if self.protocol != "paper":
                raise InvalidInputError(
                    f"{parameter('step')} applies only to {parameter('protocol', 'paper')}, and the protocol is "
                    f"{self.protocol!r}; leave it out."
                )

    @property
    def n_trials(self) -> int:
        """Number of trials."""
        return self.trials or (QUICK_TRIALS if self.quick else TRIALS)

    def to_dict(self) -> dict[str, Any]:
        """Return the parameters behind the results, by their option names."""
        return {
            "trials": self.n_trials,
            "seed": self.seed,
            "protocol": self.protocol,
            "quick": self.quick,
            "step": self.step,
        }


def simplex(parts: int) -> list[Mixture]:
    """Return every mixture whose weights are multiples of ``1 / parts``: 66 of them for 10 parts."""
    return [
        (i / parts, j / parts, (parts - i - j) / parts)
        for i in range(parts + 1)
        for j in range(parts + 1 - i)
    ]


def mixtures_along_t(density: float, label: float, *, quick: bool = False) -> list[Mixture]:
    """Return the mixtures that impute one label with the weights ``IMPUTED``, from PN to PUNU."""
    return [mixture(t, density, label) for t in (QUICK_IMPUTED if quick else IMPUTED)]


def imputed_weight(weights: Mixture, density: float) -> float:
    """Return the weight of imputation t of a mixture."""
    return round(mixture_coordinates(weights, 1.0 - density).t, 6)


def is_inside(mixture: Mixture) -> bool:
    """Return whether every risk has weight."""
    return min(mixture) > 0


def mixture_words(mixture: Mixture) -> str:
    """Return a mixture in words."""
    return f"({', '.join(f'{weight:.2g}' for weight in mixture)})"

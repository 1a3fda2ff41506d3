"""The demonstration: one draw of the paper's generator, completed by PN and by the mixture."""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.progress import track
from sklearn.exceptions import ConvergenceWarning

from tribit.completion import BinaryMatrixCompletion
from tribit.data.observations import Observations
from tribit.metrics.entries import evaluate
from tribit.model.links import Logistic
from tribit.randomness import RandomState, generator
from tribit.simulate import low_rank_target, observe, quantise
from tribit.solvers.loop import INTERRUPTED

Array = NDArray[np.floating[Any]]

SIZE, RANK, ALPHA, RHO, LINK = 500, 5, 1.0, 0.9, Logistic(7.0)
RISKS = {"PN": (1.0, 0.0, 0.0), "mixture": (0.6, 0.2, 0.2)}
#: The paper's radius is alpha sqrt(r), which holds every matrix of that rank; smaller ones shrink the estimate.
RADII = tuple(ALPHA * RANK**0.5 / 2.0**power for power in range(5))


@dataclass(frozen=True)
class DemoFit:
    """One fit: its risk and radius, how well it recovers the target, and its held-out log-loss."""

    risk: str
    radius: float
    recovery_error: float
    sign_error: float
    held_out_loss: float
    seconds: float
    how: str = ""


@dataclass(frozen=True)
class DemoResult:
    """The draw, every fit, the four in the table, and one completed matrix."""

    target: Array
    observations: Observations
    fits: list[DemoFit]
    chosen: list[DemoFit]
    completed: Array
    noise_floor: float

    def summary(self) -> str:
        """Return what was drawn, in words."""
        return (
            f"A {SIZE} x {SIZE} matrix of rank {RANK} was quantised to likes and dislikes; {100 * (1 - RHO):.0f}% "
            f"of the entries ({self.observations.n_observed}) were seen.\n"
            "Recovery error is |X - M| / |M| (all zeros give 1); the sign error of the true M on unseen entries is "
            f"{self.noise_floor:.3f}."
        )


def run_demo(*, random_state: RandomState = 0, shown: bool = True) -> DemoResult:
    """Draw, fit PN and the mixture over a path of radii, and choose each one's radius on held-out entries."""
    draws = generator(random_state)
    M = low_rank_target((SIZE, SIZE), RANK, alpha=ALPHA, random_state=draws)
    Y = quantise(M, LINK, random_state=draws)
    observations = observe(Y, RHO, random_state=draws)
    train, held_out = observations.split(0.1, random_state=draws)
    unseen = np.ones(Y.shape, dtype=bool)
    unseen[observations.rows, observations.columns] = False
    fits: list[DemoFit] = []
    completed: dict[tuple[str, float], Array] = {}
    for risk, radius in _paths(shown):
        loss = evaluate(_fitted(train, risk, radius), held_out).log_loss
        began = time.perf_counter()
        model = _fitted(observations, risk, radius)
        seconds = time.perf_counter() - began
        X = model.complete("decision")
        error = float(np.linalg.norm(X - M) / np.linalg.norm(M))
        signs = float(np.mean((X >= 0)[unseen] != (Y > 0)[unseen]))
        fits.append(DemoFit(risk, radius, error, signs, loss, seconds))
        completed[risk, radius] = X
    best = {
        risk: min((f for f in fits if f.risk == risk), key=lambda f: f.held_out_loss)
        for risk in RISKS
    }
    paper = [replace(f, how="the paper's") for f in fits if f.radius == RADII[0]]
    held = [replace(best[risk], how="held-out") for risk in RISKS]
    return DemoResult(
        target=M,
        observations=observations,
        fits=fits,
        chosen=paper + held,
        completed=completed["mixture", best["mixture"].radius],
        noise_floor=float(np.mean((M >= 0)[unseen] != (Y > 0)[unseen])),
    )


def _paths(shown: bool) -> Iterator[tuple[str, float]]:
    console = Console(stderr=True)
    pairs = [(risk, radius) for risk in RISKS for radius in RADII]
    visible = shown and console.is_terminal
    yield from track(
        pairs, "fitting PN and the mixture", console=console, transient=True, disable=not visible
    )


def _fitted(observations: Observations, risk: str, radius: float) -> BinaryMatrixCompletion:
    model = BinaryMatrixCompletion(
        RISKS[risk],
        rho=RHO,
        link=LINK,
        rank=RANK,
        radius=radius,
        l2=0.0,
        implicit_features=False,
        intercept=False,
        calibration=None,
        random_state=0,
    )
    with warnings.catch_warnings():
        # At the paper's radius PN creeps on for thousands of sweeps; the table is the same.
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(observations)
    if model.stop_reason_ == INTERRUPTED:
        raise KeyboardInterrupt  # a fit keeps what it has; a demonstration stops
    return model

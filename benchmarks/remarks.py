"""Remarks of the paper that no figure of it shows, by simulation: ``python -m benchmarks.remarks``."""

import time
import warnings

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from benchmarks.measure import machine, print_table
from tribit import BinaryMatrixCompletion, Logistic, Observations, Probit
from tribit.paper.experiments.claims import comparison
from tribit.paper.systems import MaxNormLikelihood, PUMatrixCompletion, TraceNormLikelihood
from tribit.paper.systems.pu_risks import PU_RISKS
from tribit.paper.theory import limiting_probability, relative_error
from tribit.simulate import (
    all_at_once,
    likes_only,
    low_rank_target,
    observe,
    observe_cells,
    quantise,
)
from tribit.solvers import ProjectedGradient
from tribit.solvers.augmented_lagrangian import AugmentedLagrangian

RHOS = (0.0, 0.2, 0.4, 0.6, 0.8, 0.9)
PENALTY_SHARES = (1.0, 0.7, 0.5, 0.35, 0.25, 0.15)


def bias(side: int = 400, rho: float = 0.5, likely: tuple[float, ...] = (0.1, 0.3, 0.7, 0.9)):
    """Yield the limits of three PU risks, and their estimates of a matrix whose entries are all alike."""
    for p in likely:
        Y = np.where(np.random.default_rng(0).random((side, side)) < p, 1, -1)
        seen = observe(Y, rho, random_state=1)
        for name, risk in PU_RISKS.items():
            model = PUMatrixCompletion(
                rho=rho, loss="squared", risk=name, rank=1, l2=0.0, random_state=0
            )
            found = float(np.mean(model.fit(seen).complete("score")))
            yield p, name, float(limiting_probability(risk(rho), p)), found


def without_noise(sides: tuple[int, ...] = (40, 80, 160, 320), sigmas=(0.0, 0.5, 1.0)):
    """Yield the larger root mean square error of two matrices of rank 1 with the same signs, all observed.

    Half the distance of the two is the least that an answer can have which is the same for both.
    """
    for side in sides:
        draws = np.random.default_rng(side)
        signs = [draws.choice([-1, 1], side) for _ in "uv"]
        twins = [np.outer(*(sign * draws.choice([0.4, 1.0], side) for sign in signs)) for _ in "ab"]
        least = np.linalg.norm(twins[0] - twins[1]) / side / 2
        errors = []
        for sigma in sigmas:
            found = []
            for M in twins:
                Y = quantise(M, Probit(sigma), random_state=0) if sigma else np.sign(M).astype(int)
                link = Probit(sigma or 0.5)
                model = MaxNormLikelihood(rank=1, n_columns=1, link=link, random_state=0).fit(Y)
                found.append(np.linalg.norm(model.complete("score") - M) / side)
            errors.append(max(found))
        yield side, least, errors


def likes_alone(side: int = 400, draws: int = 3, rhos: tuple[float, ...] = RHOS):
    """Yield the relative square errors with both signs seen and with likes alone, over rho, in ``K_*(1, 1)``.

    The target has rank 1 and entries of +1 and -1, and ``P(like)`` is p or 1 - p. ``noise`` is the ratio of the
    standard deviations of an entry of the two gradients at M, each over ``1 - rho`` as far as it has that factor.
    """
    link = Logistic(1.5)
    p = link.probability(np.array([1.0, -1.0]))
    for rho in rhos:
        q, errors = 1.0 - rho, []
        for seed in range(draws):
            M = np.sign(low_rank_target((side, side), 1, random_state=seed))
            seen = observe(quantise(M, link, random_state=seed + 100), rho, random_state=seed + 200)
            both = TraceNormLikelihood(1.0, rank=1, n_columns=20, link=link, random_state=0)
            likes = PUMatrixCompletion(
                rho=rho,
                norm="trace",
                radius=float(side),
                alpha=1.0,
                link=link,
                rank=20,
                tol=5e-5,
                n_jobs=1,
                random_state=0,
            )
            fits = both.fit(seen), likes.fit(likes_only(seen))
            errors.append([relative_error(model.complete("score"), M) ** 2 for model in fits])
        noise = float(np.sqrt(np.mean(p / q - p**2) / np.mean(p * (1 - p) / q)))
        yield rho, np.mean(errors, axis=0), noise


def norms(side: int = 100, rank: int = 2, n: int = 3000, draws: int = 10):
    """Return the relative errors in the max-norm and the trace-norm set, by sampling, norm and share of the radius."""
    link, found = Logistic(7.0), {}
    radii = {"max": np.sqrt(rank), "trace": np.sqrt(rank) * side}
    for sampling in ("uniform", "general"):
        errors = {(norm, share): np.zeros(draws) for norm in radii for share in PENALTY_SHARES}
        for seed in range(draws):
            M = low_rank_target((side, side), rank, alpha=1.0, random_state=seed)
            seen = _seen(M, link, n, sampling, seed)
            for (norm, share), values in errors.items():
                model = _project_start(seen, link, norm, share * radii[norm])
                values[seed] = relative_error(model.complete("score"), M)
        found[sampling] = errors
    return found


def _seen(M: np.ndarray, link: Logistic, n: int, sampling: str, seed: int) -> Observations:
    weights = None
    if sampling == "general":
        # The k-th most popular row or column has a weight of k^-0.7.
        popular, generator = np.arange(1, len(M) + 1) ** -0.7, np.random.default_rng(seed)
        weights = generator.permutation(popular), generator.permutation(popular)
    cells = all_at_once(M.shape, n, weights=weights, random_state=seed + 100)
    return observe_cells(M, link, cells, random_state=seed + 200)


def _project_start(
    seen: Observations, link: Logistic, norm: str, radius: float
) -> BinaryMatrixCompletion:
    """Return the most likely X with ``|X|_inf <= 1`` in a ball, alpha kept exactly."""
    return BinaryMatrixCompletion(
        (1, 0, 0),
        link=link,
        norm=norm,
        radius=radius,
        alpha=1.0,
        l2=0.0,
        intercept=False,
        implicit_features=False,
        rank=20,
        solver=AugmentedLagrangian(link.curvature(1.0)),
        tol=5e-3,
        max_iter=2000,
        dtype="float64",
        n_jobs=1,
        random_state=0,
    ).fit(seen)


def grown_ranks(side: int = 100, rank: int = 10, draws: int = 10):
    """Yield the errors of the printed iteration with a line search, at k = r and with k grown until X stops changing.

    The link is that of experiment 1 or 2, PN or the middle of the edge between PU and NU.
    """
    for name, link in (("1, probit 0.1", Probit(0.1)), ("2, logistic 7", Logistic(7.0))):
        for mixture in ((1.0, 0.0, 0.0), (0.0, 0.5, 0.5)):
            errors, ranks = np.zeros((2, draws)), []
            for seed in range(draws):
                M = low_rank_target((side, side), rank, alpha=1.0, random_state=seed)
                Y = quantise(M, link, random_state=seed + 100)
                seen = observe(Y, 0.85, random_state=seed + 200)
                for way, grow in enumerate((False, True)):
                    model = BinaryMatrixCompletion(
                        mixture,
                        rho=0.85,
                        link=link,
                        radius=np.sqrt(rank),
                        alpha=1.0,
                        rank=rank,
                        l2=0.0,
                        intercept=False,
                        implicit_features=False,
                        solver=ProjectedGradient(grow=grow),
                        tol=1e-4,
                        max_iter=400,
                        n_jobs=1,
                        random_state=0,
                    ).fit(seen)
                    errors[way, seed] = relative_error(model.complete("score"), M)
                ranks.append(model.row_factors_.shape[1])
            verdict, words = comparison("k = r", errors[0], "k grown", errors[1])
            yield name, mixture, f"{min(ranks)} to {max(ranks)}", words, verdict


def _norm_rows(found: dict):
    for sampling, errors in found.items():
        for title, shares in (("the paper's", (1.0,)), ("the best of six", PENALTY_SHARES)):
            best = {
                norm: min((errors[norm, share] for share in shares), key=np.mean)
                for norm in ("max", "trace")
            }
            verdict, words = comparison("max", best["max"], "trace", best["trace"])
            yield sampling, title, words, verdict


def main() -> None:
    """Print the tables."""
    began = time.perf_counter()
    print(machine())
    warnings.simplefilter("ignore", ConvergenceWarning)
    print_table(
        "What three PU risks say of entries that are all alike, rho = 0.5",
        ("P(like)", "risk", "limit", "measured"),
        ((p, name, f"{limit:.3f}", f"{mean:.3f}") for p, name, limit, mean in bias()),
    )
    print_table(
        "All signs of a matrix of rank 1 seen: root mean square error",
        ("side", "at least, without noise", "no noise", "probit 0.5", "probit 1"),
        (
            (side, f"{least:.3f}", *(f"{error:.3f}" for error in errors))
            for side, least, errors in without_noise()
        ),
    )
    print_table(
        "Relative square error, 400 x 400, mean of 3 draws",
        ("rho", "both signs", "likes alone", "ratio", "1 / sqrt(1 - rho)", "ratio of noise"),
        (
            (
                rho,
                f"{a:.3f}",
                f"{b:.3f}",
                f"{b / a:.2f}",
                f"{(1 - rho) ** -0.5:.2f}",
                f"{noise:.2f}",
            )
            for rho, (a, b), noise in likes_alone()
        ),
    )
    print_table(
        "Relative error in K_max and K_*, 100 x 100, rank 2, 3000 entries, 10 draws",
        ("entries seen", "radius", "errors", "max norm is lower"),
        _norm_rows(norms()),
    )
    print_table(
        "k = r against k grown until X stops changing, 100 x 100, rank 10, 10 draws",
        ("experiment", "mixture", "k grown to", "relative errors", "k = r is lower"),
        grown_ranks(),
    )
    print(f"\n{time.perf_counter() - began:.0f} s")


if __name__ == "__main__":
    main()

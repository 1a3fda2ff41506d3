"""Bounds of the error of a mixture of the three risks, every constant explicit.

Numbers in parentheses are those of the page *Guarantees for the mixture* in the manual, which proves each bound. With
``D = X - M``, ``lam = f' / (f (1 - f))`` and ``E = y~ - p`` at M, the theorems are

1. any link, any t: the Kullback-Leibler divergence of X from M is at most the supremum of a centred process;
2. max-norm ball: ``sum W D^2 <= (1 / eta) <lam E, D>`` for the exact minimiser over a convex set that holds M;
3. rank: twice that for every X with a risk no higher than M's, with a fast rate;
4. first order: a mixture has at least the variance of PN.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tribit.checks import check_between, check_not_negative, check_positive
from tribit.data.observations import as_observations
from tribit.errors import InvalidInputError
from tribit.model.links import Logistic
from tribit.paper.theory.bounds import Bound, check_matrix
from tribit.paper.theory.mixtures import MixtureProblem
from tribit.paper.theory.norms import as_matrix

Array = NDArray[np.floating[Any]]

#: Upper bound of the real Grothendieck constant, ``pi / (2 log(1 + sqrt 2))`` (Krivine 1979).
GROTHENDIECK = float(np.pi / (2.0 * np.log(1.0 + np.sqrt(2.0))))
#: Ratio of the radii of two shells in the proof of Theorem 3.
SHELL_RATIO = 1.1
ASSUMPTIONS = (
    "every entry is observed independently with the same known probability q = 1 - rho",
    "labels are independent of each other and of the mask, with P(like) = f(M)",
    "the entries of M and of the estimate are at most alpha in absolute value",
)
IN_BALL = "|M|_max is at most the radius"


class Noise(NamedTuple):
    """The gradient's noise at M, before (bounds of it) or after the table is known.

    Parameters
    ----------
    cut : float
        Upper bound of ``<lam E, Z>`` over ``|Z|_max <= 1``.
    inner : float
        Upper bound of ``-<lam E, M>``.
    operator : float
        Upper bound of the largest singular value of ``lam E``.
    """

    cut: float
    inner: float
    operator: float


@dataclass(frozen=True)
class TriBound:
    """The bounds of :func:`tri_bound`, with the theorems that do not apply and why.

    Parameters
    ----------
    problem : MixtureProblem
        The mixture and the table.
    bounds : dict of str to Bound
        Bounds of ``|X - M|_F^2 / (d1 d2)`` by the name of the theorem, each with its own probability.
    refused : dict of str to str
        A sentence for each theorem that does not apply.
    assumptions : tuple of str
        What the bounds assume.

    Examples
    --------
    >>> from tribit.paper.theory import MixtureProblem, tri_bound
    >>> problem = MixtureProblem((200, 200), (0.0, 0.5, 0.5), rho=0.3, alpha=1.0)
    >>> sorted(tri_bound(problem, radius=1.0).bounds)
    ['theorem 1', 'theorem 2']
    """

    problem: MixtureProblem
    bounds: dict[str, Bound]
    refused: dict[str, str]
    assumptions: tuple[str, ...]

    def __str__(self) -> str:
        """Return a line for each theorem, then the assumptions."""
        t, g = self.problem.coordinates
        place = f"t = {t:.3g}" + ("" if g is None else f", g = {g:.3g}")
        lines = [f"Bounds of the mean square error at {place}:"]
        for name, bound in self.bounds.items():
            said = " (vacuous)" if bound.vacuous else ""
            lines.append(
                f"  {name}: {bound.value:.4g}{said}, with probability {bound.probability:.3g}"
            )
        lines += [f"  {name}: {reason}" for name, reason in self.refused.items()]
        return "\n".join([*lines, "Assumptions:", *(f"  {line}" for line in self.assumptions)])


def tri_bound(
    problem: MixtureProblem,
    *,
    radius: float | None = None,
    rank: int | None = None,
    A: Any = None,
    M: Any = None,
    gap: float = 0.0,
    delta: float = 0.05,
) -> TriBound:
    """Bound the mean square error of the minimiser of a mixture by Theorems 1 to 3.

    Without A and M the bounds are a priori: they hold for every M. With the labels A the deviation of the mask is that
    of A's mask, which needs no knowledge of M. With M the variances are those of M, and with both, as in a simulation,
    Theorem 2 has the noise that was drawn and holds with certainty.

    Parameters
    ----------
    problem : MixtureProblem
        The mixture, the shape, rho, alpha and the link.
    radius : float or None, default=None
        Of the max-norm ball that holds M, for Theorems 1 and 2: ``alpha sqrt(r)`` for rank r, and at least alpha.
    rank : int or None, default=None
        Rank of M plus rank of the estimate, for Theorem 3.
    A : Observations, array or None, default=None
        Labels +1 and -1, 0 where an entry is unobserved.
    M : array, LowRankTarget or None, default=None
        The hidden matrix.
    gap : float, default=0.0
        What the estimate lacks to a minimiser, of the risk divided by ``kappa``: for Theorem 1 the excess of its risk
        over that of M, for Theorem 2 :func:`optimality_gap`. A solver of factors cannot exclude one.
    delta : float, default=0.05
        Probability with which each bound may fail, inside (0, 1).

    Returns
    -------
    TriBound
        With ``bounds`` under ``"theorem 1"``, ``"theorem 2"`` and ``"theorem 3"``.

    Examples
    --------
    >>> from tribit.paper.theory import MixtureProblem
    >>> problem = MixtureProblem((200, 200), (0.0, 0.5, 0.5), rho=0.3, alpha=1.0)
    >>> print(tri_bound(problem, radius=1.0))
    Bounds of the mean square error at t = 1, g = 0.5:
      theorem 1: 2.753 (vacuous), with probability 0.95
      theorem 2: 0.713, with probability 0.95
    Assumptions:
      every entry is observed independently with the same known probability q = 1 - rho
      labels are independent of each other and of the mask, with P(like) = f(M)
      the entries of M and of the estimate are at most alpha in absolute value
      |M|_max is at most the radius
    """
    delta = check_between("delta", delta, 0.0, 1.0, ends="()")
    gap = check_not_negative("gap", gap)
    if radius is None and rank is None:
        raise InvalidInputError(
            "No set is given: pass radius for a max-norm ball, rank for factors, or both."
        )
    A, M = _labels(problem, A), _hidden(problem, M)
    bounds: dict[str, Bound] = {}
    refused: dict[str, str] = {}
    if radius is not None:
        radius = check_positive("radius", radius)
        if radius < problem.alpha:
            raise InvalidInputError(
                f"radius is {radius:g}, below alpha = {problem.alpha:g}: no entry of a ball is above its radius, so "
                "lower alpha to it."
            )
        bounds["theorem 1"] = _slow_bound(problem, radius, gap, delta)
    try:
        if radius is not None:
            bounds["theorem 2"] = _ball_bound(problem, radius, A, M, gap, delta)
        if rank is not None:
            check_matrix(problem.shape, rank)
            bounds["theorem 3"] = _rank_bound(problem, rank, A, M, delta)
    except InvalidInputError as error:
        if problem.t <= problem.t_max:
            raise
        refused |= {
            name: str(error)
            for name, given in (("theorem 2", radius), ("theorem 3", rank))
            if given is not None
        }
    assumptions = ASSUMPTIONS if radius is None else (*ASSUMPTIONS, IN_BALL)
    return TriBound(problem, bounds, refused, assumptions)


def first_order_price(problem: MixtureProblem, M: Array) -> float:
    """Return ``1 + t^2 rho w / v``, the variance of a mixture over that of PN as n grows (Proposition 4).

    ``v`` is the mean of ``p (1 - p)`` and ``w`` that of ``(p - g)^2``, each with the weights ``lam^2``; the ratio is
    that of every estimated entry where the variances are equal over entries.

    Parameters
    ----------
    problem : MixtureProblem
        The mixture and the table.
    M : array
        The hidden matrix.

    Examples
    --------
    >>> import numpy as np
    >>> from tribit.paper.theory import MixtureProblem, first_order_price
    >>> problem = MixtureProblem((2, 2), (0.5, 0.25, 0.25), rho=0.3, alpha=1.0)
    >>> round(first_order_price(problem, np.array([[1.0, -1.0], [-1.0, 1.0]])), 3)
    1.028
    """
    p, weights = problem.link.probability(M), problem.slope(M) ** 2
    v, w = np.sum(weights * p * (1.0 - p)), np.sum(weights * (p - problem.g) ** 2)
    return float(1.0 + problem.t**2 * problem.rho * w / v)


def mask_deviation(problem: MixtureProblem, radius: float, A: Any) -> float:
    """Return ``S = 4 R^2 |1 - d / q|_op / sqrt(d1 d2)``, printed from the observed mask alone (9).

    For two matrices of the ball, whatever M is, the mean of ``(1 - d / q) D^2`` is at most S.

    Parameters
    ----------
    problem : MixtureProblem
        The mixture and the table.
    radius : float
        ``R`` of the max-norm ball.
    A : Observations or array
        Labels, 0 where an entry is unobserved.

    Examples
    --------
    >>> import numpy as np
    >>> from tribit.paper.theory import MixtureProblem, mask_deviation
    >>> problem = MixtureProblem((2, 2), (0.0, 0.5, 0.5), rho=0.5, alpha=1.0)
    >>> round(mask_deviation(problem, 1.0, np.array([[1, 0], [0, -1]])), 3)
    4.0
    """
    seen = np.asarray(_labels(problem, A)) != 0
    largest = _operator_norm(1.0 - seen / problem.q)
    return float(4.0 * radius**2 * largest / np.sqrt(problem.cells))


def optimality_gap(gradient: Array, U: Array, V: Array, radius: float) -> float:
    """Return an upper bound of ``<G, X - Z>`` over ``|Z|_max <= radius``, for the gradient G at ``X = U V'`` (7).

    It is 0 at a minimiser over the ball, and bounds what the risk is above the minimum where the risk is convex. The
    dual of the max norm is at most ``|diag(a)^(-1/2) G diag(b)^(-1/2)|_op sqrt(sum a sum b)`` for any positive weights;
    they are the multipliers of the rows of U and V. A bound on entries that is active as well is not used: the result
    is then larger than the gap.

    Parameters
    ----------
    gradient : array of shape (n_rows, n_columns)
        Of the risk divided by ``kappa``, in X.
    U, V : array of shape (n_rows, rank) and (n_columns, rank)
        The factors of X.
    radius : float
        Of the max-norm ball.

    Examples
    --------
    >>> import numpy as np
    >>> from tribit.paper.theory import optimality_gap
    >>> U = V = np.array([[1.0], [1.0]])
    >>> round(optimality_gap(-np.ones((2, 2)), U, V, radius=1.0), 6)  # no matrix of the ball is better
    0.0
    """
    a, b = -np.sum((gradient @ V) * U, axis=1), -np.sum((gradient.T @ U) * V, axis=1)
    inner = float(np.sum(a))  # -<G, X>
    dual = _operator_norm(gradient) * np.sqrt(gradient.size)
    for floor in (1e-6, 1e-4, 1e-2, 1e-1):
        left, right = (np.maximum(each, floor * np.mean(np.abs(each)) + 1e-300) for each in (a, b))
        scaled = gradient / np.sqrt(left)[:, None] / np.sqrt(right)
        dual = min(dual, _operator_norm(scaled) * np.sqrt(np.sum(left) * np.sum(right)))
    return max(float(radius * dual - inner), 0.0)


def _slow_bound(problem: MixtureProblem, radius: float, gap: float, delta: float) -> Bound:
    """Theorem 1: ``C beta`` times a bound of the mean Kullback-Leibler divergence."""
    alpha, q, cells, slope = problem.alpha, problem.q, problem.cells, problem.lipschitz
    mean = 2.0 * slope / q * radius * _rademacher(problem)
    spread = 2.0 * alpha * slope
    deviation = _klein_rio(
        mean, spread**2 * cells / q, spread * (1.0 + 1.0 / q), np.log(1.0 / delta)
    )
    factor = 2.0 if isinstance(problem.link, Logistic) else 4.0
    factor *= problem.link.beta_alpha(alpha) / cells
    terms = {"complexity": factor * mean, "confidence": factor * deviation, "gap": factor * gap}
    return _bound(problem, terms, 1.0 - delta)


def _ball_bound(
    problem: MixtureProblem,
    radius: float,
    A: Array | None,
    M: Array | None,
    gap: float,
    delta: float,
) -> Bound:
    """Theorem 2: the lesser of ``N / t`` and ``N + (1 - t) S``."""
    t, drawn = problem.t, A is not None and M is not None
    events = 0 if drawn else 2 + (A is None and t < 1.0)
    share = delta / max(events, 1)
    noise = _noise(problem, A, M, share)
    per_cell = problem.inverse_curvature / problem.cells
    terms = {
        "noise": per_cell * (radius * noise.cut + noise.inner),
        "gap": per_cell * gap,
    }
    total = sum(terms.values())
    mask = 0.0
    if t < 1.0:
        mask = (1.0 - t) * (
            _mask_bound(problem, radius, share) if A is None else mask_deviation(problem, radius, A)
        )
    if t > 0.0 and total / t <= total + mask:
        terms = {name: value / t for name, value in terms.items()}
    else:
        terms["mask"] = mask
    return _bound(problem, terms, 1.0 if drawn else 1.0 - delta)


def _rank_bound(
    problem: MixtureProblem, rank: int, A: Array | None, M: Array | None, delta: float
) -> Bound:
    """Theorem 3: the larger root of ``x^2 = P x + Q``, squared."""
    t, rho, q, alpha = problem.t, problem.rho, problem.q, problem.alpha
    d1, d2 = problem.shape
    operator = _noise(problem, A, M, delta / 2.0).operator
    linear = {"noise": 2.0 * problem.inverse_curvature * np.sqrt(rank) * operator, "mask": 0.0}
    constant = 0.0
    if t < 1.0:
        # Shells from alpha to 2 alpha sqrt(d1 d2).
        shells = np.ceil(np.log(2.0 * np.sqrt(problem.cells)) / np.log(SHELL_RATIO))
        tau = np.log(2.0 * shells / delta)
        sides = np.log(d1 + d2)
        signs = np.sqrt(2.0 * q * max(d1, d2) * sides) + sides / 3.0
        width = 10.0 * alpha * np.sqrt(rank) * signs / q
        width += 2.0 * alpha * np.sqrt(2.0 * tau * rho / q)
        linear["mask"] = SHELL_RATIO * (1.0 - t) * width
        constant = 7.0 * (1.0 - t) * 4.0 * alpha**2 * max(1.0, rho / q) * tau
    total = sum(linear.values())
    root = 0.5 * (total + np.sqrt(total**2 + 4.0 * constant))
    square = max(float(root**2), alpha**2) / problem.cells
    # Shares of the sum, so that terms add up to the bound.
    parts = linear | {"confidence": constant / root if root else 0.0}
    whole = sum(parts.values()) or 1.0
    return _bound(
        problem, {name: square * part / whole for name, part in parts.items()}, 1.0 - delta
    )


def _noise(problem: MixtureProblem, A: Array | None, M: Array | None, delta: float) -> Noise:
    """Return the noise that was drawn, or Bernstein's bounds of it, each with probability ``1 - delta``."""
    d1, d2 = problem.shape
    if M is not None and A is not None:
        E = problem.gradient_noise(M, A)
        operator = _operator_norm(E)
        return Noise(operator * np.sqrt(problem.cells), -float(np.sum(E * M)), operator)
    if M is None:
        total, largest = problem.cells * problem.largest_variance, problem.largest_variance
        row, slope = max(d1, d2) * largest, problem.link.L_alpha(problem.alpha)
    else:
        variance = problem.gradient_variance(M)
        total = float(np.sum(variance))
        row = float(max(variance.sum(axis=0).max(), variance.sum(axis=1).max()))
        slope = float(problem.slope(M).max())
    size, once = slope / problem.q, np.log(1.0 / delta)
    signs = _bernstein(total, size, (d1 + d2 - 1) * np.log(2.0) + once)
    return Noise(
        GROTHENDIECK * signs,
        problem.alpha * _bernstein(total, size, once),
        _bernstein(row, size, np.log(d1 + d2) + once),
    )


def _mask_bound(problem: MixtureProblem, radius: float, delta: float) -> float:
    """Return the lesser a priori bound of the mask's deviation: by contraction (8) or by Schur products (9)."""
    q, rho, cells, alpha = problem.q, problem.rho, problem.cells, problem.alpha
    once, odds = np.log(1.0 / delta), max(1.0, rho / q)
    mean = 8.0 * alpha / q * radius * _rademacher(problem)
    contracted = mean + _klein_rio(
        mean, 16.0 * alpha**4 * cells * rho / q, 4.0 * alpha**2 * odds, once
    )
    signs = (sum(problem.shape) - 1) * np.log(2.0) + once
    schur = 4.0 * radius**2 * GROTHENDIECK * _bernstein(cells * rho / q, odds, signs)
    return float(min(contracted, schur)) / cells


def _rademacher(problem: MixtureProblem) -> float:
    """Return a bound of ``E sup sum eps d X`` over ``|X|_max <= 1``: ``K_G sqrt(2 log 2 (d1 + d2 - 1) n)`` (3)."""
    signs = 2.0 * np.log(2.0) * (sum(problem.shape) - 1)
    return GROTHENDIECK * float(np.sqrt(signs * problem.expected_entries))


def _bernstein(variance: float, size: float, tau: float) -> float:
    """Return the bound that a sum of independent terms exceeds with probability ``exp(-tau)`` at most."""
    return float(np.sqrt(2.0 * variance * tau) + size * tau / 3.0)


def _klein_rio(mean: float, variance: float, size: float, tau: float) -> float:
    """Return the bound that a supremum exceeds with probability ``exp(-tau)`` at most (Klein and Rio 2005)."""
    total = variance + 2.0 * size * mean
    return float(0.5 * (3.0 * size * tau + np.sqrt(9.0 * size**2 * tau**2 + 8.0 * total * tau)))


def _bound(problem: MixtureProblem, terms: dict[str, float], probability: float) -> Bound:
    quantity: Literal["mean square"] = "mean square"
    terms = {name: float(value) for name, value in terms.items()}
    return Bound(sum(terms.values()), quantity, probability, terms, problem.shape, problem.alpha**2)


def _operator_norm(matrix: Array) -> float:
    return float(np.linalg.norm(matrix, 2))


def _labels(problem: MixtureProblem, A: Any) -> Array | None:
    """Return the labels as a dense matrix of +1, -1 and 0."""
    if A is None:
        return None
    return _check_shape(problem, "A", as_observations(A).to_sparse().toarray())


def _hidden(problem: MixtureProblem, M: Any) -> Array | None:
    """Return M as a dense matrix, its entries within alpha."""
    if M is None:
        return None
    array = _check_shape(problem, "M", as_matrix(M, "M").block(slice(None)))
    wrong = np.argwhere(np.abs(array) > problem.alpha)
    if wrong.size:
        row, column = (int(place) for place in wrong[0])
        raise InvalidInputError(
            f"M is {array[row, column]:g} at row {row}, column {column}; pass entries within alpha = {problem.alpha:g}."
        )
    return array


def _check_shape(problem: MixtureProblem, name: str, array: Array) -> Array:
    if array.shape != problem.shape:
        raise InvalidInputError(
            f"{name} has the shape {array.shape} and the problem {problem.shape}; pass a matrix of that shape."
        )
    return array

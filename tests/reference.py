"""The oracle of the numeric tests: every formula of MATH.md on plain dense float64 arrays.

Nothing here calls tribit's forms, backends or solvers. The cases that several test files share (risks, links,
matrices) are at the end; they are built from the registries.
"""

from dataclasses import dataclass, fields

import numpy as np
from scipy.special import expit

from tribit.data.observations import Observations
from tribit.model.links import LINKS, Link
from tribit.model.risks import nu, pn, pnu, pu, punu, tri

# The three tables of MATH.md, section 2


def table(gammas, rho):
    """Return c[a] = (c_plus, c_minus) for a = +1, 0, -1; rho is a number or a matrix."""
    q = 1.0 - rho
    one, none = np.ones_like(q), np.zeros_like(q)
    tables = (
        {1: (one, none), 0: (none, none), -1: (none, one)},
        {1: (1 / q, -rho / q), 0: (none, one), -1: (none, one)},
        {1: (one, none), 0: (one, none), -1: (-rho / q, 1 / q)},
    )
    return {
        a: tuple(
            sum(g * t[a][side] for g, t in zip(gammas, tables, strict=True)) for side in (0, 1)
        )
        for a in (1, 0, -1)
    }


def weights(A, gammas, rho):
    """Return the matrices c_plus(A_ij), c_minus(A_ij)."""
    cells = table(gammas, np.broadcast_to(np.asarray(rho, dtype=float), A.shape))
    return tuple(
        np.select([A == 1, A == -1], [cells[1][side], cells[-1][side]], cells[0][side])
        for side in (0, 1)
    )


def inverse_weights(A, q, power):
    """Return PN's weight of every entry: 0 where unobserved, mean 1 over the observed ones."""
    w = np.where(A == 0, 0.0, np.broadcast_to(q, A.shape) ** -power)
    return w / w[A != 0].mean()


def imputed_weights(A, f0, rho, pn=0.0, power=0.0):
    """Return c_plus, c_minus of ``pn PN + (1 - pn) DR``: f0 everywhere, the observed ones corrected by 1 / q."""
    q = 1.0 - np.broadcast_to(rho, A.shape)
    w = inverse_weights(A, q, power)
    gap = np.where(A == 0, 0.0, ((A == 1) - f0) / q)
    return (
        pn * w * (A == 1) + (1 - pn) * (f0 + gap),
        pn * w * (A == -1) + (1 - pn) * (1 - f0 - gap),
    )


def gammas_of(risk):
    return (risk.pn, risk.pu, risk.nu)


class Reference:
    """Value, gradients and row curvatures of a risk at ``X = P Q'``."""

    def __init__(self, A, link, risk, rho=None):
        self.link = link
        self.plus, self.minus = weights(A, gammas_of(risk), risk.rho if rho is None else rho)

    @classmethod
    def of_weights(cls, link, plus, minus):
        """Return the risk with these two weights for each entry."""
        reference = cls.__new__(cls)
        reference.link, reference.plus, reference.minus = link, plus, minus
        return reference

    def entries(self, X):
        return self.plus * self.link.loss(X, 1) + self.minus * self.link.loss(X, -1)

    def first(self, X):
        return self.plus * self.link.first(X, 1) + self.minus * self.link.first(X, -1)

    def second(self, X):
        return self.plus * self.link.second(X, 1) + self.minus * self.link.second(X, -1)

    def size(self, X):
        """The sum of the absolute terms: what rounding errors are relative to."""
        return float(
            np.sum(np.abs(self.plus) * np.abs(self.link.loss(X, 1)))
            + np.sum(np.abs(self.minus) * np.abs(self.link.loss(X, -1)))
        )

    def value(self, P, Q):
        return float(np.sum(self.entries(P @ Q.T)))

    def row_values(self, P, Q):
        return np.sum(self.entries(P @ Q.T), axis=1)

    def gradients(self, P, Q):
        G = self.first(P @ Q.T)
        return G @ Q, G.T @ P

    def row_curvatures(self, P, Q, free):
        """Return ``sum_j max(l''_ij, 0) q_j q_j'`` for every row i, in the first ``free`` columns."""
        C = np.maximum(self.second(P @ Q.T), 0.0)
        q = Q[:, :free]
        return np.einsum("ij,ja,jb->iab", C, q, q)


def differences(function, x, step):
    """Return the derivative of a vectorised function by 4th-order central differences."""
    a, b = function(x + step) - function(x - step), function(x + 2 * step) - function(x - 2 * step)
    return (8 * a - b) / (12 * step)


# Shared cases


@dataclass(frozen=True)
class CloglogLink(Link):
    """A user's own link, not symmetric: ``f(x) = 1 - exp(-exp(x))``."""

    def probability(self, x):
        return -np.expm1(-np.exp(x))

    def loss(self, x, y):
        return -np.log(-np.expm1(-np.exp(x))) if y == 1 else np.exp(x)

    def first(self, x, y):
        w = np.exp(x)
        return -w * np.exp(-w) / -np.expm1(-w) if y == 1 else w

    def second(self, x, y):
        w = np.exp(x)
        share = w / -np.expm1(-w)
        return share * np.exp(-w) * (share - 1) if y == 1 else w


def links_of(kind):
    """Return a link of the registry at its default scale and at two others."""
    scale = [field.name for field in fields(kind)][:1]
    return [kind(), *(kind(**{name: value}) for name in scale for value in (0.4, 3.0))]


def link_id(link):
    return "-".join(
        [type(link).__name__.lower(), *(f"{getattr(link, field.name):g}" for field in fields(link))]
    )


REGISTERED_LINKS = [link for kind in LINKS.values() for link in links_of(kind)]
ALL_LINKS = [*REGISTERED_LINKS, CloglogLink()]
#: One of each kind: for tests whose number multiplies.
SOME_LINKS = [links_of(kind)[-1] for kind in LINKS.values()] + [CloglogLink()]

RHO = 0.7
RISKS = {
    "pn": pn(),
    "pu": pu(RHO),
    "nu": nu(RHO),
    "punu": punu(0.3, RHO),
    "pnu+": pnu(0.4, RHO),
    "pnu-": pnu(-0.4, RHO),
    "tri": tri(0.5, 0.3, 0.2, RHO),
}


class RhoByEntry:
    """A small model of the mask: ``rho_ij = f(a_i + c_j)``."""

    def __init__(self, shape, seed=0):
        rng = np.random.default_rng(seed)
        self.rows, self.columns = rng.normal(size=shape[0]), rng.normal(size=shape[1])

    def rho_at(self, rows, columns):
        return expit(self.rows[rows] + self.columns[columns])

    @property
    def dense(self):
        return expit(self.rows[:, None] + self.columns)


def random_matrix(shape, *, observed=0.4, likes=0.6, seed=0, gaps=False):
    """Return labels +1, 0, -1, at least one observed; with ``gaps`` some rows and columns have none."""
    rng = np.random.default_rng([seed, *shape])
    A = np.where(rng.random(shape) < likes, 1, -1) * (rng.random(shape) < observed)
    if gaps:
        A[1::4] = 0
        A[:, 2::5] = 0
    A[0, 0] = A[0, 0] or 1
    return A


MATRICES = {
    "one": random_matrix((1, 1)),
    "small": random_matrix((3, 2)),
    "equal": random_matrix((28, 28)),  # a multiple of 4 and of 7, the tiles of the tests
    "gaps": random_matrix((9, 17), gaps=True),
    "tall": random_matrix((30, 5), gaps=True),
    "full": random_matrix((6, 13), observed=1.0),
    "likes": random_matrix((10, 5), likes=1.0),
}


def random_factors(shape, k, *, size=1.0, seed=0):
    rng = np.random.default_rng([seed, 1, *shape])
    return tuple(size * rng.standard_normal((d, k)) / k**0.25 for d in shape)


def observations_of(A):
    return Observations.from_matrix(A, zeros="unobserved")

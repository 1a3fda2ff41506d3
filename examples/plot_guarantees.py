"""
Guarantees for mixtures: bounds beside errors
=============================================

A mixture of the PN, PU and NU risks has two coordinates: the weight of imputation ``t``, from 0 (PN) to 1 (PU and NU
alone), and the imputed label ``g``. The manual's page on guarantees bounds the error of the estimate for every ``t``.
This example shows bounds and errors in a tight ball, where imputation costs a little, and in a loose one, where it
helps. No bound has both orders.
"""

import numpy as np
from matplotlib import pyplot

from tribit import BinaryMatrixCompletion, Logistic
from tribit.paper.theory import MixtureProblem, first_order_price, tri_bound
from tribit.selection.gammas import mixture
from tribit.simulate import low_rank_target, observe, quantise
from tribit.solvers import AugmentedLagrangian

# %%
# Two hidden matrices with entries within 1. The first has rank 1 and entries of 1 and -1, so that its max-norm is 1 and
# the ball of radius 1 is the smallest that holds it. The second is that of experiment 2 of the paper: rank 10, and the
# radius ``sqrt(10)``, which holds every matrix of rank 10.

SIDE = 100
SETTINGS = {
    "tight ball, radius 1": (
        np.sign(low_rank_target((SIDE, SIDE), 1, random_state=0)),
        Logistic(1.5),
        1.0,
        0.5,
    ),
    "loose ball, radius 3.2": (
        low_rank_target((SIDE, SIDE), 10, alpha=1.0, random_state=0),
        Logistic(7.0),
        np.sqrt(10.0),
        0.85,
    ),
}


def problem(link, rho, t):
    """Return the mixture of weight ``t`` that imputes the label 1/2."""
    return MixtureProblem((SIDE, SIDE), mixture(t, 1 - rho, 0.5), rho, 1.0, link)


def error_and_bounds(M, link, radius, rho, t):
    """Return the mean square error, and the bounds by Theorem 1, Theorem 2, and Theorem 2 with the noise drawn."""
    A = observe(quantise(M, link, random_state=1), rho, random_state=2)
    model = BinaryMatrixCompletion(
        mixture(t, 1 - rho, 0.5),
        rho=rho,
        link=link,
        radius=radius,
        alpha=1.0,
        rank=60,
        l2=0.0,
        intercept=False,
        implicit_features=False,
        solver=AugmentedLagrangian(link.curvature(1.0)) if radius > 1.0 else "newton",
        tol=1e-4,
        max_iter=1000,
        random_state=0,
    ).fit(A)
    error = np.mean((model.complete("score") - M) ** 2)
    prior = tri_bound(problem(link, rho, t), radius=radius, M=M).bounds
    drawn = tri_bound(problem(link, rho, t), radius=radius, M=M, A=A).bounds["theorem 2"]
    return error, prior["theorem 1"].value, prior["theorem 2"].value, drawn.value


# %%
# Over ``t``. Theorem 1 falls with ``t`` in both balls, and so does the error in the loose one: PN is overconfident,
# and imputation shrinks its estimate. The first-order price of Proposition 4 rises with ``t``, as the error does in the
# tight ball. Theorem 2 follows the noise and the deviation of the mask. Bounds above 1, the square of the largest
# entry, are vacuous: a matrix of zeros has a lower one.

SHARES = (0.0, 0.1, 0.3, 0.6, 1.0)
NAMES = ("error", "Theorem 1", "Theorem 2", "Theorem 2, noise drawn")
STYLES = ("o-", "^--", "s--", "d:")
figure, axes = pyplot.subplots(2, 2, figsize=(9, 7), layout="constrained")
for axis, (name, (M, link, radius, rho)) in zip(axes[0], SETTINGS.items(), strict=True):
    found = np.array([error_and_bounds(M, link, radius, rho, t) for t in SHARES])
    price = [first_order_price(problem(link, rho, t), M) for t in SHARES]
    print(f"{name}, rho = {rho}: mean square error and bounds, and the price at first order")
    print("    t", *(f"{each:>23}" for each in NAMES), "price", sep="  ")
    for t, row, factor in zip(SHARES, found, price, strict=True):
        print(f"{t:5}", *(f"{value:23.3f}" for value in row), f"{factor:5.2f}", sep="  ")
    for values, label, style in zip(found.T, NAMES, STYLES, strict=True):
        axis.plot(SHARES, values, style, label=label)
    axis.plot(SHARES, found[0, 0] * np.array(price), color="0.6", label="error of PN x price")
    axis.set(title=f"{name}, rho = {rho}", xlabel="t, weight of imputation", yscale="log")

# %%
# Over the number of observed entries, for PN (``t = 0``) and without PN (``t = 1``).

DENSITIES = (0.1, 0.2, 0.4, 0.6, 0.9)
for axis, (name, (M, link, radius, _)) in zip(axes[1], SETTINGS.items(), strict=True):
    for t, colour in ((0.0, "tab:blue"), (1.0, "tab:red")):
        found = np.array([error_and_bounds(M, link, radius, 1 - q, t) for q in DENSITIES])
        for values, label, style in zip(found.T, NAMES, STYLES, strict=True):
            axis.plot(
                DENSITIES * np.array(M.size),
                values,
                style,
                color=colour,
                label=f"{label}, t = {t:g}",
            )
    axis.set(title=name, xlabel="observed entries, n", xscale="log", yscale="log")
for axis in axes.flat:
    axis.axhspan(1.0, axis.get_ylim()[1], color="0.92", zorder=0)
    axis.set_ylabel("mean square error")
axes[0, 1].legend(fontsize="small", loc=(0.3, 0.16))
axes[1, 1].legend(fontsize="x-small", loc=(0.03, 0.23), ncols=2)
pyplot.show()

# %%
# For data, where M is unknown, the mask's part of the bound is that of the observed mask, and the noise is the largest
# that any M within alpha can have.

print(tri_bound(problem(Logistic(1.5), 0.5, 1.0), radius=1.0, rank=2))

"""
Add a metric and a link
=======================

A metric is a function and a line in ``METRICS``, which every evaluation reads. A link is a class with four methods,
and ``link=`` takes an instance of it.
"""

from dataclasses import dataclass

import numpy as np
from matplotlib import pyplot

from tribit import BinaryMatrixCompletion, Link, Logistic, evaluate
from tribit.metrics.entries import METRICS, Metric
from tribit.simulate import low_rank_target, observe, quantise

# %%
# **A metric.** A function of a curve, which has probabilities, the scores, the labels and their weights.


def brier(curve, x, labels, weights=None):
    """Return the weighted mean of (P(like) - 1[like])^2."""
    return float(np.average((curve.probability(x) - (labels > 0)) ** 2, weights=weights))


METRICS["brier"] = Metric("Brier score", brier)

# %%
# **A link.** A class with four elementwise methods. This one is Student's distribution with two degrees of freedom:
# its tails are heavier than the logistic's, so that outlying labels count less.


@dataclass(frozen=True)
class Student(Link):
    """``f(x) = (1 + x / sqrt(1 + x^2)) / 2``."""

    def probability(self, x):
        return np.where(x < 0, self.tail(-np.abs(x)), 1 - self.tail(-np.abs(x)))

    def loss(self, x, y):
        z = y * x
        above = -np.log1p(-self.tail(-np.abs(z)))
        return np.where(z < 0, np.log(2 * np.hypot(1, z)) - np.arcsinh(z), above)

    def first(self, x, y):
        z = y * x
        return -y * np.exp(-np.arcsinh(z)) / np.hypot(1, z) ** 2

    def second(self, x, y):
        z = y * x
        r = np.hypot(1, z)
        return np.exp(-np.arcsinh(z)) * (r + 2 * z) / r**4

    def tail(self, z):
        """Return f for z <= 0, with no difference of nearly equal numbers."""
        return np.exp(np.arcsinh(z)) / (2 * np.hypot(1, z))


# %%
# A simulated table with one flipped label in ten, fitted with both links at the same penalty. The difference is
# within the confidence intervals: the penalty limits the influence of outlying labels already.

hidden = low_rank_target((150, 100), 2, alpha=8.0, random_state=0)
labels = quantise(hidden, Logistic(), random_state=1)
odd = np.random.default_rng(2).random(labels.shape) < 0.1
noisy = observe(np.where(odd, -labels, labels), 0.6, random_state=3)
train, test = noisy.split(0.2, random_state=4)
for link in (Logistic(), Student()):
    model = BinaryMatrixCompletion(
        (1, 0, 0),
        link=link,
        rank=2,
        l2=1.0,
        l2_intercept=5.0,
        implicit_features=False,
        random_state=0,
    ).fit(train)
    print(f"{link}:")
    print(
        "  "
        + "\n  ".join(f"{name}: {fact}" for name, fact in evaluate(model, test).facts().items())
    )
del METRICS["brier"]

# %%
# The losses of a like: for very negative scores the logistic loss grows linearly, Student's logarithmically.

x = np.linspace(-8, 4, 200)
figure, axis = pyplot.subplots(figsize=(6, 3.2), layout="constrained")
for link, colour in ((Logistic(), "0.5"), (Student(), "tab:blue")):
    loss = link.loss(x, 1)
    axis.plot(x, loss, color=colour)
    axis.annotate(
        type(link).__name__, (x[20], loss[20]), (4, 6), textcoords="offset points", color=colour
    )
axis.set_xlabel("score x of a like")
axis.set_ylabel("loss")
pyplot.show()

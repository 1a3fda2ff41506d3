"""
Entries that are missing not at random
======================================

Users rate items that they chose, and choose items that they expect to like. A model of such ratings overestimates
unchosen items. ``target="all"`` weights validation entries by the inverse of their propensity, the probability of
being observed, so that hyperparameters and probabilities are for all user-item pairs.
"""

import numpy as np
from matplotlib import pyplot
from scipy.special import expit

from tribit import BinaryMatrixCompletion, Logistic, Observations, evaluate
from tribit.metrics.entries import reliability
from tribit.propensity import cross_fitted
from tribit.simulate import low_rank_target, quantise

# %%
# In this simulation the labels of all pairs are known. Exposure grows with preference: most ratings are likes,
# although less than half of all pairs would be.

tastes = low_rank_target((180, 120), 3, alpha=6.0, random_state=0) - 0.5
signs = quantise(tastes, Logistic(), random_state=1)
draws = np.random.default_rng(2)
chosen = draws.random(tastes.shape) < expit(1.2 * tastes - 2.0)
seen = Observations.from_matrix(np.where(chosen, signs, 0))
others = Observations.from_matrix(np.where(chosen, 0, signs))
print(
    f"likes among the ratings: {np.mean(seen.labels > 0):.2f}, elsewhere: {np.mean(others.labels > 0):.2f}"
)

# %%
# A cross-fitted model of the propensity. The base rate rises with it.

mask = cross_fitted(seen, random_state=0)
q = mask.probability_at(seen.rows, seen.columns)
fifths = np.array_split(np.argsort(q), 5)
print(
    "likes by fifths of rising propensity:",
    *(f"{np.mean(seen.labels[part] > 0):.2f}" for part in fifths),
)

# %%
# Two fits to the same ratings, measured on unchosen pairs.

models = {
    'target="observed"': BinaryMatrixCompletion(random_state=0).fit(seen),
    'target="all"': BinaryMatrixCompletion(target="all", random_state=0).fit(seen),
}
figure, axis = pyplot.subplots(figsize=(5, 4), layout="constrained")
axis.plot([0, 1], [0, 1], color="0.8")
for (name, model), colour in zip(models.items(), ("0.5", "tab:blue"), strict=True):
    found = evaluate(model, others)
    print(
        f"{name:18} log-loss {found.log_loss:.3f}   calibration error {found.calibration_error:.3f}"
    )
    curve = reliability(model.predict_proba(others.rows, others.columns), others.labels)
    axis.plot(curve.predicted, curve.observed, "o-", color=colour, label=name)
axis.set_xlabel("probability of a like, as predicted")
axis.set_ylabel("share of likes among unchosen pairs")
axis.legend(frameon=False)
pyplot.show()

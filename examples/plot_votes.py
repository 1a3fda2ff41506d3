"""
Votes of a parliament
=====================

Yes (+1), no (-1), absent (unobserved). A matrix of votes is nearly of rank one: the position of a member between
two sides explains most of it. The completion predicts the votes of absent members, and its latent factors show the
positions.
"""

import numpy as np
from matplotlib import pyplot
from scipy.special import expit

from tribit import BinaryMatrixCompletion, Observations, evaluate
from tribit.evaluation.held_out import fit_biases

# %%
# 100 simulated members of two parties, 250 votes. Most votes divide the parties; one in five does not.

rng = np.random.default_rng(0)
party = np.repeat([-1, 1], 50)
position = party + rng.normal(0, 0.5, 100)
divides = 2.0 * rng.standard_normal(250) * (rng.random(250) < 0.8)
ease = rng.normal(0.5, 1.0, 250)
yes = rng.random((100, 250)) < expit(np.outer(position, divides) + ease)
absent = rng.random(yes.shape) < 0.3
votes = Observations.from_matrix(np.where(absent, 0, np.where(yes, 1, -1)))
train, test = votes.split(0.2, random_state=0)
print(train)

# %%
# Biases of members and motions are the baseline. Latent factors add the sides.

model = BinaryMatrixCompletion(random_state=0).fit(train)
print(model.search_)
for name, fitted in {"row and column biases": fit_biases(train), "completion": model}.items():
    found = evaluate(fitted, test)
    print(
        f"{name:24} wrong votes {100 * found.error_rate:4.1f}%   log-loss {found.log_loss:.3f}   AUC {found.auc:.3f}"
    )

# %%
# The first factor is the position, up to its sign and scale.

U, _, _ = np.linalg.svd(model.row_factors_ @ model.column_factors_.T, full_matrices=False)
first = U[:, 0] * np.sign(U[:, 0] @ position)
print(f"correlation with the hidden position: {np.corrcoef(first, position)[0, 1]:.2f}")

figure, axis = pyplot.subplots(figsize=(5, 4), layout="constrained")
for side, colour, name in ((-1, "tab:red", "one party"), (1, "tab:blue", "the other")):
    axis.plot(position[party == side], first[party == side], "o", color=colour)
    axis.text(0.5 + 0.25 * side, 0.5 + 0.05 * side, name, color=colour, transform=axis.transAxes)
axis.set_xlabel("hidden position of a member")
axis.set_ylabel("first factor of the completion")
pyplot.show()

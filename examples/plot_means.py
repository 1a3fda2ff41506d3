"""
Means, ranks and sensitivity from part of a benchmark
=====================================================

Twenty new models answer a tenth of the questions of a benchmark, which older models have answered as a whole. The
share of right answers to all questions has a confidence interval, the models have ranks, and a curve shows how wrong
they may be if the questions were not drawn at random.
"""

import numpy as np
from matplotlib import pyplot
from scipy.special import expit

from tribit import Observations, plots
from tribit.estimates import estimate_means

# %%
# Simulated answers of 80 models to 400 questions: each has an ability, and each question a difficulty. The first twenty
# models are seen in part.

rng = np.random.default_rng(1)
ability, difficulty = rng.normal(1, 1, (80, 1)), rng.normal(0, 2, 400)
right = rng.random((80, 400)) < expit(ability - difficulty)
asked = rng.random(right.shape) < 0.1
asked[20:] = True
rows, columns = np.nonzero(asked)
names = [f"new {n}" for n in range(20)] + [f"model {n}" for n in range(60)]
seen = Observations(
    rows, columns, np.where(right[rows, columns], 1, -1), right.shape, names, np.arange(400)
)

# %%
# **Means.** Predictions by the other models make the intervals narrower than those of the shares of right answers; they
# hold for each model whatever it is like. Models that are seen as a whole have an interval of width 0 and are left out.

means = estimate_means(seen, level=0.9, random_state=0)
new = means.take(range(20))
truth = right[:20].mean(axis=1)
print(f"mean error of the estimates         {np.abs(new.mean - truth).mean():.3f}")
print(f"mean error of the shares            {np.abs(new.plain - truth).mean():.3f}")
print(
    f"intervals that contain the truth    {np.mean((new.lower <= truth) & (truth <= new.upper)):.0%}"
)
_, axis = pyplot.subplots(figsize=(6, 4.5), layout="constrained")
plots.means(new, axis=axis)
pyplot.show()

# %%
# **Ranks.** All true ranks are within these limits at once with a probability of 90%.

_, axis = pyplot.subplots(figsize=(6, 4.5), layout="constrained")
plots.ranks(new, axis=axis)
pyplot.show()

# %%
# **Sensitivity.** Suppose that a right answer makes a question more likely to be reported. The limits widen with the
# odds ratio, and the mark shows where a model that is better than 70% would no longer be so for sure.

best = new.take(np.argsort(-new.mean)[[0, 2, 4]])
print(dict(zip(best.ids.tolist(), best.turns_at(0.7).round(2).tolist(), strict=True)))
_, axis = pyplot.subplots(figsize=(6, 3.4), layout="constrained")
plots.sensitivity(best, threshold=0.7, axis=axis)
pyplot.show()

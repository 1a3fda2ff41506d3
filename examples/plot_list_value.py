"""
How good are these lists?
=========================

Two systems recommend ten films to each user. A survey has labels of randomly shown films, few of which are on a list.
The share of likes in the lists, had all listed films been seen, has a confidence interval, and so has the difference
of the systems.
"""

import numpy as np
from matplotlib import pyplot
from scipy.special import expit

from tribit import BinaryMatrixCompletion, Observations, Recommender

# %%
# Simulated likes, the ratings that a model is fitted to, and a survey of other films, each shown with the same
# probability.

rng = np.random.default_rng(0)
tastes = rng.normal(size=(150, 3)) @ rng.normal(size=(3, 80)) + rng.normal(0, 0.8, 80)
likes = rng.random(tastes.shape) < expit(tastes)
rated = rng.random(tastes.shape) < 0.25
shown = ~rated & (rng.random(tastes.shape) < 0.15)


def entries(mask):
    rows, columns = np.nonzero(mask)
    return Observations(rows, columns, np.where(likes[rows, columns], 1, -1), mask.shape)


model = BinaryMatrixCompletion((1, 0, 0), rank=3, l2=2.0, search=False, random_state=0)
recommender = Recommender(model, random_state=0).fit(entries(rated))

# %%
# Lists of the model, of the most liked films, and of films at random.

popular = np.where(rated & likes, 1.0, 0.0).sum(axis=0) + rng.random(80) / 10
scores = {"popular": np.broadcast_to(popular, rated.shape), "random": rng.random(rated.shape)}
lists = {"model": recommender.recommend(n=10, ranker=False)}
for name, values in scores.items():
    best = np.argsort(np.where(rated, np.inf, -values), axis=1)[:, :10]
    lists[name] = {"row": np.repeat(np.arange(150), 10), "column": best.ravel()}

# %%
# The survey evaluates all of them. Labels of the fit would be refused.

found = recommender.value(lists, entries(shown), versus="random")
print(found.to_frame()[["system", "likes", "likes_lower", "likes_upper", "labelled"]])
print(found.to_frame()[["system", "difference", "difference_lower", "difference_upper"]])

# %%
# In this simulation the true numbers are known.

figure, axis = pyplot.subplots()
heights = np.arange(len(found))
limits = np.abs(np.array([found.lower, found.upper]) - found.value) * found.length
axis.errorbar(found.length * found.value, heights, xerr=limits, fmt="o", label="estimate, 95%")
truth = []
for name in found.systems:
    cells = lists[name].table() if name == "model" else lists[name]
    truth.append(10 * likes[np.asarray(cells["row"]), np.asarray(cells["column"])].mean())
axis.plot(truth, heights, "x", color="black", label="truth")
axis.set(xlabel="likes per list of ten", yticks=heights)
axis.set_yticklabels(found.systems)
axis.legend()
pyplot.show()

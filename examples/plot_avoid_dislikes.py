"""
Top-N recommendations that avoid dislikes
=========================================

Users are exposed to popular items near their taste, and dislike some of them. A list ordered by exposure finds many
likes and shows many dislikes; one ordered by the probability of a like shows few of both. ``avoid_dislikes`` is the
number of likes that you would give up to avoid a dislike.
"""

import numpy as np
from matplotlib import pyplot
from scipy.special import expit

from tribit import Observations, Recommender
from tribit.evaluation.ranking import ranking_report

# %%
# Simulated users and items lie on a circle. Users like items near them, and are exposed to items that are popular and
# a little to one side of them. A quarter of the ratings is later than the fit. (If exposure hardly follows taste, the
# order by P(like) alone can lie above the curve: measure it on your own table.)

draws = np.random.default_rng(0)
turn = draws.uniform(0, 2 * np.pi, (250, 1)) - draws.uniform(0, 2 * np.pi, 150)
popularity = draws.normal(-2.5, 0.7, 150)
liked = draws.random(turn.shape) < expit(2.5 * np.cos(turn))
come = draws.random(turn.shape) < expit(popularity + 1.8 * np.cos(turn - 1.0))
train, later = Observations.from_matrix(np.where(come, np.where(liked, 1, -1), 0)).split(
    0.25, random_state=0
)
recommender = Recommender(random_state=0).fit(train)
print(train)

# %%
# The same model and ranker serve for every weight, without a new fit.

weights = [0.0, 0.5, 1.0, 2.0, 4.0]
reports = [
    ranking_report(
        recommender.model_, train, later, ranker=recommender.ranker_, avoid_dislikes=weight
    )
    for weight in weights
]
alone = ranking_report(recommender.model_, train, later)
print("avoid_dislikes  likes found  dislikes shown  dislikes per like")
for weight, report in zip(weights, reports, strict=True):
    counts = (
        f"{report.likes_shown:11}  {report.dislikes_shown:14}  {report.dislikes_per_like:17.2f}"
    )
    print(f"{weight:14}  {counts}")

figure, axis = pyplot.subplots(figsize=(6, 3.8), layout="constrained")
points = np.array([(report.dislikes_shown, report.likes_shown) for report in reports])
axis.plot(*points.T, "o-")
for weight, point in zip(weights, points, strict=True):
    name = f"avoid_dislikes = {weight:g}" if weight == 0 else f"{weight:g}"
    axis.annotate(name, point, (4, -12), textcoords="offset points", color="tab:blue")
axis.plot(alone.dislikes_shown, alone.likes_shown, "s", color="0.4")
axis.annotate(
    "P(like) alone",
    (alone.dislikes_shown, alone.likes_shown),
    (6, -3),
    textcoords="offset points",
    color="0.4",
)
axis.set_xlim(0, 1.4 * points[:, 0].max())
axis.set_ylim(0, 1.15 * points[:, 1].max())
axis.set_xlabel("dislikes shown in all lists of ten (fewer are better)")
axis.set_ylabel("likes found (more are better)")
pyplot.show()

# %%
# A list has the expected likes and dislikes of each place beside its probability.

table = recommender.recommend([0], 4, avoid_dislikes=2.0).table()
for name in ("column", "probability", "expected_likes", "expected_dislikes"):
    print(f"{name:18}", *(f"{value:8.3g}" for value in table[name]))

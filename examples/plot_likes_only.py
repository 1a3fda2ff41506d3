"""
Likes alone
===========

Purchases, plays, bookmarks: nobody says what they dislike. ``BinaryMatrixCompletion()`` then ranks by the probability
that a cell is seen and liked, which is all that such a table determines.
"""

import numpy as np
from matplotlib import pyplot
from scipy.special import expit

from tribit import BinaryMatrixCompletion, evaluate
from tribit.evaluation.ranking import ranking_report

# %%
# 200 people, 120 things, tastes of rank two; a thing that is liked is bought with a probability that depends on how
# well known it is. A fifth of the purchases is held out.

draws = np.random.default_rng(0)
tastes = 1.5 * draws.standard_normal((200, 2)) @ draws.standard_normal((2, 120))
known = expit(draws.normal(-1.0, 1.0, 120))
bought = (draws.random(tastes.shape) < expit(tastes) * known).astype(int)
later = bought * (draws.random(bought.shape) < 0.2)
train = bought - later
print(f"{train.sum()} purchases ({100 * train.mean():.0f}% of the cells), {later.sum()} held out")

# %%
# The search knows by itself that one label alone was seen, and says what its probabilities mean.

model = BinaryMatrixCompletion(random_state=0).fit(train)
print(model.search_)
report = evaluate(model, later, train).unseen
print(f"a held-out purchase stands above an unseen cell with probability {report.auc:.3f}")

# %%
# Lists of what comes next, beside the most popular things for everybody.

popularity = np.broadcast_to(train.sum(axis=0), train.shape)
lengths = np.arange(1, 21)
recall = {
    name: [ranking_report(scores, train, later, n).recall for n in lengths]
    for name, scores in {"completion": model, "most popular": popularity}.items()
}
figure, axis = pyplot.subplots(figsize=(6, 3.5), layout="constrained")
for (name, values), colour in zip(recall.items(), ("tab:blue", "0.5"), strict=True):
    axis.plot(lengths, values, color=colour)
    axis.annotate(name, (20, values[-1]), (4, -3), textcoords="offset points", color=colour)
    print(f"{name:14} finds {100 * values[9]:.0f}% of the held-out purchases in lists of ten")
axis.set_xlim(1, 26)
axis.set_ylim(bottom=0)
axis.set_xlabel("length of a list")
axis.set_ylabel("share of held-out purchases found")
pyplot.show()

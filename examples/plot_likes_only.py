"""
Likes only
==========

Purchases, plays and bookmarks are implicit feedback without dislikes. ``BinaryMatrixCompletion()`` then ranks by
the probability that an entry is observed and liked.
"""

import numpy as np
from matplotlib import pyplot
from scipy.special import expit

from tribit import BinaryMatrixCompletion, evaluate
from tribit.evaluation.ranking import ranking_report

# %%
# 200 simulated users, 120 items, tastes of rank two. A liked item is bought with a probability that depends on its
# popularity. A fifth of the purchases is the test set.

rng = np.random.default_rng(0)
tastes = 1.5 * rng.standard_normal((200, 2)) @ rng.standard_normal((2, 120))
known = expit(rng.normal(-1.0, 1.0, 120))
bought = (rng.random(tastes.shape) < expit(tastes) * known).astype(int)
later = bought * (rng.random(bought.shape) < 0.2)
train = bought - later
print(f"{train.sum()} purchases ({100 * train.mean():.0f}% of the entries), {later.sum()} held out")

# %%
# The search recognises that there is a single label, and reports the meaning of the probabilities.

model = BinaryMatrixCompletion(random_state=0).fit(train)
print(model.search_)
report = evaluate(model, later, train).unseen
print(f"a test purchase is ranked above an unobserved entry with probability {report.auc:.3f}")

# %%
# Recommendations, compared with the most popular items for every user.

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

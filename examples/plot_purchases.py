"""
Purchases: likes only, and newcomers
====================================

Purchases have no dislikes. The model ranks items by the probability that a customer buys them; customers who joined
after the fit are folded in from their first purchases.
"""

import numpy as np
from matplotlib import pyplot

from tribit import Observations, Recommender
from tribit.evaluation.ranking import ranking_report
from tribit.simulate import tables

# %%
# One purchase a line. Each customer joined in one of two years.

table = tables.purchases(random_state=0)
table.head()

# %%
# The model is fitted on customers of the first year. Without a column of values every line is a like.

known, newcomers = (
    Observations.from_frame(group, row="customer", column="item")
    for _, group in table.groupby("joined")
)
recommender = Recommender(random_state=0).fit(known)
recommender.info()

# %%
# Half of the purchases of each newcomer are known, the others are to be predicted. There is no new fit.

first, later = newcomers.split(0.5, random_state=0)
again = recommender.fold_in(first)
again.recommend("customer 290", 5)

# %%
# The share of later purchases that lists of increasing length contain, beside the most popular items for everybody.

popular = np.tile(again.seen_.counts[1], (again.shape_[0], 1))
for name, scores in {"folded in": again.model_, "most popular": popular}.items():
    found = [ranking_report(scores, again.seen_, later, n).recall for n in range(1, 21)]
    pyplot.plot(range(1, 21), found, label=name)
pyplot.legend(frameon=False)
pyplot.gca().set(xlabel="length of a list", ylabel="share of later purchases found")
pyplot.show()

"""
Ratings: recommendations with reasons
=====================================

From a table of ratings to top-N recommendations, an evaluation and the reasons for each recommendation.
"""

from matplotlib import pyplot

from tribit import Observations, Recommender
from tribit.simulate import tables

# %%
# A data frame with one rating a line, here simulated. Read your own with ``pandas.read_csv``.

ratings = tables.ratings(random_state=0)
ratings.head()

# %%
# Four stars and more are a like. A tenth of the ratings is the test set; the fit tunes all hyperparameters on the rest.

data = Observations.from_frame(ratings, row="user", column="item", value="stars", like_at=4)
train, test = data.split(0.1, random_state=0)
recommender = Recommender(random_state=0).fit(train)
recommender.evaluate(test)

# %%
# The best films for one user, with the probability of a like and its interval.

recommender.recommend("user3", 5)

# %%
# Why the first film? The contribution of each rating of this user to its score.

why = recommender.explain("user3", "comedy 72", 8)
why

# %%
# The same as a picture: ratings that speak for the film in blue, against it in red.

reasons = why.to_frame().iloc[::-1]
colours = ["tab:blue" if each > 0 else "tab:red" for each in reasons.contribution]
figure, axis = pyplot.subplots(layout="constrained")
axis.barh(reasons.item, reasons.contribution, color=colours)
axis.set_xlabel(f"contribution to the score of {why.column} (log-odds)")
pyplot.show()

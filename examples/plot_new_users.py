"""
Cold start: new users with few ratings or with features
=======================================================

``fold_in`` adds new users to a model without a new fit: with the items fixed, each user is a small convex problem.
Features of users (age, country) predict for those without ratings.
"""

import numpy as np
import pandas as pd
from matplotlib import pyplot
from scipy.special import expit

from tribit import BinaryMatrixCompletion, Observations

# %%
# 240 simulated users, 80 films of three genres. Tastes depend on the decade of birth, and vary within it.

rng = np.random.default_rng(0)
genres = rng.integers(3, size=80)
decades = rng.integers(4, size=240)
tastes = 2.0 * rng.standard_normal((4, 3))[decades] + rng.standard_normal((240, 3))
probability = expit(tastes[:, genres] + rng.normal(0, 0.5, 80))
liked = rng.random(probability.shape) < probability
about = pd.DataFrame({"born": [f"{1960 + 10 * decade}s" for decade in decades]})

old, new = np.arange(180), np.arange(180, 240)
table = np.where(rng.random(liked.shape) < 0.25, np.where(liked, 1, -1), 0)
ratings = Observations.from_matrix(table[old])

# %%
# One model without features and one with. The 60 others are folded in with their first ratings, from none to 20.


def folded(model, n_given, features):
    """Return P(like) of the new users, given n_given ratings of each."""
    given = np.zeros((new.size, 80))
    for place, person in enumerate(new):
        films = np.random.default_rng(person).permutation(80)[:n_given]
        given[place, films] = np.where(liked[person, films], 1, -1)
    more = model.fold_in(given, row_features=about.iloc[new] if features else None)
    return more.complete()[old.size :], given != 0


plain = BinaryMatrixCompletion(random_state=0).fit(ratings)
featured = BinaryMatrixCompletion(random_state=0).fit(ratings, row_features=about.iloc[old])
numbers = [1, 2, 5, 10, 20]
errors = {"ratings alone": [], "ratings and decade": []}
for n_given in numbers:
    for name, model in zip(errors, (plain, featured), strict=True):
        p, given = folded(model, n_given, model is featured)
        wrong = (p >= 0.5) != liked[new]
        errors[name].append(100 * wrong[~given].mean())
for name, values in errors.items():
    print(f"{name:20}", *(f"{n}: {value:.1f}%" for n, value in zip(numbers, values, strict=True)))

# %%
# Users without any rating are predicted from features alone.

unrated = featured.fold_in(row_features=about.iloc[new])
wrong = np.mean((unrated.complete()[old.size :] >= 0.5) != liked[new])
print(f"no rating at all, decade known: {100 * wrong:.1f}% wrong")

figure, axis = pyplot.subplots(figsize=(6, 3.5), layout="constrained")
for (name, values), colour in zip(errors.items(), ("0.5", "tab:blue"), strict=True):
    axis.plot(numbers, values, "o-", color=colour, label=name)
axis.plot(0, 100 * wrong, "s", color="tab:blue")
axis.annotate(
    "decade alone", (0, 100 * wrong), (6, -3), textcoords="offset points", color="tab:blue"
)
axis.set_xlabel("ratings of a new user")
axis.set_ylabel("error rate on other films, %")
axis.legend(frameon=False)
pyplot.show()

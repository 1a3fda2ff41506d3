"""
From a CSV file to explained recommendations
============================================

The input is a table of ratings. The output is a probability of a like for every pair, recommendations of unrated
items, the reasons for each of them, and measures on a test set.
"""

import csv
import tempfile
from pathlib import Path

import numpy as np
from matplotlib import pyplot

from tribit import Recommender
from tribit.data.reading import observations_from_file

# %%
# A file with users, films and stars. Here 150 users and 80 films of four genres are simulated; users differ in their
# taste for each genre.

rng = np.random.default_rng(0)
genres = np.array(["drama", "comedy", "crime", "fantasy"])[rng.integers(4, size=80)]
films = np.array([f"{genre} {number}" for number, genre in enumerate(genres)])
likings = {genre: rng.normal(0, 1.3, 150) for genre in np.unique(genres)}
hidden = np.column_stack([likings[genre] for genre in genres]) + rng.normal(0, 0.5, 80)
stars = np.clip(np.round(3.6 + hidden + rng.normal(0, 0.7, hidden.shape)), 1, 5).astype(int)
people, places = np.nonzero(rng.random(stars.shape) < 0.25)

path = Path(tempfile.mkdtemp()) / "ratings.csv"
with path.open("w", newline="", encoding="utf-8") as file:
    writer = csv.writer(file)
    writer.writerow(["user", "film", "stars"])
    writer.writerows(
        [f"user{i}", films[j], stars[i, j]] for i, j in zip(people, places, strict=True)
    )
print("".join(path.read_text(encoding="utf-8").splitlines(keepends=True)[:5]))

# %%
# Read it, hold out a test set, fit. Four stars and more are a like. All hyperparameters are tuned by the fit.

ratings = observations_from_file(path, row="user", column="film", value="stars", like_at=4)
train, held_out = ratings.split(0.1, random_state=0)
recommender = Recommender(random_state=0).fit(train)
print(recommender.info())

# %%
# Measures on the test set, with confidence intervals and two baselines.

print(recommender.evaluate(held_out))

# %%
# A list, best first: the probability of a like with its interval, and expected likes and dislikes.

lists = recommender.recommend(["user3"], 8)
print(lists)

# %%
# The contribution of each rating of ``user3`` to the score of the first film.

why = recommender.explain("user3", lists.columns[0, 0])
print(why)

# %%
# The largest contributions as a picture.

figure, axis = pyplot.subplots(figsize=(6, 3.2), layout="constrained")
reasons = why.entries[:8]
names = [f"{'liked' if each.label > 0 else 'disliked'} {each.column}" for each in reasons]
effects = [each.contribution for each in reasons]
axis.barh(names, effects, color=["tab:blue" if each > 0 else "tab:red" for each in effects])
axis.axvline(0, color="black", linewidth=0.6)
axis.invert_yaxis()
axis.set_xlabel(f"contribution to the score of {why.column} for user3 (log-odds)")
pyplot.show()

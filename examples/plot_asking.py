"""
Which questions to ask a new model
==================================

A new model can be run on 40 of 400 questions of a benchmark, which older models have answered as a whole. Which 40?
The design decides how well its share of right answers over all questions is known.
"""

import numpy as np
from matplotlib import pyplot
from scipy.special import expit

from tribit import Observations
from tribit.estimates import Plan, ask_cells, simulate_asking

# %%
# Simulated answers of 120 models: each has an ability, and each question a difficulty.

rng = np.random.default_rng(0)
ability, difficulty = rng.normal(1, 1, (120, 1)), rng.normal(0, 2, 400)
right = rng.random((120, 400)) < expit(ability - difficulty)
table = Observations.from_matrix(np.where(right, 1, -1))

# %%
# The questions for one model of which nothing is known yet. A quarter is chosen by the expected gain, and three
# quarters are drawn: questions with uncertain answers have larger probabilities.

known = np.flatnonzero(table.rows < 119)
asked = ask_cells(table.take(known), budget=40, rows=[119], random_state=0)
drawn = asked.probability < 1
figure, axis = pyplot.subplots()
axis.scatter(asked.prediction[drawn], asked.probability[drawn], label="drawn at random")
axis.scatter(asked.prediction[~drawn], asked.probability[~drawn], label="chosen by gain")
axis.set(xlabel="predicted probability of a right answer", ylabel="probability of being asked")
axis.legend()

# %%
# A simulation on models with known answers compares designs before anything is paid for: the worth is the number of
# questions drawn with equal probabilities that one asked question is worth. Each model is asked one question at a time
# while they are chosen by gain; the others are drawn at once.

new = np.arange(30)
worths = {}
for design in ("random", "pps", "mixed"):
    plan = Plan(40 * new.size, batch=new.size if design == "mixed" else None, design=design)
    for guarantee in ("row", "rows"):
        found = simulate_asking(table, plan, rows=new, guarantee=guarantee, random_state=0)
        worths[design, guarantee] = found.worth
        print(
            f"{design:6} {guarantee:4}", found.facts()["worth"], found.facts()["coverage"], sep="  "
        )

# %%
# The guarantee "rows" is calibrated by replays of the same design on the models that were seen as a whole.

figure, axis = pyplot.subplots()
for place, guarantee in enumerate(("row", "rows")):
    heights = [worths[design, guarantee] for design in ("random", "pps", "mixed")]
    axis.bar(np.arange(3) + 0.4 * place, heights, 0.4, label=f'guarantee="{guarantee}"')
axis.axhline(1, color="0.6")
axis.set(ylabel="worth of a question", xticks=np.arange(3) + 0.2)
axis.set_xticklabels(["random", "pps", "mixed"])
axis.legend()
pyplot.show()

"""
A benchmark: evaluate models on part of it
==========================================

Each model was run on some tasks of a benchmark, and stronger models on harder ones. Completing the table gives every
model an estimate over all tasks.
"""

from matplotlib import pyplot

from tribit import BinaryMatrixCompletion, Observations
from tribit.simulate import tables

# %%
# One pair of model and task a line. In this simulation all results are known, and ``run`` marks those to use.

table = tables.benchmark(random_state=0)
table.head()

# %%
# Solved is 1, failed is 0.

run = table[table.run]
results = Observations.from_frame(run, row="model", column="task", value="solved")
model = BinaryMatrixCompletion(random_state=0).fit(results)
print(model.search_)

# %%
# The share of solved tasks of each model: among those that were run, with the predictions for the others, and in truth.

table["completed"] = table.solved.where(table.run, model.predict_proba(table.model, table.task))
means = table.groupby("model")[["solved", "completed"]].mean()
means["run"] = run.groupby("model").solved.mean()
means.head()

# %%
# Strong models look worse than they are, as they were run on harder tasks.

axis = means.plot.scatter("solved", "run", color="0.6", label="tasks that were run")
means.plot.scatter("solved", "completed", ax=axis, label="completed")
axis.axline((0, 0), slope=1, color="0.8")
axis.set(xlabel="share solved of all tasks", ylabel="estimate")
pyplot.show()

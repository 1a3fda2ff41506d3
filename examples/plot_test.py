"""
A test: abilities and difficulties
==================================

Persons answered some of the questions of a test. The abilities of persons and the difficulties of questions are user
and item biases, with standard errors.
"""

from matplotlib import pyplot

from tribit import BinaryMatrixCompletion, Observations, positions
from tribit.simulate import tables

# %%
# Right answers are 1, wrong ones 0; a question that a person was not given has no line.

table = tables.answers(300, 25, random_state=0)
table.head()

# %%
# Biases alone (``rank=0``) are a Rasch model. Leave ``rank`` out to let the fit decide whether one ability suffices.

answers = Observations.from_frame(table, row="person", column="question", value="correct")
model = BinaryMatrixCompletion(rank=0, random_state=0).fit(answers)
print(model.search_)

# %%
# The ability of a person is the bias, and the difficulty of a question minus the bias.

found = positions(model, answers, n=0)
found.rows.to_frame().nlargest(5, "bias")

# %%
# All questions, from easy to difficult, above the distribution of abilities on the same scale.

questions = found.columns.to_frame().sort_values("bias", ascending=False)
figure, (top, bottom) = pyplot.subplots(
    2, sharex=True, height_ratios=(4, 1), figsize=(6, 7), layout="constrained"
)
top.errorbar(-questions.bias, questions.column, xerr=1.96 * questions.se_bias, fmt="o")
bottom.hist(found.rows.biases, bins=20, color="0.7")
bottom.set(xlabel="difficulty with 95% interval; ability (log-odds)", ylabel="persons")
pyplot.show()

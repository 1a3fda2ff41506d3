"""
Votes: a map of members
=======================

Members of a parliament vote yes or no, or are absent. Two latent factors place them on a map, with an ellipse of
uncertainty around each.
"""

from matplotlib import pyplot
from matplotlib.patches import Ellipse

from tribit import BinaryMatrixCompletion, Observations, evaluate, positions
from tribit.simulate import tables

# %%
# One vote a line: 1 is yes and -1 no. An absent member has no line.

table = tables.votes(random_state=0)
table.head()

# %%
# Parties are not passed to the fit. Are the votes of a test set predicted better than by biases alone?

train, test = Observations.from_frame(table, row="member", column="motion", value="vote").split(
    0.1, random_state=0
)
model = BinaryMatrixCompletion(rank=2, implicit_features=False, random_state=0).fit(train)
evaluate(model, test, train)

# %%
# Rotation and signs of the map are fixed. ``polarity`` names a member with positive coordinates.

found = positions(model, train, polarity="member 0")
found.rows.to_frame().head()

# %%
# Members by party, with ellipses that hold their position with probability 0.9; motions are grey.

members = found.rows
colours = table.groupby("member").party.first()[members.ids].str.lower()
axis = pyplot.figure(figsize=(6, 5)).add_subplot(xlabel="first axis", ylabel="second axis")
axis.plot(*found.columns.coordinates.T, ".", color="0.85")
axis.scatter(*members.coordinates.T, s=8, c=colours)
for place, (width, height, angle), colour in zip(
    members.coordinates, members.ellipses(0.9), colours, strict=True
):
    axis.add_patch(Ellipse(place, width, height, angle=angle, color=colour, alpha=0.06))
pyplot.show()

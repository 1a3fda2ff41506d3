"""
Calibration, intervals and conformal sets
=========================================

Three measures of uncertainty from held-out entries: calibrated probabilities, intervals for single entries, and
sets of labels with a guaranteed coverage.
"""

import numpy as np
from matplotlib import pyplot

from tribit import BinaryMatrixCompletion, Logistic
from tribit.metrics.entries import reliability
from tribit.simulate import low_rank_target, observe, quantise
from tribit.uncertainty import calibrate, conformal, laplace

# %%
# Simulated data, so that the probability of every entry is known. The penalty is far too large, on purpose.

tastes = low_rank_target((200, 120), 2, alpha=8.0, random_state=0)
signs = quantise(tastes, Logistic(), random_state=1)
seen = observe(signs, 0.6, random_state=2)
train, rest = seen.split(0.4, random_state=3)
held_out, test = rest.split(0.5, random_state=4)
model = BinaryMatrixCompletion(
    (1, 0, 0),
    rank=5,
    l2=5.0,
    l2_intercept=5.0,
    implicit_features=False,
    calibration=None,
    random_state=0,
).fit(train)

# %%
# **Calibration.** A nondecreasing map of the scores, selected and fitted on held-out entries.

calibrator = calibrate(model, held_out, random_state=0)
x = model.decision_function(test.rows, test.columns)
predicted = {"as fitted": model.predict_proba(test.rows, test.columns), "calibrated": calibrator(x)}
curves = {name: reliability(p, test.labels) for name, p in predicted.items()}
for name, curve in curves.items():
    print(f"{name:11} calibration error {curve.error:.3f}")

# %%
# **Intervals** of the hidden value of every entry, at level 0.9: from Laplace's approximation, and with centre and
# width adjusted on held-out entries.

posterior = laplace(model, train)
adjusted = posterior.with_adjustment(held_out, random_state=0)
rows, columns = (part.ravel() for part in np.indices(tastes.shape))
for name, each in {"Laplace": posterior, "adjusted": adjusted}.items():
    found = each.interval(rows, columns, level=0.9, what="score")
    width = np.mean(found.upper - found.lower)
    print(
        f"{name:9} covers {found.covers(tastes.ravel()).mean():.2f} of the hidden values, mean width {width:.1f}"
    )

# %%
# **Conformal sets.** At each level the set contains the label of a new entry with that probability; a higher level
# gives more undecided answers.

sets = conformal(model, held_out)
levels = np.array([0.6, 0.7, 0.8, 0.9, 0.95])
covered, single = [], []
for level in levels:
    lists = sets.sets(test.rows, test.columns, level=level).lists()
    covered.append(
        np.mean([label in labels for label, labels in zip(test.labels, lists, strict=True)])
    )
    single.append(np.mean([len(labels) == 1 for labels in lists]))
    print(f"level {level:.2f}: holds the label {covered[-1]:.3f}, one label alone {single[-1]:.2f}")

# %%
# Left: predicted probabilities against shares of likes, before and after. Right: nominal and measured coverage.

figure, (left, right) = pyplot.subplots(1, 2, figsize=(9, 3.8), layout="constrained")
left.plot([0, 1], [0, 1], color="0.8")
for (name, curve), colour in zip(curves.items(), ("0.5", "tab:blue"), strict=True):
    left.plot(curve.predicted, curve.observed, "o-", color=colour, label=name)
left.set_xlabel("probability of a like, as predicted")
left.set_ylabel("share of likes")
left.legend(frameon=False)
right.plot(levels, levels, color="0.8")
right.plot(levels, covered, "o-", color="tab:blue", label="label in the set")
right.plot(levels, single, "s--", color="0.5", label="one label alone")
right.set_ylim(0, 1.02)
right.set_xlabel("nominal level")
right.set_ylabel("share of test entries")
right.legend(frameon=False, loc="lower left")
pyplot.show()

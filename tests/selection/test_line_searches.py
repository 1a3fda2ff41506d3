"""Line searches over one hyperparameter: paths, and steps up or down."""

from dataclasses import replace

import numpy as np
import pytest
from scripted_trials import EVERYTHING, scripted_lines

from tribit.model.spec import ModelSpec
from tribit.selection.record import Candidate
from tribit.selection.stages import MIN_STEP_GAIN, PATH_END_LOSS

# Paths


def walked(scores):
    values = list(range(len(scores)))
    steps = scripted_lines("l2", lambda value: scores[int(value)])
    best = steps.path(values, lambda value: ModelSpec(l2=float(value)))
    return int(best.settings.l2), len(steps.trials.tried)


@pytest.mark.parametrize(
    ("scores", "best", "tried"),
    [
        ([5.0, 4.0, 3.0, 2.0], 3, 4),  # to the end
        ([3.0, 2.0, 2.001, 1.9, 2.5, 9.0], 3, 5),  # one step up is forgiven, a far one not
        ([3.0, 2.0, 2.001, 2.002, 1.0], 1, 4),  # two are not
        ([3.0, 2.0, 2.0 * (1 + 2 * PATH_END_LOSS), 1.0], 1, 3),
        ([2.0, 2.0, 2.0, 1.0], 0, 3),  # no better is worse
        ([1.0], 0, 1),
    ],
)
def test_a_path_ends_soon_after_the_score_has_turned(scores, best, tried):
    assert walked(scores) == (best, tried)


def test_after_a_better_score_one_step_up_is_forgiven_again():
    assert walked([5.0, 5.001, 4.0, 4.001, 3.0, 3.001, 3.002, 0.0]) == (4, 7)


# Refining


def refined(function, start, step=2.0, name="l2", free=EVERYTHING, doublings=0):
    steps = scripted_lines(name, function, free)
    settings = replace(ModelSpec(), **{name: start})
    best = Candidate(settings, function(start) if start else 1.0, (), 0.0, 0)
    found = steps.refine(best, name, step, doublings)
    return getattr(found.settings, name), steps.trials.tried


def valley(value):
    return 1.0 + (np.log2(value) - 4.0) ** 2


def test_a_value_moves_as_long_as_that_helps():
    assert refined(valley, 1.0) == (16.0, [2.0, 4.0, 8.0, 16.0, 32.0])
    assert refined(valley, 64.0) == (16.0, [128.0, 32.0, 16.0, 8.0])
    assert refined(valley, 16.0) == (16.0, [32.0, 8.0])


def test_steps_that_help_become_longer_and_one_that_is_too_long_is_not_the_last():
    assert refined(valley, 1.0, doublings=2) == (16.0, [2.0, 4.0, 16.0, 256.0, 32.0])
    assert refined(valley, 0.25, doublings=2) == (16.0, [0.5, 1.0, 4.0, 64.0, 8.0, 16.0, 32.0])
    far, exponents = 2.0**-14, [-13, -12, -10, -6, -2, 2, 6, 3, 4, 5]
    assert refined(valley, far, doublings=2) == (16.0, [2.0**n for n in exponents])
    assert refined(valley, 64.0, doublings=1) == (16.0, [128.0, 32.0, 16.0, 4.0, 8.0])


def test_a_gain_that_is_not_worth_a_step_is_left():
    def flat(value):
        return 1.0 - 0.9 * MIN_STEP_GAIN * np.log2(value)

    assert refined(flat, 1.0) == (1.0, [2.0, 0.5])


def test_what_is_fixed_or_nothing_is_not_refined():
    assert refined(abs, 4.0, free=EVERYTHING - {"l2"}) == (4.0, [])
    assert refined(abs, 0.0) == (0.0, [])
    assert refined(abs, None, name="l2_intercept") == (None, [])

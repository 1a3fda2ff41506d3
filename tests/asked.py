"""Questions to a saved recommender as the command line asks them: paths, ids as text, and its defaults."""

from pathlib import Path

import numpy as np

from tribit.cli.answers import answer_question
from tribit.questions import QUESTIONS
from tribit.questions.base import fields_of
from tribit.questions.changes import Incorporate
from tribit.questions.kinds import kind_of


def ask(name, model, out=None, *, escape_formulas=None, **given):
    """Return the answer, written to ``out`` where that is given; what is no option of the question is one of tables."""
    kinds = QUESTIONS[name].load(), Incorporate
    known = {field.name: field for kind in kinds for field in fields_of(kind)}
    values = {key: None for key, field in known.items() if kind_of(field.hint)}  # not given
    values |= {key: value for key, value in given.items() if key in known}
    rules = {key: value for key, value in given.items() if key not in known}
    answer = answer_question(name, Path(model), values, rules)
    if out is not None:
        answer.write(out, escape_formulas=escape_formulas)
    return answer


def predict_file(model, pairs, out=None, **given):
    """Return predictions for the pairs of a table."""
    return ask("predict", model, out, pairs=pairs, **given)


def recommend_file(model, seen=None, out=None, **given):
    """Return lists without the entries of a table, or without those that the model keeps."""
    return ask("recommend", model, out, exclude_seen=seen, **given)


def evaluate_file(model, test, **given):
    """Return measures on the entries of a table."""
    return ask("evaluate", model, test=test, **given)


def n_unknown(answer):
    """Return how many predictions, or lists, are of ids that the model does not know."""
    return int(np.count_nonzero(np.asarray(answer.basis) != "model"))

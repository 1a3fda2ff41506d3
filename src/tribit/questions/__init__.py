"""Questions to a fitted recommender: one file for each.

From a question follow the method of :class:`tribit.Recommender`, the command and the endpoint
(:mod:`tribit.questions.base`).
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import Any

__all__ = ["QUESTIONS", "Entry"]


@dataclass(frozen=True)
class Entry:
    """A registered question.

    Attributes
    ----------
    place : str
        Its module and class.
    help : str
        One sentence, for the command line and the service.
    example : str
        Arguments of the command.
    request : dict or None
        A request over HTTP; None where it has no endpoint.
    """

    place: str
    help: str
    example: str
    request: dict[str, Any] | None = None

    def load(self) -> Any:
        """Import the class."""
        module, _, name = self.place.partition(":")
        return getattr(importlib.import_module(module), name)


#: Questions by the name of their command and endpoint, imported when they are asked: ``tribit --help`` stays fast.
QUESTIONS: dict[str, Entry] = {
    "info": Entry(
        "tribit.questions.info:Info",
        "Show the model, the hyperparameters and why they were chosen, the data, and the validation scores.",
        "info model.tribit",
    ),
    "predict": Entry(
        "tribit.questions.predict:Predict",
        "Predict the probability of a like and the sign for each pair of ids.",
        "predict model.tribit pairs.csv -o scores.csv",
        {"pairs": [{"row": "user3", "column": "item8"}]},
    ),
    "recommend": Entry(
        "tribit.questions.recommend:Recommend",
        "List the best columns for each row, none of which it has seen.",
        "recommend model.tribit --for alice -n 5",
        {"rows": ["user3", "user8"], "n": 5, "avoid_dislikes": 0.6},
    ),
    "evaluate": Entry(
        "tribit.questions.evaluate:Evaluate",
        "Compare a model with observed entries, beside simple baselines: sign error, log-loss, AUC.",
        "evaluate model.tribit test.csv",
    ),
    "explain": Entry(
        "tribit.questions.explain:Explain",
        "Show which entries of a row pulled the score of a column up or down.",
        "explain model.tribit alice item7",
        {"row": "user3", "column": "item8", "n": 5},
    ),
    "similar": Entry(
        "tribit.questions.similar:Similar",
        "List the rows or columns that are most alike to one: whose scores agree with its own.",
        "similar model.tribit --column item7",
        {"columns": ["item8"], "n": 5},
    ),
    "export": Entry(
        "tribit.questions.export:Export",
        "Write vectors of rows and columns whose inner product ranks as the model does, for indexes of neighbours.",
        "export model.tribit -o factors.npz",
    ),
}

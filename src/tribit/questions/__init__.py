"""Questions to a fitted recommender: one file for each.

From a question follow the method of :class:`tribit.Recommender`, the command and the endpoint
(:mod:`tribit.questions.base`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tribit import registries

__all__ = ["QUESTIONS", "Entry"]


@dataclass(frozen=True)
class Entry:
    """A registered question.

    Attributes
    ----------
    place : str
        Module and name of the class, as "module:Class".
    help : str
        One sentence, for the command line and the service.
    example : str
        Arguments of the command.
    request : dict or None
        A request over HTTP; None where it has no endpoint.
    of_entries : bool
        Whether it is about the entries alone, so that the command takes a table in the place of a model.

    Examples
    --------
    >>> from tribit.questions import QUESTIONS
    >>> QUESTIONS["recommend"].example
    'recommend model.tribit --for alice -n 5'
    """

    place: str
    help: str
    example: str
    request: dict[str, Any] | None = None
    of_entries: bool = False

    def load(self) -> Any:
        """Import the class."""
        return registries.load(self.place)


#: Questions by the name of their command and endpoint; the classes are imported at their first use.
QUESTIONS: dict[str, Entry] = {
    "info": Entry(
        "tribit.questions.info:Info",
        "Show the model, its hyperparameters and the reasons for them, the data and the validation scores.",
        "info model.tribit",
    ),
    "predict": Entry(
        "tribit.questions.predict:Predict",
        "Predict the probability of a like and the label for each pair of ids.",
        "predict model.tribit pairs.csv -o scores.csv",
        {"pairs": [{"row": "user3", "column": "item8"}]},
    ),
    "complete": Entry(
        "tribit.questions.complete:Complete",
        "Complete the table: the observed entries, and a prediction of every other cell.",
        "complete model.tribit -o full.csv",
    ),
    "recommend": Entry(
        "tribit.questions.recommend:Recommend",
        "Recommend the top-N columns for each row, without those it has seen.",
        "recommend model.tribit --for alice -n 5",
        {"rows": ["user3", "user8"], "n": 5, "avoid_dislikes": 0.6},
    ),
    "evaluate": Entry(
        "tribit.questions.evaluate:Evaluate",
        "Evaluate a model on a test set, beside simple baselines: error rate, log-loss, AUC.",
        "evaluate model.tribit test.csv",
    ),
    "explain": Entry(
        "tribit.questions.explain:Explain",
        "Explain a score by the entries of the row: each one's contribution to it.",
        "explain model.tribit alice item7",
        {"row": "user3", "column": "item8", "n": 5},
    ),
    "similar": Entry(
        "tribit.questions.similar:Similar",
        "List the rows or columns whose scores are most similar to those of one.",
        "similar model.tribit --column item7",
        {"columns": ["item8"], "n": 5},
    ),
    "positions": Entry(
        "tribit.questions.positions:Positions",
        "Place rows and columns on a map, with their biases and standard errors.",
        "positions model.tribit -n 2 -o positions.csv",
    ),
    "means": Entry(
        "tribit.questions.means:Means",
        "Estimate the means of rows, columns or groups of a partly seen table, with confidence intervals.",
        "means model.tribit -o means.csv",
        {"rows": ["user3", "user8"], "level": 0.9, "sensitivity": 2},
        of_entries=True,
    ),
    "ask": Entry(
        "tribit.questions.ask:Ask",
        "Choose the unseen cells to fill next, with the probabilities that keep means valid.",
        "ask model.tribit --rows alice --budget 10 -o ask.csv",
        of_entries=True,
    ),
    "value": Entry(
        "tribit.questions.value:Value",
        "Estimate the likes and dislikes in lists, had all listed cells been rated, by labels of a test set.",
        "value model.tribit lists.csv --table test.csv",
        of_entries=True,
    ),
    "export": Entry(
        "tribit.questions.export:Export",
        "Write row and column vectors whose inner product is the score, for nearest-neighbour indexes.",
        "export model.tribit -o factors.npz",
    ),
}

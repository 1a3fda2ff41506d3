"""Functions behind the command line, one for each command: from a user's file to an answer."""

from tribit.workflows.fitting import fit_file, update_file
from tribit.workflows.lists import Lists, recommend_file
from tribit.workflows.predictions import Prediction, evaluate_file, predict_file
from tribit.workflows.reasons import explain_ids, similar_ids
from tribit.workflows.reports import report_file

__all__ = [
    "Lists",
    "Prediction",
    "evaluate_file",
    "explain_ids",
    "fit_file",
    "predict_file",
    "recommend_file",
    "report_file",
    "similar_ids",
    "update_file",
]

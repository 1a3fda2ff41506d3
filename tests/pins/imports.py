"""Names of tribit that the cases use: a module that moves is corrected here, and nowhere else."""

from tribit import (
    BinaryMatrixCompletion,
    InvalidInputError,
    Logistic,
    Observations,
    Recommender,
    load,
)
from tribit.data.reading import Reading, observations_from_file
from tribit.ranking import CandidateRanker
from tribit.serve.app import create_app
from tribit.serve.settings import ServiceSettings
from tribit.simulate import low_rank_target, observe, quantise
from tribit.uncertainty import calibrate, conformal, laplace

__all__ = [
    "BinaryMatrixCompletion",
    "CandidateRanker",
    "InvalidInputError",
    "Logistic",
    "Observations",
    "Reading",
    "Recommender",
    "calibrate",
    "conformal",
    "laplace",
    "load",
    "low_rank_target",
    "observations_from_file",
    "observe",
    "quantise",
    "service",
]


def service(path):
    """Return the application that serves the model at ``path``."""
    return create_app(ServiceSettings(str(path)))

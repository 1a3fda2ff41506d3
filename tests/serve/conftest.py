"""Saved recommenders and clients of the service."""

import pytest

from service_parts import client_of, fitted
from tribit import Recommender


@pytest.fixture(scope="session")
def recommenders(tmp_path_factory):
    """Paths of two recommenders of the same rows and columns, fitted on different entries."""
    folder = tmp_path_factory.mktemp("recommenders")
    paths = [folder / f"{seed}.tribit" for seed in range(2)]
    for seed, path in enumerate(paths):
        fitted(seed).save(path)
    return paths


@pytest.fixture(scope="session")
def library(recommenders):
    """The recommender of the service, asked without it."""
    return Recommender.load(recommenders[0])


@pytest.fixture
def model_path(recommenders, tmp_path):
    """A saved recommender that a test may replace."""
    path = tmp_path / "model.tribit"
    path.write_bytes(recommenders[0].read_bytes())
    return path


@pytest.fixture(scope="session")
def client(recommenders):
    with client_of(recommenders[0]) as found:
        yield found

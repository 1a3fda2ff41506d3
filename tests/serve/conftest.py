"""Bundles and clients of the service."""

import pytest
from starlette.testclient import TestClient

from service_parts import made
from tribit import Recommender
from tribit.serve.app import create_app
from tribit.serve.settings import ServiceSettings


@pytest.fixture(scope="session")
def bundles(tmp_path_factory):
    """Paths of two bundles of the same rows and columns, fitted on different entries."""
    folder = tmp_path_factory.mktemp("bundles")
    paths = [folder / f"{seed}.tribit" for seed in range(2)]
    for seed, path in enumerate(paths):
        made(seed).save(path)
    return paths


@pytest.fixture(scope="session")
def library(bundles):
    """The bundle that the service has, asked without it."""
    return Recommender.load(bundles[0])


@pytest.fixture
def model_path(bundles, tmp_path):
    """A bundle that a test may replace."""
    path = tmp_path / "model.tribit"
    path.write_bytes(bundles[0].read_bytes())
    return path


@pytest.fixture(scope="session")
def client(bundles):
    with TestClient(create_app(ServiceSettings(str(bundles[0])))) as found:
        yield found


@pytest.fixture
def client_of():
    """Return a client of a service with settings of its own; its file is looked at when the test says so."""

    def start(path, **settings):
        return TestClient(create_app(ServiceSettings(str(path), **settings)))

    return start

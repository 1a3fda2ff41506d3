import functools
import os
import signal
from collections.abc import Callable, Iterator

import pytest
from hypothesis import settings
from threadpoolctl import threadpool_limits

# A run that decides whether a change lands repeats itself; at a desk every run looks somewhere new. The first example
# imports what a test needs, which takes longer than a deadline of single examples on a busy machine.
settings.register_profile("repeatable", derandomize=True, deadline=None)
settings.register_profile("new", deadline=None)
settings.load_profile("repeatable" if os.environ.get("CI") else "new")

# A shell that starts the tests in the background has them ignore Ctrl-C, and so would every process that they start.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--torture", action="store_true", help="run every case of the fuzzers, not a tenth"
    )


@pytest.fixture
def cases(request: pytest.FixtureRequest) -> Callable[[int], range]:
    """The seeds of a fuzzer that has n cases: all of them under --torture (make torture), else a tenth."""
    whole = request.config.getoption("--torture")
    return lambda n: range(n if whole else max(1, n // 10))


@pytest.fixture(scope="module")
def one_blas_thread() -> Iterator[None]:
    """Small dense products on one thread: where others use the cores too, two would wait for each other."""
    with threadpool_limits(1, user_api="blas"):
        yield


@pytest.fixture
def short_trials(monkeypatch: pytest.MonkeyPatch) -> None:
    """Candidates of a search are fitted by four iterations: enough where a test does not ask which is best."""
    monkeypatch.setattr("tribit.selection.trials.MAX_SWEEPS", 4)


@pytest.fixture(scope="session")
def built_once() -> Callable[..., object]:
    """Typer's function that makes the commands of an app, which takes longer than most of them: once for each app."""
    import typer

    return functools.cache(typer.main.get_command)


@pytest.fixture
def run(
    capsys: pytest.CaptureFixture[str], built_once: Callable[..., object]
) -> Callable[..., tuple[int, str, str]]:
    """Run the command line in this process; returns (exit code, stdout, stderr)."""
    from tribit.cli import main

    def call(*arguments: object) -> tuple[int, str, str]:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("typer.main.get_command", built_once)
            with pytest.raises(SystemExit) as stop:
                main([str(argument) for argument in arguments])
        written = capsys.readouterr()
        return int(stop.value.code or 0), written.out, written.err

    return call

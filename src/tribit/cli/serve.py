"""``tribit serve``: a saved recommender over HTTP."""

from __future__ import annotations

import importlib.util
from typing import Annotated, Any

import typer

from tribit.cli.common import ModelPath, app
from tribit.cli.endings import tell, until_stopped
from tribit.cli.values import size
from tribit.errors import InvalidInputError

#: Packages that the service needs and the library does not.
NEEDED = ("starlette", "pydantic", "uvicorn", "prometheus_client")
LOOPBACK = ("127.0.0.1", "::1", "localhost")


@app.command(epilog="Example: tribit serve model.tribit --port 8000")
def serve(
    model: ModelPath,
    host: Annotated[
        str, typer.Option(help="Address to listen at; 0.0.0.0 for any machine that can reach it.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port to listen at, 0 for any free one.")] = 8000,
    workers: Annotated[int, typer.Option(help="Processes, each with the model in its memory.")] = 1,
    max_body: Annotated[
        Any,
        typer.Option(
            parser=size, metavar="bytes", help="Most bytes of a request: 1M.", show_default="1M"
        ),
    ] = 2**20,
    max_pairs: Annotated[
        int,
        typer.Option(help="Most pairs of a request, and most columns in all its lists."),
    ] = 10_000,
    max_rows: Annotated[int, typer.Option(help="Most rows of a request.")] = 1000,
    max_entries: Annotated[
        int, typer.Option(help="Most entries of new rows in a request.")
    ] = 10_000,
    max_n: Annotated[int, typer.Option(help="Most columns of a list.")] = 1000,
    access_log: Annotated[
        bool, typer.Option("--access-log", help="Log a line for each request.")
    ] = False,
) -> None:
    """Answer /predict, /recommend, /explain and /similar over HTTP; a replaced model file is loaded."""
    missing = [name for name in NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        raise InvalidInputError(
            f"The service needs {' and '.join(missing)}, which {'is' if len(missing) < 2 else 'are'} not installed; "
            'run pip install "tribit[serve]".'
        )
    from tribit.serve.run import serve as run  # noqa: PLC0415 - help should not wait
    from tribit.serve.settings import ServiceSettings  # noqa: PLC0415

    def ready(address: str) -> None:
        typer.echo(f"{model} at {address} (questions: {address}/docs)")
        if host not in LOOPBACK:
            tell(
                "Warning",
                "The service asks nobody who they are: let only a proxy that does reach it, or trusted machines.",
            )

    settings = ServiceSettings(
        str(model),
        max_body=max_body,
        max_pairs=max_pairs,
        max_rows=max_rows,
        max_entries=max_entries,
        max_n=max_n,
    )
    with until_stopped():
        run(settings, host, port, workers=workers, access_log=access_log, ready=ready)

"""``tribit demo``, ``tribit reproduce`` and ``tribit compare``."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from tribit.cli.common import Quiet, app
from tribit.cli.exits import StoppedError, keyboard_interrupts


@app.command(epilog="Example: tribit demo --picture demo.png --report demo.html")
def demo(
    picture: Annotated[
        Path | None, typer.Option(help="File to write a picture to (needs tribit[plot]).")
    ] = None,
    report: Annotated[
        Path | None, typer.Option(help="File to write a report on the default model to.")
    ] = None,
    random_state: Annotated[int, typer.Option("--seed", help="Seed of the simulation.")] = 0,
    quiet: Quiet = False,
) -> None:
    """Simulate a table, complete it in three ways, compare with the truth, and recommend from it."""
    from tribit.cli.exhibits import show_demo  # noqa: PLC0415 - help should not wait

    show_demo(picture, report, random_state=random_state, shown=not quiet)


@app.command(
    epilog="Example: tribit reproduce fig1 --out reproduction. The same command continues a run that was stopped."
)
def reproduce(
    which: Annotated[
        str, typer.Argument(help="fig1, fig2, fig3, fig3-t, fig4, fig4-t, table1 or all.")
    ],
    trials: Annotated[
        int | None,
        typer.Option(
            help="Simulations or splits [10; 2 with --quick].",
            show_default=False,
        ),
    ] = None,
    out: Annotated[
        Path, typer.Option("--out", "-o", help="Folder for results, pictures and summaries.")
    ] = Path("reproduction"),
    n_jobs: Annotated[int, typer.Option("--jobs", help="Processes; -1 for every core.")] = -1,
    path: Annotated[
        Path | None,
        typer.Option("--data", help="Folder of MovieLens 100k, for fig4 and table1 [download]."),
    ] = None,
    protocol: Annotated[
        str,
        typer.Option(
            help="paper: the paper's iterations; solved: its problem solved exactly; tuned: the radius tuned too."
        ),
    ] = "paper",
    step: Annotated[
        float | None, typer.Option(help="The paper's step tau [each experiment's own].")
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of the first trial.")] = 0,
    quick: Annotated[
        bool, typer.Option("--quick", help="Coarse grids and two trials, for a preview.")
    ] = False,
    quiet: Quiet = False,
) -> None:
    """Reproduce a figure or table of the paper, beside the paper's claims about it."""
    from tribit.cli.exhibits import Settings, reproduce, show_exhibits  # noqa: PLC0415 - help should not wait

    settings = Settings(trials=trials, seed=seed, protocol=protocol, quick=quick, step=step)
    with resumable():
        made = reproduce(
            which, out=out, settings=settings, data=path, n_jobs=n_jobs, shown=not quiet
        )
    show_exhibits(made)


@app.command(epilog="Example: tribit compare --data data --out comparison")
def compare(
    path: Annotated[
        Path | None,
        typer.Option(
            "--data", help="Folder that holds ml-100k, senate and coat [synthetic data only]."
        ),
    ] = None,
    on: Annotated[
        str | None, typer.Option(help="Data sets, with commas [all that --data has].")
    ] = None,
    systems: Annotated[str | None, typer.Option(help="Systems, with commas [all].")] = None,
    out: Annotated[
        Path, typer.Option("--out", "-o", help="Folder for the table and its journal.")
    ] = Path("comparison"),
    n_jobs: Annotated[
        int, typer.Option("--jobs", help="Processes; times are of one core each.")
    ] = 1,
    seed: Annotated[int, typer.Option(help="Seed of simulations, splits and initial factors.")] = 0,
    quiet: Quiet = False,
) -> None:
    """Compare every system on the same data: accuracy and time."""
    from tribit.cli.exhibits import compare_all, show_comparison  # noqa: PLC0415 - help should not wait

    with resumable():
        results, files = compare_all(
            path,
            on=None if on is None else on.split(","),
            systems=None if systems is None else systems.split(","),
            out=out,
            n_jobs=n_jobs,
            seed=seed,
            shown=not quiet,
        )
    show_comparison(results, files)


@contextmanager
def resumable() -> Iterator[None]:
    """Mention after an interruption that the run can be resumable."""
    try:
        with keyboard_interrupts():  # worker processes must end first
            yield
    except KeyboardInterrupt:
        raise StoppedError("run the same command again to continue.") from None

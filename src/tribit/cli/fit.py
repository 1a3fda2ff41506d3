"""``tribit fit``: a table of observed entries becomes a model."""

from __future__ import annotations

import time
from contextlib import nullcontext
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any

import typer

from tribit.cli.common import Quiet, app, print_facts
from tribit.cli.endings import StoppedError, as_typed, keyboard_interrupts
from tribit.cli.options import LazyCommand, fit_options, model_options, reading_options
from tribit.cli.values import yes_no_or_auto
from tribit.errors import quoted


class FitCommand(LazyCommand):
    """The command with the options of reading, of the model and of the fit."""

    groups = MappingProxyType(
        {"reading": reading_options, "model": model_options, "fit": fit_options}
    )


@app.command(
    cls=FitCommand,
    epilog="Example: tribit fit ratings.csv -o model.tribit --row user --column item --value rating --like-at 4",
)
def fit(
    context: typer.Context,
    file: Annotated[
        Path,
        typer.Argument(
            help="Table: .csv, .tsv, .txt, .dat, .jsonl (plain or .gz), .parquet; matrix: .npz, .mtx; - is standard "
            "input; with --scheduler a folder of .parquet files."
        ),
    ],
    out: Annotated[Path, typer.Option("--out", "-o", help="Where to write the model.")],
    wide: Annotated[
        bool, typer.Option("--wide", help="The same as --layout wide: a row in each line.")
    ] = False,
    row_features: Annotated[
        Path | None, typer.Option(help="Table of features of rows, ids in the first column.")
    ] = None,
    column_features: Annotated[
        Path | None, typer.Option(help="Table of features of columns, ids in the first column.")
    ] = None,
    link_scale: Annotated[
        float, typer.Option(help="Scale of the logistic link, or sigma of the probit link.")
    ] = 1.0,
    ranker: Annotated[
        Any,
        typer.Option(
            parser=yes_no_or_auto,
            metavar="yes|no|auto",
            help="Whether to fit a ranker for lists.",
        ),
    ] = "auto",
    keep_seen: Annotated[
        bool,
        typer.Option(
            "--seen/--no-seen", help="Keep the entries, which lists leave out, in the model's file."
        ),
    ] = True,
    scheduler: Annotated[
        str | None,
        typer.Option(
            help="Address of a dask scheduler, on whose workers to fit: tcp://10.0.0.1:8786."
        ),
    ] = None,
    keep_partial: Annotated[
        bool,
        typer.Option("--keep-partial", help="After Ctrl-C write the best model so far."),
    ] = False,
    quiet: Quiet = False,
) -> None:
    """Fit a model on a table with one observed entry in each line, a wide one, or a matrix."""
    from tribit.cli.fitting import fit_file  # noqa: PLC0415
    from tribit.data.files import check_different, writable  # noqa: PLC0415 - help should not wait
    from tribit.model.links import as_link, check_scale  # noqa: PLC0415
    from tribit.solvers.loop import INTERRUPTED  # noqa: PLC0415

    groups = context.obj
    parameters = groups["reading"] | groups["model"] | groups["fit"]
    parameters["layout"] = "wide" if wide else parameters["layout"]
    parameters |= {
        "row_features": row_features,
        "column_features": column_features,
        "ranker": ranker,
        "keep_seen": keep_seen,
        "scheduler": scheduler,
    }
    writable(out)  # an unwritable path is refused before the fit
    for given in (file, row_features, column_features):
        if given is not None:
            check_different(given, out)
    began = time.perf_counter()
    link: Any = type(as_link(parameters["link"]))
    parameters["link"] = link(check_scale("link_scale", link_scale))
    try:
        with keyboard_interrupts() if keep_partial else nullcontext():
            bundle = fit_file(file, **parameters, verbose=0 if quiet else 1)
        model = bundle.model_
        whole = model.stop_reason_ != INTERRUPTED
        if not (whole or keep_partial):
            raise KeyboardInterrupt
        bundle.save(out)
    except (KeyboardInterrupt, StoppedError):
        hint = "there was none" if keep_partial else "--keep-partial would write it"
        raise StoppedError(
            f"{quoted(str(out))} is as it was (the best model so far: {hint})."
        ) from None
    seen = bundle.summary_
    shape = model.row_factors_.shape[0], model.column_factors_.shape[0]
    print_facts(
        {
            "model": str(out),
            "rows x columns": f"{shape[0]} x {shape[1]}",
            "entries": f"{seen['likes']} likes, {seen['dislikes']} dislikes",
            "rho": _named(model.rho_),
            **_chosen(model, context.command),
            **({"sums": SAMPLED} if model.backend_ == "sampled" else {}),
            "objective": f"{model.objective_:.6g}",
            "iterations": f"{model.n_iter_} ({model.stop_reason_})",
            "seconds": f"{time.perf_counter() - began:.2f}",
        }
    )
    if not whole:
        raise StoppedError(f"{quoted(str(out))} holds the best model so far.")


#: Remark on a fit whose sums over all cells are estimates.
SAMPLED = "over all cells: a quadratic exactly, the rest from a sample of them"


def _named(rho: Any) -> str:
    """Return a number, or what kind of model it is."""
    return f"{rho:.4f}" if isinstance(rho, float) else f"by entry, {rho.name}"


def _chosen(model: Any, command: Any) -> dict[str, str]:
    """Return what the fit chose from the data, and why, as rows of a table."""
    from tribit.model.fitted import LIKE  # noqa: PLC0415
    from tribit.selection.record import DONE  # noqa: PLC0415

    if model.search_ is None:
        return {}
    ended = as_typed(model.search_.stop_reason, command)
    if model.search_.best is None:
        return {"chosen": f"nothing: {ended}"}
    meaning = model.search_.meaning
    about = "" if meaning == LIKE else f", of {as_typed(meaning, command)}"
    scores = ", ".join(f"{name} {c.score:.4f}" for name, c in model.search_.families().items())
    average = model.search_.average
    return {
        **({} if ended == DONE else {"search": ended}),
        "chosen": str(model.search_.best.settings),
        **({} if average is None else {"average": str(average)}),
        f"held-out {model.search_.measure}": f"{scores} ({model.search_.n_held_out} entries)",
        "probabilities": ("the link's" if model.calibration_ is None else model.calibration_.name)
        + about,
    }

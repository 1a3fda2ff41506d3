"""``tribit fit``: a table of observed entries becomes a model."""

from __future__ import annotations

import time
from contextlib import nullcontext
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from tribit.cli.common import DuplicatesOption, MaxSize, Quiet, app, print_facts
from tribit.cli.endings import StoppedError, as_typed, keyboard_interrupts
from tribit.cli.model_options import FitCommand
from tribit.cli.values import VALUE, number_or_word, whole_or_auto, words, yes_no_or_auto
from tribit.quoting import quoted

#: Arguments that the command does not pass to the library.
OWN = ("context", "file", "out", "wide", "link_scale", "keep_partial", "quiet")


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
    row: Annotated[
        str | None,
        typer.Option(
            help="Column of row ids, or its number from 0 without header [the first of two or three]."
        ),
    ] = None,
    column: Annotated[
        str | None, typer.Option(help="Column of column ids, or its number [the second].")
    ] = None,
    value: Annotated[
        str | None,
        typer.Option(
            help="Column of +1/-1, ratings or words, or its number; without it all are likes."
        ),
    ] = None,
    like_at: Annotated[
        float | None, typer.Option(help="Values are ratings: from this one up a like.")
    ] = None,
    like: Annotated[
        Any,
        typer.Option(
            parser=words,
            metavar="words",
            help="Values that are a like: yes,true [guessed: 1, yes, true, like, +].",
            show_default=False,
        ),
    ] = None,
    dislike: Annotated[
        Any,
        typer.Option(
            parser=words,
            metavar="words",
            help="Values that are a dislike: no,false [guessed: 0, no, false, dislike, -].",
            show_default=False,
        ),
    ] = None,
    wide: Annotated[
        bool,
        typer.Option(
            "--wide",
            help="A row in each line: its id, then a cell for each column, empty if unseen.",
        ),
    ] = False,
    missing: Annotated[
        Literal["error", "skip"],
        typer.Option(
            help="What to do with records without an id or value (empty, NA, NaN, null, ?)."
        ),
    ] = "error",
    zeros: Annotated[
        Literal["seen", "unseen"] | None,
        typer.Option(
            help="What a 0 is [unseen in a matrix and in a wide table without an empty cell].",
            show_default=False,
        ),
    ] = None,
    delimiter: Annotated[
        str | None,
        typer.Option(help="Between fields of text: ; or | or tab, comma, space [guessed]."),
    ] = None,
    decimal: Annotated[str, typer.Option(help="Decimal mark of values: . or ,")] = ".",
    encoding: Annotated[
        str | None,
        typer.Option(help="Encoding of text: latin-1, cp1252 [UTF-8, or as its mark says]."),
    ] = None,
    format: Annotated[  # noqa: A002 - as the option is called
        str | None, typer.Option(help="Format, if the name does not tell it: csv, jsonl, mtx.")
    ] = None,
    row_features: Annotated[
        Path | None, typer.Option(help="Table of features of rows, ids in the first column.")
    ] = None,
    column_features: Annotated[
        Path | None, typer.Option(help="Table of features of columns, ids in the first column.")
    ] = None,
    duplicates: DuplicatesOption = "error",
    max_size: MaxSize = None,
    link_scale: Annotated[
        float, typer.Option(help="Scale of the logistic link, or sigma of the probit link.")
    ] = 1.0,
    target: Annotated[
        str,
        typer.Option(
            help="Predictions are for cells like the observed ones, or for all alike: observed, all."
        ),
    ] = "observed",
    scoring: Annotated[
        str, typer.Option(help="What to choose by: log_loss, error or auc.")
    ] = "log_loss",
    n_candidates: Annotated[int | None, typer.Option(help="Most settings to try.")] = None,
    calibration: Annotated[
        Any,
        typer.Option(
            parser=number_or_word, metavar="word", help="Calibrate: auto, platt, isotonic or none."
        ),
    ] = "auto",
    n_fits: Annotated[
        Any,
        typer.Option(
            parser=whole_or_auto, metavar=VALUE, help="Fits to average, of different ranks."
        ),
    ] = "auto",
    solver: Annotated[
        str, typer.Option(help="newton, lbfgs, augmented_lagrangian or projected_gradient.")
    ] = "auto",
    max_iter: Annotated[int | None, typer.Option(help="Most iterations.")] = None,
    max_time: Annotated[float | None, typer.Option(help="Most seconds.")] = None,
    tol: Annotated[
        float, typer.Option(help="Stop when less than this share of the objective is left to gain.")
    ] = 1e-4,
    dtype: Annotated[str, typer.Option(help="float32 or float64.")] = "float32",
    n_jobs: Annotated[int, typer.Option(help="Threads; -1 for every core.")] = -1,
    backend: Annotated[
        str, typer.Option(help="Sums over all cells: auto, exact or sampled.")
    ] = "auto",
    device: Annotated[
        str, typer.Option(help="Where to compute: cpu, cuda (a GPU) or auto.")
    ] = "cpu",
    random_state: Annotated[int, typer.Option(help="Seed of the first factors.")] = 0,
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
    parameters = {name: value for name, value in locals().items() if name not in OWN} | context.obj
    parameters["layout"] = "wide" if wide else "long"
    from tribit.cli.fitting import fit_file  # noqa: PLC0415
    from tribit.data.files import check_different, writable  # noqa: PLC0415 - help should not wait
    from tribit.model.links import as_link, check_scale  # noqa: PLC0415
    from tribit.solvers.loop import INTERRUPTED  # noqa: PLC0415

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

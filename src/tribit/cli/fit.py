"""``tribit fit``: a table of observed entries becomes a model."""

from __future__ import annotations

import time
from contextlib import nullcontext
from pathlib import Path
from typing import Annotated, Any

import typer

from tribit.cli.common import DuplicatesOption, MaxSize, Quiet, app, print_facts
from tribit.cli.endings import StoppedError, keyboard_interrupts
from tribit.cli.values import VALUE, number_or_word, whole_or_auto, yes_no_or_auto
from tribit.cli.words import spoken
from tribit.errors import InvalidInputError
from tribit.quoting import quoted


@app.command(
    epilog="Example: tribit fit ratings.csv -o model.tribit --row user --column item --value rating --like-at 4"
)
def fit(
    file: Annotated[Path, typer.Argument(help="CSV or TSV (plain or .gz) or parquet.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="Where to write the model.")],
    row: Annotated[
        str, typer.Option(help="Column of row ids, or its number from 0 without header.")
    ],
    column: Annotated[str, typer.Option(help="Column of column ids, or its number.")],
    value: Annotated[
        str | None,
        typer.Option(help="Column of +1/-1 or ratings, or its number; without it all are likes."),
    ] = None,
    like_at: Annotated[
        float | None, typer.Option(help="Values are ratings: from this one up a like.")
    ] = None,
    duplicates: DuplicatesOption = "error",
    max_size: MaxSize = None,
    gammas: Annotated[
        tuple[float, float, float] | None,
        typer.Option(
            help="Weights of the PN, PU and NU risks, summing to 1 [auto].", show_default=False
        ),
    ] = None,
    rho: Annotated[
        Any,
        typer.Option(
            parser=number_or_word,
            metavar=VALUE,
            help="P(unobserved), or constant, row-column, low-rank.",
        ),
    ] = "auto",
    link: Annotated[str, typer.Option(help="logistic or probit.")] = "logistic",
    link_scale: Annotated[
        float, typer.Option(help="Scale of the logistic link, or sigma of the probit link.")
    ] = 1.0,
    rank: Annotated[
        Any, typer.Option(parser=whole_or_auto, metavar=VALUE, help="Columns of the factors.")
    ] = "auto",
    radius: Annotated[
        Any,
        typer.Option(
            parser=number_or_word, metavar=VALUE, help="Radius of the norm ball, or none."
        ),
    ] = "auto",
    norm: Annotated[str, typer.Option(help="Norm of the ball: max or trace.")] = "max",
    alpha: Annotated[
        Any,
        typer.Option(
            parser=number_or_word,
            metavar=VALUE,
            help="Bound on the entries.",
            show_default="none",
        ),
    ] = None,
    l2: Annotated[
        Any,
        typer.Option(parser=number_or_word, metavar=VALUE, help="Weight of the ridge on factors."),
    ] = "auto",
    l2_intercept: Annotated[
        Any,
        typer.Option(
            parser=number_or_word, metavar=VALUE, help="Weight of the ridge on intercepts."
        ),
    ] = "auto",
    mask_features: Annotated[
        Any,
        typer.Option(
            parser=yes_no_or_auto,
            metavar="yes|no|auto",
            help="Learn from which entries were observed.",
        ),
    ] = "auto",
    l2_mask: Annotated[
        Any,
        typer.Option(
            parser=number_or_word, metavar=VALUE, help="Weight of the ridge on mask features."
        ),
    ] = "auto",
    intercept: Annotated[bool, typer.Option(help="Fit intercepts.")] = True,
    inverse_power: Annotated[
        float, typer.Option(help="Weigh PN by this power of 1 / P(observed), 0 to 1.")
    ] = 0.0,
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
    solver: Annotated[str, typer.Option(help="newton, lbfgs or projected_gradient.")] = "auto",
    max_iter: Annotated[int | None, typer.Option(help="Most iterations.")] = None,
    max_time: Annotated[float | None, typer.Option(help="Most seconds.")] = None,
    tol: Annotated[
        float, typer.Option(help="Stop when less than this share of the objective is left to gain.")
    ] = 1e-4,
    dtype: Annotated[str, typer.Option(help="float32 or float64.")] = "float32",
    n_jobs: Annotated[int, typer.Option(help="Threads; -1 for every core.")] = -1,
    random_state: Annotated[int, typer.Option(help="Seed of the first factors.")] = 0,
    keep_partial: Annotated[
        bool,
        typer.Option("--keep-partial", help="After Ctrl-C write the best model so far."),
    ] = False,
    quiet: Quiet = False,
) -> None:
    """Fit a model on a table with one observed entry in each line."""
    from tribit.data.files import check_different, writable  # noqa: PLC0415 - help should not wait
    from tribit.model.links import LINKS  # noqa: PLC0415
    from tribit.solvers.loop import INTERRUPTED  # noqa: PLC0415
    from tribit.workflows import fit_file  # noqa: PLC0415

    if link not in LINKS:
        raise InvalidInputError(f"There is no link {quoted(link)}; use one of {', '.join(LINKS)}.")
    writable(out)  # told before the fit, not after it
    check_different(file, out)
    began = time.perf_counter()
    parameters = {
        "row": row,
        "column": column,
        "value": value,
        "duplicates": duplicates,
        "max_size": max_size,
        "like_at": like_at,
        "gammas": "auto" if gammas is None else gammas,
        "rho": rho,
        "link": LINKS[link](link_scale),  # type: ignore[call-arg]
        "rank": rank,
        "radius": radius,
        "norm": norm,
        "alpha": alpha,
        "l2": l2,
        "l2_intercept": l2_intercept,
        "mask_features": mask_features,
        "l2_mask": l2_mask,
        "intercept": intercept,
        "inverse_power": inverse_power,
        "target": target,
        "scoring": scoring,
        "n_candidates": n_candidates,
        "calibration": calibration,
        "solver": solver,
        "max_iter": max_iter,
        "max_time": max_time,
        "tol": tol,
        "dtype": dtype,
        "n_jobs": n_jobs,
        "random_state": random_state,
        "verbose": 0 if quiet else 1,
    }
    try:
        with keyboard_interrupts() if keep_partial else nullcontext():
            model = fit_file(file, **parameters)
        whole = model.stop_reason_ != INTERRUPTED
        if not (whole or keep_partial):
            raise KeyboardInterrupt
        model.save(out)
    except (KeyboardInterrupt, StoppedError):
        hint = "there was none" if keep_partial else "--keep-partial would write it"
        raise StoppedError(
            f"{quoted(str(out))} is as it was (the best model so far: {hint})."
        ) from None
    shape = model.row_factors_.shape[0], model.column_factors_.shape[0]
    print_facts(
        {
            "model": str(out),
            "rows x columns": f"{shape[0]} x {shape[1]}",
            "rho": _named(model.rho_),
            **_chosen(model),
            "objective": f"{model.objective_:.6g}",
            "iterations": f"{model.n_iter_} ({model.stop_reason_})",
            "seconds": f"{time.perf_counter() - began:.2f}",
        }
    )
    if not whole:
        raise StoppedError(f"{quoted(str(out))} holds the best model so far.")


def _named(rho: Any) -> str:
    """Return a number, or what kind of model it is."""
    return f"{rho:.4f}" if isinstance(rho, float) else f"by entry, {rho.name}"


def _chosen(model: Any) -> dict[str, str]:
    """Return what the fit chose from the data, and why, as rows of a table."""
    from tribit.selection.record import DONE  # noqa: PLC0415

    if model.search_ is None:
        return {}
    if model.search_.best is None:
        return {"chosen": f"nothing: {spoken(model.search_.stop_reason)}"}
    scores = ", ".join(f"{name} {c.score:.4f}" for name, c in model.search_.families().items())
    ended = model.search_.stop_reason
    return {
        **({} if ended == DONE else {"search": ended}),
        "chosen": str(model.search_.best.settings),
        f"held-out {model.search_.measure}": f"{scores} ({model.search_.n_held_out} entries)",
        "probabilities": "the link's" if model.calibration_ is None else model.calibration_.name,
    }

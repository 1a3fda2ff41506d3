"""The command line. Each command calls one public function and prints what it returns."""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from rich.console import Console
from rich.table import Table

from tribit import __version__
from tribit.cli_values import VALUE, number_or_word, whole_or_auto, yes_no_or_auto
from tribit.errors import InvalidInputError, TribitError

app = typer.Typer(
    name="tribit",
    help="Binary matrix completion from likes, dislikes and the unobserved entries.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
    context_settings={"help_option_names": ["-h", "--help"]},
)
console = Console()

Duplicates = Literal["error", "first", "last", "majority"]
RowName = Annotated[str | None, typer.Option("--row", help="Column of row ids [as in the fit].")]
ColumnName = Annotated[
    str | None, typer.Option("--column", help="Column of column ids [as in the fit].")
]
DuplicatesOption = Annotated[
    Duplicates, typer.Option(help="What to do with a pair that is listed more than once.")
]

SkipUnknown = Annotated[
    bool, typer.Option("--skip-unknown", help="Leave out ids the model was not fitted on.")
]


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"tribit {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Binary matrix completion from likes, dislikes and the unobserved entries."""


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
    tol: Annotated[float, typer.Option(help="Stop below this relative decrease.")] = 1e-5,
    dtype: Annotated[str, typer.Option(help="float32 or float64.")] = "float32",
    n_jobs: Annotated[int, typer.Option(help="Threads; -1 for every core.")] = -1,
    random_state: Annotated[int, typer.Option(help="Seed of the first factors.")] = 0,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress bar.")] = False,
) -> None:
    """Fit a model on a table with one observed entry in each line."""
    from tribit.files import check_different, writable  # noqa: PLC0415 - help should not wait
    from tribit.links import LINKS  # noqa: PLC0415
    from tribit.workflows import fit_file  # noqa: PLC0415

    if link not in LINKS:
        raise InvalidInputError(f"There is no link {link!r}; use one of {', '.join(LINKS)}.")
    writable(out)  # told before the fit, not after it
    check_different(file, out)
    began = time.perf_counter()
    model = fit_file(
        file,
        row=row,
        column=column,
        value=value,
        duplicates=duplicates,
        like_at=like_at,
        gammas="auto" if gammas is None else gammas,
        rho=rho,
        link=LINKS[link](link_scale),  # type: ignore[call-arg]
        rank=rank,
        radius=radius,
        norm=norm,
        alpha=alpha,
        l2=l2,
        l2_intercept=l2_intercept,
        mask_features=mask_features,
        l2_mask=l2_mask,
        intercept=intercept,
        inverse_power=inverse_power,
        target=target,
        scoring=scoring,
        n_candidates=n_candidates,
        calibration=calibration,
        solver=solver,
        max_iter=max_iter,
        max_time=max_time,
        tol=tol,
        dtype=dtype,
        n_jobs=n_jobs,
        random_state=random_state,
        verbose=0 if quiet else 1,
    )
    model.save(out)
    shape = model.row_factors_.shape[0], model.column_factors_.shape[0]
    _print(
        {
            "model": str(out),
            "rows x columns": f"{shape[0]} x {shape[1]}",
            "rho": f"{model.rho_:.4f}" if isinstance(model.rho_, float) else str(rho),
            **_chosen(model),
            "objective": f"{model.objective_:.6g}",
            "iterations": f"{model.n_iter_} ({model.stop_reason_})",
            "seconds": f"{time.perf_counter() - began:.2f}",
        }
    )


def _chosen(model: Any) -> dict[str, str]:
    """Return what the fit chose from the data, and why, as rows of a table."""
    if model.search_ is None:
        return {}
    if model.search_.best is None:
        return {"chosen": f"nothing: {model.search_.stop_reason}"}
    scores = ", ".join(f"{name} {c.score:.4f}" for name, c in model.search_.families().items())
    return {
        "chosen": str(model.search_.best.settings),
        f"held-out {model.search_.scoring}": f"{scores} ({model.search_.n_held_out} entries)",
    }


@app.command(epilog="Example: tribit predict model.tribit pairs.csv -o scores.csv")
def predict(
    model: Annotated[Path, typer.Argument(help="A model that tribit fit wrote.")],
    pairs: Annotated[Path, typer.Argument(help="Table with the model's row and column ids.")],
    out: Annotated[
        Path, typer.Option("--out", "-o", help="Table to write (.csv, .tsv, .gz, .parquet).")
    ],
    row: RowName = None,
    column: ColumnName = None,
    skip_unknown: SkipUnknown = False,
) -> None:
    """Write the probability of a like and the predicted sign for each pair of ids."""
    from tribit.workflows import predict_file  # noqa: PLC0415

    done = predict_file(model, pairs, out, row=row, column=column, skip_unknown=skip_unknown)
    _print({"predictions": str(out), "pairs": f"{done.n_pairs}{_skipped(done.n_skipped)}"})


@app.command(epilog="Example: tribit evaluate model.tribit test.csv")
def evaluate(
    model: Annotated[Path, typer.Argument(help="A model that tribit fit wrote.")],
    test: Annotated[Path, typer.Argument(help="Table of observed entries, not used in the fit.")],
    row: RowName = None,
    column: ColumnName = None,
    value: Annotated[str | None, typer.Option(help="Column of values [as in the fit].")] = None,
    like_at: Annotated[
        float | None, typer.Option(help="Smallest rating that is a like [as in the fit].")
    ] = None,
    duplicates: DuplicatesOption = "error",
    skip_unknown: SkipUnknown = False,
) -> None:
    """Compare a model with observed entries: sign error, log-loss, AUC."""
    from tribit.workflows import evaluate_file  # noqa: PLC0415

    result = evaluate_file(
        model,
        test,
        row=row,
        column=column,
        value=value,
        like_at=like_at,
        duplicates=duplicates,
        skip_unknown=skip_unknown,
    )
    _print(
        {
            "entries": f"{result.n_entries}{_skipped(result.n_skipped)}",
            "accuracy": f"{result.accuracy:.4f}",
            "sign error": f"{result.sign_error:.4f}",
            "log-loss": f"{result.log_loss:.4f}",
            "AUC": "only one label" if result.auc is None else f"{result.auc:.4f}",
        }
    )


@app.command(epilog="Example: tribit demo --picture demo.png")
def demo(
    picture: Annotated[
        Path | None, typer.Option(help="Where to write a picture (needs tribit[plot]).")
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of the draws.")] = 0,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress bar.")] = False,
) -> None:
    """Draw a matrix as the paper does, complete it with PN and with the mixture, and compare."""
    from tribit.demo import run_demo  # noqa: PLC0415
    from tribit.plots import check_picture, plot_demo  # noqa: PLC0415

    if picture is not None:
        check_picture(picture)
    result = run_demo(random_state=seed, shown=not quiet)
    console.print(result.summary())
    table = Table("radius", "risk", "recovery error", "sign error, unseen", "seconds")
    for entry in result.chosen:
        table.add_row(
            f"{entry.radius:.2f} ({entry.how})",
            entry.risk,
            f"{entry.recovery_error:.3f}",
            f"{entry.sign_error:.3f}",
            f"{entry.seconds:.2f}",
        )
    console.print(table)
    if picture is not None:
        plot_demo(result, picture)
        console.print(f"Picture: {picture}", soft_wrap=True, markup=False)


@app.command(
    epilog="Example: tribit reproduce fig1 --out reproduction. The same command continues a run that was stopped."
)
def reproduce(
    which: Annotated[str, typer.Argument(help="fig1, fig2, fig3, fig4, table1 or all.")],
    trials: Annotated[
        int | None, typer.Option(help="Draws or splits [10; 2 with --quick].", show_default=False)
    ] = None,
    out: Annotated[
        Path, typer.Option("--out", "-o", help="Folder for results, pictures and summaries.")
    ] = Path("reproduction"),
    jobs: Annotated[int, typer.Option(help="Processes; -1 for every core.")] = -1,
    data: Annotated[
        Path | None, typer.Option(help="Where MovieLens 100k is, for fig4 and table1 [download].")
    ] = None,
    protocol: Annotated[
        str, typer.Option(help="paper: as the paper does it; tuned: the radius chosen too.")
    ] = "paper",
    step: Annotated[
        float | None, typer.Option(help="The paper's step tau [each experiment's own].")
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of the first draw.")] = 0,
    quick: Annotated[
        bool, typer.Option("--quick", help="Coarse grids, two trials: to see every figure.")
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress bar.")] = False,
) -> None:
    """Make a figure or a table of the paper again, beside what the paper says of it."""
    from tribit.datasets import MOVIELENS_LICENCE  # noqa: PLC0415
    from tribit.experiments import Settings  # noqa: PLC0415
    from tribit.experiments import reproduce as run  # noqa: PLC0415

    settings = Settings(trials=trials, seed=seed, protocol=protocol, quick=quick, step=step)
    with _continued():
        made = run(which, out=out, settings=settings, data=data, n_jobs=jobs, shown=not quiet)
    if {"fig4", "table1"} & {exhibit.name for exhibit in made}:
        typer.echo(MOVIELENS_LICENCE, err=True)
    for exhibit in made:
        table = Table("the paper", "way", "measured", "verdict", title=exhibit.title)
        for way, claims in exhibit.claims.items():
            for claim in claims:
                table.add_row(claim.paper, way, claim.measured, claim.verdict)
        console.print(table)
        console.print("Files:", ", ".join(map(str, exhibit.files)), soft_wrap=True, markup=False)


@app.command(epilog="Example: tribit compare --data data --out comparison")
def compare(
    folder: Annotated[
        Path | None,
        typer.Option(
            "--data", help="Folder that holds ml-100k, senate and coat [drawn data only]."
        ),
    ] = None,
    on: Annotated[
        str | None, typer.Option(help="Data sets, with commas [all that --data has].")
    ] = None,
    systems: Annotated[str | None, typer.Option(help="Systems, with commas [all].")] = None,
    out: Annotated[
        Path, typer.Option("--out", "-o", help="Folder for the table and its journal.")
    ] = Path("comparison"),
    jobs: Annotated[int, typer.Option(help="Processes; times are of one core each.")] = 1,
    seed: Annotated[int, typer.Option(help="Seed of draws, splits and starts.")] = 0,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress bar.")] = False,
) -> None:
    """Compare every system on the same data: accuracy and time."""
    from tribit.comparison import compare_all  # noqa: PLC0415

    with _continued():
        results, files = compare_all(
            folder,
            on=None if on is None else on.split(","),
            systems=None if systems is None else systems.split(","),
            out=out,
            n_jobs=jobs,
            seed=seed,
            shown=not quiet,
        )
    table = Table("data", "system", "sign error", "log-loss", "AUC", "seconds", "chosen")
    for result in results:
        measures = (result.sign_error, result.log_loss, result.auc)
        table.add_row(
            result.data,
            result.system,
            *("-" if value is None else f"{value:.4f}" for value in measures),
            f"{result.seconds:.2f}",
            result.failure or result.parameters,
        )
    console.print(table)
    console.print("Files:", ", ".join(map(str, files)), soft_wrap=True, markup=False)


@contextmanager
def _continued() -> Iterator[None]:
    """Say that a run which is interrupted can be continued."""
    try:
        yield
    except KeyboardInterrupt:
        typer.echo("Interrupted: the same command continues from here.", err=True)
        raise typer.Exit(130) from None


def _skipped(count: int) -> str:
    return f" ({count} with unknown ids left out)" if count else ""


def _print(facts: dict[str, str]) -> None:
    width = max(map(len, facts))
    for name, fact in facts.items():
        typer.echo(f"{name:<{width}}  {fact}")


def main(arguments: list[str] | None = None) -> None:
    """Run the command line; bad input ends with one sentence and exit code 2, never a traceback."""
    try:
        with warnings.catch_warnings():
            # A warning is one line too, without the place in the library that raised it.
            warnings.showwarning = _show_warning
            status: Any = app(args=arguments, standalone_mode=True)
    except TribitError as error:
        typer.echo(f"Error: {_spoken(str(error))}", err=True)
        status = 2
    sys.exit(status)


def _show_warning(message: Warning | str, *_: Any, **__: Any) -> None:
    typer.echo(f"Warning: {_spoken(str(message))}", err=True)


#: The library's words for what has another name on the command line.
WORDS = {
    "like_at= (for pairs: Observations.from_ratings)": "--like-at",
    "like_at=": "--like-at",
    "like_at": "--like-at",
    "value=": "--value",
    "duplicates='first', 'last' or 'majority' (for a matrix: Observations.from_pairs)": (
        "--duplicates first, last or majority"
    ),
    "intercept=False": "--no-intercept",
    "solver='projected_gradient'": "--solver projected_gradient",
    "(gammas)": "(--gammas)",
    "pass rho,": "pass --rho,",
    "(data=)": "(--data)",
    "pass its place as path=": "pass its place with --data",
    "pass path=": "pass its place with --data",
}


def _spoken(message: str) -> str:
    """Return a message in the words of the command line."""
    for word, option in WORDS.items():
        message = message.replace(word, option)
    return message

"""Commands that fit a model and use a saved one.

There is a command for each entry of ``QUESTIONS``, whose options follow from the fields. A command parses, reads,
changes, answers and writes (:mod:`tribit.cli.actions`).
"""

from __future__ import annotations

import importlib.util
import shlex
import time
from contextlib import nullcontext
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, Literal

import typer

from tribit.cli.common import (
    EscapeFormulas,
    Json,
    ModelOrTable,
    ModelPath,
    Quiet,
    app,
    check_out,
    print_facts,
    print_json,
    share_or_count,
    size,
    yes_no_or_auto,
)
from tribit.cli.exits import (
    StoppedError,
    in_options,
    keyboard_interrupts,
    print_message,
    until_stopped,
)
from tribit.cli.options import (
    COMMAND,
    LazyCommand,
    TableCommand,
    fit_options,
    given_rules,
    later_reading,
    line_reading,
    model_options,
    question_options,
    reading_options,
)
from tribit.errors import InvalidInputError, parameter, quoted
from tribit.questions import QUESTIONS, Entry

Out = Annotated[
    Path | None,
    typer.Option(
        "--out",
        "-o",
        help="File to write (.csv, .tsv, .gz, .jsonl, .parquet, - for CSV on standard output; export: .npz, .parquet).",
    ),
]
#: Changes that may come before a question.
CHANGE = "tribit.questions.changes:Incorporate"


#: Packages that the service needs beside those of the library.
SERVICE_PACKAGES = ("starlette", "pydantic", "uvicorn", "prometheus_client")


class FitCommand(LazyCommand):
    """``tribit fit`` with the options of reading, of the model and of the fit."""

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
    out: Annotated[Path, typer.Option("--out", "-o", help="File to write the model to.")],
    wide: Annotated[
        bool,
        typer.Option("--wide", help="Short for --layout wide: one row of the matrix in each line."),
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
            help="Whether to fit a ranker for top-N lists.",
        ),
    ] = "auto",
    keep_seen: Annotated[
        bool,
        typer.Option(
            "--seen/--no-seen",
            help="Keep the entries in the model's file; recommendations leave them out.",
        ),
    ] = True,
    hold_out: Annotated[
        Any,
        typer.Option(
            parser=share_or_count,
            metavar="share|count",
            help="Share or number of entries for a test set: a second fit without them is evaluated on them, and the "
            "file keeps the result. The model itself is fitted to all entries.",
        ),
    ] = None,
    scheduler: Annotated[
        str | None,
        typer.Option(help="Address of a dask scheduler to fit on: tcp://10.0.0.1:8786."),
    ] = None,
    keep_partial: Annotated[
        bool,
        typer.Option("--keep-partial", help="Write the best model so far after Ctrl-C."),
    ] = False,
    quiet: Quiet = False,
) -> None:
    """Fit a model to a long table with one entry in each line, a wide table, or a matrix."""
    from tribit.cli.actions import fit_file, note_origin  # noqa: PLC0415
    from tribit.data.files import check_different, writable  # noqa: PLC0415 - help should not wait
    from tribit.model.links import as_link, check_scale  # noqa: PLC0415
    from tribit.report.summary import fit_facts  # noqa: PLC0415
    from tribit.solvers.loop import INTERRUPTED  # noqa: PLC0415

    groups = context.obj
    parameters = groups["reading"] | groups["model"] | groups["fit"]
    parameters["layout"] = "wide" if wide else parameters["layout"]
    parameters |= {
        "row_features": row_features,
        "column_features": column_features,
        "ranker": ranker,
        "keep_seen": keep_seen,
        "hold_out": hold_out,
        "scheduler": scheduler,
    }
    writable(out)  # before the fit
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
        evaluated = hold_out is None or bundle.evaluation_ is not None
        finished = model.stop_reason_ != INTERRUPTED and evaluated
        if not (finished or keep_partial):
            raise KeyboardInterrupt
        note_origin(bundle, file, context.meta[COMMAND], out)
        bundle.save(out)
    except (KeyboardInterrupt, StoppedError):
        hint = (
            "there was no model yet"
            if keep_partial
            else "--keep-partial writes the best model so far"
        )
        raise StoppedError(f"{quoted(str(out))} was not changed ({hint}).") from None
    facts = {name: in_options(fact, context.command) for name, fact in fit_facts(bundle).items()}
    if model.backend_ == "sampled":
        facts["sums"] = SAMPLED
    facts["file"] = f"{out} (after {time.perf_counter() - began:.1f} seconds)"
    print_facts(facts | {"next": _next_command(bundle, out)})
    if not finished:
        raise StoppedError(f"{quoted(str(out))} holds the best model so far.")


#: Largest share of observed cells at which recommendations are the next question.
MAX_DENSITY_OF_LISTS = 0.5
#: Fact about a fit whose sums over all cells are estimates.
SAMPLED = "over all cells: the quadratic part exact, the rest estimated from a sample"


def _next_command(bundle: Any, out: Path) -> str:
    """Return a command to type after a fit: the list of the first row where cells are left to recommend."""
    path, seen = shlex.quote(str(out)), bundle.seen_
    if seen is None or not bundle.keep_seen:
        return f"tribit info {path}"
    if seen.density > MAX_DENSITY_OF_LISTS:
        return f"tribit report {path}"
    row = shlex.quote(str(bundle.axes_.rows.names(seen.rows[:1])[0]))
    return f"tribit recommend {path} {'--for=' if row.startswith('-') else '--for '}{row}"


class SplitCommand(LazyCommand):
    """``tribit split`` with the options of reading that it needs."""

    groups = MappingProxyType({"rules": line_reading})


@app.command(
    cls=SplitCommand,
    epilog="Example: tribit split ratings.csv --test 0.1 -o train.csv test.csv",
)
def split(
    context: typer.Context,
    file: Annotated[
        Path,
        typer.Argument(
            help="Table with an entry on each line: .csv, .tsv, .txt, .dat, .jsonl (plain or .gz); - is standard input."
        ),
    ],
    out: Annotated[
        tuple[Path, Path],
        typer.Option("--out", "-o", help="Training file and test file to write."),
    ],
    test: Annotated[
        Any,
        typer.Option(
            parser=share_or_count,
            metavar="share|count",
            help="Share or number of the pairs of ids for the test file.",
        ),
    ] = 0.1,
    by: Annotated[
        str, typer.Option(help="random, or time: the test file has the latest entries.")
    ] = "random",
    last: Annotated[
        int | None,
        typer.Option(
            help="With --by time, the number of last entries of each row for the test file."
        ),
    ] = None,
    random_state: Annotated[int, typer.Option(help="Seed of the split.")] = 0,
) -> None:
    """Split a table, at random or by time, into a training and a test file, with its lines as they are."""
    from tribit.data.reading import Reading  # noqa: PLC0415 - help should not wait
    from tribit.data.splitting import split_table  # noqa: PLC0415

    rules = given_rules(context)
    max_size = rules.pop("max_size", None)
    if by != "time" and "time" in rules:
        raise InvalidInputError(
            f"{parameter('time')} is for {parameter('by', 'time')}; add that, or leave it out of a random split."
        )
    found = split_table(
        file,
        out,
        test=test,
        random_state=random_state,
        reading=Reading(**rules),
        max_size=max_size,
        by=by,  # type: ignore[arg-type]
        last=last,
    )
    facts = {
        "training file": f"{out[0]}: {found.n_train:,} records",
        "test file": f"{out[1]}: {found.n_test:,} records",
    }
    if found.n_repeated:
        facts["repeated pairs"] = f"{found.n_repeated:,}, each with all its records in one file"
    print_facts(facts)


def register(name: str, entry: Entry) -> None:
    """Add a question under a name, and its command to the command line.

    Examples
    --------
    >>> from tribit.cli.commands import register
    >>> from tribit.questions import Entry
    >>> entry = Entry("package.popular.Popular", "most popular items", "")
    >>> register("popular", entry)  # doctest: +SKIP
    """
    QUESTIONS[name] = entry
    _add_command(name, entry)


def _add_command(name: str, entry: Entry) -> None:
    groups = {
        "question": lambda: question_options(entry.load()),
        "change": lambda: (
            question_options(Entry(CHANGE, "", "").load()) if entry.load().after_changes else []
        ),
        "rules": lambda: later_reading() if entry.load().after_changes else [],
    }
    command = type("QuestionCommand", (LazyCommand,), {"groups": groups})

    def ask(
        context: typer.Context,
        model: ModelPath,
        out: Out = None,
        escape_formulas: EscapeFormulas = None,
        as_json: Json = False,
    ) -> None:
        from tribit.cli.answers import answer_question  # noqa: PLC0415 - help should not wait

        if as_json and out is not None:
            raise typer.BadParameter("--json prints and --out writes the answer; pass one of them.")
        values = context.obj["question"] | context.obj["change"]
        paths = (each for each in values.values() if isinstance(each, Path))
        check_out(out, model, *paths)
        answer = answer_question(name, model, values, given_rules(context))
        answer.check()
        if as_json:
            print_json(answer.to_dict())
        elif out is None:
            typer.echo(answer.text())
        else:
            answer.write(out, escape_formulas=escape_formulas, verbose=1)
            print_facts({"file": str(out), **answer.facts()}, out)

    if entry.of_entries:
        ask.__annotations__["model"] = ModelOrTable
    app.command(name, cls=command, help=entry.help, epilog=f"Example: tribit {entry.example}")(ask)


for _name, _entry in QUESTIONS.items():
    _add_command(_name, _entry)


@app.command(
    cls=TableCommand,
    epilog="Example: tribit update model.tribit today.csv -o model.tribit",
)
def update(
    context: typer.Context,
    model: ModelPath,
    file: Annotated[
        Path, typer.Argument(help="Table of entries observed after the fit, or - for stdin.")
    ],
    out: Annotated[
        Path, typer.Option("--out", "-o", help="File to write; it may be the same as the model.")
    ],
    row_features: Annotated[
        Path | None, typer.Option(help="Table of features of new rows, as in the fit.")
    ] = None,
    column_features: Annotated[
        Path | None, typer.Option(help="Table of features of new columns, as in the fit.")
    ] = None,
) -> None:
    """Update a model with new entries, rows and columns, without a new fit."""
    from tribit.cli.actions import update_file  # noqa: PLC0415 - help should not wait

    check_out(out, file, row_features, column_features)
    tables = row_features, column_features
    before, after = update_file(
        model, file, out, tables, given_rules(context), context.meta[COMMAND]
    )
    (rows, columns), (old_rows, old_columns) = after.shape_, before.shape_
    new, old = (0 if each.seen_ is None else each.seen_.n_observed for each in (after, before))
    print_facts(
        {
            "model": str(out),
            "rows": f"{rows} ({rows - old_rows} new)",
            "columns": f"{columns} ({columns - old_columns} new)",
            "entries": f"{new} ({new - old} new)",
        }
    )


@app.command(
    cls=TableCommand, epilog="Example: tribit report model.tribit --test test.csv -o report.html"
)
def report(
    context: typer.Context,
    model: ModelPath,
    test: Annotated[
        Path | None,
        typer.Option(
            "--test",
            help="Test set: observed entries that the fit did not use [a part of the entries].",
        ),
    ] = None,
    against: Annotated[
        Path | None,
        typer.Option(
            "--against",
            help="Second model (.tribit), compared on the same test entries; or a table with a second test set, such "
            "as that of a later period, on which the same model is compared.",
        ),
    ] = None,
    out: Annotated[Path, typer.Option("--out", "-o", help="Page to write.")] = Path("report.html"),
    title: Annotated[str | None, typer.Option(help="Heading of the page.")] = None,
    random_state: Annotated[int, typer.Option(help="Seed of the split, without --test.")] = 0,
    unknown: Annotated[
        Literal["popularity", "skip", "error"],
        typer.Option(
            help="Unknown ids in the test set: popularity (predicted from the known row or column), skip or error."
        ),
    ] = "popularity",
) -> None:
    """Write a report on a model and its evaluation, as one page for any browser."""
    from tribit.cli.actions import report_file  # noqa: PLC0415 - help should not wait

    check_out(out, model, test, against)
    rules = given_rules(context)
    done = report_file(
        model, out, test, against, rules, title=title, random_state=random_state, unknown=unknown
    )
    found = done.evaluation
    origin = "held out for the report" if done.held_out_here else "of the test set"
    facts = {
        "report": f"{out} ({done.size / 1000:.0f} kB)",
        "evaluated on": f"{found.n_entries} entries {origin}{found.unknown_remark()}",
    }
    if found.unseen is None:
        facts["error rate"] = f"{found.error_rate:.4f}"
    if (compared := done.facts["against"]) is not None:
        facts["comparison"] = compared["texts"][0]
    print_facts(facts)


@app.command(epilog="Example: tribit serve model.tribit --port 8000")
def serve(
    model: ModelPath,
    host: Annotated[
        str, typer.Option(help="Address to listen at; 0.0.0.0 for requests from other machines.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port to listen at, 0 for any free one.")] = 8000,
    workers: Annotated[
        int, typer.Option(help="Number of processes, each with the model in its memory.")
    ] = 1,
    max_body: Annotated[
        Any,
        typer.Option(
            parser=size,
            metavar="bytes",
            help="Limit on the bytes of a request: 1M.",
            show_default="1M",
        ),
    ] = 2**20,
    max_pairs: Annotated[
        int,
        typer.Option(help="Limit on the pairs of a request, and on the columns in all its lists."),
    ] = 10_000,
    max_rows: Annotated[int, typer.Option(help="Limit on the rows of a request.")] = 1000,
    max_entries: Annotated[
        int, typer.Option(help="Limit on the entries of new rows in a request.")
    ] = 10_000,
    max_n: Annotated[int, typer.Option(help="Limit on the length of a list.")] = 1000,
    max_per_address: Annotated[
        int, typer.Option(help="Limit on the open connections of one address, in each process.")
    ] = 256,
    allow_host: Annotated[
        list[str] | None,
        typer.Option(
            metavar="name",
            help="Host name that requests may use, beside --host and those of the loopback address; * for any. "
            "Repeat it for several.",
        ),
    ] = None,
    token_file: Annotated[
        Path | None,
        typer.Option(
            help="File with the token that requests must send: Authorization: Bearer token."
        ),
    ] = None,
    access_log: Annotated[
        bool, typer.Option("--access-log", help="Log a line for each request.")
    ] = False,
) -> None:
    """Answer /predict, /recommend, /explain and /similar over HTTP; a replaced model file is loaded."""
    missing = [name for name in SERVICE_PACKAGES if importlib.util.find_spec(name) is None]
    if missing:
        raise InvalidInputError(
            f"The service needs {' and '.join(missing)}, which {'is' if len(missing) < 2 else 'are'} not installed; "
            'run pip install "tribit[serve]".'
        )
    from tribit.serve.app import serve as run  # noqa: PLC0415 - help should not wait
    from tribit.serve.settings import LOOPBACK, ServiceSettings, read_token  # noqa: PLC0415

    def ready(address: str) -> None:
        typer.echo(f"{model} at {address} (questions: {address}/docs)")
        if host not in LOOPBACK and token_file is None:
            print_message(
                "Warning",
                "The service has no authentication: pass --token-file, or let only trusted machines or a proxy that "
                "authenticates reach it.",
            )

    settings = ServiceSettings(
        str(model),
        max_body=max_body,
        max_pairs=max_pairs,
        max_rows=max_rows,
        max_entries=max_entries,
        max_n=max_n,
        max_per_address=max_per_address,
        hosts=tuple(allow_host or ()),
        token_digest=None if token_file is None else read_token(token_file),
    )
    with until_stopped():
        run(settings, host, port, workers=workers, access_log=access_log, ready=ready)

"""Work and tables of the commands on the paper: rich and the studies are imported here, and not for ``--help``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import typer
from rich.console import Console
from rich.table import Table

from tribit.data.files import writable
from tribit.datasets import MOVIELENS_LICENCE
from tribit.paper import demo
from tribit.paper.comparison import Compared, compare_all
from tribit.paper.experiments import Reproduction, Settings, reproduce
from tribit.plots import check_picture
from tribit.report.page import write_report

__all__ = [
    "Settings",
    "compare_all",
    "reproduce",
    "show_comparison",
    "show_demo",
    "show_exhibits",
]

console = Console()


def show_demo(picture: Path | None, report: Path | None, *, random_state: int, shown: bool) -> None:
    """Run the demonstration, print its tables, and write a picture and a report."""
    if picture is not None:
        check_picture(picture)
    if report is not None:
        writable(report)
    result = demo.run_demo(random_state=random_state, shown=shown)
    console.print(result.summary())
    fits = Table("fit", "error rate", "RMSE of P(like)", "seconds", title="Unobserved entries")
    for fit in result.fits:
        fits.add_row(
            fit.name,
            f"{100 * fit.error_rate:.1f}%",
            f"{fit.probability_error:.3f}",
            f"{fit.seconds:.1f}",
        )
    console.print(fits)
    lists = Table("order", "avoid_dislikes", "likes", "dislikes", title="In 100 top-10 lists")
    for each in result.lists:
        weight = "" if each.avoid_dislikes is None else f"{each.avoid_dislikes:g}"
        lists.add_row(each.name, weight, f"{each.likes:.0f}", f"{each.dislikes:.0f}")
    console.print(lists)
    if picture is not None:
        demo.plot_demo(result, picture)
        console.print(f"Picture: {picture}", soft_wrap=True, markup=False)
    if report is not None:
        write_report(result.recommender, report, result.later, title="A demonstration of tribit")
        console.print(f"Page: {report}, to be opened in any browser", soft_wrap=True, markup=False)


def show_exhibits(made: Sequence[Reproduction]) -> None:
    """Print the claims of the paper beside the measurements of each figure or table."""
    if {"fig4", "table1"} & {exhibit.name for exhibit in made}:
        typer.echo(MOVIELENS_LICENCE, err=True)
    for exhibit in made:
        table = Table("the paper", "protocol", "measured", "verdict", title=exhibit.title)
        for way, claims in exhibit.claims.items():
            for claim in claims:
                table.add_row(claim.paper, way, claim.measured, claim.verdict)
        console.print(table)
        console.print("Files:", ", ".join(map(str, exhibit.files)), soft_wrap=True, markup=False)


def show_comparison(results: Sequence[Compared], files: Sequence[Path]) -> None:
    """Print the measures of every system on every data set."""
    table = Table("data", "system", "error rate", "log-loss", "AUC", "seconds", "chosen")
    for result in results:
        measures = (result.error_rate, result.log_loss, result.auc)
        table.add_row(
            result.data,
            result.system,
            *("-" if value is None else f"{value:.4f}" for value in measures),
            f"{result.seconds:.2f}",
            result.failure or result.parameters,
        )
    console.print(table)
    console.print("Files:", ", ".join(map(str, files)), soft_wrap=True, markup=False)

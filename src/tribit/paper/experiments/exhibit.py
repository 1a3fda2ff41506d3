"""A figure or a table of the paper, as ``tribit reproduce`` makes it again."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from tribit.paper.experiments.journal import Row
from tribit.paper.experiments.runner import Study
from tribit.paper.experiments.settings import Settings
from tribit.paper.experiments.statistics import Claim

#: The claims checked, under the way of computing.
Claims: TypeAlias = dict[str, list[Claim]]


@dataclass(frozen=True)
class Exhibit:
    """A figure or a table: how its numbers come about, and what is made of them.

    Parameters
    ----------
    name : str
        As on the command line; also the name of its files.
    title : str
        What it shows.
    study : callable
        From settings and the place of the data to a study. Exhibits with studies of one name share its results.
    claims : callable
        From the rows, and those of other exhibits that are finished, to the paper's claims and what became of them.
    numbers : callable
        From the rows to tables in Markdown.
    draw : callable
        From the rows and a path without a suffix to the pictures written.
    rows : callable
        The rows of the study that belong to the exhibit.
    """

    name: str
    title: str
    study: Callable[[Settings, Path | None], Study]
    claims: Callable[[list[Row], Mapping[str, list[Row]]], Claims]
    numbers: Callable[[list[Row]], str]
    draw: Callable[[list[Row], Path], list[Path]]
    rows: Callable[[list[Row]], list[Row]] = lambda rows: rows

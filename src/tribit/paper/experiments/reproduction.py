"""``tribit reproduce``: run the studies behind figures and tables, and write their results."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tribit.backends.threads import count_jobs
from tribit.errors import InvalidInputError
from tribit.paper.experiments.claims import CAVEAT, Claims, Exhibit, claims_table
from tribit.paper.experiments.film_exhibits import FIG4, FIG4_T, TABLE1
from tribit.paper.experiments.journal import (
    VERSIONS,
    Journal,
    Row,
    check_header,
    processor,
    read_journal,
    results_folder,
    write_csv,
    write_text,
)
from tribit.paper.experiments.runner import Pool, Study, progress_bar
from tribit.paper.experiments.settings import Settings
from tribit.paper.experiments.synthetic_exhibits import FIG1, FIG2, FIG3, FIG3_T
from tribit.plots import check_pictures

EXHIBITS = {exhibit.name: exhibit for exhibit in (FIG1, FIG2, FIG3, FIG3_T, FIG4, FIG4_T, TABLE1)}
ALL = "all"
QUICK = "Quick run: coarse grids and few trials; draw no conclusions from it."


@dataclass(frozen=True)
class Reproduction:
    """A figure or table that was made: the claims behind it and the files that show it.

    Examples
    --------
    >>> from tribit.paper.experiments import Settings, reproduce
    >>> for made in reproduce("fig1", settings=Settings(quick=True)):  # doctest: +SKIP
    ...     print(made.title, made.files)
    """

    name: str
    title: str
    claims: Claims
    files: list[Path]


def reproduce(
    which: str = ALL,
    *,
    out: str | os.PathLike[str] = "reproduction",
    settings: Settings | None = None,
    data: str | os.PathLike[str] | None = None,
    n_jobs: int | None = None,
    shown: bool = True,
) -> list[Reproduction]:
    """Make a figure or a table of the paper again, or all of them.

    Results are saved in ``out`` as they come. The same call continues a run that was stopped or killed, and gives the
    tables of an uninterrupted run.

    Parameters
    ----------
    which : {"fig1", "fig2", "fig3", "fig3-t", "fig4", "fig4-t", "table1", "all"}
        The figure or table; "-t" is the figure along the weight of imputation.
    out : path
        Folder for results, pictures and summaries; made if missing. A folder with results of other settings or
        versions is refused.
    settings : Settings, optional
        Number of trials, seed and protocol.
    data : path, optional
        Folder of MovieLens 100k, for fig4 and table1; downloaded by default.
    n_jobs : int or None
        Processes; every core by default. The results do not depend on it.
    shown : bool
        Whether a terminal shows a progress bar.

    Returns
    -------
    list of Reproduction
        One for each figure or table.

    Examples
    --------
    >>> from tribit.paper.experiments import Settings, reproduce
    >>> reproduce("fig1", out="reproduction", settings=Settings(quick=True))  # doctest: +SKIP
    """
    settings = settings or Settings()
    exhibits = _exhibits(which)
    check_pictures()
    jobs = count_jobs(n_jobs)
    place = None if data is None else Path(data).resolve()
    studies = {exhibit.name: exhibit.study(settings, place) for exhibit in exhibits}
    folder = results_folder(out)
    for exhibit in exhibits:
        _check_free(folder, exhibit, studies[exhibit.name])
    if len(exhibits) > 1:
        _check_mine(folder, "summary.md", [studies[exhibit.name] for exhibit in exhibits])
    done: dict[str, list[Row]] = {}
    made = []
    with Pool(jobs) as pool, progress_bar(shown=shown) as begin:
        for exhibit in exhibits:
            study = studies[exhibit.name]
            if study.name not in done:
                with Journal(study.journal_path(folder), study.header) as journal:
                    advance = begin(study.name, study.n_tasks)
                    done[study.name] = pool.finish(study, journal, advance)
            rows = done[study.name]
            others = done if "fig1" in done else _rows_of_fig1(folder, settings, exhibit)
            made.append(_write(folder, exhibit, study, rows, others))
    if len(made) > 1:
        parts = [(folder / f"{exhibit.name}.md").read_text("utf-8") for exhibit in exhibits]
        write_text(folder / "summary.md", "\n".join(parts))
    return made


def _exhibits(which: str) -> list[Exhibit]:
    if which == ALL:
        return list(EXHIBITS.values())
    if which not in EXHIBITS:
        raise InvalidInputError(
            f"The paper has no {which!r} to reproduce; use one of {', '.join((*EXHIBITS, ALL))}."
        )
    return [EXHIBITS[which]]


def _check_free(folder: Path, exhibit: Exhibit, study: Study) -> None:
    """Refuse to continue results of another study, or to overwrite files that are not results."""
    check_header(study.journal_path(folder), study.header)
    longer = tuple(name for name in EXHIBITS if name.startswith(f"{exhibit.name}-"))
    for path in folder.glob(f"{exhibit.name}*"):  # its table, pictures and summary
        if not path.name.startswith(longer):
            _check_mine(folder, path.name, [study])


def _check_mine(folder: Path, name: str, studies: Sequence[Study]) -> None:
    """Refuse to overwrite a file without its journal."""
    journals = any(study.journal_path(folder).exists() for study in studies)
    if (folder / name).exists() and not journals:
        raise InvalidInputError(
            f"{str(folder)!r} has a {name} but not its journal, so that the file would be overwritten; "
            "choose another folder."
        )


def _rows_of_fig1(folder: Path, settings: Settings, exhibit: Exhibit) -> dict[str, list[Row]]:
    """Return the rows of Fig. 1, with which Fig. 2 is compared, if the folder has them."""
    if exhibit.name != "fig2":
        return {}
    study = EXHIBITS["fig1"].study(settings, None)
    results = read_journal(study.journal_path(folder), study.header)
    rows = None if results is None else study.rows(results)
    return {} if rows is None else {"fig1": rows}


def _write(
    folder: Path, exhibit: Exhibit, study: Study, rows: list[Row], others: Mapping[str, list[Row]]
) -> Reproduction:
    stem = folder / exhibit.name
    claims = exhibit.claims(rows, others)
    table = stem.with_suffix(".csv")
    write_csv(table, exhibit.rows(rows), _constants(exhibit, study))
    pictures = exhibit.draw(rows, stem)
    summary = stem.with_suffix(".md")
    write_text(summary, _summary(exhibit, study, claims, rows, pictures))
    return Reproduction(exhibit.name, exhibit.title, claims, [table, *pictures, summary])


def _constants(exhibit: Exhibit, study: Study) -> Row:
    """Return the values that all rows share: the exhibit, scalar parameters, versions."""
    single = {
        name: value
        for name, value in study.parameters.items()
        if not isinstance(value, list | dict)
    }
    return {"exhibit": exhibit.name} | single | VERSIONS


def _summary(
    exhibit: Exhibit, study: Study, claims: Claims, rows: list[Row], pictures: list[Path]
) -> str:
    constants = {
        name: value for name, value in _constants(exhibit, study).items() if value is not None
    }
    made = ", ".join(f"{name} {value}" for name, value in constants.items() if name != "exhibit")
    shown = "\n".join(
        f"![{exhibit.title}]({path.name})" for path in pictures if path.suffix == ".png"
    )
    claims_of = "Claims of the paper" if exhibit.in_paper else "Comparisons"
    warning = f"{QUICK}\n\n" if study.parameters["quick"] else ""
    return (
        f"## {exhibit.title}\n\n{shown}\n\n### {claims_of}\n\n{warning}{claims_table(claims)}\n\n{CAVEAT}\n\n"
        f"### Numbers\n\n{exhibit.numbers(rows)}\n\nMade with {made}, on {processor()}.\n"
    )

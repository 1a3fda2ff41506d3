"""From a user's table to a bundle, and from new entries to the next one."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from tribit.completion import BinaryMatrixCompletion
from tribit.data.files import check_different
from tribit.data.ingest import Duplicates
from tribit.data.reading import Reading
from tribit.model.spec import AUTO
from tribit.recommender import Recommender
from tribit.workflows.bundles import PathLike, opened
from tribit.workflows.newcomers import features_of, with_new

#: Rules of reading that :func:`fit_file` takes by their names, besides those in its signature and the model's.
RULES = tuple(
    each.name
    for each in fields(Reading)
    if each.name not in {"row", "column", "value", "duplicates", "like_at", "notes"}
)


def fit_file(
    path: PathLike,
    *,
    row: str | None = None,
    column: str | None = None,
    value: str | None = None,
    duplicates: Duplicates = "error",
    max_size: int | None = None,
    row_features: PathLike | None = None,
    column_features: PathLike | None = None,
    ranker: Any = AUTO,
    keep_seen: bool = True,
    scheduler: str | None = None,
    **parameters: Any,
) -> Recommender:
    """Fit a recommender on a table of observed entries.

    Parameters
    ----------
    path : str or path-like
        A file that :func:`tribit.data.tables.read_table` reads.
    row, column : str, optional
        Names of the columns of ids; or numbers from 0 for a text file without a header. A table of two or three columns
        needs none, nor does a wide table or a matrix.
    value : str, optional
        The column of +1 and -1, or of ratings (then pass ``like_at``); without it every pair is a like.
    duplicates : {"error", "first", "last", "majority"}, default="error"
        As in :meth:`Observations.from_pairs`.
    max_size : int, optional
        The most bytes to read; see :func:`tribit.data.tables.observations_from_file`.
    row_features, column_features : str or path-like, optional
        Tables of what is known of rows and of columns, ids in the first column. Tags are separated by ``|``.
    ranker, keep_seen
        Of :class:`tribit.Recommender`.
    scheduler : str, optional
        The address of a dask scheduler, on whose workers to fit. The path may then be a folder of parquet files, which
        the workers read; such a bundle has no ranker and keeps no entries.
    **parameters
        Of :class:`BinaryMatrixCompletion`, and the other rules of :class:`tribit.data.reading.Reading` (``like``,
        ``dislike``, ``delimiter``, ``decimal``, ``encoding``, ``missing``, ``layout``, ``zeros``, ``format``).

    Returns
    -------
    Recommender
        With ``reading_``, the rules by which the table was read, its column names among them.
    """
    rules = {name: parameters.pop(name) for name in RULES if name in parameters}
    model = BinaryMatrixCompletion(**parameters)
    rules |= {"row": row, "column": column, "value": value, "duplicates": duplicates}
    reading = Reading(**rules, like_at=model.like_at)
    recommender = Recommender(
        model, ranker=ranker, keep_seen=keep_seen, random_state=model.random_state
    )
    of_rows, of_columns = (
        features_of(table, max_size) for table in (row_features, column_features)
    )
    features = {"row_features": of_rows, "column_features": of_columns}
    if scheduler is None:
        records = reading.records(path, max_size=max_size)
        recommender.fit(records.observations(), **features)
        recommender.reading_ = records.reading
        return recommender
    from tribit.workflows.on_cluster import fit_on_cluster  # noqa: PLC0415 - an extra

    return fit_on_cluster(recommender, path, reading, scheduler, features, max_size=max_size)


def update_file(
    model_path: PathLike,
    path: PathLike,
    out: PathLike,
    *,
    row_features: PathLike | None = None,
    column_features: PathLike | None = None,
    max_size: int | None = None,
    **rules: Any,
) -> Recommender:
    """Write a bundle that knows the entries of a further table too, and return it.

    Parameters
    ----------
    model_path : str or path-like
        A bundle that keeps its entries.
    path : str or path-like
        A table of entries that came after the fit: of new rows, new columns or known ones.
    out : str or path-like
        The bundle to write; it may be the one that is read.
    row_features, column_features : str or path-like, optional
        Tables of features of new rows and columns, with or without entries; as those of the fit.
    max_size : int, optional
        The most bytes to read.
    **rules
        Of :class:`tribit.data.reading.Reading`, where the table differs from that of the fit.
    """
    for source in (path, row_features, column_features):
        if source is not None:
            check_different(source, out)
    bundle, _, _ = with_new(
        opened(model_path),
        path,
        row_features=row_features,
        column_features=column_features,
        max_size=max_size,
        **rules,
    )
    bundle.save(out)
    return bundle

"""The ranker by rates: at which rates unobserved entries become likes and dislikes, and its fit.

A fitted ranker answers without scikit-learn; :class:`tribit.ranking.CandidateRanker` is the estimator.
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from tribit.backends.cuda.device import algebra_on, memory_named
from tribit.backends.threads import count_jobs, single_threaded_blas
from tribit.checks import check_fitted
from tribit.data.axis import Axes, Axis, HasAxes, Positions, check_new, longer
from tribit.data.observations import Observations, read_entries
from tribit.errors import InvalidInputError
from tribit.model.calibration import Isotonic
from tribit.model.ease import CHOICE_COLUMNS, Ease, fit_ease
from tribit.randomness import RandomState, generator
from tribit.ranking.lists import Recommendations, recommend
from tribit.ranking.rates import CellFeatures, fit_rates, indicators

__all__ = ["RateRanker", "check_arrays", "fit_ranker"]


Array = NDArray[np.float64]
#: Cells from which l2 and the coefficients are estimated, and the least number of rows that they fill; of a larger
#: matrix rows are sampled, to bound the time. MovieLens-100k has fewer cells; on 1M simulated entries the coefficients
#: of three samples are within 10% of one another, with the NDCG of twice the cells to .0002 (seeds 10 to 12).
MAX_FIT_CELLS, MIN_FIT_ROWS = 2**21, 256


class RateRanker(HasAxes):
    """A fitted ranker: the rates of likes and dislikes of its rows, and of others.

    Attributes
    ----------
    coefficients_ : array of shape (2, 5)
        ``t_0`` to ``t_4`` of likes and of dislikes; ``t_0`` is ``-inf`` where no dislikes were observed.
    horizon_ : Isotonic
        Map from the logarithm of the rate of entries to the probability of one within the horizon (:meth:`expected`).
    l2_ : (float, float)
        Ridge of the regressions of the likes and of the mask.
    axes_ : Axes
        Rows and columns.

    Examples
    --------
    >>> import numpy as np
    >>> from tribit import Observations
    >>> from tribit.ranking import CandidateRanker, RateRanker
    >>> seen = Observations.from_matrix([[1, 1, 0, 0], [1, 1, 0, -1], [0, -1, 1, 1]])
    >>> isinstance(CandidateRanker(random_state=0).fit(seen), RateRanker)
    True
    """

    like_at: float | None = None
    n_jobs: int | None = None
    coefficients_: Array
    horizon_: Isotonic
    l2_: tuple[float, float]
    _cells: CellFeatures

    def prepare(self) -> bool:
        """Compute the tables of both regressions now and not at the first rows, where the columns are few enough.

        Returns
        -------
        bool
            Whether there are tables, so that no linear system is solved for a row.
        """
        check_fitted(self)
        regressions = self._cells.likes, self._cells.mask
        for each in regressions:
            if self.shape_[1] <= each.algebra.most_columns:
                each.inverse  # noqa: B018 - computed and kept
        return all(each.has_table for each in regressions)

    def log_rates(self, rows: Positions) -> tuple[Array, Array]:
        """Return the logarithms of the rates of likes and of dislikes of some rows, for every column.

        In a unit of time in which as many likes and dislikes would come as have been observed. Those of an observed
        entry are as if it had not been observed.

        Parameters
        ----------
        rows : array of int
            Positions of the rows.

        Returns
        -------
        likes, dislikes : array of shape (n_rows, n_columns)
            Logarithms of the rates; dislikes ``-inf`` where none were observed.
        """
        check_fitted(self)
        features = self._cells.of(np.asarray(rows), count_jobs(self.n_jobs))
        likes, dislikes = (np.full(features.shape[1:], t[0]) for t in self.coefficients_)
        for feature, t, s in zip(features, *self.coefficients_[:, 1:], strict=True):
            likes += t * feature
            dislikes += s * feature
        return likes, dislikes

    def expected(self, likes: Array, dislikes: Array) -> tuple[Array, Array]:
        """Return the likes and dislikes to be expected of unobserved cells within the horizon, given their rates.

        The horizon is the time in which the table grows by a tenth. A cell becomes at most one entry, so that both are
        probabilities, and so is their sum, which never decreases in the sum of the rates. It is calibrated on the
        entries of the fit, each of them held out when its own rate is estimated (:mod:`tribit.model.horizon`); likes
        and dislikes share it as they share the rates.

        Parameters
        ----------
        likes, dislikes : array
            The rates; beside a model their ratio is that of both (:mod:`tribit.ranking.scores`).
        """
        check_fitted(self)
        if self.coefficients_[1, 0] == -np.inf:  # the data have likes alone
            likes, dislikes = likes + dislikes, np.zeros_like(dislikes)
        rate = np.maximum(likes + dislikes, np.finfo(np.float64).tiny)
        factor = self.horizon_(np.log(rate)) / rate
        return likes * factor, dislikes * factor

    def recommend(
        self,
        rows: object,
        n: int = 10,
        *,
        exclude_seen: object = None,
        avoid_dislikes: float = 1.0,
    ) -> Recommendations:
        """Return the ``n`` best columns for each row: the rate of likes less ``avoid_dislikes`` times that of dislikes.

        A model of the signs separates likes from dislikes better: see
        :meth:`tribit.factor_model.FactorModel.recommend`, which takes this ranker and the same arguments.
        """
        return recommend(self, rows, n, exclude_seen=exclude_seen, avoid_dislikes=avoid_dislikes)

    def with_rows(self, X: object) -> Self:
        """Return a ranker of other rows, by the regressions and coefficients as they were fitted.

        A row f that was not part of the fit has the scores ``f B`` of each regression: it was no target of it, so
        nothing has to be taken out. For a row of the fit, with later entries, that is right for every
        column that the fit did not see with them; those it saw, which lists leave out, are not as if unobserved.

        Parameters
        ----------
        X : Observations, sparse matrix or array of shape (n_rows, n_columns)
            Likes and dislikes of these rows, in the columns of the fit: matched by id where there are ids, and others
            left out.
        """
        check_fitted(self)
        labels, rows = self._labels_of(X)
        liked, seen = indicators(labels)
        cells = CellFeatures(self._cells.likes, self._cells.mask, liked, seen, n_fitted=0)
        return self._like(cells, rows)

    def append_rows(self, X: object) -> Self:
        """Return a ranker of the rows of this one and, after them, of those of ``X``: see :meth:`with_rows`.

        Row ids of ``X`` must be new; without ids here the positions go on counting.
        """
        check_fitted(self)
        labels, theirs = self._labels_of(X)
        check_new(self.axes_.rows, theirs)
        parts = zip((self._cells.liked, self._cells.seen), indicators(labels), strict=True)
        liked, seen = (sp.csr_array(sp.vstack(both)) for both in parts)
        cells = CellFeatures(self._cells.likes, self._cells.mask, liked, seen, self._cells.n_fitted)
        return self._like(cells, longer(self.axes_.rows, theirs))

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the small arrays that a file keeps beside the observations, for :meth:`from_arrays`.

        ``coefficients``, ``l2``, the knots of ``horizon``, ``likes_diagonal`` and ``mask_diagonal`` of the inverses,
        and ``fitted_rows``, how many of the rows, the first, are those of the fit.
        """
        check_fitted(self)
        cells = self._cells
        if not cells.n_fitted:
            raise InvalidInputError(
                "A ranker from with_rows does not hold the rows it was fitted on: keep the arrays of the fitted one."
            )
        return {
            "coefficients": self.coefficients_.copy(),
            "l2": np.array(self.l2_),
            "horizon": np.array([*self.horizon_.arrays().values()]),
            "likes_diagonal": cells.likes.diagonal.copy(),
            "mask_diagonal": cells.mask.diagonal.copy(),
            "fitted_rows": np.array(cells.n_fitted),
        }

    @classmethod
    def from_arrays(
        cls, arrays: Mapping[str, Any], observations: Observations, **parameters: object
    ) -> Self:
        """Return the fitted ranker that gave these arrays.

        Parameters
        ----------
        arrays : mapping
            The arrays that :meth:`arrays` returned.
        observations : Observations
            The entries of its rows: those it was fitted on, and after them any that :meth:`append_rows` added.
        **parameters
            Parameters of the class.
        """
        known = check_arrays(arrays, observations.shape)
        n_fitted = int(known["fitted_rows"])
        liked, seen = indicators(observations.to_sparse())
        likes, mask = (
            Ease(
                F if n_fitted == F.shape[0] else F[:n_fitted], float(l2), known[f"{name}_diagonal"]
            )
            for name, F, l2 in zip(("likes", "mask"), (liked, seen), known["l2"], strict=True)
        )
        cells = CellFeatures(likes, mask, liked, seen, n_fitted)
        horizon = Isotonic(*known["horizon"])
        return cls(**parameters)._set(cells, known["coefficients"], horizon, observations.axes)

    def _labels_of(self, X: object) -> tuple[sp.csr_array, Axis]:
        """Return labels in the columns of the fit and the axis of their rows; unknown columns are left out."""
        new = read_entries(self, X)
        advice = "give new rows all columns of the fit"
        columns = self.axes_.columns.match(new.axes.columns, "the new rows have", advice)
        columns = columns[new.columns]
        here = columns >= 0
        labels = sp.csr_array(
            (new.labels[here], (new.rows[here], columns[here])),
            shape=(new.shape[0], self.shape_[1]),
        )
        return labels, new.axes.rows

    def _like(self, cells: CellFeatures, rows: Axis) -> Self:
        """Return a ranker with the parameters and coefficients of this one."""
        axes = Axes(rows, self.axes_.columns)
        return copy(self)._set(cells, self.coefficients_, self.horizon_, axes)

    def _set(self, cells: CellFeatures, coefficients: Array, horizon: Isotonic, axes: Axes) -> Self:
        self._cells = cells
        self.coefficients_ = coefficients
        self.horizon_ = horizon
        self.l2_ = (cells.likes.l2, cells.mask.l2)
        self.axes_ = axes
        return self


def fit_ranker(
    observations: Observations,
    *,
    l2: float | None = None,
    n_jobs: int | None = None,
    device: str = "cpu",
    random_state: RandomState = None,
) -> RateRanker:
    """Return the ranker that is fitted to the observations; ``l2=None`` chooses it.

    See :class:`tribit.ranking.CandidateRanker` for the parameters.
    """
    jobs = count_jobs(n_jobs)
    algebra = algebra_on(device, observations.n_observed)
    if not observations.n_likes:
        raise InvalidInputError("X has no like, so there is nothing to learn what is liked from.")
    # A stream of its own: a mask drawn with the same seed must not decide which cells are taken.
    draws = generator(int(generator(random_state).integers(2**62)))
    labels = observations.to_sparse()
    n_rows, n_columns = labels.shape
    judged = _some_rows(n_rows, min(n_columns, CHOICE_COLUMNS), draws)
    signs = draws.spawn(2)

    def regress(part: tuple[int, sp.csr_array]) -> Ease:
        return fit_ease(part[1], l2, judged, signs[part[0]], algebra)

    with memory_named():
        # One at a time on a device: PyTorch loads its solvers at their first call, which no two threads may make.
        cells = CellFeatures.fit(labels, regress, jobs if algebra is None else 1)
    rows = judged if n_columns <= CHOICE_COLUMNS else _some_rows(n_rows, n_columns, draws)
    with single_threaded_blas(), memory_named():
        coefficients, horizon = fit_rates(cells, labels, rows, draws, jobs)
    return RateRanker()._set(cells, coefficients, horizon, observations.axes)


def _some_rows(n_rows: int, n_columns: int, draws: np.random.Generator) -> Positions:
    n = max(MIN_FIT_ROWS, MAX_FIT_CELLS // n_columns)
    if n >= n_rows:
        return np.arange(n_rows)
    return np.sort(draws.choice(n_rows, size=n, replace=False))


def check_arrays(arrays: Mapping[str, Any], shape: tuple[int, int]) -> dict[str, Array]:
    """Check the arrays of a ranker against the shape of the observations, and return them as float64.

    Parameters
    ----------
    arrays : mapping
        The arrays that :meth:`tribit.ranking.CandidateRanker.arrays` returned.
    shape : (int, int)
        Numbers of rows and columns of the observations that came with them.
    """
    n_rows, n_columns = shape
    shapes = {
        "coefficients": (2, 5),
        "l2": (2,),
        "horizon": (2, *np.shape(arrays.get("horizon", ()))[1:2]),  # any number of knots
        "likes_diagonal": (n_columns,),
        "mask_diagonal": (n_columns,),
        "fitted_rows": (),
    }
    unknown = next((name for name in arrays if name not in shapes), None)
    if unknown is not None:
        raise InvalidInputError(
            f"The arrays of the ranker have an unknown {unknown}; use those of a fitted ranker as they are."
        )
    found = {name: _as_floats(arrays, name, wanted) for name, wanted in shapes.items()}
    for name in ("l2", "likes_diagonal", "mask_diagonal"):
        if not ((found[name] > 0) & (found[name] < np.inf)).all():
            raise InvalidInputError(
                f"{name} of the ranker must be positive and finite; use the arrays of a fitted ranker as they are."
            )
    t = found["coefficients"].copy()
    t[1, 0] = 0.0 if t[1, 0] == -np.inf else t[1, 0]  # where no dislikes were observed
    if not np.isfinite(t).all():
        raise InvalidInputError(
            "coefficients of the ranker must be finite; use the arrays of a fitted ranker as they are."
        )
    try:
        Isotonic(*found["horizon"])
    except InvalidInputError:
        raise InvalidInputError(
            "horizon of the ranker must be a non-decreasing function between 0 and 1; use the arrays of a fitted "
            "ranker as they are."
        ) from None
    count = float(found["fitted_rows"])
    if not (1 <= count <= n_rows and count == round(count)):
        raise InvalidInputError(
            f"fitted_rows of the ranker is {count:g} and the observations have {n_rows} rows: pass those it was "
            "fitted on, in their order."
        )
    return found


def _as_floats(arrays: Mapping[str, Any], name: str, shape: tuple[int, ...]) -> Array:
    if name not in arrays:
        raise InvalidInputError(
            f"The arrays of the ranker have no {name}; use those of a fitted ranker as they are."
        )
    array = np.asarray(arrays[name])
    if array.dtype.kind not in "iuf" or array.shape != shape:
        raise InvalidInputError(
            f"{name} of the ranker is of {array.dtype} with the shape {array.shape}; numbers of the shape {shape} go "
            "with these observations."
        )
    return array.astype(np.float64)

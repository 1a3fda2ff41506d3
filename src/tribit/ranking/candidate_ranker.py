"""Candidate ranking by the rates at which unobserved entries become likes and dislikes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from tribit.backends.cuda.device import algebra_on, memory_named
from tribit.backends.threads import count_jobs, single_threaded_blas
from tribit.checks import check_positive
from tribit.data.axis import Axes, Axis, Positions, check_new, longer
from tribit.data.matrix_estimator import MatrixEstimator
from tribit.data.observations import Observations, as_observations
from tribit.errors import InvalidInputError
from tribit.model.ease import CHOICE_COLUMNS, Ease, fit_ease
from tribit.model.spec import is_auto
from tribit.randomness import RandomState, generator
from tribit.ranking.rates import CellFeatures, fit_rates, indicators

if TYPE_CHECKING:
    from tribit.ranking.lists import Recommendations

__all__ = ["CandidateRanker", "check_arrays"]


Array = NDArray[np.float64]
#: Cells from which l2 and the coefficients are estimated, and the least number of rows that they fill; of a larger
#: matrix rows are sampled, to bound the time. MovieLens-100k has fewer cells; on 1M drawn entries the coefficients
#: differ from those of all cells by a few percent.
MAX_FIT_CELLS, MIN_FIT_ROWS = 2**22, 256


class CandidateRanker(MatrixEstimator):
    """Rates at which unobserved entries become likes and dislikes: exposure and preference together.

    Two regressions of every column on all others, of the likes and of the mask (Steck 2019, "Embarrassingly shallow
    autoencoders for sparse data"; see :mod:`tribit.model.ease`), give each entry two scores as if it
    had not been observed. With them, the number of entries n_j in its column and n_i in its row, itself not counted,

        log rate_ij = t_0 + t_1 log s_ij(likes) + t_2 log s_ij(mask) + t_3 log(1 + n_j) + t_4 log(1 + n_i)

    once for likes and once for dislikes, is fitted by maximum likelihood: observed likes (or dislikes) are the events
    and unobserved entries are the risk set without events. Dislikes so count three times, as entries of the mask, as
    entries that are not liked, and as events of their own. No parameter has to be tuned: ``l2`` has the least error on
    held-out entries, which the closed form gives for all of them at once.

    What is kept is what was seen and the diagonals of two inverses; their tables of columns x columns are computed for
    many rows of a matrix with up to 6,000 columns, and for others each row is solved for. With more columns the
    diagonals are estimated, to about 1%.

    Parameters
    ----------
    l2 : float or "auto", default="auto"
        Ridge of both regressions.
    like_at : float or None, default=None
        The smallest rating that is a like, for a matrix of ratings; None for labels +1 and -1.
    n_jobs : int or None, default=None
        Threads, at most two of them busy; None or -1 for every core. The bits do not depend on it.
    device : {"cpu", "cuda", "auto"}, default="cpu"
        Where the inverses are computed; a GPU ("cuda") has them of up to 40,000 columns, where a CPU has 6,000. "auto"
        is a GPU where there is one and X has 300,000 entries or more.
    random_state : int, Generator, RandomState or None, default=None
        Draws the unobserved entries that stand for all of them, of a large matrix the rows that do, and of a wide
        one the random signs by which the diagonals are estimated.

    Attributes
    ----------
    coefficients_ : array of shape (2, 5)
        ``t_0`` to ``t_4`` of likes and of dislikes; ``t_0`` is ``-inf`` where no dislikes were observed.
    l2_ : (float, float)
        Ridge of the regressions of the likes and of the mask.
    shape_ : (int, int)
        Number of rows and columns.
    n_features_in_ : int
        Number of columns.
    row_ids_, column_ids_ : array or None
        The user's ids.

    Examples
    --------
    >>> import numpy as np
    >>> A = np.array([[1, 1, 0, 0], [1, 1, 0, -1], [1, 0, 0, -1], [0, 0, 1, 1], [0, -1, 1, 0]])
    >>> ranker = CandidateRanker(random_state=0).fit(A)
    >>> int(ranker.recommend(2, 1, exclude_seen=A).columns[0, 0])
    1
    """

    def __init__(
        self,
        *,
        l2: Any = "auto",
        like_at: float | None = None,
        n_jobs: int | None = None,
        device: str = "cpu",
        random_state: RandomState = None,
    ) -> None:
        self.l2 = l2
        self.like_at = like_at
        self.n_jobs = n_jobs
        self.device = device
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None) -> Self:  # noqa: ARG002
        """Fit the ranker.

        Parameters
        ----------
        X : Observations, sparse matrix or array of shape (n_rows, n_columns)
            Likes (+1) and dislikes (-1); what is 0, NaN or not stored is unobserved.
        y : ignored
            Present for scikit-learn's interface.

        Returns
        -------
        self
        """
        observations = as_observations(X, like_at=self.like_at)
        l2 = None if is_auto(self.l2) else _check_l2(self.l2)
        n_jobs = count_jobs(self.n_jobs)
        algebra = algebra_on(self.device, observations.n_observed)
        if not observations.n_likes:
            raise InvalidInputError(
                "X has no like, so there is nothing to learn what is liked from."
            )
        # A stream of its own: a mask drawn with the same seed must not decide which cells are taken.
        draws = generator(int(generator(self.random_state).integers(2**62)))
        labels = observations.to_sparse()
        n_rows, n_columns = labels.shape
        judged = _some_rows(n_rows, min(n_columns, CHOICE_COLUMNS), draws)
        signs = draws.spawn(2)

        def regress(part: tuple[int, sp.csr_array]) -> Ease:
            return fit_ease(part[1], l2, judged, signs[part[0]], algebra)

        with memory_named():
            # One at a time on a device: PyTorch loads its solvers at their first call, which no two threads may make.
            cells = CellFeatures.fit(labels, regress, n_jobs if algebra is None else 1)
        rows = judged if n_columns <= CHOICE_COLUMNS else _some_rows(n_rows, n_columns, draws)
        with single_threaded_blas(), memory_named():
            coefficients = fit_rates(cells, labels, rows, draws, n_jobs)
        return self._set(cells, coefficients, observations.axes)

    def prepare(self) -> bool:
        """Compute the tables of both regressions now and not at the first rows, where the columns are few enough.

        Returns
        -------
        bool
            Whether there are tables, so that no linear system is solved for a row.
        """
        check_is_fitted(self)
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
        check_is_fitted(self)
        features = self._cells.of(np.asarray(rows), count_jobs(self.n_jobs))
        likes, dislikes = (np.full(features.shape[1:], t[0]) for t in self.coefficients_)
        for feature, t, s in zip(features, *self.coefficients_[:, 1:], strict=True):
            likes += t * feature
            dislikes += s * feature
        return likes, dislikes

    def recommend(
        self,
        rows: Any,
        n: int = 10,
        *,
        exclude_seen: Any = None,
        avoid_dislikes: float = 1.0,
    ) -> Recommendations:
        """Return the ``n`` best columns for each row: the rate of likes less ``avoid_dislikes`` times that of dislikes.

        A model of the signs separates likes from dislikes better: see
        :meth:`tribit.factor_model.FactorModel.recommend`, which takes this ranker and the same arguments.
        """
        from tribit.ranking.lists import recommend  # noqa: PLC0415 - it takes the estimator

        return recommend(self, rows, n, exclude_seen=exclude_seen, avoid_dislikes=avoid_dislikes)

    def with_rows(self, X: Any) -> CandidateRanker:
        """Return a ranker of other rows, by the regressions and coefficients as they were fitted.

        A row f that was not part of the fit has the scores ``f B`` of each regression: it was no target of it, so
        nothing has to be taken out. For somebody who was, with entries that came later, that is right for every
        column that the fit did not see with them; those it saw, which lists leave out, are not as if unobserved.

        Parameters
        ----------
        X : Observations, sparse matrix or array of shape (n_rows, n_columns)
            Likes and dislikes of these rows, in the columns of the fit: matched by id where there are ids, and others
            left out.
        """
        check_is_fitted(self)
        labels, rows = self._labels_of(X)
        liked, seen = indicators(labels)
        cells = CellFeatures(self._cells.likes, self._cells.mask, liked, seen, n_fitted=0)
        return self._like(cells, rows)

    def append_rows(self, X: Any) -> CandidateRanker:
        """Return a ranker of the rows of this one and, after them, of those of ``X``: see :meth:`with_rows`.

        Row ids of ``X`` must be new; without ids here the positions go on counting.
        """
        check_is_fitted(self)
        labels, theirs = self._labels_of(X)
        check_new(self.axes_.rows, theirs)
        parts = zip((self._cells.liked, self._cells.seen), indicators(labels), strict=True)
        liked, seen = (sp.csr_array(sp.vstack(both)) for both in parts)
        cells = CellFeatures(self._cells.likes, self._cells.mask, liked, seen, self._cells.n_fitted)
        return self._like(cells, longer(self.axes_.rows, theirs))

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the small arrays that a file keeps beside the observations, for :meth:`from_arrays`.

        ``coefficients``, ``l2``, ``likes_diagonal`` and ``mask_diagonal`` of the inverses, and ``fitted_rows``, how
        many of the rows, the first, are those of the fit.
        """
        check_is_fitted(self)
        cells = self._cells
        if not cells.n_fitted:
            raise InvalidInputError(
                "A ranker from with_rows does not hold the rows it was fitted on: keep the arrays of the fitted one."
            )
        return {
            "coefficients": self.coefficients_.copy(),
            "l2": np.array(self.l2_),
            "likes_diagonal": cells.likes.diagonal.copy(),
            "mask_diagonal": cells.mask.diagonal.copy(),
            "fitted_rows": np.array(cells.n_fitted),
        }

    @classmethod
    def from_arrays(
        cls, arrays: Mapping[str, Any], observations: Observations, **parameters: Any
    ) -> Self:
        """Return the fitted ranker that gave these arrays.

        Parameters
        ----------
        arrays : mapping
            What :meth:`arrays` returned.
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
        return cls(**parameters)._set(cells, known["coefficients"], observations.axes)

    def _labels_of(self, X: Any) -> tuple[sp.csr_array, Axis]:
        """Return labels in the columns of the fit and the axis of their rows; unknown columns are left out."""
        new = as_observations(X, like_at=self.like_at)
        advice = "give new rows all columns of the fit"
        columns = self.axes_.columns.match(new.axes.columns, "the new rows have", advice)
        columns = columns[new.columns]
        here = columns >= 0
        labels = sp.csr_array(
            (new.labels[here], (new.rows[here], columns[here])),
            shape=(new.shape[0], self.shape_[1]),
        )
        return labels, new.axes.rows

    def _like(self, cells: CellFeatures, rows: Axis) -> CandidateRanker:
        """Return a ranker with the parameters and coefficients of this one."""
        axes = Axes(rows, self.axes_.columns)
        return type(self)(**self.get_params())._set(cells, self.coefficients_, axes)

    def _set(self, cells: CellFeatures, coefficients: Array, axes: Axes) -> Self:
        self._cells = cells
        self.coefficients_ = coefficients
        self.l2_ = (cells.likes.l2, cells.mask.l2)
        self.axes_ = axes
        return self


def _some_rows(n_rows: int, n_columns: int, draws: np.random.Generator) -> Positions:
    n = max(MIN_FIT_ROWS, MAX_FIT_CELLS // n_columns)
    if n >= n_rows:
        return np.arange(n_rows)
    return np.sort(draws.choice(n_rows, size=n, replace=False))


def _check_l2(l2: Any) -> float:
    if isinstance(l2, str):
        raise InvalidInputError(f'l2 must be a positive number or "auto"; got {l2!r}.')
    return check_positive("l2", l2)


def check_arrays(arrays: Mapping[str, Any], shape: tuple[int, int]) -> dict[str, Array]:
    """Check the arrays of a ranker against the shape of the observations, and return them as float64.

    Parameters
    ----------
    arrays : mapping
        What :meth:`tribit.ranking.CandidateRanker.arrays` returned.
    shape : (int, int)
        Numbers of rows and columns of the observations that came with them.
    """
    n_rows, n_columns = shape
    shapes = {
        "coefficients": (2, 5),
        "l2": (2,),
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

"""The answers of a fitted low-rank model ``X = U V' + intercepts``: entries, probabilities, signs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from tribit.data.ids import lookup
from tribit.errors import InvalidInputError
from tribit.model.factors import Factors
from tribit.model.links import Link, as_link

if TYPE_CHECKING:
    from tribit.recommend.lists import Recommendations
    from tribit.recommend.protocol import Finder

Array = NDArray[np.floating[Any]]

#: Above this many entries a dense answer is given only to those who insist: 10^8 float64 are 800 MB.
DENSE_LIMIT = 10**8


class FactorModel(BaseEstimator):  # type: ignore[misc]
    """A scikit-learn estimator whose fit sets factors; everything it says of an entry comes from them.

    A subclass calls :meth:`_set_fitted` at the end of its fit, and either has a parameter ``link`` or says in
    :meth:`_link` how an entry becomes a probability.
    """

    def decision_function(self, rows: Any, columns: Any) -> Array:
        """Return ``x`` for pairs of rows and columns.

        Parameters
        ----------
        rows, columns : array-like of equal length, or single values
            The user's ids where the model was fitted on ids, else positions from 0.

        Returns
        -------
        array of shape (n_pairs,)
            Positive where a like is the likelier.
        """
        check_is_fitted(self)
        return self._factors().at(*self._positions(rows, columns))

    def predict_proba(self, rows: Any, columns: Any) -> Array:
        """Return the probability of a like for pairs of rows and columns (see :meth:`decision_function`)."""
        x = self.decision_function(rows, columns)  # first: it is what says that nothing was fitted
        return self._probability(x)

    def predict(self, rows: Any, columns: Any) -> NDArray[np.int8]:
        """Return +1 (like) or -1 (dislike) for pairs of rows and columns (see :meth:`decision_function`)."""
        likely = self.predict_proba(rows, columns) >= 0.5
        return np.where(likely, 1, -1).astype(np.int8)

    def complete(
        self,
        what: Literal["probability", "decision", "sign"] = "probability",
        *,
        force: bool = False,
    ) -> Array:
        """Return the whole completed matrix, dense.

        Parameters
        ----------
        what : {"probability", "decision", "sign"}, default="probability"
            Probability of a like, ``x``, or +1 / -1.
        force : bool, default=False
            Allow more than 10^8 entries.
        """
        check_is_fitted(self)
        choices = ("probability", "decision", "sign")
        if what not in choices:
            raise InvalidInputError(f"what must be one of {', '.join(choices)}; got {what!r}.")
        factors = self._factors()
        shape = factors.row_factors.shape[0], factors.column_factors.shape[0]
        if shape[0] * shape[1] > DENSE_LIMIT and not force:
            raise InvalidInputError(
                f"The completed matrix has {shape[0]} x {shape[1]} entries, {shape[0] * shape[1] * 8 / 1e9:.1f} GB: "
                "ask for the pairs you need with predict_proba(rows, columns), or pass force=True."
            )
        P, Q = factors.augmented()
        X = P @ Q.T
        if what == "decision":
            return np.asarray(X)
        likely = self._probability(X)
        return likely if what == "probability" else np.where(likely >= 0.5, 1.0, -1.0)

    def recommend(
        self,
        rows: Any,
        n: int = 10,
        *,
        exclude_seen: Any = None,
        avoid_dislikes: float = 1.0,
        finder: FactorModel | Finder | None = None,
    ) -> Recommendations:
        """Return the ``n`` best columns for each row, best first.

        Without a finder, by the probability of a like. With a :class:`~tribit.recommend.LikeFinder`, by the likes less
        ``avoid_dislikes`` times the dislikes to be expected, ``q (p - avoid_dislikes (1 - p))``: q says how likely the
        row is to come to a column, and p, on which model and finder are asked alike, that it will like it there. What
        is not worth showing by that comes last, by p alone. With another model as finder, by
        ``log P_finder + avoid_dislikes log P(like)``.

        Parameters
        ----------
        rows : array-like, or a single value
            The user's ids where the model was fitted on ids, else positions from 0.
        n : int, default=10
            Length of a list, at most the number of columns. A row with fewer to choose from has a shorter one, filled
            up with -1 (None where columns have ids) and ``-inf``; ``pairs()`` leaves that out.
        exclude_seen : Observations, sparse matrix or array, optional
            Entries to leave out, such as those the model was fitted on; matched by id where the model has ids.
        avoid_dislikes : float, default=1.0
            At least 0; more shows fewer dislikes and finds fewer likes. With a ``LikeFinder``, how many likes one
            would give up to avoid a dislike; with another model, the weight of P(like) beside it.
        finder : LikeFinder, Finder or FactorModel, optional
            Fitted on the same rows and columns: ``LikeFinder().fit(X)``, anything like it
            (:class:`tribit.recommend.Finder`), or a model of which entries are observed and liked, such as
            ``BinaryMatrixCompletion((0, 1, 0), rho=0.0, radius=20)`` fitted on the likes alone
            (:func:`tribit.simulate.likes_only`).

        Returns
        -------
        Recommendations
            Rows, columns and scores (as above; log-probabilities where there is no ``LikeFinder``). Equal ones come in
            the order of the columns.
        """
        from tribit.recommend.lists import recommend  # noqa: PLC0415 - it takes the estimator

        return recommend(
            self,
            rows,
            n,
            exclude_seen=exclude_seen,
            avoid_dislikes=avoid_dislikes,
            finder=finder,
        )

    def score(self, X: Any, y: Any = None) -> float:  # noqa: ARG002
        """Return the share of the observed entries of ``X`` whose sign is predicted right."""
        from tribit.metrics.entries import evaluate  # noqa: PLC0415 - metrics takes the estimator

        return evaluate(self, X).accuracy

    def _probability(self, x: Array) -> Array:
        """Return the probability of a like at ``x``: the link's, or that of a calibrator where the fit has one."""
        calibrator = getattr(self, "calibration_", None)
        return self._link().probability(x) if calibrator is None else calibrator(x)

    def _link(self) -> Link:
        """Return how an entry becomes the probability of a like."""
        return as_link(self.link)

    @property
    def shape_(self) -> tuple[int, int]:
        """Numbers of rows and columns."""
        return self.row_factors_.shape[0], self.column_factors_.shape[0]

    def _set_fitted(self, factors: Factors, observations: Any) -> None:
        """Keep the factors, and the shape and ids of what they were fitted on."""
        self._set_factors(factors)
        self.n_features_in_ = observations.shape[1]
        self.row_ids_, self.column_ids_ = observations.row_ids, observations.column_ids

    def _factors(self) -> Factors:
        return Factors(
            self.row_factors_,
            self.column_factors_,
            self.intercept_,
            self.row_intercepts_,
            self.column_intercepts_,
        )

    def _set_factors(self, factors: Factors) -> None:
        self.row_factors_, self.column_factors_ = factors.row_factors, factors.column_factors
        self.intercept_ = factors.intercept
        self.row_intercepts_ = factors.row_intercepts
        self.column_intercepts_ = factors.column_intercepts

    def _positions(self, rows: Any, columns: Any) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the positions of pairs given by id or position; unknown ones are named."""
        i = lookup(_listed(rows), self.row_ids_, self.shape_[0], "row")
        j = lookup(_listed(columns), self.column_ids_, self.shape_[1], "column")
        if i.size != j.size:
            raise InvalidInputError(
                f"rows and columns must have the same length; got {i.size} and {j.size}."
            )
        return i, j

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.allow_nan = True
        return tags


def _listed(ids: Any) -> Any:
    """Return a single id as a list of one."""
    # Not np.ndim, which cannot make an array of [(1, 2), "a"].
    if getattr(ids, "ndim", 1) == 0:
        return np.reshape(ids, 1)
    return [ids] if isinstance(ids, str | bytes) or not hasattr(ids, "__iter__") else ids

"""Systems by what they are fitted to: measured values, or likes and dislikes."""

from __future__ import annotations

from typing import Any, Self

from tribit.data.observations import Measurements, Observations, as_measurements, as_observations
from tribit.factor_model import FactorModel
from tribit.model.links import Link
from tribit.paper.systems.linear import Linear


class MeasuredModel(FactorModel):
    """A system of measured values, to which labels are the values +1 and -1: ``P(like) = (1 + x) / 2``."""

    def fit(self, X: Any, y: Any = None) -> Self:  # noqa: ARG002
        """Fit the model.

        Parameters
        ----------
        X : Observations, Measurements, sparse matrix or array of shape (n_rows, n_columns)
            Real values, or likes as +1 and dislikes as -1 (see :func:`tribit.data.observations.as_measurements`).
        y : ignored
            Present for scikit-learn's interface.

        Returns
        -------
        self
        """
        self._fit(as_measurements(X))
        return self

    def _fit(self, measured: Measurements) -> None:
        raise NotImplementedError

    def _link(self) -> Link:
        return Linear()


class LabelledModel(FactorModel):
    """A system of likes and dislikes, with the parameter ``like_at`` for ratings."""

    def fit(self, X: Any, y: Any = None) -> Self:  # noqa: ARG002
        """Fit the model.

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
        self._fit(as_observations(X, like_at=self.like_at))
        return self

    def _fit(self, observations: Observations) -> None:
        raise NotImplementedError

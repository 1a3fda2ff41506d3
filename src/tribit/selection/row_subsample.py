"""Hyperparameter search on a row subsample of a very large table, followed by a refit on all of it.

Some fifty thousand held-out entries suffice to compare model families, penalties and ranks, whatever the size of a
table, while the cost of a candidate grows with all entries. A subsample has random rows with all of their entries and
every column, so that its rows are as long as in the full data; a table with more columns than rows is sampled by
columns.

A subsample has fewer entries in a column, and how much that lowers the best penalties depends on the table. Where noise
decides they scale like the largest penalty (:func:`largest_penalty`); where every column has many entries they do not
change. One factor for all penalties is therefore found by a line search on the full data. The model family, its rank
and the ratios of its penalties stay as the subsample chose them. Held-out entries of the full data then calibrate the
refit. Where the full data have more than ``MAX_LINE_SEARCH_ENTRIES``, a larger sample of rows takes their place in the
line search.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tribit.backends.layout import share_layouts
from tribit.data.axis import Positions
from tribit.data.features import Group, SideFeatures
from tribit.data.observations import Observations
from tribit.data.weights import weights_at
from tribit.metrics.entries import Array
from tribit.model.factors import Factors
from tribit.model.risks import Missingness
from tribit.model.spec import ModelSpec
from tribit.selection.folds import PENALTIES, Fold
from tribit.selection.record import Candidate, Stack
from tribit.selection.space import single_label
from tribit.selection.stages import FACTOR_DOUBLINGS, FACTOR_STEP, LineSearches, largest_penalty_of
from tribit.selection.trials import Options, Trials, fit_from

#: Entries of a subsample: this share of all, and at least so many. On simulated tables (``benchmarks.data``, 1 to 3
#: million entries, five seeds) a search on such a subsample, with penalties compared on the full data afterwards, took
#: half to two thirds of the time of a search on all, and its test log-loss was larger by .0001 to .0004.
SUBSAMPLE_SHARE, MIN_SUBSAMPLE_ENTRIES = 0.15, 300_000
#: Most entries of a subsample: the comparison of candidates needs no more, whatever the size of the table.
MAX_SUBSAMPLE_ENTRIES = 3_000_000
#: Least number of entries of a table, in multiples of the subsample: with fewer a subsample saves little.
MIN_SIZE_RATIO = 2.0
#: Most entries on which one factor for all penalties is found, with all rows of the subsample among them.
MAX_LINE_SEARCH_ENTRIES = 20_000_000


@dataclass(frozen=True, eq=False)
class RowSubsample:
    """A sample of the rows of a table (or of its columns), as a table of its own.

    Attributes
    ----------
    observations : Observations
        Their entries.
    positions : array of int
        Their positions in the full data, in order.
    axis : {0, 1}
        0 for rows, 1 for columns.
    size : int
        Number of rows (or columns) of the full data.
    """

    observations: Observations
    positions: Positions
    axis: int
    size: int

    def within(self, larger: RowSubsample) -> RowSubsample:
        """Return the subsample as one of a larger subsample that has all of its rows."""
        positions = np.searchsorted(larger.positions, self.positions)
        return replace(self, positions=positions, size=larger.positions.size)

    def side(self, known: SideFeatures | None) -> SideFeatures | None:
        """Return the side features of the subsample."""
        if known is None:
            return None
        sides = list(known)
        groups = sides[self.axis]
        if groups is not None:
            sides[self.axis] = tuple(
                Group(each.matrix[self.positions], each.means, each.known[self.positions])
                for each in groups
            )
        return SideFeatures(*sides)

    def full_folds(
        self, observations: Observations, folds: Sequence[Fold], penalty_share: float = 1.0
    ) -> list[Fold]:
        """Return folds of the full data that hold out the same entries as those of the subsample.

        The scores of fits to some rows and to all then refer to the same entries.
        """
        found = []
        for fold in folds:
            train, held_out = observations.hold_out(self._is_among(observations, fold.held_out))
            share_layouts(train)
            share = train.n_observed / observations.n_observed
            ends = self.full_ends(fold.ends)
            weights = np.ones(len(held_out))
            found.append(Fold(train, held_out, weights, share, fold.seed, ends, penalty_share))
        return found

    def _is_among(self, observations: Observations, some: Observations) -> NDArray[np.bool_]:
        """Return a mask of the entries of the full data that are among some of the subsample."""
        sides = [some.rows, some.columns]
        sides[self.axis] = self.positions[sides[self.axis]]
        width = observations.shape[1]
        wanted = np.sort(sides[0].astype(np.int64) * width + sides[1])
        keys = observations.rows.astype(np.int64) * width + observations.columns
        places = np.minimum(np.searchsorted(wanted, keys), wanted.size - 1)
        return np.asarray(wanted[places] == keys)

    def full_ends(self, ends: dict[str, Factors]) -> dict[str, Factors]:
        """Return the unknowns of fits to the subsample as starts for the full data: 0 for rows outside it.

        Implicit features give such a row factors all the same, and Newton's method finds them in its first half-sweep.
        The features of a column are divided by the root of its number of entries, so that their coefficients are
        multiplied by that of the ratio of the sizes: the factors of the columns are then those of the subsample.
        """
        return {family: self._full_end(family, end) for family, end in ends.items()}

    def _full_end(self, family: str, end: Factors) -> Factors:
        turned = end.transposed if self.axis else end
        n, others = self.positions.size, self.observations.shape[1 - self.axis]
        columns = turned.column_factors, turned.column_intercepts
        # Own unknowns stand first, then those of implicit features: one for each row of the other side.
        if "implicit" in family:
            growth = float(np.sqrt(self.size / n))
            V, c = columns
            columns = (
                self._scatter_rows(V, others, n, growth),
                self._scatter_rows(c, others, n, growth),
            )
        found = Factors(
            self._scatter_rows(turned.row_factors, 0, n),
            columns[0],
            turned.intercept,
            self._scatter_rows(turned.row_intercepts, 0, n),
            columns[1],
        )
        return found.transposed if self.axis else found

    def _scatter_rows(self, parts: Array, first: int, n: int, factor: float = 1.0) -> Array:
        """Return unknowns in which ``n`` from the first on, times a factor, are of the subsample, and 0 elsewhere."""
        middle = np.zeros((self.size, *parts.shape[1:]), dtype=parts.dtype)
        middle[self.positions] = factor * parts[first : first + n]
        return np.concatenate([parts[:first], middle, parts[first + n :]])


def row_subsamples(
    observations: Observations, base: ModelSpec, draws: np.random.Generator
) -> tuple[RowSubsample, RowSubsample | None] | None:
    """Return the row subsample to search on, and the larger one for the penalties, None for the full data.

    The full data serve for both where they are small, remote or positive-only, and where a model of the mask has a
    ``rho`` for each cell: the result is None, and no random number is used.
    """
    if observations.is_remote or isinstance(base.rho, Missingness):
        return None
    share = min(int(SUBSAMPLE_SHARE * observations.n_observed), MAX_SUBSAMPLE_ENTRIES)
    wanted = max(MIN_SUBSAMPLE_ENTRIES, share)
    if observations.n_observed < MIN_SIZE_RATIO * wanted or single_label(observations):
        return None
    axis = int(observations.shape[0] < observations.shape[1])
    size, counts = observations.shape[axis], observations.counts[axis]
    order = draws.permutation(size)
    n_entries = np.cumsum(counts[order])

    def first(wanted: int) -> RowSubsample:
        enough = int(np.searchsorted(n_entries, wanted)) + 1
        return subsample_of(observations, np.sort(order[:enough]), axis)

    is_large = observations.n_observed > MAX_LINE_SEARCH_ENTRIES
    return first(wanted), first(MAX_LINE_SEARCH_ENTRIES) if is_large else None


def subsample_of(observations: Observations, chosen: Positions, axis: int) -> RowSubsample:
    """Return the subsample of rows (``axis=0``) or columns at increasing positions."""
    size = observations.shape[axis]
    places = np.full(size, -1, dtype=np.int64)
    places[chosen] = np.arange(chosen.size)
    at = places[observations.columns if axis else observations.rows]
    entries = np.flatnonzero(at >= 0)
    rows = observations.rows[entries] if axis else at[entries]
    columns = at[entries] if axis else observations.columns[entries]
    others = observations.shape[1 - axis]
    shape = (others, chosen.size) if axis else (chosen.size, others)
    labels, weights = observations.labels[entries], weights_at(observations.weights, entries)
    seen = Observations.from_pairs(rows, columns, labels, weights=weights, shape=shape)
    return RowSubsample(seen, chosen, axis, size)


#: Penalty of intercepts for both tables, in units of four times the link's curvature at 0: in the middle of the values
#: that a search tries.
INTERCEPT_WEIGHT = 3.0


def largest_penalty(seen: Observations, base: ModelSpec, options: Options) -> float:
    """Return the largest penalty of a table, beyond which all factors are 0.

    A column of a subsample has fewer entries, so that a smaller penalty suffices against the noise in its factor.
    Penalties that suit the subsample are too small for the full data, by about the ratio of the largest penalties.
    """
    end: Any = None
    if base.intercept:
        unit = 4.0 * float(base.link.second(np.zeros(1), 1)[0])
        settings = replace(
            base,
            gammas=(1.0, 0.0, 0.0),
            rank=0,
            l2_intercept=INTERCEPT_WEIGHT * unit,
            radius=None,
            alpha=None,
            implicit_features=False,
            side_features=False,
        )
        # A model without factors needs no random start.
        draws = np.random.Generator(np.random.PCG64(0))
        end, _ = fit_from(seen, settings, options, {}, draws)
    return largest_penalty_of(seen, base.link, end)


class FullDataTrials(Trials):
    """Candidates on the full data, which keep the unknowns of the best one: the refit starts from them."""

    needs_candidate = False
    best_ends: dict[str, Factors] | None = None

    def _keep(self, candidate: Candidate, kept: object) -> None:
        super()._keep(candidate, kept)
        if candidate is self.best:
            self.best_ends = dict(self.folds[0].ends)


def note_of(subsample: RowSubsample, larger: RowSubsample | None) -> str:
    """Return a remark on the subsamples for the record of a search."""
    names = ("rows", "columns")[subsample.axis]
    sampled = f"{subsample.positions.size} of {subsample.size} {names}"
    where = "all" if larger is None else f"{larger.positions.size}"
    return f"candidates were compared on a random sample of {sampled}, the penalties of the best on {where}"


def search_full_data_penalty(lines: LineSearches, chosen: Candidate) -> Candidate:
    """Return the best candidate on the full data, at the subsample's penalties or at multiples of them."""
    best = lines.trials.score(chosen.settings)
    names = [name for name in PENALTIES if name in lines.free]
    if not any(getattr(best.settings, name) for name in names):
        return best
    # Larger ones first beside implicit features and smaller ones without: the right direction on five of six simulated
    # tables, and neither was better on the sixth.
    step = FACTOR_STEP if best.settings.implicit_features else 1.0 / FACTOR_STEP
    return lines.step_while_better(
        best,
        lambda settings, factor: multiply_penalties(settings, names, factor),
        step,
        FACTOR_DOUBLINGS,
    )


def multiply_penalties(settings: ModelSpec, names: Iterable[str], factor: float) -> ModelSpec:
    """Return settings with some penalties multiplied; absent ones stay absent."""
    values = {name: getattr(settings, name) for name in names}
    return replace(settings, **{name: factor * each for name, each in values.items() if each})


def scale_stack(stack: Stack, chosen: Candidate, best: Candidate) -> Stack:
    """Return a stack with its penalties multiplied by those of the best candidate over the chosen one."""
    before, after = chosen.settings, best.settings
    factors = {
        name: getattr(after, name) / getattr(before, name)
        for name in PENALTIES
        if getattr(before, name)
    }

    def multiply(settings: ModelSpec) -> ModelSpec:
        for name, factor in factors.items():
            settings = multiply_penalties(settings, (name,), factor)
        return settings

    members = tuple(replace(each, settings=multiply(each.settings)) for each in stack.members)
    return replace(stack, members=members)

"""Quantities of a case: collected, written exactly, and compared with those that were recorded."""

import hashlib
import math
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

#: Relative tolerances of results that come from float32 and from float64 arithmetic.
TOLERANCES = {"single": 1e-5, "double": 1e-10}
#: Number of cells whose scores are recorded, and of characters of a hash.
N_CELLS, HASH_LENGTH = 200, 16


@dataclass
class Pins:
    """The quantities of one case, by name.

    ``precision`` is that of the arithmetic: "single" for models of float32, the default of the library.
    """

    precision: Literal["single", "double"] = "single"
    quantities: dict[str, dict[str, Any]] = field(default_factory=dict)

    def add(self, name: str, value: Any) -> None:
        """Keep a number, a text, an array or a list of them; floats are compared with a tolerance."""
        assert name not in self.quantities, name
        self.quantities[name] = encoded(value, self.precision)

    def model(self, name: str, model: Any, *, fit: bool = True) -> None:
        """Keep the scores and probabilities of fixed cells and, of a fit, how it ended."""
        rows, columns = cells(model)
        self.add(f"{name}.x", model.decision_function(rows, columns))
        self.add(f"{name}.probability", model.predict_proba(rows, columns))
        if fit:
            self.add(f"{name}.objective", model.objective_)
            self.add(f"{name}.iterations", model.n_iter_)
            self.add(f"{name}.stop reason", model.stop_reason_)
            self.add(f"{name}.converged", bool(model.converged_))
            self.add(f"{name}.rank", model.rank_)

    def search(self, name: str, search: Any) -> None:
        """Keep every candidate of a search with its settings and score, and what was chosen."""
        table = search.table()
        for key in table[0]:
            if key != "seconds":
                self.add(f"{name}.{key}", plain_column([row[key] for row in table]))
        for key in ("n_held_out", "n_folds", "stop_reason", "meaning", "density"):
            self.add(f"{name}.{key}", getattr(search, key))
        self.add(f"{name}.regression", search.regression)
        if search.stack is not None:
            self.add(f"{name}.stack ranks", [each.settings.rank for each in search.stack.members])
            self.add(f"{name}.stack weights", list(search.stack.weights))
            self.add(f"{name}.stack score", search.stack.score)

    def lists(self, name: str, found: Any) -> None:
        """Keep lists: rows and columns as they are shown, and every number beside them."""
        for key, values in found.table().items():
            if key != "basis":
                self.add(f"{name}.{key}", values)

    def explanation(self, name: str, found: Any) -> None:
        """Keep the parts of a score and what each entry adds."""
        plain = found.to_dict()
        self.add(f"{name}.cell", [str(plain["row"]), str(plain["column"])])
        self.add(f"{name}.probability", plain["probability"])
        # Together: a residual is a small difference of numbers as large as x, and is compared on their scale.
        self.add(f"{name}.x and residual", [plain["x"], plain["residual"]])
        self.add(f"{name}.parts", list(plain["parts"].values()))
        self.add(f"{name}.entries", [str(each["column"]) for each in plain["entries"]])
        for key in ("label", "contribution", "probability_change"):
            self.add(f"{name}.{key}", [each[key] for each in plain["entries"]])

    def neighbours(self, name: str, found: Any) -> None:
        """Keep the nearest rows or columns with their similarities."""
        self.add(f"{name}.nearest", [str(each) for each in np.ravel(found.nearest)])
        self.add(f"{name}.similarities", found.similarities)

    def observations(self, name: str, seen: Any) -> None:
        """Keep shape, first ids, and hashes of positions, labels and ids."""
        self.add(f"{name}.shape", [*seen.shape, seen.n_observed, seen.n_likes])
        arrays = {"rows": seen.rows, "columns": seen.columns}
        for key, values in arrays.items():
            self.add(f"{name}.{key}", digest(np.asarray(values, dtype=np.int64)))
        self.add(f"{name}.labels", digest(np.asarray(seen.labels, dtype=np.int8)))
        for key, ids in (("row ids", seen.row_ids), ("column ids", seen.column_ids)):
            texts = [] if ids is None else [str(each) for each in ids]
            self.add(f"{name}.{key}", [*texts[:5], digest("\n".join(texts).encode())])


def cells(model: Any) -> tuple[Any, Any]:
    """Return rows and columns of fixed cells, as ids where the model has ids."""
    draws = np.random.default_rng(0)
    found = []
    for size, ids in zip(model.shape_, (model.row_ids_, model.column_ids_), strict=True):
        places = draws.integers(size, size=N_CELLS)
        found.append(places if ids is None else np.asarray(ids)[places])
    return found[0], found[1]


def digest(values: Any) -> str:
    """Return a hash of bytes, or of the bytes of an array."""
    data = values if isinstance(values, bytes) else np.ascontiguousarray(values).tobytes()
    return hashlib.sha256(data).hexdigest()[:HASH_LENGTH]


def plain_column(values: list[Any]) -> list[Any]:
    """Return numbers with NaN for None where all are numbers, else texts."""
    numbers = all(value is None or isinstance(value, int | float | np.number) for value in values)
    if numbers and any(isinstance(value, float | np.floating) for value in values):
        return [math.nan if value is None else float(value) for value in values]
    return [str(value) for value in values]


def encoded(value: Any, precision: str) -> dict[str, Any]:
    """Return a value as JSON holds it, with the way in which it is compared."""
    array = np.asarray(value)
    if array.dtype.kind == "f":
        # The shortest decimal that gives the same float32, or float64, again.
        numbers = [float(str(each)) for each in array.ravel()]
        return {"as": precision, "dtype": array.dtype.name, "values": numbers}
    return {"as": "exact", "values": array.ravel().tolist()}


@dataclass(frozen=True)
class Difference:
    """A quantity that is not as it was recorded."""

    case: str
    quantity: str
    message: str

    def __str__(self) -> str:
        return f"FAILED {self.case}: {self.quantity}: {self.message}"


def differences(case: str, recorded: Any, found: Any, *, exact: bool) -> list[Difference]:
    """Return the quantities that differ, or that only one of the two has."""
    messages = dict.fromkeys(recorded.keys() - found.keys(), "is recorded and was not computed")
    messages |= dict.fromkeys(found.keys() - recorded.keys(), "was computed and is not recorded")
    for name in recorded.keys() & found.keys():
        if message := compared(recorded[name], found[name], exact=exact):
            messages[name] = message
    order = {name: place for place, name in enumerate({**recorded, **found})}
    return [Difference(case, name, messages[name]) for name in sorted(messages, key=order.get)]


def compared(recorded: dict[str, Any], found: dict[str, Any], *, exact: bool) -> str:
    """Return what is wrong with a quantity, and the empty string if nothing is."""
    before, now = recorded["values"], found["values"]
    if recorded["as"] != found["as"]:
        return f"compared as {recorded['as']} before, as {found['as']} now"
    if len(before) != len(now):
        return f"{len(before)} values before, {len(now)} now"
    if recorded["as"] == "exact":
        wrong = [place for place, each in enumerate(before) if each != now[place]]
        if not wrong:
            return ""
        place = wrong[0]
        return f"{len(wrong)} of {len(before)} differ, first at {place}: {before[place]!r} -> {now[place]!r}"
    if exact and recorded["dtype"] != found["dtype"]:
        return f"{recorded['dtype']} before, {found['dtype']} now"
    return _floats_compared(np.array(before), np.array(now), recorded["as"], exact=exact)


def _floats_compared(before: Any, now: Any, precision: str, *, exact: bool) -> str:
    same = (before == now) | (np.isnan(before) & np.isnan(now))
    if np.all(same):
        return ""
    finite = np.abs(before[np.isfinite(before)])
    # Numbers near 0 are sums of larger ones: their scale is the mean size of the quantity.
    scale = np.maximum(np.abs(before), finite.mean() if finite.size else 0.0)
    with np.errstate(invalid="ignore", divide="ignore"):
        away = np.abs(now - before) / scale
    away[same] = 0.0
    away[np.isnan(away)] = np.inf
    place = int(np.argmax(away))
    if not exact and away[place] <= TOLERANCES[precision]:
        return ""
    return (
        f"worst relative difference {away[place]:.3g} at {place}: {float(before[place])!r} -> {float(now[place])!r} "
        f"({np.count_nonzero(~same)} of {before.size} differ)"
    )

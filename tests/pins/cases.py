"""The cases: each fits a small simulated table and keeps what the library answers of it."""

import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.base import clone
from tests.pins.faces import answers_agree, commands_agree
from tests.pins.files import file_kinds
from tests.pins.imports import (
    BinaryMatrixCompletion,
    CandidateRanker,
    Observations,
    Recommender,
    calibrate,
    conformal,
    laplace,
    load,
)
from tests.pins.pinned import Pins, cells
from tests.pins.tables import (
    exposed_table,
    featured_table,
    named,
    of_array,
    paired_likes,
    uniform_table,
)

CASES: dict[str, Callable[[], Pins]] = {}

#: A model of observed signs alone, without a search.
PLAIN = {"search": False, "rank": 3, "l2": 1.0, "l2_intercept": 1.0}
#: The same of all three risks.
MIXED = {**PLAIN, "gammas": (0.5, 0.3, 0.2), "rho": "constant"}


def case(function: Callable[..., None], *, name: str = "", precision: str = "single") -> None:
    """Register a function that fills the pins of a case."""

    def filled() -> Pins:
        pins = Pins(precision)
        function(pins)
        return pins

    CASES[name or function.__name__] = filled


def completion(**options):
    """Return an estimator with a fixed seed, on one thread unless another number is given."""
    return BinaryMatrixCompletion(**{"random_state": 0, "n_jobs": 1, **options})


@contextmanager
def environment(name: str, value: str) -> Iterator[None]:
    """Set a variable of the environment."""
    before = os.environ.get(name)
    os.environ[name] = value
    try:
        yield
    finally:
        if before is None:
            del os.environ[name]
        else:
            os.environ[name] = before


@contextmanager
def saved(model, pins: Pins, name: str) -> Iterator[Path]:
    """Yield the path of a saved model, of which a second save has the same bytes."""
    with tempfile.TemporaryDirectory() as folder:
        paths = [Path(folder) / f"{place}.tribit" for place in range(2)]
        for path in paths:
            model.save(path)
        pins.add(f"{name}.two saves are equal", paths[0].read_bytes() == paths[1].read_bytes())
        yield paths[0]


def same_bits(one, other) -> bool:
    """Return whether two models have the same scores to the bit, and searched and stopped alike."""
    scores = [each.decision_function(*cells(each)).tobytes() for each in (one, other)]
    ends = [(each.objective_, each.n_iter_, each.stop_reason_) for each in (one, other)]
    tables = [
        []
        if each.search_ is None
        else [
            {name: repr(value) for name, value in row.items() if name != "seconds"}
            for row in each.search_.table()
        ]
        for each in (one, other)
    ]
    return scores[0] == scores[1] and ends[0] == ends[1] and tables[0] == tables[1]


def default_search(pins: Pins) -> None:
    """Search with every default, on one thread and on four."""
    seen = exposed_table()
    models = [completion(n_jobs=n).fit(seen) for n in (1, 4)]
    pins.model("fit", models[0])
    pins.search("search", models[0].search_)
    pins.add("n_members", models[0].n_members_)
    pins.add("same bits on one thread and on four", same_bits(*models))
    with saved(models[0], pins, "file") as path:
        again = load(path)
    pins.model("loaded", again, fit=False)
    pins.search("loaded search", again.search_)


def three_risks(pins: Pins, dtype: str, compiled: str) -> None:
    """Fit all three risks in a max-norm ball, with compiled kernels or without."""
    seen = uniform_table((250, 180), rho=0.8)
    with environment("TRIBIT_COMPILED", compiled):
        for rho in ("constant", "row-column"):
            model = completion(**{**MIXED, "rho": rho}, radius=1.5, dtype=dtype)
            pins.model(f"rho {rho}", model.fit(seen))
        threads = clone(model).set_params(n_jobs=4).fit(seen)
        pins.add("same bits on one thread and on four", same_bits(model, threads))
        # With rho=0 and a ridge there is no ball, and the rows are free.
        model = completion(**{**MIXED, "rho": 0.0}, radius=None, dtype=dtype)
        pins.model("no ball", model.fit(seen))
        # Observed signs alone: these are the sums that compiled kernels do.
        for radius in (None, 1.5):
            model = completion(**PLAIN, radius=radius, dtype=dtype)
            pins.model(f"observed signs, radius {radius}", model.fit(seen))
            threads = clone(model).set_params(n_jobs=4).fit(seen)
            pins.add(f"same bits, radius {radius}", same_bits(model, threads))
        options = {**PLAIN, "implicit_features": True, "l2_implicit": 2.0}
        pins.model("implicit features", completion(**options, dtype=dtype).fit(seen))


def other_solvers(pins: Pins) -> None:
    """Fit the probit link, the trace norm with alpha, and the other solvers."""
    seen = uniform_table()
    plain = {**PLAIN, "dtype": "float64"}
    mixed = {**MIXED, "dtype": "float64"}
    pins.model("probit", completion(**plain, link="probit", radius=None).fit(seen))
    options = {"solver": "augmented_lagrangian", "max_iter": 300}
    bounded = completion(**mixed, norm="trace", radius=60.0, alpha=1.0, **options)
    pins.model("trace norm, alpha", bounded.fit(seen))
    bounded = completion(**mixed, norm="max", radius=1.5, alpha=1.0, **options)
    pins.model("max norm, alpha", bounded.fit(seen))
    bounded = completion(**mixed, radius=1.5, solver="projected_gradient", max_iter=100)
    pins.model("projected gradient", bounded.fit(seen))
    pins.model("lbfgs", completion(**plain, radius=None, solver="lbfgs").fit(seen))
    effects = {**plain, "rank": 0}
    pins.model("user and item biases", completion(**effects, radius=None).fit(seen))


def implicit_features(pins: Pins) -> None:
    """Fit implicit features with an activity floor, and fold in a row of the fit again."""
    seen = exposed_table(ids=True)
    options = {**PLAIN, "implicit_features": True, "l2_implicit": 2.0}
    for floor in ((0.0, 0.0), (1.0, 0.5)):
        model = completion(**options, activity_floor=floor, tol=1e-6).fit(seen)
        pins.model(f"floor {floor}", model)
    mine = np.flatnonzero(seen.rows == 7)
    given = Observations.from_pairs(
        np.zeros(mine.size, dtype=int),
        seen.columns[mine],
        seen.labels[mine],
        shape=(1, seen.shape[1]),
        row_ids=["again"],
        column_ids=seen.column_ids,
    )
    columns = list(seen.column_ids)
    before = model.decision_function(["u7"] * len(columns), columns)
    for prior in ("fit", "new"):
        folded = model.fold_in(given, prior=prior)
        after = folded.decision_function(["again"] * len(columns), columns)
        pins.add(f"folded, prior {prior}", after)
        if prior == "fit":
            pins.add("a row of the fit has its scores again", np.allclose(before, after, atol=0.02))
    turned = Observations.from_pairs(
        seen.columns[seen.columns == 4] * 0,
        seen.rows[seen.columns == 4],
        seen.labels[seen.columns == 4],
        shape=(1, seen.shape[0]),
        row_ids=["item again"],
        column_ids=seen.row_ids,
    )
    entries = turned.to_sparse().T.tocoo()
    new_column = Observations.from_pairs(
        entries.row,
        entries.col,
        entries.data.astype(int),
        shape=entries.shape,
        row_ids=seen.row_ids,
        column_ids=["item again"],
    )
    folded = model.fold_in(new_column, axis="columns")
    rows = list(seen.row_ids)
    pins.add("folded column", folded.decision_function(rows, ["item again"] * len(rows)))


def side_features(pins: Pins) -> None:
    """Fit features of both sides: rows without entries, new ids, and the table turned."""
    labels, observed, row_groups, column_groups = featured_table()
    shape = labels.shape
    A = np.where(observed, labels, 0)
    A[-10:], A[:, -6:] = 0, 0  # cold rows and columns
    row_ids, column_ids = named(shape)
    rows = pd.DataFrame({"id": row_ids, "group": [f"g{k}" for k in row_groups]})
    rows["age"] = np.random.default_rng(5).uniform(18, 80, shape[0])
    columns = pd.DataFrame({"id": column_ids, "kind": [f"k{k}" for k in column_groups]})
    columns["tags"] = [["a", "b"] if k % 2 else ["b"] for k in column_groups]
    options = {**PLAIN, "side_features": True, "l2_side": 3.0}
    seen = of_array(A, (row_ids, column_ids))
    model = completion(**options).fit(seen, row_features=rows, column_features=columns)
    pins.model("fit", model)
    cold = row_ids[-10:]
    pins.add("cold rows", model.decision_function(cold * 3, column_ids[:30]))
    both = model.decision_function(cold[:6], column_ids[-6:])
    pins.add("cold rows and columns", both)
    pins.explanation("explained", model.explain("u3", "i8", seen))
    new_rows = pd.DataFrame({"id": ["n0", "n1"], "group": ["g0", "g2"], "age": [33.0, 61.0]})
    new = Observations.from_pairs(
        [0, 0, 1, 2], [0, 1, 2, 3], [1, -1, 1, 1], row_ids=["n0", "u3", "n1"],
        column_ids=["i0", "i5", "i9", "j0"], shape=(3, 4),
    )  # fmt: skip
    new_columns = pd.DataFrame({"id": ["j0"], "kind": ["k1"], "tags": [["a"]]})
    updated = model.update(new, seen, row_features=new_rows, column_features=new_columns)
    pins.model("updated", updated, fit=False)
    for row in ("n0", "n1", "u3"):
        scores = updated.decision_function([row] * 71, [*column_ids, "j0"])
        pins.add(f"updated, {row}", scores)
    bare = model.fold_in(row_features=new_rows)
    pins.add("folded by features alone", bare.decision_function(["n0"] * 70, column_ids))
    turned = completion(**options).fit(
        of_array(A.T, (column_ids, row_ids)), row_features=columns, column_features=rows
    )
    pins.model("turned", turned)
    searched = completion(gammas=(1, 0, 0), rank=2, l2_intercept=1.0, n_candidates=24)
    searched.fit(seen, row_features=rows, column_features=columns)
    pins.model("searched", searched)
    pins.search("search", searched.search_)
    # A model without the features in its factors predicts cold rows by slopes.
    slopes = completion(**{**PLAIN, "side_features": False})
    slopes.fit(seen, row_features=rows, column_features=columns)
    pins.model("slopes", slopes)
    pins.add("slopes, cold rows", slopes.decision_function(cold * 3, column_ids[:30]))


def likes_only(pins: Pins) -> None:
    """Search on likes alone, where a regression of the smaller side is added; explain known and folded rows."""
    table = exposed_table((120, 40), count=1200, ids=True, seed=3)
    seen = table.take(np.flatnonzero(table.labels > 0))
    model = completion().fit(seen)
    pins.model("fit", model)
    pins.search("search", model.search_)
    pins.explanation("known row", model.explain("u5", "i9", seen))
    given = Observations.from_pairs(
        [0] * 4, range(4), [1] * 4, row_ids=["new"], column_ids=["i3", "i11", "i20", "i31"]
    )
    folded = model.fold_in(given)
    columns = list(model.column_ids_)
    pins.add("folded", folded.decision_function(["new"] * len(columns), columns))
    pins.explanation("folded row", folded.explain("new", "i9", given))
    with saved(model, pins, "file") as path:
        pins.explanation("loaded", load(path).explain("u5", "i9", seen))
    pairs = paired_likes()
    searched = completion(implicit_features=False, l2=6.0, l2_intercept=1.0).fit(pairs)
    pins.model("regression", searched)
    pins.search("regression search", searched.search_)
    pins.explanation("regression explained", searched.explain("u7", "i9", pairs))
    new = searched.fold_in(given)
    pins.add(
        "regression, folded", new.decision_function(["new"] * 200, list(pairs.column_ids)[:200])
    )
    with saved(searched, pins, "regression file") as path:
        pins.model("regression, loaded", load(path), fit=False)
    lists = Recommender(completion(), random_state=0).fit(seen).recommend(["u1", "u2"], 5)
    pins.lists("lists", lists)


def all_pairs(pins: Pins) -> None:
    """Predict all user-item pairs with a propensity of low rank: saved, loaded, explained, folded in."""
    seen = exposed_table(ids=True, seed=1)
    recommender = Recommender(completion(target="all"), random_state=0).fit(seen)
    pins.model("fit", recommender.model_)
    pins.search("search", recommender.model_.search_)
    mixed = {**MIXED, "rho": "low-rank", "radius": 1.5, "target": "all"}
    weighted = completion(**mixed, inverse_power=0.5).fit(seen)
    pins.model("three risks", weighted)
    imputed = completion(**MIXED, radius=1.5, imputed=weighted).fit(seen)
    pins.model("doubly robust", imputed)
    pins.explanation("three risks explained", weighted.explain("u3", "i8", seen))
    given = Observations.from_pairs(
        [0] * 4, range(4), [1, -1, 1, 1], row_ids=["new"], column_ids=["i3", "i11", "i20", "i31"]
    )
    columns = list(seen.column_ids)
    for name, model in (("searched", recommender), ("three risks", None)):
        again = model or Recommender(completion(**mixed), random_state=0).fit(seen)
        with saved(again, pins, name) as path:
            loaded = Recommender.load(path)
        pins.model(f"{name}, loaded", loaded.model_, fit=False)
        pins.explanation(f"{name}, loaded and explained", loaded.explain("u3", "i8"))
        folded = loaded.fold_in(given)
        proba = folded.predict_proba(["new"] * len(columns), columns)
        pins.add(f"{name}, loaded and folded", proba)
        pins.explanation(f"{name}, folded and explained", folded.explain("new", "i8"))


def stack_of_fits(pins: Pins) -> None:
    """Stack at most three fits, with isotonic calibration, intervals and prediction sets."""
    table = exposed_table((150, 90), count=4500, ids=True, seed=2)
    train, held_out = table.split(600, random_state=0)
    options = {"gammas": (1, 0, 0), "l2_intercept": 1.0, "implicit_features": False}
    options |= {"members": 3, "calibration": "isotonic", "n_candidates": 12}
    recommender = Recommender(completion(**options), random_state=0).fit(train)
    model = recommender.model_
    pins.model("fit", model)
    pins.search("search", model.search_)
    pins.add("ranks", [each.spec.rank for each in model.fitted_.members])
    rows, columns = cells(model)
    posterior = laplace(model, train)
    pins.add("posterior deviation", posterior.deviation(rows, columns))
    interval = posterior.interval(rows, columns, level=0.8)
    pins.add("interval.lower", interval.lower)
    pins.add("interval.upper", interval.upper)
    adjusted = posterior.with_adjustment(held_out, n_refits=2, random_state=0)
    pins.add("adjusted", adjusted.predict_proba(rows, columns))
    calibrator = calibrate(model, held_out, method="isotonic")
    pins.add("calibrated", calibrator(model.decision_function(rows, columns)))
    sets = conformal(model, held_out, by_label=True).sets(rows, columns, level=0.9)
    pins.add("sets.like", sets.like)
    pins.add("sets.dislike", sets.dislike)
    pins.lists("lists", recommender.recommend(["u1", "u9"], 4, level=0.9))
    pins.explanation("explained", recommender.explain("u3", "i8"))
    with saved(recommender, pins, "file") as path:
        loaded = Recommender.load(path)
    pins.model("loaded", loaded.model_, fit=False)
    pins.lists("loaded lists", loaded.recommend(["u1", "u9"], 4, level=0.9))
    result = recommender.evaluate(held_out)
    measures = ("error_rate", "log_loss", "auc", "calibration_error")
    pins.add("evaluated", [getattr(result, name) for name in measures])


def sampled_sums(pins: Pins) -> None:
    """Estimate sums over all cells from a sample, with two seeds."""
    seen = uniform_table((200, 150), rho=0.9)
    for seed in (0, 1):
        options = {**MIXED, "radius": 1.5, "backend": "sampled", "max_iter": 15}
        model = completion(**{**options, "random_state": seed}).fit(seen)
        pins.model(f"seed {seed}", model)
        pins.add(f"seed {seed}.backend", model.backend_)


def row_subsample(pins: Pins) -> None:
    """Search on a subsample of the rows; the table is as large as that takes, so that no constant is patched."""
    seen = exposed_table((6000, 300), count=640_000, seed=4)
    options = {"gammas": (1, 0, 0), "rank": 2, "l2_intercept": 1.0, "implicit_features": False}
    model = completion(**options, members=1, max_iter=15).fit(seen)
    pins.model("fit", model)
    pins.search("search", model.search_)


def ranked_lists(pins: Pins) -> None:
    """Rank candidates with ties and given entries: Python, the command line and HTTP give the same numbers."""
    seen = exposed_table((80, 60), count=1500, ids=True, empty_columns=8, seed=6)
    options = {**PLAIN, "implicit_features": True, "l2_implicit": 2.0}
    recommender = Recommender(completion(**options), random_state=0).fit(seen)
    pins.model("fit", recommender.model_)
    rows = ["u3", "u17", "u42"]
    asked = {"n": 60, "avoid_dislikes": 0.6, "level": 0.9}
    found = recommender.recommend(rows, **asked)
    pins.lists("lists", found)
    # The last eight columns have no entries, and so equal scores: they come in the order of the columns.
    empty = [each[each >= 52] for each in found.positions]
    pins.add("equal scores", [each.tolist() for each in empty])
    equal = [
        np.unique(found.scores[place][found.positions[place] >= 52]).size for place in range(3)
    ]
    pins.add("distinct scores of empty columns", equal)
    pins.lists("without ranker", recommender.recommend(rows, 5, ranker=False))
    pins.lists("with seen", recommender.recommend(rows, 5, exclude_seen=False))
    ranker = CandidateRanker(random_state=0).fit(seen)
    found = recommender.model_.recommend(rows, 5, exclude_seen=seen, ranker=ranker)
    pins.lists("ranker beside a model", found)
    pins.lists("ranker alone", ranker.recommend(rows, 5))
    pins.neighbours("similar items", recommender.similar(columns=["i3", "i9"], n=5))
    pins.neighbours("similar users", recommender.similar(rows=["u3", "u9"], n=5))
    with saved(recommender, pins, "file") as path:
        answers_agree(pins, path, rows, asked)


def kinds_of_files(pins: Pins) -> None:
    """Read twelve kinds of files into the same observations."""
    file_kinds(pins)


def command_line(pins: Pins) -> None:
    """Fit, predict, evaluate, explain and update on the command line, with the numbers of Python."""
    commands_agree(pins)


case(default_search)
for _dtype in ("float32", "float64"):
    for _kernels, _compiled in (("numpy", "0"), ("compiled", "1")):
        case(
            lambda pins, dtype=_dtype, compiled=_compiled: three_risks(pins, dtype, compiled),
            name=f"three_risks_{_dtype}_{_kernels}",
            precision="single" if _dtype == "float32" else "double",
        )
case(other_solvers, precision="double")
for _case in (implicit_features, side_features, likes_only, all_pairs, stack_of_fits):
    case(_case)
for _case in (sampled_sums, row_subsample, ranked_lists, kinds_of_files, command_line):
    case(_case)

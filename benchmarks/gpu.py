"""A GPU: the passes, fits, the search, lists and the ranker on a table of the shape of MovieLens-20M.

``python -m benchmarks.gpu`` prints the tables of the manual (docs/measured/gpu.md); names of sections as arguments run
those alone. Times are wall-clock seconds, medians where a line says so, kernels compiled before.
"""

import statistics
import sys
import time
import warnings
from collections.abc import Callable
from functools import partial
from typing import TypeVar

import numpy as np
import torch
from sklearn.base import clone

from benchmarks.measure import machine, print_table
from tribit import BinaryMatrixCompletion, Logistic, Observations, pn, tri
from tribit.backends import make_backend
from tribit.backends.cuda.dense import dense_pass
from tribit.ranking import CandidateRanker
from tribit.ranking.lists import TopN

Found = TypeVar("Found")
SHAPE, ENTRIES = (138_493, 26_744), 20_000_000
HUGE_SHAPE, HUGE_ENTRIES = (480_189, 17_770), 100_000_000
#: Settings of single fits: the ridges that were good on MovieLens-100k.
FIXED = {"rank": 32, "l2": 12.0, "l2_intercept": 1.5, "calibration": None, "random_state": 0}
FEATURES = {"implicit_features": True, "l2_implicit": 30.0, "activity_floor": (1.0, 1.0)}


def drawn(shape: tuple[int, int], count: int, seed: int = 0) -> Observations:
    """Draw entries with log-normal margins and a low-rank taste, as ``benchmarks.data.skewed`` does, on the GPU."""
    draws = torch.Generator("cuda").manual_seed(seed)

    def normal(*size: int) -> torch.Tensor:
        return torch.randn(size, generator=draws, device="cuda")

    margins = [torch.exp(s * normal(n)).double() for n, s in zip(shape, (1.0, 1.3), strict=True)]
    ends = [torch.cumsum(m / m.sum(), 0) for m in margins]
    keys = torch.empty(0, dtype=torch.int64, device="cuda")
    while keys.numel() < count:
        i, j = (
            torch.searchsorted(
                end, torch.rand(count // 2, generator=draws, device="cuda", dtype=torch.float64)
            ).clamp(max=n - 1)
            for end, n in zip(ends, shape, strict=True)
        )
        keys = torch.unique(torch.cat([keys, i * shape[1] + j]))
    kept = torch.randperm(keys.numel(), generator=draws, device="cuda")[:count]
    keys = keys[kept.sort().values]
    i, j = keys // shape[1], keys % shape[1]
    U, V = normal(shape[0], 8), normal(shape[1], 8)
    x = 0.4 * (U[i] * V[j]).sum(1) + 0.3 + 0.7 * normal(shape[0])[i] + 0.5 * normal(shape[1])[j]
    like = torch.rand(count, generator=draws, device="cuda") < torch.sigmoid(x)
    labels = torch.where(like, 1, -1).to(torch.int8)
    i, j, labels = (each.cpu().numpy() for each in (i, j, labels))
    return Observations.from_pairs(i, j, labels, shape=shape)


def milliseconds(run: Callable[[], object], repeats: int = 20) -> float:
    """Return the median time of a call, by events of the device."""
    run()
    taken = []
    for _ in range(repeats):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        run()
        end.record()
        torch.cuda.synchronize()
        taken.append(begin.elapsed_time(end))
    return statistics.median(taken)


def seconds(run: Callable[[], object]) -> tuple[float, object]:
    """Return the duration and the result of a call."""
    torch.cuda.synchronize()
    began = time.perf_counter()
    found = run()
    torch.cuda.synchronize()
    return time.perf_counter() - began, found


def passes(seen: Observations) -> None:
    """Print the times of the passes over the entries, and how far they are from float64."""
    rows = []
    for k in (16, 32, 64):
        draws = torch.Generator("cuda").manual_seed(1)
        P, Q = (0.3 * torch.randn(n, k + 2, generator=draws, device="cuda") for n in seen.shape)
        for name, risk in (("observed", pn()), ("all", tri(0.6, 0.2, 0.2, 0.99))):
            backend = make_backend(seen, Logistic(), risk, dtype="float32", n_jobs=1, device="cuda")
            exact = make_backend(seen, Logistic(), risk, dtype="float64", n_jobs=1, device="cuda")
            value, in_P, in_Q = backend.gradient(P, Q)
            true, by_P, by_Q = exact.gradient(P.double(), Q.double())
            off = max(
                float((got - want).norm() / want.norm())
                for got, want in ((in_P, by_P), (in_Q, by_Q))
            )
            turned = backend.transposed
            rows.append(
                (
                    name,
                    k,
                    f"{milliseconds(partial(backend.half_gradient, P, Q, value=False)):.2f}",
                    f"{milliseconds(partial(turned.half_gradient, Q, P, value=False)):.2f}",
                    f"{milliseconds(partial(backend.gradient, P, Q)):.2f}",
                    f"{milliseconds(partial(dense_pass, backend.tensors, P, Q, None, value=False)):.2f}"
                    if risk.unobserved_weight
                    else "",
                    f"{off:.1e}",
                    f"{abs(value / true - 1):.1e}",
                )
            )
    print_table(
        f"One pass, {seen.shape[0]:,} x {seen.shape[1]:,}, {seen.n_observed:,} seen, milliseconds",
        (
            "entries",
            "k",
            "rows",
            "columns",
            "value and gradient",
            "rows, the dense term alone",
            "error",
            "error of the value",
        ),
        rows,
    )


def fits(seen: Observations) -> None:
    """Print the times of single fits, kernels compiled before."""
    rows = []
    features = {"gammas": (1, 0, 0), **FEATURES}
    mixture = {"gammas": (0.8, 0.1, 0.1), "radius": 4.0, "implicit_features": False}
    for name, options in (
        ("observed, implicit features", features),
        ("the same, tol=1e-3", features | {"tol": 1e-3}),
        ("observed, plain factors", {"gammas": (1, 0, 0), "implicit_features": False}),
        ("mixture in a ball, tol=1e-3", mixture | {"tol": 1e-3}),
        ("the same, tol=1e-5", mixture | {"tol": 1e-5}),
    ):
        model = BinaryMatrixCompletion(**(FIXED | options), device="cuda")
        quietly(lambda model=model: clone(model).set_params(max_iter=2).fit(seen))
        torch.cuda.reset_peak_memory_stats()
        taken, _ = quietly(lambda model=model: seconds(lambda: model.fit(seen)))
        rows.append(
            (
                name,
                f"{taken:.1f}",
                f"{model.history_[-1].seconds:.2f}",
                model.n_iter_,
                f"{model.objective_:.6g}",
                model.stop_reason_,
                f"{torch.cuda.max_memory_allocated() / 1e9:.1f}",
            )
        )
    print_table(
        "One fit, k = 32",
        ("model", "fit, s", "of it iterations, s", "iterations", "objective", "end", "GB"),
        rows,
    )


def sizes(_: Observations) -> None:
    """Print where a GPU begins to pay: one fit with implicit features on both devices."""
    rows = []
    for shape, count in (
        ((943, 1682), 100_000),
        ((2000, 2500), 300_000),
        ((6040, 3706), 1_000_000),
    ):
        seen = drawn(shape, count)
        cells = []
        for device in ("cpu", "cuda"):
            options = FIXED | {"gammas": (1, 0, 0), **FEATURES, "rank": 16}
            model = BinaryMatrixCompletion(**options, device=device)
            quietly(lambda model=model, seen=seen: clone(model).set_params(max_iter=2).fit(seen))
            taken, _ = quietly(lambda model=model, seen=seen: seconds(lambda: model.fit(seen)))
            cells += [f"{taken:.2f}", f"{model.objective_:.6g}"]
        rows.append((f"{shape[0]:,} x {shape[1]:,}, {count:,}", *cells))
    print_table(
        "One fit with implicit features, k = 16, on all cores and on the GPU",
        ("rows x columns, entries", "CPU, s", "objective", "GPU, s", "objective"),
        rows,
    )


def ranker(seen: Observations) -> None:
    """Print the time of the fit of a ranker: both inverses of all columns."""
    made = CandidateRanker(device="cuda", random_state=0)
    taken, _ = seconds(lambda: made.fit(seen))
    print_table(
        "A CandidateRanker", ("columns", "fit, s"), [(f"{seen.shape[1]:,}", f"{taken:.1f}")]
    )


def quietly(run: Callable[[], Found]) -> Found:
    """Return the result of a call without its warnings: some fits are cut short on purpose."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return run()


def defaults(seen: Observations) -> None:
    """Print the time of search and fit with nothing set."""
    train, held_out = seen.split(0.02, random_state=0)
    model = BinaryMatrixCompletion(random_state=0, device="cuda")
    taken, _ = seconds(lambda: model.fit(train))
    p = model.predict_proba(held_out.rows, held_out.columns)
    loss = -np.mean(np.log(np.where(held_out.labels > 0, p, 1 - p)))
    found = model.search_
    rows = [
        (each.settings.family, each.settings.rank, f"{each.score:.4f}", f"{each.seconds:.1f}",
         each.n_iter) for each in found.candidates
    ]  # fmt: skip
    print_table("The search", ("family", "k", "score", "s", "iterations"), rows)
    if found.stack is not None:
        members = [
            (each.settings.family, each.settings.rank, f"{weight:.2f}", f"{each.score:.4f}")
            for each, weight in zip(found.stack.members, found.stack.weights, strict=True)
        ]
        print_table("Members of the stack", ("family", "k", "weight", "score alone"), members)
    print(
        f"\nSearch and fit: {taken:.0f} s, of it the search {found.seconds:.0f} s; {model.spec_}; held-out log-loss "
        f"{loss:.4f}"
    )


def lists(seen: Observations) -> None:
    """Print the time of the lists of all rows."""
    options = FIXED | {"gammas": (1, 0, 0), "implicit_features": False, "max_iter": 5}
    model = quietly(lambda: BinaryMatrixCompletion(**options, device="cuda").fit(seen))
    places = np.arange(seen.shape[0])
    mask = seen.to_sparse()
    top = TopN(model.scores_, device="cuda")
    for _ in range(2):
        taken, found = seconds(lambda: top.lists(places, 10, left_out=mask))
    some = places[:: seen.shape[0] // 500]
    here = TopN(model.scores_).lists(some, 10, left_out=mask)
    same = np.mean(found.positions[some].values == here.positions.values)
    whole, _ = seconds(lambda: model.recommend(places, exclude_seen=seen))
    print_table(
        f"Lists of ten for all {places.size:,} rows",
        ("lists, s", "with the entries to leave out read and checked, s", "places as on the CPU"),
        [(f"{taken:.2f}", f"{whole:.2f}", f"{same:.2%} of those of {some.size} rows")],
    )


def hundred_million(_: Observations) -> None:
    """Print search and fit of a table of the shape of the Netflix prize."""
    seen = drawn(HUGE_SHAPE, HUGE_ENTRIES)
    torch.cuda.reset_peak_memory_stats()
    model = BinaryMatrixCompletion(device="cuda", random_state=0)
    taken, _ = seconds(lambda: model.fit(seen))
    found = model.search_
    assert found is not None
    print_table(
        f"{HUGE_SHAPE[0]:,} x {HUGE_SHAPE[1]:,}, {HUGE_ENTRIES:,} seen",
        ("search and fit, s", "of it the search, s", "candidates", "members", "GPU memory, GB"),
        [
            (
                f"{taken:.0f}",
                f"{found.seconds:.0f}",
                len(found.candidates),
                1 if found.stack is None else len(found.stack.members),
                f"{torch.cuda.max_memory_allocated() / 2**30:.1f}",
            )
        ],
    )


SECTIONS = {
    "passes": passes,
    "fits": fits,
    "lists": lists,
    "ranker": ranker,
    "sizes": sizes,
    "defaults": defaults,
    "hundred_million": hundred_million,
}


def main() -> None:
    """Print the given sections."""
    print(
        f"{torch.cuda.get_device_name()}, PyTorch {torch.__version__}, CUDA {torch.version.cuda}; {machine()}"
    )
    seen = drawn(SHAPE, ENTRIES)
    for name in sys.argv[1:] or SECTIONS:
        SECTIONS[name](seen)


if __name__ == "__main__":
    main()

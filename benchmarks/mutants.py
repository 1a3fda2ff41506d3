"""Mutation tests: small changes of the code, each of which a test of the module's own package must notice.

``python -m benchmarks.mutants --draw 20 metrics model/calibration.py`` draws so many mutants of each part, runs the
part's tests with each of them, and prints the shares that a test noticed, of each part and of all, and the table of
those that none did. A mutant changes one comparison, operation, constant, condition, result or call. It is written into
a copy of the package, and the tests run in a process of their own. It is ended after ``--limit`` seconds, or five times
the seconds without a change if these are more; an endless loop is noticed too.

:data:`REASONS` says why no test can notice some of them.
"""

import argparse
import ast
import importlib
import multiprocessing
import os
import random
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "tribit"
#: Parts of the package whose tests are not in the folder of the same name: files in the order in which they run.
TESTS = {
    "model/calibration.py": "tests/uncertainty/test_calibrators.py",
    "model/links.py": "tests/model/test_links.py",
    "model/risks.py": "tests/model/test_risks.py",
    "ragged.py": "tests/test_ragged.py",
    "checks.py": "tests/test_checks.py",
    "selection/stacking.py": "tests/selection/test_stacking.py",
    "selection/folds.py": "tests/selection/test_folds.py tests/selection/test_selection_trials.py",
    "solvers/lbfgs.py": "tests/solvers/test_lbfgs.py",
    "solvers/loop.py": "tests/solvers/test_loop.py tests/solvers/test_stages.py",
    "uncertainty/label_sets.py": "tests/uncertainty/test_label_sets.py",
    "uncertainty/list_intervals.py": "tests/uncertainty/test_list_intervals.py",
}
#: Packages that the tests import, loaded once: each mutant's process begins as a copy of this one.
IMPORTED = ("numpy", "scipy.optimize", "scipy.sparse", "scipy.special", "scipy.stats", "sklearn")
IMPORTED += ("pandas", "pytest", "hypothesis")
COMPARISONS = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
OPERATIONS = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Div,
    ast.Pow: ast.Mult,
    ast.MatMult: ast.Mult,
    ast.BitAnd: ast.BitOr,
}
#: Fields of a node that no run reads, or that say only how a value is shown.
UNREAD = {"annotation", "returns", "decorator_list", "type_comment"}
SPEED = "only the number of steps changes"
START = "a convex function has the same minimum from every start"
ROUNDING = "the two are equal in rounding alone"
SIGN = "a label is 1 or -1"
BLOCK = "only the size of blocks changes"
#: Why no test can notice a change, by the line and what takes the place of its part.
REASONS: dict[tuple[str, str], str] = {
    ("return mean_influences(1.0 - errors(curve, x, labels), weights)", "2.0"): (
        "influences have the mean 0, whatever is added to the values"
    ),
    (
        "return np.asarray(-np.log(np.maximum(p if y > 0 else 1.0 - p, np.finfo(np.float64).tiny)))",
        "y >= 0",
    ): SIGN,
    ("return scores, given > 0, w * (w.sum() / np.sum(w**2))", "given >= 0"): SIGN,
    ("groups = tenths(x, expected, np.where(found > 0, weights, 0.0))", "found >= 0"): SIGN,
    (
        "liked, unseen = label_weights(x * labels[0], found == labels[0], weights)",
        "(x / labels[0])",
    ): SIGN,
    ("found, counts = seen.by_rows(count_part, (P, hidden), 8 * N_BINS, **options)", "9"): (
        "an estimate of the bytes that a worker sends"
    ),
    ("step = max(1, BLOCK_SCORES // max(Q.shape[0], 1))", "2"): BLOCK,
    ("step = max(1, BLOCK_SCORES // max(Q.shape[0], 1))", "1"): BLOCK,
    ("BLOCK_SCORES = 2**20", "(2 * 20)"): BLOCK,
    ("ENTRIES_AT_ONCE, ROWS_AT_ONCE = 2**21, 4096", "3"): BLOCK,
    ("ENTRIES_AT_ONCE, ROWS_AT_ONCE = 2**21, 4096", "4097"): BLOCK,
    ("by_entries = ends // ENTRIES_AT_ONCE", "(ends / ENTRIES_AT_ONCE)"): BLOCK,
    (
        "cuts = np.flatnonzero((np.diff(by_entries) > 0) | (np.diff(by_rows) > 0)) + 1",
        "np.diff(by_rows) >= 0",
    ): BLOCK,
    ("SPAN = 64 * BLOCK", "65"): BLOCK,
    ("seen + hidden,", "(seen - hidden)"): "only the positions of the stored entries are read",
    ("likes = labels > 0", "labels >= 0"): SIGN,
    ("like = labels > 0", "labels >= 0"): SIGN,
    ("return tuple(zip(*sums, strict=True))", "False"): "as many sums of each",
    ("for like, dislike in zip(self.like, self.dislike, strict=True)", "False"): (
        "two arrays of one size"
    ),
    ("line = np.append(np.ones(len(terms)), 0.0)", "1.0"): START,
    ("unknowns = np.append(np.full(m, 1.0 / m) if start is None else start, 0.0)", "1.0"): START,
    (
        "far = z < -(100.0 if z.dtype == np.float64 else 15.0)",
        "z <= -(100.0 if z.dtype == np.float64 else 15.0)",
    ): ROUNDING,
    ("safe = np.where(far, z, -1)", "(1)"): "a number in the place of those that are not used",
    ("factors: Factors = field(repr=False)", "True"): "how a value is shown",
    ("if len(history) <= 2 * window:", "(2 / window)"): (
        "both are 2 for a window of one, and a history is far longer than any other window"
    ),
    (
        "curvature[np.diag_indices_from(curvature)] += np.append(1 / line[:-1] ** 2, 1 / unit**2)",
        "(1 * unit ** 2)",
    ): SPEED,
    ("if before - loss < TOLERANCE:", "(before + loss)"): SPEED,
    ("MAX_HALVINGS = 30", "31"): SPEED,
    ("ENTRIES_AT_ONCE, ROWS_AT_ONCE = 2**21, 4096", "(2 * 21)"): BLOCK,
    (
        "cuts = np.flatnonzero((np.diff(by_entries) > 0) | (np.diff(by_rows) > 0)) + 1",
        "1",
    ): BLOCK,
    (
        "return Rated(np.where(value > 0, rate * value, value), rate * like, rate * dislike)",
        "value >= 0",
    ): "the product with 0 is 0",
    ("Label = Literal[1, -1]", "(1)"): "a type, which no run reads",
    ("free &= block >= (nth - margin)[:, None]", "block > (nth - margin)[:, None]"): (
        "the margin is twice the largest error"
    ),
    ("int(draws.integers(2**32)),", "33"): "another seed, which is as good",
    ("int(draws.integers(2**32)),", "(2 * 32)"): "another seed, which is as good",
    ("MAX_ITERATIONS, TOLERANCE = 50, 1e-9", "2e-09"): SPEED,
    (
        "while np.any(np.abs((moved := unknowns + length * step) - unknowns) > 0.0):",
        "np.abs((moved := (unknowns + length * step)) - unknowns) >= 0.0",
    ): "a step of length 0 does not lower the loss, and ends the loop as well",
    (
        "if self.known is None or self.made_at - self.known[0] <= REFRESH_DECREASE * abs(",
        "self.made_at - self.known[0] < REFRESH_DECREASE * abs(self.known[0])",
    ): ROUNDING,
    (
        "if reached[0] <= value + ARMIJO * length * slope + noise:",
        "reached[0] < value + ARMIJO * length * slope + noise",
    ): ROUNDING,
    (
        "fresh = np.array([2 * place + i for place in self.new for i in (0, 1)], dtype=np.intp)",
        "1",
    ): "the direction needs no products of steps with steps",
    ("rising = rising and x[-1] - x[0] < np.inf and abs(x[0]) < np.inf", "abs(x[0]) <= np.inf"): (
        "the difference before it is then infinite or NaN, and refused"
    ),
    ("if gain <= GAIN_TOLERANCE * max(1.0, abs(here)):", "2.0"): SPEED,
    ("second = w * np.maximum(by_label(curve.second, z), 0.0)", "1.0"): SPEED,
    ("MAX_STEPS, GAIN_TOLERANCE, ARMIJO = 100, 1e-12, 1e-4", "2e-12"): SPEED,
    ("low, high = grid[max(best - 1, 0)], grid[min(best + 1, grid.size - 1)]", "2"): (
        "the next grid is longer by a point, and has the same maximum"
    ),
    ('("pn", "pu", "nu"), check_gammas((self.pn, self.pu, self.nu)), strict=True', "False"): (
        "three names for three weights"
    ),
    (
        "if found <= loss + 1e-4 * length * float(gradient @ step):",
        "found < loss + 0.0001 * length * float(gradient @ step)",
    ): ROUNDING,
    ("if before - loss < TOLERANCE:", "before - loss <= TOLERANCE"): ROUNDING,
    ("unknowns = np.append(np.full(m, 1.0 / m) if start is None else start, 0.0)", "2.0"): START,
    ("start = np.append(found.weights, 0.0)", "1.0"): START,
    ("if found <= loss + 1e-4 * length * float(gradient @ step):", "0.0002"): SPEED,
    (
        "parts.append(np.where(self.labels > 0, function(z, 1), function(z, -1)) * self.weights)",
        "self.labels >= 0",
    ): SIGN,
    (
        "gains = np.where(slopes < 0.0, slopes**2 / (2.0 * np.maximum(left, np.finfo(float).tiny)), 0.0)",
        "slopes <= 0.0",
    ): "the gain of the slope 0 is 0",
    (
        "tried = [place for place in np.argsort(-gains)[:N_TRIED] if gains[place] > 0.0]",
        "gains[place] >= 0.0",
    ): "a candidate that can gain nothing is fitted, and not added",
    (
        "number = balanced_fold_numbers(observations.labels > 0, parts, draws)",
        "observations.labels >= 0",
    ): SIGN,
    (
        "for train, held_out in observations.hashed_folds(parts, used, int(draws.integers(2**32)))",
        "3",
    ): ("another seed, which is as good"),
    ("REFRESH_STEPS, REFRESH_GROWTH, REFRESH_DECREASE = 10, 3, 1e-3", "4"): SPEED,
    ("total += part", "total -= part"): "the direction depends on quotients of these sums alone",
    ("step = direction if length == 1.0 else length * direction", "2.0"): (
        "1.0 times the direction is the direction"
    ),
    (
        "total = self.sums[-1] if self.sums.size else 0.0",
        "1.0",
    ): "an empty list has one place alone",
    ("like = entries.labels > 0", "entries.labels >= 0"): SIGN,
    (
        "return np.where(np.asarray(labels) > 0, self.like, self.dislike)",
        "np.asarray(labels) >= 0",
    ): SIGN,
    ('place = np.searchsorted(self.sums, needed * (1 - 1e-12), side="left")', "2e-12"): (
        "both are above the rounding of a sum and far below a weight"
    ),
    ("corner = np.concatenate([[True], changes]) | np.concatenate([changes, [True]])", "False"): (
        "the other end of a constant stretch stays, and the function is constant outside its knots"
    ),
}


@dataclass(frozen=True)
class Mutant:
    """A change of one place of a module."""

    path: Path
    span: tuple[int, int]  #: bytes of the place
    line: int
    old: str
    new: str

    @property
    def key(self) -> tuple[str, str]:
        """The line, and what takes the place of its part."""
        lines = self.path.read_text(encoding="utf-8").splitlines()
        return lines[self.line - 1].strip(), self.new

    @property
    def place(self) -> str:
        """The module and the line."""
        return f"{self.path.relative_to(SOURCE).as_posix()}: `{self.key[0]}`"

    @property
    def change(self) -> str:
        """What stands there, and what takes its place."""
        return f"`{self.old}` → `{self.new}`"

    def text(self) -> bytes:
        """Return the module with the change."""
        source = self.path.read_bytes()
        return source[: self.span[0]] + self.new.encode() + source[self.span[1] :]


def places(tree: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes that a run evaluates: no annotations, no docstrings, no words of errors."""
    for name, value in ast.iter_fields(tree):
        if name in UNREAD:
            continue
        for node in value if isinstance(value, list) else [value]:
            if not isinstance(node, ast.AST) or isinstance(node, ast.Raise | ast.JoinedStr):
                continue
            if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
                continue
            yield node
            yield from places(node)


def changes(node: ast.AST) -> Iterator[str]:
    """Yield the texts that may take the place of a node."""
    match node:
        case ast.Compare(left, [operation, *rest], comparators):
            other = [COMPARISONS[type(operation)](), *rest]
            yield ast.unparse(ast.Compare(left, other, comparators))
        case ast.BinOp(left, operation, right) if type(operation) in OPERATIONS:
            yield f"({ast.unparse(ast.BinOp(left, OPERATIONS[type(operation)](), right))})"
        case ast.AugAssign(target, operation, value) if type(operation) in OPERATIONS:
            yield ast.unparse(ast.AugAssign(target, OPERATIONS[type(operation)](), value))
        case ast.BoolOp(operation, values):
            other = ast.Or() if isinstance(operation, ast.And) else ast.And()
            yield f"({ast.unparse(ast.BoolOp(other, values))})"
        case ast.UnaryOp(ast.USub() | ast.Not() | ast.Invert(), operand):
            yield f"({ast.unparse(operand)})"
        case ast.Constant(bool() as value):
            yield repr(not value)
        case ast.Constant(int() as value):
            yield repr(value + 1)
        case ast.Constant(float() as value):
            yield repr(2.0 * value if value else 1.0)
        case ast.IfExp(test, body, orelse):
            yield f"({ast.unparse(ast.IfExp(test, orelse, body))})"
        case ast.Return(value) if value is not None:
            yield "return None"
        case ast.Expr(ast.Call()):
            yield "pass"
        case ast.Break():
            yield "continue"


def mutants(path: Path) -> list[Mutant]:
    """Return all mutants of a module."""
    source = path.read_bytes()
    starts = [0]
    for line in source.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    found = []
    for node in places(ast.parse(source)):
        for new in changes(node):
            first, last = node.lineno, node.end_lineno
            span = starts[first - 1] + node.col_offset, starts[last - 1] + node.end_col_offset
            old = " ".join(source[slice(*span)].decode().split())
            if new != ast.unparse(node):
                found.append(Mutant(path, span, first, old, new))
    return found


def run_tests(copy: Path, tests: str) -> None:
    """Run the tests on the copied package; the exit status says whether they pass."""
    with Path(os.devnull).open("w") as nowhere:
        os.dup2(nowhere.fileno(), 1)
        os.dup2(nowhere.fileno(), 2)
    sys.path.insert(0, str(copy))
    os.environ["PYTHONPATH"] = str(copy)
    os.chdir(ROOT)
    status = importlib.import_module("pytest").main(
        ["-x", "-q", "-p", "no:cacheprovider", *tests.split()]
    )
    os._exit(int(status))


def outcome(copy: Path, tests: str, limit: float) -> str:
    """Return "passed", "failed" or "too long" for the tests of a part."""
    assert "tribit" not in sys.modules
    process = multiprocessing.get_context("fork").Process(target=run_tests, args=(copy, tests))
    process.start()
    process.join(limit)
    if process.is_alive():
        process.kill()
        process.join()
        return "too long"
    return "failed" if process.exitcode else "passed"


def judge(part: str, n: int, seed: int, limit: float, copy: Path) -> tuple[int, list[Mutant]]:
    """Return how many mutants of a part were tried, and those that its tests do not notice."""
    paths = sorted((SOURCE / part).rglob("*.py")) if (SOURCE / part).is_dir() else [SOURCE / part]
    tests = TESTS.get(part, f"tests/{part.removesuffix('.py')}")
    began = time.perf_counter()
    if outcome(copy, tests, 600.0) != "passed":
        raise SystemExit(f"The tests of {part} ({tests}) fail without any change.")
    limit = max(limit, 5.0 * (time.perf_counter() - began))
    known = [each for path in paths for each in mutants(path)]
    drawn = random.Random(f"{seed} {part}").sample(known, min(n, len(known)))
    alive = []
    for mutant in drawn:
        target = copy / mutant.path.relative_to(SOURCE.parent)
        target.write_bytes(mutant.text())
        began = time.perf_counter()
        found = outcome(copy, tests, limit)
        shutil.copy(mutant.path, target)
        seconds = time.perf_counter() - began
        print(f"{found:8} {seconds:5.1f} s  {mutant.place}: {mutant.change}", file=sys.stderr)
        if found == "passed":
            alive.append(mutant)
    return len(drawn), alive


def main() -> None:
    """Draw mutants, run the tests with each, and print a page of the manual."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("parts", nargs="+", help="folders or modules below src/tribit")
    options.add_argument("--draw", type=int, default=20, help="mutants of each part")
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("--limit", type=float, default=20.0, help="least seconds for one mutant")
    given = options.parse_args()
    # Python takes a module compiled in the same second for unchanged; tests of one seed repeat themselves.
    os.environ |= {"CI": "1", "OPENBLAS_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1"}
    sys.dont_write_bytecode = True
    rows, left, total = [], [], 0
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "src"
        shutil.copytree(SOURCE, copy / "tribit", ignore=shutil.ignore_patterns("__pycache__"))
        for name in IMPORTED:
            importlib.import_module(name)
        for part in given.parts:
            n, alive = judge(part, given.draw, given.seed, given.limit, copy)
            rows.append(f"| `{part}` | {n} | {n - len(alive)} | {len(alive)} |")
            left, total = left + alive, total + n
    from benchmarks.measure import (
        machine,
    )  # it imports tribit, which each process takes from the copy

    print(f"{machine()}; seed {given.seed}, at most {given.draw} mutants of each part\n")
    print("| part | mutants | noticed | not noticed |\n|---|---|---|---|", *rows, sep="\n")
    noticed = total - len(left)
    unnoticeable = sum(mutant.key in REASONS for mutant in left)
    print(
        f"\nNoticed: {noticed} of {total} mutants ({noticed / total:.1%}). Without the {unnoticeable} that have a "
        f"reason below: {noticed} of {total - unnoticeable} ({noticed / (total - unnoticeable):.1%})."
    )
    if left:
        print("\n| line | change that no test notices | reason |\n|---|---|---|")
        for mutant in left:
            place, change = (each.replace("|", "\\|") for each in (mutant.place, mutant.change))
            reason = REASONS.get(mutant.key, "open")
            print(f"| {place} | {change} | {reason} |")


if __name__ == "__main__":
    main()

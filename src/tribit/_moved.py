"""Names that changed in 0.2: modules, classes, keywords and attributes keep the old ones, with a warning, until 0.3."""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from types import ModuleType
from typing import Any, ParamSpec, TypeVar

#: Old name of a module or package, and the new one; what is inside a package has moved with it.
MOVED = {
    "axes": "data.axis",
    "baselines": "paper.systems",
    "calibration": "metrics.reliability",
    "classification": "paper.classification",
    "comparison": "paper.comparison",
    "constraints": "model.constraints",
    "demo": "paper.demo",
    "entry_weights": "simulate.entry_weights",
    "experiments": "paper.experiments",
    "experiments.canvas": "plots.canvas",
    "factors": "model.factors",
    "features": "model.features",
    "files": "data.files",
    "finders": "recommend",
    "finders.column_regression": "model.column_regression",
    "finders.like_finder": "recommend.candidate_ranker",
    "frames": "data.frames",
    "ids": "data.axis",
    "imputation": "model.imputation",
    "ingest": "data.ingest",
    "kernels": "backends",
    "kernels.common": "backends.base",
    "label_noise": "model.label_noise",
    "links": "model.links",
    "measurements": "data.measurements",
    "objective": "backends.objective",
    "observations": "data.observations",
    "parquet": "data.parquet",
    "problem": "selection.problem",
    "ranking": "evaluation.ranking",
    "rating_files": "datasets.rating_files",
    "ratings": "datasets.ratings",
    "recommendation": "recommend.lists",
    "risks": "model.risks",
    "sampling": "simulate.sampling",
    "solvers.frank_wolfe": "paper.systems.frank_wolfe",
    "solvers.rows": "backends.rows",
    "solvers.singular_pairs": "paper.systems.singular_pairs",
    "start": "solvers.start",
    "tables": "data.tables",
    "theory": "paper.theory",
    "uncertainty.calibrators": "model.calibrators",
    "uncertainty.fitting": "model.calibrator_fits",
}
#: Old name of a parameter of the estimator, and the new one; model files before format 5 have the old names.
PARAMETERS = {"mask_features": "implicit_features", "l2_mask": "l2_implicit"}

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds ``tribit.old`` as ``tribit.new``."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """Return a spec for an old name, None for any other."""
        del path, target
        return importlib.machinery.ModuleSpec(name, self) if _new_name(name) else None

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        """Return the module under its new name."""
        new = _new_name(spec.name)
        assert new is not None
        _warn(spec.name, new, DeprecationWarning)
        module = importlib.import_module(new)
        # The import system gives a module the spec that found it; this one keeps its own.
        self.spec = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        """Leave the module as it is: it has run under its new name."""
        module.__spec__ = self.spec
        assert self.spec is not None
        module.__loader__ = self.spec.loader


def renamed_members(module: str, **names: str) -> Callable[[str], Any]:
    """Return the ``__getattr__`` of a module whose members had other names, by the old ones.

    A new name is one of the module itself or, with dots, of another, which is imported when the old one is used.
    """

    def found(old: str) -> Any:
        if old not in names:
            raise AttributeError(f"module {module!r} has no attribute {old!r}")
        _warn(f"{module}.{old}", names[old], DeprecationWarning)
        place, _, new = names[old].rpartition(".")
        return getattr(importlib.import_module(place or module), new)

    return found


def renamed_keywords(
    **names: str,
) -> Callable[[Callable[Arguments, Result]], Callable[Arguments, Result]]:
    """Return the decorator of a function whose keywords had other names, by the old ones."""

    def decorated(function: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
        @wraps(function)
        def called(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Result:
            return function(*args, **with_new_names(kwargs, names))

        return called

    return decorated


def with_new_names(given: Mapping[str, Any], names: Mapping[str, str]) -> Any:
    """Return keywords under their new names, with a warning for each old one."""
    for old in (name for name in names if name in given):
        if names[old] in given:
            raise TypeError(
                f"{old} is {names[old]} since tribit 0.2; both were given: leave out {old}."
            )
        _warn(old, names[old], FutureWarning)
    return {names.get(name, name): value for name, value in given.items()}


class RenamedAttribute:
    """An attribute under its old name."""

    def __init__(self, new: str) -> None:
        self.new = new

    def __set_name__(self, owner: type, name: str) -> None:
        self.old = name

    def __get__(self, instance: Any, owner: type) -> Any:
        """Return the attribute of the new name."""
        if instance is None:
            return self
        value = getattr(instance, self.new)
        _warn(self.old, self.new, FutureWarning)
        return value

    def __set__(self, instance: Any, value: Any) -> None:
        """Set the attribute of the new name."""
        _warn(self.old, self.new, FutureWarning)
        setattr(instance, self.new, value)


def _warn(old: str, new: str, category: type[Warning]) -> None:
    from tribit.errors import warn  # noqa: PLC0415 - importing tribit loads nothing else

    warn(
        f"{old} is {new} since tribit 0.2; the old name goes with 0.3.",
        category,
    )


def install() -> None:
    """Let old names be imported."""
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        # First: a package under its old name has a path, on which its modules would be found a second time.
        sys.meta_path.insert(0, _Finder())


def _new_name(name: str) -> str | None:
    package, _, rest = name.partition(".")
    if package != "tribit":
        return None
    if rest in MOVED:  # also a module that has left its package
        return f"tribit.{MOVED[rest]}"
    old, _, inside = rest.partition(".")
    return f"tribit.{MOVED[old]}.{inside}" if inside and old in MOVED else None

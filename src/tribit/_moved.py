"""Modules that moved in 0.2: their old names import the new ones, with a warning, until 0.3."""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import sys
import warnings
from collections.abc import Sequence
from types import ModuleType

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
    "ranking": "metrics.ranking",
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
        warnings.warn(
            f"{spec.name} is {new} since tribit 0.2; the old name goes with 0.3.",
            DeprecationWarning,
            stacklevel=2,
        )
        module = importlib.import_module(new)
        # The import system gives a module the spec that found it; this one keeps its own.
        self.spec = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        """Leave the module as it is: it has run under its new name."""
        module.__spec__ = self.spec
        assert self.spec is not None
        module.__loader__ = self.spec.loader


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

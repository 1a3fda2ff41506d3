"""One way to fit: the values of everything that can be chosen from the data."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

#: What ``"auto"`` may stand for, in the words of :class:`tribit.BinaryMatrixCompletion`.
CHOOSABLE = (
    "gammas",
    "rho",
    "rank",
    "radius",
    "alpha",
    "l2",
    "l2_intercept",
    "mask_features",
    "l2_mask",
)
AUTO = "auto"


@dataclass(frozen=True)
class Settings:
    """Values of the parameters of the same names; the defaults are those of a fit with nothing to choose on."""

    gammas: tuple[float, float, float] = (1.0, 0.0, 0.0)
    #: Not compared: it is the same for every candidate, and a model of it may hold arrays, which have no one truth.
    rho: Any = field(default=None, compare=False)
    rank: int = 10
    radius: float | None = None
    alpha: float | None = None
    l2: float = 5.0
    l2_intercept: float | None = None
    mask_features: bool = False
    l2_mask: float | None = None

    @property
    def mixed(self) -> bool:
        """Whether unobserved entries count."""
        return self.gammas[0] < 1.0

    @property
    def family(self) -> str:
        """What kind of model this is, in the order of the search."""
        if self.mixed:
            return "mixture"
        if self.mask_features:
            return "mask features"
        return "factors" if self.rank else "intercepts"

    def parameters(self) -> dict[str, Any]:
        """Return the values by name."""
        # Not asdict: it would copy a model of the mask.
        return {name: getattr(self, name) for name in CHOOSABLE}

    def __str__(self) -> str:
        words = []
        if self.mixed:
            words.append("gammas " + " ".join(f"{weight:.3g}" for weight in self.gammas))
        words.append(f"rank {self.rank}")
        named = [name for name in CHOOSABLE if name.startswith("l2")]
        for name in ["radius", "alpha", *named]:
            value = getattr(self, name)
            used = name != "l2_mask" or self.mask_features
            if value is not None and used and not (name == "l2" and not self.rank):
                words.append(f"{name} {value:.3g}")
        return f"{self.family}: " + ", ".join(words)

"""Registries of classes by name, which are imported when they are first used."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

__all__ = ["Entry", "LazyRegistry", "lazy_getattr", "load"]


@dataclass(frozen=True)
class Entry:
    """Module and name of a class, with attributes that are known before its import.

    Attributes
    ----------
    place : str
        Module and name, as "module:Class".
    about : mapping
        Attributes of the class, by name.
    """

    place: str
    about: MappingProxyType[str, Any] = field(default_factory=lambda: MappingProxyType({}))

    @classmethod
    def of(cls, place: str, **about: object) -> Entry:
        """Return the entry of a class with some attributes."""
        return cls(place, MappingProxyType(about))

    def load(self) -> Any:
        """Import the class."""
        return load(self.place)


def load(place: str) -> Any:
    """Import the class at "module:Class"."""
    module, _, name = place.partition(":")
    return getattr(importlib.import_module(module), name)


class LazyRegistry(MutableMapping[str, Any]):
    """Classes by name; a class registered by an :class:`Entry` is imported at its first lookup.

    Parameters
    ----------
    entries : mapping
        Entries by name. A class may be set under a name later.
    """

    def __init__(self, entries: Mapping[str, Entry]) -> None:
        self._known: dict[str, Any] = dict(entries)

    def __getitem__(self, name: str) -> Any:
        found = self._known[name]
        return found.load() if isinstance(found, Entry) else found

    def __setitem__(self, name: str, kind: object) -> None:
        self._known[name] = kind

    def __delitem__(self, name: str) -> None:
        del self._known[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._known)

    def __len__(self) -> int:
        return len(self._known)

    def attribute(self, name: str, attribute: str) -> Any:
        """Return an attribute of a registered class, without an import if its entry has the attribute."""
        found = self._known[name]
        if isinstance(found, Entry) and attribute in found.about:
            return found.about[attribute]
        return getattr(self[name], attribute)

    def may_be(self, name: str, attribute: str, value: object) -> bool:
        """Return False if an entry has another value of an attribute, else True."""
        found = self._known[name]
        return not isinstance(found, Entry) or found.about.get(attribute, value) == value


def lazy_getattr(module: str, **modules: str) -> Callable[[str], Any]:
    """Return a package's ``__getattr__``, which imports a name from its module at the first use."""

    def get(name: str) -> Any:
        if name not in modules:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        return load(f"{modules[name]}:{name}")

    return get

"""Registries that hold data: names and places of classes, which are imported when they are used."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

__all__ = ["Entry", "LazyRegistry", "lazily"]


@dataclass(frozen=True)
class Entry:
    """The place of a class, with what can be asked of it before it is imported.

    Attributes
    ----------
    place : str
        Its module and name, as "module:Class".
    about : mapping
        Attributes of the class, by name.
    """

    place: str
    about: MappingProxyType[str, Any] = field(default_factory=lambda: MappingProxyType({}))

    @classmethod
    def of(cls, place: str, **about: Any) -> Entry:
        """Return the entry of a place with some attributes."""
        return cls(place, MappingProxyType(about))

    def load(self) -> Any:
        """Import the class."""
        module, _, name = self.place.partition(":")
        return getattr(importlib.import_module(module), name)


class LazyRegistry(MutableMapping[str, Any]):
    """Classes by name; one that is registered by its place is imported when it is looked up.

    Parameters
    ----------
    entries : mapping
        The places of classes, by name. A class may be set under a name later.
    """

    def __init__(self, entries: Mapping[str, Entry]) -> None:
        self._known: dict[str, Any] = dict(entries)

    def __getitem__(self, name: str) -> Any:
        found = self._known[name]
        return found.load() if isinstance(found, Entry) else found

    def __setitem__(self, name: str, kind: Any) -> None:
        self._known[name] = kind

    def __delitem__(self, name: str) -> None:
        del self._known[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._known)

    def __len__(self) -> int:
        return len(self._known)

    def known(self, name: str, attribute: str) -> Any:
        """Return an attribute of a registered class, without an import where the entry has it."""
        found = self._known[name]
        if isinstance(found, Entry) and attribute in found.about:
            return found.about[attribute]
        return getattr(self[name], attribute)

    def may_be(self, name: str, attribute: str, value: Any) -> bool:
        """Return whether an attribute may have a value: False only where an entry says otherwise."""
        found = self._known[name]
        return not isinstance(found, Entry) or found.about.get(attribute, value) == value


def lazily(module: str, **places: str) -> Callable[[str], Any]:
    """Return the ``__getattr__`` of a package that imports some of its names when they are first used."""

    def found(name: str) -> Any:
        if name not in places:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        return getattr(importlib.import_module(places[name]), name)

    return found

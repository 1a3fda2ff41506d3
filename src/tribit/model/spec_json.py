"""A model as the text of a JSON object."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from tribit.errors import InvalidInputError, quoted
from tribit.model.links import LINKS


def written(values: dict[str, Any]) -> str:
    """Return the fields of a model as text; one that JSON cannot hold is refused."""
    for name, kind in LINKS.items():
        if type(values["link"]) is kind:
            values = {**values, "link": {"name": name, **vars(values["link"])}}
            break
    for name, value in values.items():
        try:
            json.dumps(value)
        except TypeError:
            raise InvalidInputError(
                f"{name} is {quoted(value)}, which JSON cannot hold: replace it by a name, a number or None."
            ) from None
    return json.dumps(values)


def read(text: str, wanted: Iterable[str]) -> dict[str, Any]:
    """Return the fields of a model by name, all of them; not yet checked but for the link."""
    try:
        values: dict[str, Any] = json.loads(text)
        names = set(values) if isinstance(values, dict) else set()
        if odd := sorted(names ^ set(wanted)):
            raise ValueError(f"{quoted(odd[0])} is {'unknown' if odd[0] in names else 'missing'}")
        if values["imputed"] is not None:
            raise ValueError("imputed must be null")
        options = dict(values["link"])
        values["link"] = LINKS[options.pop("name")](**options)
    except (LookupError, TypeError, ValueError, RecursionError) as error:
        raise InvalidInputError(
            f"The text is not a model in JSON ({error}); write one with to_json."
        ) from None
    return values

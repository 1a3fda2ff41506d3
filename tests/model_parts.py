"""A model file in parts, for tests that damage one of them."""

import json


def taken_apart(whole):
    """Return the description of the tensors without their offsets, the header, and the bytes of each tensor."""
    length = int.from_bytes(whole[:8], "little")
    description, data = json.loads(whole[8 : 8 + length]), whole[8 + length :]
    header = json.loads(description.pop("__metadata__")["tribit"])
    tensors = {}
    for name, entry in description.items():
        first, last = entry.pop("data_offsets")
        tensors[name] = data[first:last]
    return description, header, tensors


def put_together(description, header, tensors):
    """Return the bytes of a file; an entry without offsets gets those of its bytes, and one may be no object."""
    offset, entries = 0, {}
    for name, entry in description.items():
        offsets = [offset, offset + len(tensors[name])]
        entries[name] = {"data_offsets": offsets, **entry} if isinstance(entry, dict) else entry
        offset = offsets[1]
    metadata = {"tribit": header if isinstance(header, str) else json.dumps(header)}
    text = json.dumps({"__metadata__": metadata, **entries}).encode()
    return len(text).to_bytes(8, "little") + text + b"".join(tensors[name] for name in description)


#: Parameters whose names formats before 5 write in another way.
OLD_NAMES = {"implicit_features": "mask_features", "l2_implicit": "l2_mask"}


NEW_NAMES = ("activity_floor", "side_features", "l2_side")


def older(header, number, tensors=None):
    """Make a header that of a format before 5, with the values of the spec among what the fit found."""
    spec = header.pop("spec")
    del header["members"], header["features"], header["bundle"]
    for name in NEW_NAMES:
        del header["parameters"][name]
    for name in ("row_popularity_", "column_popularity_", "search"):
        (tensors or {}).pop(name, None)
    header["format"], header["rho"] = number, spec["rho"]
    for name in (
        "gammas",
        "rank",
        "radius",
        "alpha",
        "l2",
        "l2_intercept",
        "implicit_features",
        "l2_implicit",
    ):
        header["fitted"][f"{OLD_NAMES.get(name, name)}_"] = spec[name]
    for name, old in OLD_NAMES.items():
        header["parameters"][old] = header["parameters"].pop(name)

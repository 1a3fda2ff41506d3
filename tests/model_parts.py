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

"""Small tables, drawn at random, and changes that may harm them."""

import gzip

DELIMITERS = {
    "r.csv": ",",
    "r.tsv": "\t",
    "r.txt": ";",
    "r.data": " ",
    "r.csv.gz": ",",
    "r.tsv.gz": "\t",
}
REFUSED = "refused"

IDS = [
    "u1",
    "u2",
    "7",
    "007",
    "é",
    "用户",
    "-3",
    "=1+1",
    "a.b",
    "nan",
    "0",
    "x" * 300,
    "O'Brien",
    "\u202eb",
]
ODD = [
    "",
    "five",
    "nan",
    "inf",
    "-inf",
    "1e999",
    "1,5",
    "0x10",
    "--3",
    "3 3",
    "\x1b[31m",
    "NaN\x00",
    "٣",
    "²",
]
#: Most memory (of Python) that reading one of these small tables may take: its largest field has some 200 kB.
MOST = 2**25


def drawn(rng):
    """Return the records of a small table, each pair once."""
    users, items = (rng.choice(IDS, size=int(rng.integers(2, 6)), replace=False) for _ in range(2))
    pairs = [(str(user), str(item)) for user in users for item in items]
    kept = rng.permutation(len(pairs))[: int(rng.integers(1, len(pairs) + 1))]
    return [(*pairs[place], f"{rng.integers(1, 11) / 2:g}") for place in kept]


def labels_of(records):
    """Return the label of each pair."""
    return {(user, item): 1 if float(rating) >= 3 else -1 for user, item, rating in records}


def labels_in(seen):
    """Return the label of each pair of observations, and check that they are observations."""
    assert seen.shape == (seen.row_ids.size, seen.column_ids.size)
    assert set(seen.labels.tolist()) <= {1, -1}
    rows, columns = seen.row_ids[seen.rows].tolist(), seen.column_ids[seen.columns].tolist()
    found = dict(zip(zip(rows, columns, strict=True), seen.labels.tolist(), strict=True))
    assert len(found) == seen.labels.size
    return found


def written(records, delimiter, header=("user", "item", "rating")):
    return "".join(delimiter.join(fields) + "\n" for fields in [header, *records])


def packed(name, data):
    return gzip.compress(data) if name.endswith(".gz") else data


# Changes that may be some


def somewhere(data, rng):
    return int(rng.integers(0, len(data) + 1))


def flipped(data, rng):
    changed = bytearray(data)
    for place in rng.integers(0, len(data), size=int(rng.integers(1, 6))):
        changed[place] ^= 1 << int(rng.integers(8))
    return bytes(changed)


def truncated(data, rng):
    return data[: somewhere(data, rng)]


def inserted(data, rng):
    bits = [
        b",",
        b"\t",
        b";",
        b" ",
        b'"',
        b'""',
        b"\n",
        b"\r",
        b"\0",
        b"\xff",
        b"\xc3",
        b"\x1b[31m",
        b"'",
    ]
    bits += [
        b"\xe2\x80\xa8",
        b"\xc2\x85",
        b"\xef\xbb\xbf",
        b"\x1c",
        b"\x0b",
        b"user",
        b"user,item,rating\n",
    ]
    for _ in range(int(rng.integers(1, 4))):
        place = somewhere(data, rng)
        data = data[:place] + bits[int(rng.integers(len(bits)))] + data[place:]
    return data


def duplicated_line(data, rng):
    lines = data.splitlines(keepends=True)
    return b"".join([*lines, lines[int(rng.integers(len(lines)))]])


def dropped_line(data, rng):
    lines = data.splitlines(keepends=True)
    del lines[int(rng.integers(len(lines)))]
    return b"".join(lines)


def huge_field(data, rng):
    place = somewhere(data, rng)
    return data[:place] + bytes([int(rng.integers(32, 127))]) * 200_000 + data[place:]


def of_nothing(data, rng):
    return bytes(int(rng.integers(0, 5000)))


def other_encoding(data, rng):
    return data.decode(errors="replace").encode(
        str(rng.choice(["utf-16", "utf-16-le", "utf-32", "latin-1", "utf-7"])), "replace"
    )


def wrong_number(data, rng):
    lines = data.decode(errors="replace").split("\n")
    place = int(rng.integers(1, len(lines) - 1)) if len(lines) > 2 else 0
    last = max(lines[place].rfind(delimiter) for delimiter in DELIMITERS.values())
    lines[place] = lines[place][: last + 1] + str(rng.choice(ODD))
    return "\n".join(lines).encode()

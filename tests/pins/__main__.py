"""``python -m tests.pins check [--exact] [case ...]`` and ``python -m tests.pins record [case ...]``."""

import argparse
import json
import sys
import time
import warnings
from pathlib import Path

from tests.pins.cases import CASES
from tests.pins.pinned import Pins, differences
from tests.pins.timings import TIMINGS

VALUES = Path(__file__).with_name("values.json")


def say(text: str) -> None:
    """Write a line at once."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def measured(name: str) -> tuple[Pins, float]:
    """Return the quantities of a case and its seconds."""
    start = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pins = CASES[name]()
    return pins, time.perf_counter() - start


def written(recorded: dict) -> str:
    """Return JSON with one quantity in each line, so that a changed one is one line of a diff."""
    lines = []
    for case, found in sorted(recorded["cases"].items()):
        quantities = [
            f"   {json.dumps(k)}: {json.dumps(v)}" for k, v in found["quantities"].items()
        ]
        body = ",\n".join(quantities)
        lines.append(
            f" {json.dumps(case)}: {{\n  "
            f'"seconds": {found["seconds"]},\n  "quantities": {{\n{body}\n  }}\n }}'
        )
    timings = ",\n".join(f"  {json.dumps(k)}: {v}" for k, v in recorded["timings"].items())
    cases = ",\n".join(lines)
    return f'{{"timings": {{\n{timings}\n }},\n"cases": {{\n{cases}\n}}}}\n'


def read() -> dict:
    """Return what was recorded."""
    return json.loads(VALUES.read_text()) if VALUES.is_file() else {"cases": {}, "timings": {}}


def show_timings(before: dict) -> dict:
    """Print what is measured and never compared, beside what it was, and return it."""
    found = {}
    for name, (unit, measure) in TIMINGS.items():
        found[name] = round(measure(), 4)
        say(f"{name}: {before.get(name, 'nothing')} before, {found[name]} {unit} now")
    return found


def record(names: list[str]) -> int:
    """Compute cases and write them; the timings only where all cases are recorded."""
    recorded = read()
    for name in names or CASES:
        pins, seconds = measured(name)
        say(f"{name}: {len(pins.quantities)} quantities, {seconds:.1f} s")
        recorded["cases"][name] = {"seconds": round(seconds, 2), "quantities": pins.quantities}
    if not names:
        recorded["cases"] = {name: recorded["cases"][name] for name in CASES}
        recorded["timings"] = show_timings(recorded["timings"])
    VALUES.write_text(written(recorded))
    return 0


def check(names: list[str], *, exact: bool) -> int:
    """Compute cases and compare them with what was recorded; 1 if any differs."""
    recorded, failed = read(), []
    for name in names or {**CASES, **recorded["cases"]}:
        before = recorded["cases"].get(name, {"seconds": "?", "quantities": {}})
        if name not in CASES:
            failed.append(name)
            say(f"FAILED {name}: is recorded and is no case")
            continue
        pins, seconds = measured(name)
        # As a file holds them: a tuple is a list there.
        found = json.loads(json.dumps(pins.quantities))
        wrong = differences(name, before["quantities"], found, exact=exact)
        failed += [name] if wrong else []
        state = f"{len(wrong)} of {len(found)} differ" if wrong else f"{len(found)} as recorded"
        say(f"{name}: {state}; {before['seconds']} s before, {seconds:.2f} s now")
        for each in wrong:
            say(f"  {each}")
    if not names:
        show_timings(recorded["timings"])
    say(f"{len(failed)} cases differ: {', '.join(failed)}" if failed else "All as recorded.")
    return 1 if failed else 0


def main() -> int:
    """Read the command line and do what it asks."""
    parser = argparse.ArgumentParser(prog="python -m tests.pins", description=__doc__)
    parser.add_argument("what", choices=("check", "record"))
    parser.add_argument("cases", nargs="*", metavar="case", help=f"of {', '.join(CASES)}")
    parser.add_argument("--exact", action="store_true", help="demand equal bits")
    asked = parser.parse_intermixed_args()
    if unknown := set(asked.cases) - set(CASES):
        parser.error(f"no case {min(unknown)}; there are {', '.join(CASES)}")
    if asked.what == "record":
        return record(asked.cases)
    return check(asked.cases, exact=asked.exact)


if __name__ == "__main__":
    sys.exit(main())

"""The examples of CONTRIBUTING.md run as they stand, each by itself."""

import re
from pathlib import Path

import pytest

from tribit.metrics import entries

PAGE = Path(__file__).parents[1] / "CONTRIBUTING.md"
TEXT = PAGE.read_text(encoding="utf-8")
BLOCKS = list(re.finditer(r"^```python\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL))
LINES = [TEXT.count("\n", 0, block.start()) + 1 for block in BLOCKS]


@pytest.mark.parametrize(
    ("block", "line"), list(zip(BLOCKS, LINES, strict=True)), ids=[str(line) for line in LINES]
)
def test_an_example_runs_by_itself(block, line, monkeypatch):
    monkeypatch.setattr(entries, "METRICS", dict(entries.METRICS))  # an example adds one
    code = compile("\n" * line + block[1], PAGE.name, "exec")
    exec(code, {"__name__": "__main__"})


def test_there_are_examples():
    assert len(BLOCKS) >= 6

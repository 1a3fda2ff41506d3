"""The verdicts on all claims of the paper in one table: ``python -m benchmarks.verdicts``.

It is made of the pages in ``docs/reproduced``, each written by ``tribit reproduce``, and is the first table of the
manual's page on the reproduction.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tribit.paper.experiments.claims import HOLDS, markdown_table
from tribit.paper.experiments.reproduction import EXHIBITS
from tribit.paper.experiments.settings import TRIALS

PAGES = Path(__file__).parents[1] / "docs" / "reproduced"
#: The three protocols, in the words of the table, and their folders.
PROTOCOLS = {"as printed": "", "solved": "solved", "radius tuned": "tuned"}
NUMBERS = re.compile(r"difference ([+-][\d.]+)(?:, d = (-?[\d.]+))?, paired t-test p = ([\d.e+-]+)")


@dataclass(frozen=True)
class Verdict:
    """A verdict of a page: the way of computing, the effect, p, and the number of simulated tables or splits."""

    way: str
    verdict: str
    difference: str
    size: str
    p: str
    trials: int

    def __str__(self) -> str:
        """Return the cell of the table; a verdict from fewer trials than the paper's says so."""
        enough = self.trials >= TRIALS
        words = f"**{self.verdict}**" if self.verdict == HOLDS and enough else self.verdict
        if not enough:
            words += f" ({self.trials} draws)"
        return (
            f"{words}: {self.difference}, d {self.size}, p {self.p}" if self.difference else words
        )


def read_page(path: Path) -> tuple[str, dict[str, Verdict]]:
    """Return the title of a page, and the verdicts under its first way of computing."""
    text = path.read_text(encoding="utf-8")
    trials = int(re.search(r"Made with trials (\d+)", text).group(1))
    section = text.split("### Claims of the paper")[1].split("### ")[0]
    found: dict[str, Verdict] = {}
    for line in section.splitlines()[4:]:
        if not line.startswith("| "):
            continue
        claim, way, measured, verdict = (cell.strip(" *") for cell in line.strip("|").split(" | "))
        if found and way != next(iter(found.values())).way:
            continue
        numbers = NUMBERS.search(measured)
        difference, size, p = numbers.groups() if numbers else ("", "", "")
        found[claim.strip("| ")] = Verdict(way, verdict.strip("*| "), difference, size, p, trials)
    return re.search(r"## (.*?):", text).group(1), found


def lines(folder: Path = PAGES) -> Iterator[tuple[str, ...]]:
    """Yield the exhibit, the claim and a verdict for each protocol."""
    for name in (name for name, exhibit in EXHIBITS.items() if exhibit.in_paper):
        pages = [read_page(folder / place / f"{name}.md") for place in PROTOCOLS.values()]
        title, first = pages[0]
        for claim in first:
            yield title, claim, *(str(found[claim]) for _, found in pages)


def main() -> None:
    """Write the table."""
    table = markdown_table(("", "the paper", *PROTOCOLS), lines())
    (PAGES / "verdicts.md").write_text(f"{table}\n", encoding="utf-8")
    print(table)


if __name__ == "__main__":
    main()

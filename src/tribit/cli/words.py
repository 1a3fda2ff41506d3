"""Messages of the library in the words of the command line."""

from __future__ import annotations

#: The library's words for what has another name on the command line.
WORDS = {
    "like_at= (for pairs: Observations.from_ratings)": "--like-at",
    "like_at=": "--like-at",
    "like_at": "--like-at",
    "value=": "--value",
    "max_size=, in bytes": "--max-size (in bytes, or as 500M or 8G)",
    "max_size": "--max-size",
    "escape_formulas=True": "--escape-formulas",
    "escape_formulas=False": "--no-escape-formulas",
    "duplicates='first', 'last' or 'majority' (for a matrix: Observations.from_pairs)": (
        "--duplicates first, last or majority"
    ),
    "intercept=False": "--no-intercept",
    "solver='projected_gradient'": "--solver projected_gradient",
    "(gammas)": "(--gammas)",
    "gammas=(0, 1, 0), and pass rho": "--gammas 0 1 0, and pass --rho",
    "gammas=(0, 0, 1), and pass rho": "--gammas 0 0 1, and pass --rho",
    "pass rho,": "pass --rho,",
    "(data=)": "(--data)",
    "pass its place as path=": "pass its place with --data",
    "pass path=": "pass its place with --data",
}


def spoken(message: str) -> str:
    """Return a message in the words of the command line."""
    for word, option in WORDS.items():
        message = message.replace(word, option)
    return message

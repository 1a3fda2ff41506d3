"""Small simulated tables as data frames, with one entry a record: ratings, a test, votes, opinions, purchases, ...

They are for examples and for trying tribit without data of one's own. They need pandas.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from tribit.answers import pandas
from tribit.checks import check_count
from tribit.randomness import RandomState, generator

__all__ = ["answers", "benchmark", "opinions", "purchases", "ratings", "votes"]

Array = NDArray[Any]

GENRES = "drama", "comedy", "crime", "fantasy"


def ratings(n_users: int = 150, n_items: int = 80, *, random_state: RandomState = None) -> Any:
    """Return ratings of films by users whose tastes differ by genre, each pair with probability 1/4.

    Parameters
    ----------
    n_users, n_items : int
        Numbers of users and films.
    random_state : int, Generator, RandomState or None
        Seed.

    Returns
    -------
    pandas.DataFrame
        With the columns ``user``, ``item`` and ``stars``, from 1 to 5.

    Examples
    --------
    >>> from tribit.simulate import tables
    >>> tables.ratings(random_state=0).head(2)
        user       item  stars
    0  user0  fantasy 0      3
    1  user0    drama 7      2
    """
    rng, (n, d) = generator(random_state), _shape(n_users=n_users, n_items=n_items)
    genres = np.array(GENRES)[rng.integers(len(GENRES), size=d)]
    tastes = {genre: rng.normal(0, 1.3, n) for genre in np.unique(genres)}
    scores = np.column_stack([tastes[genre] for genre in genres]) + rng.normal(0, 0.5, d)
    stars = np.clip(np.round(3.6 + scores + rng.normal(0, 0.7, scores.shape)), 1, 5).astype(int)
    i, j = np.nonzero(rng.random(stars.shape) < 0.25)
    films = np.char.add(np.char.add(genres, " "), np.arange(d).astype(str))
    return _frame({"user": _names("user", i, ""), "item": films[j], "stars": stars[i, j]})


def answers(
    n_persons: int = 300, n_questions: int = 40, *, random_state: RandomState = None
) -> Any:
    """Return answers to a test by a Rasch model, each question given with probability 0.6.

    Parameters
    ----------
    n_persons, n_questions : int
        Numbers of persons and questions.
    random_state : int, Generator, RandomState or None
        Seed.

    Returns
    -------
    pandas.DataFrame
        With the columns ``person``, ``question`` and ``correct``, 1 or 0.

    Examples
    --------
    >>> from tribit.simulate import tables
    >>> tables.answers(random_state=0).shape
    (7166, 3)
    """
    rng = generator(random_state)
    n, d = _shape(n_persons=n_persons, n_questions=n_questions)
    ability, difficulty = rng.normal(0, 1, (n, 1)), rng.normal(0, 1, d)
    correct = rng.random((n, d)) < expit(ability - difficulty)
    i, j = np.nonzero(rng.random(correct.shape) < 0.6)
    return _frame(
        {
            "person": _names("person", i),
            "question": _names("question", j),
            "correct": correct[i, j].astype(int),
        }
    )


def votes(n_members: int = 100, n_motions: int = 250, *, random_state: RandomState = None) -> Any:
    """Return votes of three parties on two dimensions; three in ten members are absent.

    Parameters
    ----------
    n_members, n_motions : int
        Numbers of members and motions.
    random_state : int, Generator, RandomState or None
        Seed.

    Returns
    -------
    pandas.DataFrame
        With the columns ``member``, ``party``, ``motion`` and ``vote``, 1 (yes) or -1 (no).

    Examples
    --------
    >>> from tribit.simulate import tables
    >>> tables.votes(random_state=0).shape
    (17483, 4)
    """
    rng, (n, d) = generator(random_state), _shape(n_members=n_members, n_motions=n_motions)
    names = np.array(["Red", "Green", "Blue"])
    party = rng.choice(3, n, p=(0.4, 0.2, 0.4))
    centres = np.array([[-1.2, -0.4], [-0.2, 1.5], [1.2, -0.4]])
    position = centres[party] + rng.normal(0, 0.4, (n, 2))
    direction = rng.standard_normal((d, 2)) * (2.0, 1.5)
    yes = rng.random((n, d)) < expit(position @ direction.T + rng.normal(0.5, 1, d))
    i, j = np.nonzero(rng.random(yes.shape) < 0.7)
    return _frame(
        {
            "member": _names("member", i),
            "party": names[party[i]],
            "motion": _names("motion", j),
            "vote": np.where(yes[i, j], 1, -1),
        }
    )


def opinions(
    n_members: int = 120,
    n_statements: int = 60,
    *,
    turn: float = np.pi / 2,
    random_state: RandomState = None,
) -> Any:
    """Return opinions that change in two years: the position of each member turns by an angle.

    A member answers each statement with probability 0.7, on any day.

    Parameters
    ----------
    n_members, n_statements : int
        Numbers of members and statements.
    turn : float, default=pi / 2
        The angle; 0 for opinions that stay the same.
    random_state : int, Generator, RandomState or None
        Seed.

    Returns
    -------
    pandas.DataFrame
        With the columns ``member``, ``statement``, ``opinion``, 1 (agrees) or -1 (disagrees), and ``time``.

    Examples
    --------
    >>> from tribit.simulate import tables
    >>> tables.opinions(random_state=0).columns.tolist()
    ['member', 'statement', 'opinion', 'time']
    """
    rng = generator(random_state)
    n, d = _shape(n_members=n_members, n_statements=n_statements)
    first, last = rng.standard_normal((2, n, 2))
    meaning = 2.0 * rng.standard_normal((d, 2))
    i, j = np.nonzero(rng.random((n, d)) < 0.7)
    passed = rng.random(i.size)
    angle = turn * passed[:, None]
    position = np.cos(angle) * first[i] + np.sin(angle) * last[i]
    agree = rng.random(i.size) < expit(np.sum(position * meaning[j], axis=1))
    seconds = np.floor(passed * 2 * 365 * 86_400).astype("timedelta64[s]")
    return _frame(
        {
            "member": _names("member", i),
            "statement": _names("statement", j),
            "opinion": np.where(agree, 1, -1),
            "time": np.datetime64("2024-01-01", "s") + seconds,
        }
    )


def purchases(
    n_customers: int = 300, n_items: int = 120, *, random_state: RandomState = None
) -> Any:
    """Return purchases by customers who joined in one of two years: likes alone.

    A liked item is bought with a probability that depends on its popularity. A fifth of the customers joined in the
    second year.

    Parameters
    ----------
    n_customers, n_items : int
        Numbers of customers and items.
    random_state : int, Generator, RandomState or None
        Seed.

    Returns
    -------
    pandas.DataFrame
        With the columns ``customer``, ``item`` and ``joined``, the year.

    Examples
    --------
    >>> from tribit.simulate import tables
    >>> tables.purchases(random_state=0).columns.tolist()
    ['customer', 'item', 'joined']
    """
    rng, (n, d) = generator(random_state), _shape(n_customers=n_customers, n_items=n_items)
    tastes = 1.5 * rng.standard_normal((n, 2)) @ rng.standard_normal((2, d))
    bought = rng.random((n, d)) < expit(tastes) * expit(rng.normal(-1, 1, d))
    joined = np.where(np.arange(n) < 0.8 * n, 2024, 2025)
    i, j = np.nonzero(bought)
    return _frame(
        {"customer": _names("customer", i), "item": _names("item", j), "joined": joined[i]}
    )


def benchmark(n_models: int = 40, n_tasks: int = 1000, *, random_state: RandomState = None) -> Any:
    """Return results of models on a benchmark; stronger models were run on harder tasks.

    Parameters
    ----------
    n_models, n_tasks : int
        Numbers of models and tasks.
    random_state : int, Generator, RandomState or None
        Seed.

    Returns
    -------
    pandas.DataFrame
        With the columns ``model``, ``task``, ``solved`` (1 or 0, for all pairs) and ``run``, whether it is known.

    Examples
    --------
    >>> from tribit.simulate import tables
    >>> tables.benchmark(random_state=0).shape
    (40000, 4)
    """
    rng, (n, d) = generator(random_state), _shape(n_models=n_models, n_tasks=n_tasks)
    skill, need = rng.standard_normal((n, 2)), rng.standard_normal((d, 2))
    hardness = rng.normal(0, 1.5, d)
    solved = rng.random((n, d)) < expit(1.5 * skill[:, :1] - hardness + 0.5 * skill @ need.T)
    run = rng.random((n, d)) < expit(-2 + 0.5 * skill[:, :1] * hardness)
    run[rng.integers(n, size=d), np.arange(d)] = True
    i, j = np.indices(solved.shape).reshape(2, -1)
    return _frame(
        {
            "model": _names("model", i),
            "task": _names("task", j),
            "solved": solved.ravel().astype(int),
            "run": run.ravel(),
        }
    )


def _frame(table: dict[str, Array]) -> Any:
    return pandas("The table", "").DataFrame(table)


def _shape(**sizes: int) -> tuple[int, int]:
    n, d = (check_count(name, size) for name, size in sizes.items())
    return n, d


def _names(what: str, numbers: Array, space: str = " ") -> Array:
    """Return names such as "user 3"."""
    return np.char.add(f"{what}{space}", numbers.astype(str))

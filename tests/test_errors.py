"""Messages that mention parameters: in the words of Python, and in those of the command line."""

import copy
import pickle
import warnings
from pathlib import Path

import pytest

from tribit import InvalidInputError, InvalidTypeError, TribitWarning, errors
from tribit.checks import (
    check_between,
    check_choice,
    check_count,
    check_not_negative,
    check_positive,
    check_switch,
)
from tribit.errors import (
    Message,
    either,
    listed,
    parameter,
    printable,
    quoted,
    where_possible,
    with_mentions,
)


def dashed(name, value):
    return None if name == "unknown" else f"--{name.replace('_', '-')} {value}".rstrip()


@pytest.mark.parametrize(
    ("text", "python", "command_line"),
    [
        (parameter("like_at"), "like_at", "--like-at"),
        (parameter("gammas", (0, 1, 0.5)), "gammas=(0, 1, 0.5)", "--gammas 0 1 0.5"),
        (parameter("intercept", False), "intercept=False", "--intercept no"),
        (parameter("implicit_features", True), "implicit_features=True", "--implicit-features yes"),
        (parameter("radius", None), "radius=None", "--radius none"),
        (parameter("rank", 1), "rank=1", "--rank 1"),
        (parameter("solver", "lbfgs"), "solver='lbfgs'", "--solver lbfgs"),
        (parameter("unknown", 3), "unknown=3", "unknown=3"),
        (where_possible(" ({} refuses it)", "unknown", "x"), " (unknown='x' refuses it)", ""),
        (
            where_possible(" ({} refuses it)", "rule", "x"),
            " (rule='x' refuses it)",
            " (--rule x refuses it)",
        ),
        (either("model.save(path)", "tribit fit"), "model.save(path)", "tribit fit"),
        (either(" (in Python)"), " (in Python)", ""),
    ],
)
def test_a_mention_has_two_forms(text, python, command_line):
    message = Message(f"First {text}, then {text}.")
    assert message == f"First {python}, then {python}."
    assert message.for_command_line(dashed) == f"First {command_line}, then {command_line}."
    assert (
        Message(f"So: {with_mentions(message)}").for_command_line(dashed)
        == f"So: {message.for_command_line(dashed)}"
    )


@pytest.mark.parametrize(
    "check",
    [
        lambda name: check_positive(name, 0),
        lambda name: check_not_negative(name, -1),
        lambda name: check_between(name, 2, 0, 1),
        lambda name: check_between(name, 2, 0, 1, meaning="a share"),
        lambda name: check_between(name, "a", 0, 1),
        lambda name: check_count(name, 0),
        lambda name: check_switch(name, 0),
        lambda name: check_choice(name, "c", "ab"),
    ],
)
def test_an_error_of_a_check_names_the_parameter(check):
    with pytest.raises((InvalidInputError, InvalidTypeError)) as caught:
        check("max_time")
    assert caught.value.parameter == "max_time"
    assert str(caught.value).startswith("max_time")
    assert caught.value.args[0].for_command_line(dashed).startswith("--max-time")


def test_an_error_of_something_else_names_none():
    assert (
        InvalidInputError(f"The file is too large: raise {parameter('max_size')}.").parameter
        is None
    )
    assert InvalidInputError(f"{either('Python', 'The shell')} has none.").parameter is None
    assert InvalidInputError().parameter is None


@pytest.mark.parametrize("kind", [InvalidInputError, InvalidTypeError, TribitWarning])
@pytest.mark.parametrize(
    "again", [copy.copy, copy.deepcopy, lambda e: pickle.loads(pickle.dumps(e))]
)
def test_errors_survive_a_copy_and_another_process(kind, again):
    error = kind(f"{parameter('rank')} must be less than {parameter('rank', 3)}.")
    copied = again(error)
    assert type(copied) is kind
    assert str(copied) == str(error) == "rank must be less than rank=3."
    assert copied.parameter == "rank"
    assert copied.args[0].for_command_line(dashed) == "--rank must be less than --rank 3."


def test_filters_see_the_words_of_python():
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        warnings.filterwarnings("ignore", message="rank=3 ")
        warnings.warn(TribitWarning(f"{parameter('rank', 3)} is little."), stacklevel=1)
        warnings.warn(TribitWarning(f"{parameter('rank', 4)} is little."), stacklevel=1)
    assert [str(each.message) for each in caught] == ["rank=4 is little."]


def test_the_words_of_a_user_are_no_mention():
    mention = parameter("rank")
    for text in (quoted(mention), printable(mention)):
        assert "\\ue000" in text
        assert Message(text) == Message(text).for_command_line(dashed) == text


@pytest.mark.parametrize("depth", [1, 2, 7])
def test_a_warning_points_at_the_line_outside_of_the_package(depth):
    """However many functions of the package lie between."""
    inside = str(Path(errors.__file__).with_name("made_up.py"))
    space = {"warn": errors.warn}
    source = "def go(n):\n    return go(n - 1) if n > 1 else warn('told')\n"
    exec(compile(source, inside, "exec"), space)
    with pytest.warns(UserWarning, match="told") as caught:
        space["go"](depth)
    assert caught[0].filename == __file__


# A user's own words

ODD = "a\x1b[31m\n\r\x00\x9b\u202e\ud800b"


@pytest.mark.parametrize("text", [printable(ODD), quoted(ODD), listed([ODD]), quoted([ODD])])
def test_no_control_character_is_left(text):
    assert text.isprintable()
    assert "\\x1b[31m\\n\\r\\x00\\x9b\\u202e\\ud800b" in text.replace("\\\\", "\\")


def test_what_can_be_printed_stays_as_it_is():
    assert printable("é 用户 'x' \\") == "é 用户 'x' \\"
    assert quoted("é 用户") == "'é 用户'"
    assert quoted(3) == "3"


def test_long_words_keep_their_ends():
    text = quoted("/home/" + "x" * 10**6 + "/ratings.csv")
    assert len(text) < 150
    assert text.startswith("'/home/x")
    assert text.endswith("x/ratings.csv'")
    assert len(quoted(["x" * 1000] * 10)) < 150


def test_an_object_that_writes_itself_on_two_lines():
    class Odd:
        def __repr__(self):
            return "two\nlines"

    assert quoted(Odd()) == "two\\nlines"


@pytest.mark.parametrize(
    ("count", "ending"), [(1, "0"), (10, "9"), (11, "9 and 1 more"), (10**6, "9 and 999990 more")]
)
def test_the_names_of_a_long_list_are_counted(count, ending):
    text = listed(range(count))
    assert text.startswith("0")
    assert text.endswith(ending)
    assert text.count(",") == min(count, 10) - 1

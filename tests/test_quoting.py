import pytest

from tribit.quoting import listed, printable, quoted

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

import os
import stat

import pytest

from tribit.errors import InvalidInputError
from tribit.files import atomic_path, check_different, column_places, text_reader, text_writer


def test_the_file_appears_whole_and_alone(tmp_path):
    target = tmp_path / "scores.csv"
    with atomic_path(target) as temporary:
        assert temporary.parent == target.parent
        temporary.write_text("new")
        assert not target.exists()
    assert target.read_text() == "new"
    assert list(tmp_path.iterdir()) == [target]


def write_half_and_raise(target, error):
    with atomic_path(target) as temporary:
        temporary.write_text("half")
        raise error


@pytest.mark.parametrize("error", [KeyError("in the block"), KeyboardInterrupt()])
def test_an_error_leaves_the_old_file_and_no_other(tmp_path, error):
    target = tmp_path / "scores.csv"
    target.write_text("old")
    with pytest.raises(type(error)):
        write_half_and_raise(target, error)
    assert target.read_text() == "old"
    assert list(tmp_path.iterdir()) == [target]


def test_a_full_disk_is_one_sentence(tmp_path):
    target = tmp_path / "scores.csv"
    with (
        pytest.raises(InvalidInputError, match=r"could not be written \(No space left\); check"),
        atomic_path(target),
    ):
        raise OSError(28, "No space left")
    assert list(tmp_path.iterdir()) == []


def test_the_mode_is_that_of_an_ordinary_new_file(tmp_path):
    ordinary = tmp_path / "ordinary"
    ordinary.write_text("")
    with atomic_path(tmp_path / "atomic") as temporary:
        temporary.write_text("")
    assert stat.S_IMODE((tmp_path / "atomic").stat().st_mode) == stat.S_IMODE(
        ordinary.stat().st_mode
    )


def test_a_link_is_followed(tmp_path):
    target, link = tmp_path / "target", tmp_path / "link"
    target.write_text("old")
    link.symlink_to(target)
    with atomic_path(link) as temporary:
        temporary.write_text("new")
    assert link.is_symlink()
    assert target.read_text() == "new"


def test_the_longest_name_has_room_for_the_temporary(tmp_path):
    target = tmp_path / ("x" * 255)
    with atomic_path(target) as temporary:
        temporary.write_text("new")
    assert target.read_text() == "new"


def test_missing_directory(tmp_path):
    with (
        pytest.raises(InvalidInputError, match="directory does not exist; create"),
        atomic_path(tmp_path / "absent" / "scores.csv"),
    ):
        pytest.fail("the block must not run")


def test_a_directory_is_not_a_file_to_write(tmp_path):
    with (
        pytest.raises(InvalidInputError, match="is not a regular file"),
        atomic_path(tmp_path),
    ):
        pytest.fail("the block must not run")


def test_unwritable_directory(tmp_path, monkeypatch):
    # Patched rather than chmod'ed: the superuser may write anywhere.
    def refuse(*_):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "open", refuse)
    with (
        pytest.raises(InvalidInputError, match=r"could not be written \(Permission denied\)"),
        atomic_path(tmp_path / "scores.csv"),
    ):
        pytest.fail("the block must not run")


@pytest.mark.parametrize("gzipped", [False, True])
def test_text_round_trip_keeps_line_ends(tmp_path, gzipped):
    path = tmp_path / ("text.gz" if gzipped else "text")
    with text_writer(path, gzipped=gzipped) as text:
        text.write("é\r\nb\n")
    assert path.read_bytes().startswith(b"\x1f\x8b") == gzipped
    with text_reader(path) as text:
        assert text.read() == "é\r\nb\n"


def test_equal_texts_give_equal_gzip_bytes(tmp_path):
    for name in ("a", "b"):
        with text_writer(tmp_path / name, gzipped=True) as text:
            text.write("same")
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_a_file_that_is_read_is_not_written_by_any_of_its_names(tmp_path):
    source = tmp_path / "model"
    source.write_text("kept")
    (tmp_path / "soft").symlink_to(source)
    (tmp_path / "hard").hardlink_to(source)
    for out in (source, tmp_path / "." / "model", tmp_path / "soft", tmp_path / "hard"):
        with pytest.raises(InvalidInputError, match="is the file that is read, and would be lost"):
            check_different(source, out)
    (tmp_path / "other").write_text("kept")
    for out in (tmp_path / "other", tmp_path / "absent"):
        check_different(source, out)
        check_different(out, source)


def test_all_columns_of_a_wide_header_are_found_at_once():
    header = [f"c{place}" for place in range(200_000)]  # a search for each would take minutes
    assert column_places(header, None, "wide.csv")["c199999"] == 199_999
    with pytest.raises(
        InvalidInputError, match=r"wide\.csv has two columns 'c7'; .* and 199991 more"
    ):
        column_places([*header, "c7"], None, "wide.csv")

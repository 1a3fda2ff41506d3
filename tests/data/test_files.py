import gzip
import os
import stat

import pytest

from tribit.data import files
from tribit.data.files import (
    atomic_path,
    check_different,
    checked_path,
    text_writer,
    writable,
)
from tribit.data.sources import column_places
from tribit.errors import InvalidInputError, InvalidTypeError


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


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o664, 0o755])
def test_a_replaced_file_hands_on_its_mode(tmp_path, mode):
    target = tmp_path / "scores.csv"
    target.write_text("old")
    target.chmod(mode)
    with atomic_path(target) as temporary:
        temporary.write_text("new")
        # Nobody else reads along while it is written.
        assert stat.S_IMODE(temporary.stat().st_mode) == 0o600
    assert target.read_text() == "new"
    assert stat.S_IMODE(target.stat().st_mode) == mode


def test_a_replaced_file_hands_on_its_owner(tmp_path, monkeypatch):
    target = tmp_path / "scores.csv"
    target.write_text("old")
    before = os.stat_result((0o100660, 0, 0, 1, 1234, 5678, 3, 0, 0, 0))
    asked = []
    monkeypatch.setattr(os, "chown", lambda path, *owner: asked.append((path.name, *owner)))
    files._keep_owner_and_mode(target, before)
    assert asked == [("scores.csv", 1234, 5678)]
    assert stat.S_IMODE(target.stat().st_mode) == 0o660


def test_where_the_group_cannot_be_kept_another_gets_no_rights(tmp_path, monkeypatch):
    target = tmp_path / "scores.csv"
    target.write_text("old")
    before = os.stat_result((0o100664, 0, 0, 1, 1234, 5678, 3, 0, 0, 0))
    asked = []

    def refuse(_, *owner):
        asked.append(owner)
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "chown", refuse)
    files._keep_owner_and_mode(target, before)
    assert asked == [(1234, 5678), (-1, 5678)]
    assert stat.S_IMODE(target.stat().st_mode) == 0o604


@pytest.mark.parametrize("mode", [0o444, 0o400, 0o555])
def test_a_read_only_file_is_not_replaced(tmp_path, mode):
    target = tmp_path / "scores.csv"
    target.write_text("old")
    target.chmod(mode)
    with (
        pytest.raises(InvalidInputError, match="is read-only, so it is not replaced; choose"),
        atomic_path(target),
    ):
        pytest.fail("the block must not run")
    assert target.read_text() == "old"
    assert list(tmp_path.iterdir()) == [target]


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
    written = path.read_bytes()
    assert (gzip.decompress(written) if gzipped else written) == "é\r\nb\n".encode()


def test_equal_texts_give_equal_gzip_bytes(tmp_path):
    for name in ("a", "b"):
        with text_writer(tmp_path / name, gzipped=True) as text:
            text.write("same")
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


# Paths


@pytest.fixture
def impossible(tmp_path):
    """Paths that no file can have."""
    loop = tmp_path / "loop"
    loop.symlink_to(loop)
    return {
        "long name": tmp_path / ("x" * 256),
        "long path": tmp_path / "/".join(["x" * 200] * 25),
        "loop": loop,
        "through a loop": loop / "scores.csv",
        "NUL": f"{tmp_path}/a\0b",
        "surrogate": f"{tmp_path}/\ud800",
    }


@pytest.mark.parametrize(
    "use",
    [
        checked_path,
        writable,
        lambda path: check_different(path, "x"),
        lambda path: check_different("x", path),
    ],
)
@pytest.mark.parametrize(
    "kind", ["long name", "long path", "loop", "through a loop", "NUL", "surrogate"]
)
def test_a_path_that_no_file_can_have_is_one_sentence(impossible, use, kind):
    with pytest.raises(
        InvalidInputError, match=r"cannot be the path of a file \(.+\); choose"
    ) as caught:
        use(impossible[kind])
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 400


@pytest.mark.parametrize("path", [3, None, b"scores.csv", 0.5])
def test_what_is_no_path_is_named(path):
    with pytest.raises(
        InvalidTypeError, match=f"named by a str or a path; got {type(path).__name__}"
    ):
        checked_path(path)


def test_a_path_that_is_merely_missing_passes(tmp_path):
    (tmp_path / "file").write_text("")
    for path in (tmp_path / "absent", tmp_path / "absent" / "deep", tmp_path / "file" / "below"):
        assert checked_path(str(path)) == path


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

import builtins
import dataclasses

import numpy as np
import pytest

from tribit import InvalidInputError
from tribit.paper import demo, demo_picture
from tribit.paper.demo import DemoFit, DemoResult, run_demo
from tribit.paper.demo_picture import plot_demo

SIZE, RADII = 60, (2.0, 0.8, 0.2)


@pytest.fixture(autouse=True, scope="module")
def small():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(demo, "SIZE", SIZE)
        patch.setattr(demo, "RADII", RADII)
        patch.setattr(demo, "RHO", 0.5)
        yield


@pytest.fixture(scope="module")
def result(small):
    return run_demo(random_state=0, shown=False)


def test_the_result_is_what_its_docstring_says(result):
    assert isinstance(result, DemoResult)
    assert result.target.shape == (SIZE, SIZE)
    assert np.abs(result.target).max() == pytest.approx(1.0)
    assert result.observations.shape == (SIZE, SIZE)
    assert abs(result.observations.density - 0.5) < 0.06
    assert result.completed.shape == (SIZE, SIZE)
    assert 0.0 < result.noise_floor < 0.5
    assert [(f.risk, f.radius) for f in result.fits] == [
        (risk, radius) for risk in ("PN", "mixture") for radius in RADII
    ]
    for fit in result.fits:
        assert isinstance(fit, DemoFit)
        assert 0.0 < fit.recovery_error < 10.0
        assert 0.0 <= fit.sign_error <= 1.0
        assert 0.0 < fit.held_out_loss < 10.0
        assert fit.seconds > 0.0
        assert fit.how == ""


def test_the_table_has_the_paper_s_radius_and_the_held_out_one(result):
    assert [(f.risk, f.how) for f in result.chosen] == [
        ("PN", "the paper's"),
        ("mixture", "the paper's"),
        ("PN", "held-out"),
        ("mixture", "held-out"),
    ]
    assert [f.radius for f in result.chosen[:2]] == [RADII[0], RADII[0]]
    for chosen in result.chosen[2:]:
        own = [f for f in result.fits if f.risk == chosen.risk]
        assert chosen.held_out_loss == min(f.held_out_loss for f in own)
        assert dataclasses.replace(chosen, how="") in own


def test_the_completed_matrix_is_the_mixture_s_at_its_held_out_radius(result):
    error = np.linalg.norm(result.completed - result.target) / np.linalg.norm(result.target)
    assert error == pytest.approx(result.chosen[3].recovery_error)


def test_the_fits_learn_something(result):
    # Half of all signs are right by chance alone.
    assert max(f.sign_error for f in result.chosen[2:]) < 0.42
    assert result.chosen[2].recovery_error < result.chosen[0].recovery_error


def without_times(fits):
    return [dataclasses.replace(fit, seconds=0.0) for fit in fits]


def test_the_demo_is_determined_by_its_seed(result):
    again, other = run_demo(random_state=0, shown=False), run_demo(random_state=1, shown=False)
    np.testing.assert_array_equal(again.target, result.target)
    np.testing.assert_array_equal(again.completed, result.completed)
    assert without_times(again.fits) == without_times(result.fits)
    assert without_times(again.chosen) == without_times(result.chosen)
    assert again.noise_floor == result.noise_floor
    assert not np.array_equal(other.target, result.target)


def test_the_summary_tells_the_numbers(result):
    text = result.summary()
    assert f"A {SIZE} x {SIZE} matrix of rank {demo.RANK}" in text
    assert "50% of the entries" in text
    assert f"({result.observations.n_observed})" in text
    assert f"{result.noise_floor:.3f}" in text


def test_nothing_is_drawn_off_a_terminal(capsys):
    run_demo(shown=True)
    written = capsys.readouterr()
    assert (written.out, written.err) == ("", "")


@pytest.mark.parametrize(
    ("name", "start"), [("demo.png", b"\x89PNG"), ("demo.PDF", b"%PDF"), ("demo.svg", b"<?xml")]
)
def test_a_picture_is_written(result, tmp_path, name, start):
    from matplotlib import pyplot

    plot_demo(result, tmp_path / name)
    assert (tmp_path / name).read_bytes().startswith(start)
    assert list(tmp_path.iterdir()) == [tmp_path / name]
    assert pyplot.get_fignums() == []


@pytest.mark.parametrize("name", ["demo.gif", "demo", "demo.png.txt"])
def test_a_picture_of_no_known_kind_is_one_sentence(result, tmp_path, name):
    from matplotlib import pyplot

    before = pyplot.get_fignums()
    with pytest.raises(InvalidInputError, match=rf"{name}' must end in \.png, \.pdf or \.svg"):
        plot_demo(result, tmp_path / name)
    assert list(tmp_path.iterdir()) == []
    assert pyplot.get_fignums() == before  # no figure is left behind


def test_a_missing_directory_is_one_sentence(result, tmp_path):
    with pytest.raises(InvalidInputError, match="directory does not exist"):
        plot_demo(result, tmp_path / "absent" / "demo.png")


def test_without_matplotlib_the_sentence_says_how_to_install_it(result, tmp_path, monkeypatch):
    original = builtins.__import__

    def refuse(name, *arguments, **options):
        if name.split(".")[0] == "matplotlib":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        return original(name, *arguments, **options)

    monkeypatch.setattr(builtins, "__import__", refuse)
    with pytest.raises(InvalidInputError, match=r'need matplotlib.*pip install "tribit\[plot\]"'):
        plot_demo(result, tmp_path / "demo.png")
    assert list(tmp_path.iterdir()) == []


def test_only_a_corner_of_a_large_matrix_is_shown(result, tmp_path, monkeypatch):
    from matplotlib import pyplot

    monkeypatch.setattr(demo_picture, "CORNER", 7)
    shapes = []
    original = pyplot.Axes.imshow

    def spy(self, image, *arguments, **options):
        shapes.append(image.shape)
        return original(self, image, *arguments, **options)

    monkeypatch.setattr(pyplot.Axes, "imshow", spy)
    plot_demo(result, tmp_path / "demo.png")
    assert shapes == [(7, 7)] * 3

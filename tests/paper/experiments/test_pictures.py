import builtins
import warnings

import numpy as np
import pytest

from tribit import InvalidInputError, plots
from tribit.paper.experiments import pictures, ternary
from tribit.paper.experiments.pictures import Series, plot_curves, plot_ratings
from tribit.paper.experiments.synthetic_exhibits import COARSE
from tribit.paper.experiments.ternary import Triangle, plot_triangles
from tribit.plots import check_pictures

MAGIC = {".png": b"\x89PNG\r\n\x1a\n", ".pdf": b"%PDF-"}
#: Where a figure is like others that are written as PDF too.
PNG = (".png",)


@pytest.fixture(autouse=True)
def no_warnings():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


def mixtures(steps):
    weights = [(i / steps, j / steps) for i in range(steps + 1) for j in range(steps + 1 - i)]
    # The last weight as a caller has it: with rounding, below zero at times.
    return np.array([(pn, pu, 1.0 - pn - pu) for pn, pu in weights])


def triangle(steps, *, best=None, title="logistic noise", change=None):
    grid = mixtures(steps)
    values = 0.93 + 0.3 * np.sum((grid - [0.6, 0.2, 0.2]) ** 2, axis=1)
    return Triangle(title, grid, values if change is None else change(values), best)


def line(label, *, mean=0.9):
    x = np.linspace(-1.0, 1.0, 9)
    return Series(label, x, mean + 0.1 * x**2, np.full(9, 0.01))


def dots(mean=0.7):
    return np.array([0.0, 0.1, 0.05]) + mean, np.array([0.01, 0.0, 0.02])


def draw_curves(stem):
    return plot_curves(
        stem,
        [line("rank 5"), line("rank 10", mean=0.95)],
        x_label="weight",
        y_label="recovery error",
        references={"all zeros": 1.0, "posterior mean": 0.93, "oracle": 0.929},
        ticks={-1.0: "NU", 0.0: "PN", 1.0: "PU"},
    )


def draw_triangles(stem):
    panels = [triangle(10, best=(0.5, 0.5, 0.0)), triangle(5)]
    return plot_triangles(stem, panels, label="recovery error", note="Ten draws each.")


def draw_ratings(stem):
    return plot_ratings(
        stem,
        ["1", "2", "all"],
        {"mixture": dots(), "PN": dots(0.6)},
        y_label="share right",
        published={"PN": dots(0.55), "other": dots(0.5)},
    )


DRAWINGS = [draw_curves, draw_triangles, draw_ratings]


def check_written(paths, stem, kinds=MAGIC):
    assert paths == [stem.with_name(stem.name + suffix) for suffix in kinds]
    for path in paths:
        assert path.read_bytes().startswith(MAGIC[path.suffix])
    assert sorted(stem.parent.iterdir()) == sorted(paths)


def write_only(kinds, monkeypatch):
    monkeypatch.setattr(plots, "METADATA", {kind[1:]: plots.METADATA[kind[1:]] for kind in kinds})


@pytest.mark.parametrize("draw", DRAWINGS)
def test_both_files_are_written_and_no_other_with_equal_bytes_for_equal_input(tmp_path, draw):
    stem = tmp_path / "rho-0.5"
    once = draw(stem)
    check_written(once, stem)
    for first, second in zip(once, draw(tmp_path / "second"), strict=True):
        assert first.read_bytes() == second.read_bytes()
        assert b"CreationDate" not in first.read_bytes()


def test_the_settings_of_the_reader_neither_count_nor_change(tmp_path):
    import matplotlib

    plain = draw_curves(tmp_path / "plain")[0].read_bytes()
    with matplotlib.rc_context({"font.size": 30.0, "lines.linewidth": 9.0}):
        assert draw_curves(tmp_path / "own")[0].read_bytes() == plain
        assert matplotlib.rcParams["font.size"] == 30.0


@pytest.mark.parametrize(
    ("steps", "panels", "best", "kinds"),
    [
        (5, 1, None, PNG),
        (10, 1, (0.0, 1.0, 0.0), PNG),
        (5, 2, (0.6, 0.2, 0.2), PNG),
        (10, 3, None, MAGIC),
    ],
)
def test_triangles_of_any_number(tmp_path, monkeypatch, steps, panels, best, kinds):
    write_only(kinds, monkeypatch)
    stem = tmp_path / "triangles"
    drawn = [triangle(steps, best=best)] * panels
    check_written(plot_triangles(stem, drawn, label="recovery error"), stem, kinds)


@pytest.mark.parametrize("best", [None, (0.3, 0.3, 0.4)])
def test_contours_are_drawn_only_where_there_are_points(tmp_path, monkeypatch, best):
    drawn = []
    original = ternary._draw_contours
    monkeypatch.setattr(
        ternary, "_draw_contours", lambda *given: (drawn.append(given[1]), original(*given))
    )
    write_only(PNG, monkeypatch)
    grids = {"fifths": mixtures(5), "corners and a middle": mixtures(2), "few": np.array(COARSE)}
    panels = [
        Triangle(name, grid, 1 + np.sum((grid - 0.3) ** 2, axis=1), best)
        for name, grid in grids.items()
    ]
    check_written(plot_triangles(tmp_path / "t", panels, label="error"), tmp_path / "t", PNG)
    assert [panel.title for panel in panels if panel.covers] == ["fifths"]
    assert [panel.title for panel in drawn] == ["fifths"]


def with_corner(value):
    return lambda values: np.concatenate([values[:-1], [value]])


def nearly_equal(values):
    return 0.5 + 1e-17 * values


def apart_by_the_last_bit(values):
    return 0.3 * (1 + 2e-16 * (values > 1.0))


@pytest.mark.parametrize(
    ("change", "steps", "kinds"),
    [
        pytest.param(with_corner(1e6), 5, MAGIC, id="one far away"),
        pytest.param(lambda values: np.full_like(values, 0.5), 10, MAGIC, id="all equal"),
        pytest.param(np.zeros_like, 5, PNG, id="all zero"),
        # What rounding leaves depends on the grid.
        pytest.param(nearly_equal, 5, PNG, id="equal but for rounding"),
        pytest.param(nearly_equal, 10, PNG, id="equal but for rounding, finer"),
        pytest.param(apart_by_the_last_bit, 5, MAGIC, id="the last bit"),
        pytest.param(apart_by_the_last_bit, 10, PNG, id="the last bit, finer"),
        pytest.param(
            lambda values: with_corner(3.0)(np.ones_like(values)), 10, PNG, id="all equal but one"
        ),
        pytest.param(lambda values: 1e-7 * values, 5, PNG, id="tiny"),
        pytest.param(lambda values: 1e7 * values, 10, PNG, id="huge"),
        pytest.param(lambda values: -values, 5, PNG, id="negative"),
    ],
)
def test_triangles_of_odd_values(tmp_path, monkeypatch, change, steps, kinds):
    write_only(kinds, monkeypatch)
    stem = tmp_path / "odd"
    drawn = triangle(steps, change=change, best=(0.2, 0.2, 0.6))
    check_written(plot_triangles(stem, [drawn], label="recovery error"), stem, kinds)


def test_odd_values_beside_usual_ones(tmp_path):
    stem = tmp_path / "both"
    drawn = [triangle(10), triangle(10, change=with_corner(1e6))]
    check_written(plot_triangles(stem, drawn, label="recovery error"), stem)


def test_one_far_value_does_not_take_all_colours():
    values = np.linspace(1.0, 2.0, 21)
    scale = ternary._scale(values)
    assert (scale.lowest, scale.highest, scale.clipped) == (1.0, 2.0, False)
    values[-1] = 100.0
    scale = ternary._scale(values)
    assert (scale.lowest, scale.highest, scale.clipped) == (1.0, values[-2], True)
    assert scale.levels.min() > scale.lowest
    assert scale.levels.max() < scale.highest


def test_the_heading_tells_the_smallest_value_and_its_mixture():
    assert ternary._heading(triangle(10)) == "logistic noise\n0.93 at (0.6, 0.2, 0.2)"
    grid = mixtures(10)
    side = Triangle("side", grid, -grid[:, 0] * grid[:, 1])
    assert ternary._heading(side).endswith("-0.25 at (0.5, 0.5, 0)")
    equal = triangle(5, change=np.ones_like)
    assert ternary._heading(equal).endswith("1 everywhere")


def test_levels_are_told_apart():
    assert ternary._level_words(np.array([0.95, 1.0, 1.05])) == ["0.95", "1.00", "1.05"]
    assert ternary._level_words(np.array([10.0, 20.0])) == ["10", "20"]


def test_names_are_moved_apart_in_their_order():
    assert pictures._keep_apart([], 10.0) == []
    assert pictures._keep_apart([0.0, 4.0, 30.0], 10.0) == [-3.0, 7.0, 30.0]
    assert pictures._keep_apart([5.0, 0.0], 10.0) == [7.5, -2.5]
    assert pictures._keep_apart([1.0, 1.0, 1.0], 10.0) == [-9.0, 1.0, 11.0]


def test_many_long_names_fit(tmp_path):
    stem = tmp_path / "many"
    names = [f"a method with a rather long name, the {place}th" for place in range(9)]
    check_written(plot_curves(stem, [line(name) for name in names], x_label="x", y_label="y"), stem)
    check_written(
        plot_ratings(stem, ["1", "2", "3"], {name: dots() for name in names}, y_label="y"), stem
    )


def test_one_point_without_a_name_is_a_curve(tmp_path):
    one = Series("", np.array([1.0]), np.array([2.0]), np.array([0.0]))
    check_written(plot_curves(tmp_path / "one", [one], x_label="x", y_label="y"), tmp_path / "one")


NAN = float("nan")
NAN_SERIES = Series("PN", np.arange(2.0), np.array([1.0, NAN]), np.ones(2))
CURVE = {"x_label": "x", "y_label": "y"}
WRONG = [
    (plot_curves, ([NAN_SERIES],), CURVE, "'PN' must have finite"),
    (plot_curves, ([line("PN")],), CURVE | {"references": {"zeros": NAN}}, "finite"),
    (plot_curves, ([Series("PN", np.ones(2), np.ones(3), np.ones(2))],), CURVE, "2 places"),
    (plot_curves, ([Series("PN", np.ones(2), np.ones(2), -np.ones(2))],), CURVE, "negative"),
    (plot_curves, ([],), CURVE, "some series"),
    (plot_triangles, ([triangle(5, change=with_corner(NAN))],), {"label": "v"}, "finite"),
    (plot_triangles, ([triangle(5, best=(0.5, 0.5, 0.5))],), {"label": "v"}, "sum to one"),
    (plot_triangles, ([triangle(5, best=(0.5, 0.5))],), {"label": "v"}, "three weights"),
    (plot_triangles, ([Triangle("t", np.ones((3, 2)), np.ones(3))],), {"label": "v"}, "weights"),
    (plot_triangles, ([Triangle("t", mixtures(5)[:3], np.ones(3))],), {"label": "v"}, "one line"),
    (plot_triangles, ([],), {"label": "v"}, "some triangles"),
    (plot_ratings, (["1"], {"PN": (np.array([NAN]), np.ones(1))}), {"y_label": "y"}, "finite"),
    (plot_ratings, (["1", "2"], {"PN": (np.ones(1), np.ones(1))}), {"y_label": "y"}, "2 places"),
    (plot_ratings, (["1"], {}), {"y_label": "y"}, "some methods"),
]


@pytest.mark.parametrize(("plot", "arguments", "options", "words"), WRONG)
def test_what_cannot_be_drawn_is_one_sentence(tmp_path, plot, arguments, options, words):
    with pytest.raises(InvalidInputError, match=words) as caught:
        plot(tmp_path / "wrong", *arguments, **options)
    assert str(caught.value).endswith(".")
    assert "\n" not in str(caught.value)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("draw", DRAWINGS)
def test_a_directory_that_is_not_there(tmp_path, draw):
    with pytest.raises(InvalidInputError, match="directory does not exist"):
        draw(tmp_path / "missing" / "figure")


@pytest.mark.parametrize("library", ["matplotlib", "mpltern"])
def test_without_a_library_the_sentence_says_how_to_install_it(tmp_path, monkeypatch, library):
    check_pictures()
    original = builtins.__import__

    def refuse(name, *arguments, **options):
        if name.split(".")[0] == library:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        return original(name, *arguments, **options)

    monkeypatch.setattr(builtins, "__import__", refuse)
    with pytest.raises(InvalidInputError, match=r'need matplotlib.*pip install "tribit\[plot\]"'):
        check_pictures()
    with pytest.raises(InvalidInputError, match=r"tribit\[plot\]"):
        draw_triangles(tmp_path / "figure")
    assert list(tmp_path.iterdir()) == []

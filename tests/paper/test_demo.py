import builtins
import dataclasses

import numpy as np
import pytest

from tribit import InvalidInputError
from tribit.paper import demo
from tribit.paper.demo import BIASES, DEFAULT, SIGNS, DemoResult, plot_demo, run_demo

SHAPE = (80, 60)


@pytest.fixture(autouse=True, scope="module")
def small():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(demo, "SHAPE", SHAPE)
        patch.setattr(demo, "LEVEL", -0.5)
        patch.setattr("tribit.selection.trials.MAX_SWEEPS", 8)
        yield


@pytest.fixture(scope="module")
def result(small):
    return run_demo(random_state=0, shown=False)


def test_the_result_is_what_its_docstring_says(result):
    assert isinstance(result, DemoResult)
    assert result.probability.shape == result.seen.shape == result.completed.shape == SHAPE
    assert result.probability.max() == pytest.approx(1 / (1 + np.exp(-demo.TASTE)), abs=0.01)
    assert [fit.name for fit in result.fits] == [BIASES, SIGNS, DEFAULT]
    assert all(fit.seconds > 0 for fit in result.fits)
    weights = [each.avoid_dislikes for each in result.lists]
    assert weights == [None, None, *demo.WEIGHTS]


def test_what_comes_later_was_not_seen(result):
    seen, later = result.seen.to_sparse(), result.later.to_sparse()
    assert seen.multiply(later).nnz == 0
    share = later.nnz / (seen.nnz + later.nnz)
    assert share == pytest.approx(demo.LATER_SHARE, abs=0.01)


def test_the_errors_are_those_of_the_unseen_cells(result):
    probability, signs, seen, _ = demo.simulate_table(0)
    np.testing.assert_array_equal(probability, result.probability)
    unseen = seen.to_sparse().toarray() == 0
    wrong = np.mean((result.completed[unseen] >= 0.5) != (signs[unseen] > 0))
    assert result.fits[-1].error_rate == pytest.approx(wrong)
    distance = np.linalg.norm((result.completed - probability)[unseen]) / unseen.sum() ** 0.5
    assert result.fits[-1].probability_error == pytest.approx(distance)
    assert result.least_error == pytest.approx(
        np.mean((probability[unseen] >= 0.5) != (signs[unseen] > 0))
    )


def test_people_are_exposed_to_what_is_near_their_taste():
    probability, _, seen, later = demo.simulate_table(1)
    near = probability[seen.rows, seen.columns].mean()
    assert near > probability.mean() + 0.05
    assert later.n_likes > later.n_dislikes > 0


def test_completion_works(result):
    effects, signs, default = result.fits
    assert result.least_error < default.error_rate < effects.error_rate
    assert default.probability_error < 0.5 * effects.probability_error
    assert default.probability_error <= 1.05 * signs.probability_error


def test_lists_avoid_dislikes_when_told_to(result):
    popular = result.lists[0]
    without, *_, most = result.lists[2:]
    assert without.likes > popular.likes
    assert most.dislikes < without.dislikes


def test_lists_are_counted_for_each_hundred_rows(result):
    users = np.unique(result.later.rows[result.later.labels > 0]).size
    for each in result.lists:
        assert each.likes * users / 100 == pytest.approx(round(each.likes * users / 100))
        assert 0 <= each.likes <= 100 * demo.LIST_LENGTH


def without_times(fits):
    return [dataclasses.replace(fit, seconds=0.0) for fit in fits]


def test_the_demo_is_determined_by_its_seed(result):
    again = run_demo(random_state=0, shown=False)
    np.testing.assert_array_equal(again.completed, result.completed)
    assert without_times(again.fits) == without_times(result.fits)
    assert again.lists == result.lists
    assert not np.array_equal(demo.simulate_table(1)[0], result.probability)


def test_the_summary_tells_the_numbers(result):
    text = result.summary()
    assert f"{SHAPE[0]} users and {SHAPE[1]} items" in text
    assert f"{result.seen.n_observed} entries" in text
    assert f"{result.later.n_observed} more" in text
    assert f"{100 * result.least_error:.1f}%" in text


def test_nothing_is_drawn_off_a_terminal(capsys, monkeypatch):
    monkeypatch.setattr(demo, "FITS", {DEFAULT: demo._default})
    run_demo(shown=True)
    written = capsys.readouterr()
    assert (written.out, written.err) == ("", "")


def test_a_fit_that_was_interrupted_ends_the_demo(monkeypatch):
    def interrupted(seen):
        model = demo.fit_biases(seen)
        model.record_ = dataclasses.replace(model.record_, stop_reason=demo.INTERRUPTED)
        return model

    monkeypatch.setattr(demo, "FITS", {BIASES: interrupted})
    with pytest.raises(KeyboardInterrupt):
        run_demo(shown=False)


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


def test_the_truth_and_the_completion_have_one_scale(result, tmp_path, monkeypatch):
    from matplotlib import pyplot

    drawn = []
    original = pyplot.Axes.imshow

    def spy(self, image, *arguments, **options):
        drawn.append((image.shape, options["vmin"], options["vmax"]))
        return original(self, image, *arguments, **options)

    monkeypatch.setattr(pyplot.Axes, "imshow", spy)
    plot_demo(result, tmp_path / "demo.png")
    assert drawn == [(SHAPE, 0, 1)] * 3

import builtins
from dataclasses import replace

import numpy as np
import pytest

from tribit import InvalidInputError, Observations, plots
from tribit.estimates import estimate_means
from tribit.model.spec import ModelSpec
from tribit.plots import imputed_shares
from tribit.selection import Candidate, Search
from tribit.selection.gammas import mixture

DENSITY = 0.1


def candidate(score, **settings):
    return Candidate(ModelSpec(**settings), score, (score,), 0.1, 5)


def made(*candidates, best=0, scoring="log_loss"):
    return Search(candidates, candidates[best], scoring, "observed", 500, 1, 1.0, "done", DENSITY)


@pytest.fixture
def found():
    return made(
        candidate(0.9, rank=0, l2_intercept=300.0),
        candidate(0.61, rank=0, l2_intercept=1.0),
        candidate(0.60, l2=5.0),
        candidate(0.64, l2=1.0),
        candidate(0.58, implicit_features=True),
        candidate(0.59, gammas=mixture(0.05, DENSITY, 0.6), radius=2.0),
        candidate(0.63, gammas=mixture(0.16, DENSITY, 0.6), radius=2.0),
        best=4,
    )


def drawn(figure):
    scores, triangle = figure.axes[:2]
    return scores, triangle


def limits(triangle):
    return [*triangle.get_tlim(), *triangle.get_llim(), *triangle.get_rlim()]


def places(collection):
    """Return the points of a scatter on a ternary axis as shares, top first."""
    axis = collection.axes
    return axis.transProjection.inverted().transform(np.asarray(collection.get_offsets()))


def test_a_mixture_is_shown_by_the_share_that_it_imputes():
    one = candidate(0.5, gammas=mixture(0.3, 0.05, 0.6))
    np.testing.assert_allclose(imputed_shares(one, 0.05), (0.7, 0.12, 0.18))
    h, q = 0.2, 0.06
    t = h / (h + q * (1 - h))
    shares = imputed_shares(candidate(0.5, gammas=(0.8, 0.1, 0.1)), q)
    np.testing.assert_allclose(shares, (1 - t, t / 2, t / 2))
    assert imputed_shares(candidate(0.5), q) == (1.0, 0.0, 0.0)


def test_every_candidate_is_drawn_in_order(found):
    scores, _ = drawn(plots.search(found))
    lines = {line.get_label(): line for line in scores.lines if line.get_label()[0] != "_"}
    assert list(lines) == ["intercepts", "factors", "implicit features", "mixture"]
    at = {name: list(zip(*line.get_data(), strict=True)) for name, line in lines.items()}
    assert at == {
        "intercepts": [(1, 0.9), (2, 0.61)],
        "factors": [(3, 0.60), (4, 0.64)],
        "implicit features": [(5, 0.58)],
        "mixture": [(6, 0.59), (7, 0.63)],
    }
    assert scores.get_ylabel() == "log-loss, held-out entries"


def test_what_is_above_the_frame_has_an_arrow_on_its_edge(found):
    scores, _ = drawn(plots.search(found))
    low, top = scores.get_ylim()
    assert low < 0.58 < 0.61 < top < 0.64
    arrows = {
        line.get_color(): line.get_data() for line in scores.lines if line.get_marker() == "^"
    }
    assert [list(x) for x, _ in arrows.values()] == [[1], [4], [], [7]]
    assert all(np.all(y == top) for _, y in arrows.values())


def test_the_chosen_one_has_a_star_in_both_panels(found):
    scores, triangle = drawn(plots.search(found))
    assert scores.collections[-1].get_offsets().tolist() == [[5, 0.58]]
    np.testing.assert_allclose(places(triangle.collections[-1]), [[1.0, 0.0, 0.0]], atol=1e-12)
    other = replace(found, best=found.candidates[5])
    scores, triangle = drawn(plots.search(other))
    assert scores.collections[-1].get_offsets().tolist() == [[6, 0.59]]
    np.testing.assert_allclose(places(triangle.collections[-1]), [[0.95, 0.02, 0.03]])


def test_the_simplex_has_the_mixtures_and_the_best_without_imputation(found):
    _, triangle = drawn(plots.search(found))
    dots = triangle.collections[0]
    order = np.argsort(places(dots)[:, 0])
    np.testing.assert_allclose(
        places(dots)[order], [(0.84, 0.064, 0.096), (0.95, 0.02, 0.03), (1, 0, 0)], atol=1e-12
    )
    np.testing.assert_allclose(np.asarray(dots.get_array())[order], [0.63, 0.59, 0.58])


@pytest.mark.parametrize(("share", "part"), [(0.04, 0.05), (0.045, 0.1), (0.16, 0.2), (0.9, 1.0)])
def test_as_much_of_the_simplex_is_shown_as_holds_them(share, part):
    one = made(candidate(0.6), candidate(0.59, gammas=mixture(share, DENSITY, 0.6)))
    _, triangle = drawn(plots.search(one))
    np.testing.assert_allclose(limits(triangle), (1 - part, 1, 0, part, 0, part), atol=1e-12)


def test_without_mixtures_the_simplex_is_whole_and_says_so():
    figure = plots.search(made(candidate(0.6), candidate(0.61, l2=1.0)))
    assert [text.get_text() for text in figure.texts] == ["no mixture was tried"]
    np.testing.assert_allclose(limits(figure.axes[1]), (0, 1, 0, 1, 0, 1), atol=1e-12)


def test_mixtures_alone_are_drawn():
    gammas = mixture(0.2, DENSITY, 0.5)
    one = made(candidate(0.6, gammas=gammas), candidate(0.61, gammas=gammas, radius=2.0))
    _, triangle = drawn(plots.search(one))
    np.testing.assert_allclose(places(triangle.collections[0]), [(0.8, 0.1, 0.1)] * 2)
    # The better of the two is on top.
    assert np.asarray(triangle.collections[0].get_array()).tolist() == [0.61, 0.6]


def test_a_search_is_a_figure_of_its_own(found, tmp_path):
    from matplotlib import pyplot

    before, settings = pyplot.get_fignums(), dict(pyplot.rcParams)
    plots.search(found).savefig(tmp_path / "search.png")
    assert (tmp_path / "search.png").read_bytes().startswith(b"\x89PNG")
    assert pyplot.get_fignums() == before
    assert dict(pyplot.rcParams) == settings


def test_a_search_that_tried_nothing_is_one_sentence():
    nothing = Search((), None, "log_loss", "observed", 0, 0, 0.0, "two likes are too few", DENSITY)
    with pytest.raises(InvalidInputError, match=r"no candidate to draw.*: two likes are too few\."):
        plots.search(nothing)


@pytest.mark.parametrize("missing", ["matplotlib", "mpltern"])
def test_without_the_extra_one_sentence_says_how_to_install_it(found, monkeypatch, missing):
    original = builtins.__import__

    def refuse(name, *arguments, **options):
        if name.split(".")[0] == missing:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        return original(name, *arguments, **options)

    monkeypatch.setattr(builtins, "__import__", refuse)
    with pytest.raises(InvalidInputError, match=r'mpltern.*pip install "tribit\[plot\]"'):
        plots.search(found)


@pytest.mark.usefixtures("short_trials")
def test_a_real_search_is_drawn():
    from tribit import BinaryMatrixCompletion, Logistic
    from tribit.simulate import low_rank_target, observe, quantise

    signs = quantise(
        low_rank_target((40, 30), 2, alpha=4.0, random_state=0), Logistic(), random_state=1
    )
    seen = observe(signs, 0.5, random_state=2)
    search = BinaryMatrixCompletion(random_state=0, n_jobs=1).fit(seen).search_
    scores, _ = drawn(plots.search(search))
    shown = [line for line in scores.lines if line.get_label()[0] != "_"]
    assert sum(len(line.get_xdata()) for line in shown) == len(search.candidates)


@pytest.fixture(scope="module")
def some_means():
    rng = np.random.default_rng(0)
    labels = np.where(rng.random((6, 60)) < rng.uniform(0.2, 0.9, (6, 1)), 1, -1)
    labels *= rng.random(labels.shape) < 0.4
    return estimate_means(Observations.from_matrix(labels), level=0.9, random_state=0)


def ends(axis):
    (lines,) = axis.collections
    return np.array([segment[:, 0] for segment in lines.get_segments()])


def test_means_are_drawn_with_their_intervals_the_largest_on_top(some_means):
    (axis,) = plots.means(some_means).axes
    order = np.argsort(some_means.mean)
    assert [each.get_text() for each in axis.get_yticklabels()] == [str(n) for n in order]
    assert np.allclose(ends(axis), np.column_stack([some_means.lower, some_means.upper])[order])
    estimates, plain = (line.get_xdata() for line in axis.lines)
    assert np.array_equal(estimates, some_means.mean[order])
    assert np.array_equal(plain, some_means.plain[order])


def test_ranks_are_drawn_into_given_axes(some_means):
    with plots.empty_figure(4, 3) as figure:
        axis = figure.subplots()
    assert plots.ranks(some_means, axis=axis) is figure
    order, ranks = np.argsort(some_means.mean), some_means.ranks()
    assert np.array_equal(ends(axis), np.column_stack(list(ranks.values()))[order])
    assert axis.lines[0].get_xdata().tolist() == [6, 5, 4, 3, 2, 1]


def test_the_limits_of_a_sensitivity_are_drawn_up_to_the_odds_ratio(some_means):
    few = some_means.take([4, 1])
    (axis,) = plots.sensitivity(few, odds_ratio=3, threshold=0.5).axes
    low, high = few.sensitivity(3).values()
    for place in range(2):
        curves = [axis.lines[2 * place + side].get_xydata() for side in (0, 1)]
        assert np.allclose([curve[-1] for curve in curves], [(3, low[place]), (3, high[place])])
        assert np.allclose([c[0, 1] for c in curves], (few.lower[place], few.upper[place]))
    turns = few.turns_at(0.5)
    assert np.allclose(axis.lines[-1].get_xdata(), turns[(turns > 1) & (turns < 3)])


def test_many_means_are_refused(some_means):
    many = replace(some_means, ids=np.arange(101))
    for draw, message in ((plots.means, "at most 100"), (plots.sensitivity, "at most 10")):
        with pytest.raises(InvalidInputError, match=f"{message} means; choose some of 101"):
            draw(many)
    with pytest.raises(InvalidInputError, match=r"odds_ratio must be in \(1, inf\)"):
        plots.sensitivity(some_means, odds_ratio=1)

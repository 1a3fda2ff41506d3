"""Verdicts, and the words and tables that carry them."""

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.stats import ttest_rel

from tribit.paper.experiments.claims import (
    FAILS,
    HOLDS,
    UNCLEAR,
    Claim,
    best,
    claims_table,
    comparison,
    errors_by_mixture,
    markdown_table,
    mixture_of,
    paired_verdict,
    spread,
)
from tribit.paper.experiments.settings import is_inside, mixture_words

NOISE = np.random.default_rng(0).standard_normal(10)
BASE = 1.0 + 0.1 * NOISE[::-1]


def row(mixture, error, **others):
    return dict(zip(("g_pn", "g_pu", "g_nu"), mixture, strict=True)) | {"error": error} | others


# Verdicts


@pytest.mark.parametrize(
    ("shift", "verdict"),
    [(-0.5, HOLDS), (0.5, FAILS), (-0.001, UNCLEAR), (0.001, UNCLEAR), (0.0, UNCLEAR)],
)
def test_lower_is_a_paired_test_with_a_direction(shift, verdict):
    these = BASE + shift + 0.05 * NOISE
    found, p = paired_verdict(these, BASE)
    assert found == verdict
    assert p == pytest.approx(ttest_rel(these, BASE).pvalue)


def test_the_test_is_paired_not_of_two_samples():
    # Far apart from trial to trial, but always a little lower in each.
    trials = 10.0 * np.arange(10.0)
    assert paired_verdict(trials - 0.1 + 0.01 * NOISE, trials)[0] == HOLDS


@pytest.mark.parametrize(("p", "verdict"), [(0.0101, UNCLEAR), (0.0099, HOLDS)])
def test_the_level_is_one_per_cent(p, verdict):
    pattern, zeros = np.where(np.arange(10) % 2, 1.0, -1.0), np.zeros(10)  # mean 0
    shift = brentq(lambda shift: ttest_rel(pattern - shift, zeros).pvalue - p, 0.1, 3.0)
    assert paired_verdict(pattern - shift, zeros) == (verdict, pytest.approx(p))


@pytest.mark.parametrize(("shift", "verdict"), [(0.0, UNCLEAR), (-0.25, HOLDS), (0.25, FAILS)])
def test_without_spread_a_sign_test_decides(shift, verdict):
    many, few = np.repeat(0.5, 9), np.array([0.5, 0.75])
    assert paired_verdict(many + shift, many) == (verdict, 1.0 if shift == 0 else 2 * 0.5**9)
    # Two trials say nothing.
    assert paired_verdict(few + shift, few) == (UNCLEAR, 1.0 if shift == 0 else 0.5)


def test_rounding_is_no_spread():
    those = np.array([0.1, 0.2, 0.3])
    assert paired_verdict(those + 0.7 - 0.7, those) == (UNCLEAR, 1.0)
    assert "d =" not in comparison("a", those * 3 / 3 + 0.1, "b", those)[1]


def test_a_comparison_has_the_numbers_in_words():
    these, those = np.array([0.5, 0.75]), np.array([1.0, 1.25])
    verdict, words = comparison("gamma = 0.5", these, "PN", those)
    assert verdict == UNCLEAR
    # Without spread there is no d.
    assert words == (
        "gamma = 0.5 0.625 ± 0.177, PN 1.125 ± 0.177 (difference -0.500, paired t-test p = 0.5)"
    )
    these = BASE - 0.5 + 0.05 * NOISE
    verdict, words = comparison("a", these, "b", BASE)
    assert verdict == HOLDS
    difference = these - BASE
    size = np.mean(difference) / np.std(difference, ddof=1)
    p = ttest_rel(these, BASE).pvalue
    assert words.endswith(
        f"(difference {np.mean(difference):+.3f}, d = {size:.2f}, paired t-test p = {p:.3g})"
    )
    assert comparison("b", BASE, "a", these)[0] == FAILS


# Gathering


def test_errors_are_gathered_by_mixture_in_the_order_of_the_trials():
    a, b = (1.0, 0.0, 0.0), (0.0, 0.5, 0.5)
    rows = [row(a, 0.1), row(b, 0.9), row(a, 0.3), row(b, 0.7), row(a, 0.2), row(b, 0.8)]
    errors = errors_by_mixture(rows, "error")
    assert list(errors) == [a, b]
    assert errors[a].tolist() == [0.1, 0.3, 0.2]
    assert errors[b].tolist() == [0.9, 0.7, 0.8]
    assert mixture_of(rows[1]) == b


def test_best_is_the_smallest_mean_and_the_first_of_equals():
    errors = {
        (1.0, 0.0, 0.0): np.array([0.5, 0.75]),
        (0.0, 1.0, 0.0): np.array([0.0, 1.0]),
        (0.2, 0.4, 0.4): np.array([0.25, 0.75]),
        (0.0, 0.0, 1.0): np.array([0.9, 0.9]),
    }
    assert best(errors) == (0.0, 1.0, 0.0)  # not that of the smallest deviation
    assert best(errors, is_inside) == (0.2, 0.4, 0.4)
    assert best(errors, lambda mixture: mixture[0] == 1.0) == (1.0, 0.0, 0.0)
    assert best(dict(reversed(errors.items()))) == (0.2, 0.4, 0.4)


@pytest.mark.parametrize(
    ("mixture", "inside"),
    [((0.2, 0.4, 0.4), True), ((0.0, 0.5, 0.5), False), ((0.5, 0.5, 0.0), False)],
)
def test_inside_every_risk_has_weight(mixture, inside):
    assert is_inside(mixture) is inside


# Words


def test_spread_is_the_deviation_of_a_sample():
    assert spread(np.array([1.0, 2.0, 3.0])) == "2.000 ± 1.000"
    assert spread(np.array([0.3036, 0.3036])) == "0.304 ± 0.000"


def test_a_mixture_in_words():
    assert mixture_words((0.3, 0.30000000000000004, 0.4)) == "(0.3, 0.3, 0.4)"
    assert mixture_words((1.0, 0.0, 0.0)) == "(1, 0, 0)"


def test_a_table_in_markdown():
    text = markdown_table(("a", "b"), [("1", "2"), iter(("3", "4"))])
    assert text == "| a | b |\n| --- | --- |\n| 1 | 2 |\n| 3 | 4 |"
    assert markdown_table(iter(("a",)), iter(())) == "| a |\n| --- |"


def test_claims_are_under_their_ways():
    claims = {
        "whole": [Claim("it works", "0.5", HOLDS), Claim("it is best", "0.6", FAILS)],
        "rows": [Claim("it works", "0.7", UNCLEAR)],
    }
    assert claims_table(claims).splitlines() == [
        "| the paper | way | measured | verdict |",
        "| --- | --- | --- | --- |",
        "| it works | whole | 0.5 | **holds** |",
        "| it is best | whole | 0.6 | **does not hold** |",
        "| it works | rows | 0.7 | **inconclusive** |",
    ]

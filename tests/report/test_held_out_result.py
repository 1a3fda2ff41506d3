"""The result of `fit(hold_out=)` on the page, and a test set with unknown ids."""

import numpy as np
import pandas as pd
import pytest

from report_models import Parsed, draw, fixed
from tribit import InvalidInputError, Observations, Recommender
from tribit.errors import UnknownIdWarning
from tribit.report import make_report

SEEN = draw(seed=3)


@pytest.mark.parametrize("one_label", [False, True])
def test_the_page_has_the_measures_that_the_fit_held_out(one_label):
    seen = SEEN.take(np.flatnonzero(SEEN.labels > 0)) if one_label else SEEN
    model = fixed().set_params(gammas=(0, 1, 0), rho=0.0) if one_label else fixed()
    found = Recommender(model, random_state=0).fit(seen, hold_out=0.1)
    page = make_report(found)
    kept = page.facts["kept"]["measures"]
    name = "AUC among unseen cells" if one_label else "log-loss"
    value = found.evaluation_.unseen.auc if one_label else found.evaluation_.log_loss
    assert next(row for row in kept["rows"] if row["title"] == name)["value"] == value
    words = Parsed(page.html).words
    assert "Measures on the entries that the fit held out" in words
    assert f"{found.evaluation_.n_entries} test entries" in words
    assert f"{value:.3f}" in words


def test_a_fit_that_held_out_none_has_no_such_table():
    page = make_report(Recommender(fixed(), random_state=0).fit(SEEN))
    assert page.facts["kept"] is None
    assert "that the fit held out" not in Parsed(page.html).words


def with_strangers(test, strangers):
    frame = pd.DataFrame(
        {
            "row": [*test.row_ids[test.rows], *(["new"] * strangers)],
            "column": [*test.column_ids[test.columns], *test.column_ids[:strangers]],
            "label": [*test.labels, *([1] * strangers)],
        }
    )
    return Observations.from_frame(frame, row="row", column="column", value="label")


def test_unknown_ids_are_in_the_measures_and_not_in_the_charts():
    train, test = SEEN.split(0.2, random_state=0)
    found = Recommender(fixed(), random_state=0).fit(train)
    more = with_strangers(test, 3)
    with pytest.warns(UnknownIdWarning, match="3 of the"):
        page = make_report(found, more)
    with pytest.warns(UnknownIdWarning):
        expected = found.evaluate(more)
    assert page.evaluation.log_loss == expected.log_loss
    assert (page.evaluation.n_entries, page.evaluation.n_unknown) == (len(test) + 3, 3)
    plain = make_report(found, test)
    assert page.facts["calibration"]["counts"] == plain.facts["calibration"]["counts"]
    assert "3 of them have an id that the model was not fitted on" in Parsed(page.html).words
    skipped = make_report(found, more, unknown="skip")
    assert skipped.evaluation.log_loss == pytest.approx(plain.evaluation.log_loss, rel=1e-12)
    assert skipped.evaluation.n_skipped == 3
    with pytest.raises(InvalidInputError, match="unknown"):
        make_report(found, more, unknown="error")


def test_a_test_set_of_another_table_is_refused():
    found = Recommender(fixed(), random_state=0).fit(SEEN)
    frame = pd.DataFrame({"row": ["x", "y"], "column": ["film 3", "b"], "label": [1, -1]})
    odd = Observations.from_frame(frame, row="row", column="column", value="label")
    with pytest.raises(InvalidInputError, match="No test entry has a row and a column"):
        make_report(found, odd)

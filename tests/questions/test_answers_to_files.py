import gzip
import itertools

import numpy as np
import pandas as pd
import pytest

from asked import evaluate_file, n_unknown, predict_file, recommend_file
from tribit import BinaryMatrixCompletion, InvalidInputError, Observations, load
from tribit.cli.actions import fit_file
from tribit.data.tables import read_table
from tribit.errors import UnknownIdWarning

USERS, ITEMS = [f"u{n}" for n in range(10)], [str(100 + n) for n in range(8)]


def likes(user, item):
    """Users like the items of their own parity."""
    return int(user[1:]) % 2 == int(item) % 2


PAIRS = list(itertools.product(USERS, ITEMS))
#: A fixed third of the pairs is held out, likes and dislikes of every user among them.
HELD_OUT = PAIRS[::3]
SEEN = [pair for pair in PAIRS if pair not in HELD_OUT]


def frame(pairs, *, value="rating", stars=(5, 2)):
    data = pd.DataFrame(pairs, columns=["user", "item"])
    data[value] = [stars[0] if likes(*pair) else stars[1] for pair in pairs]
    data["when"] = 881_250_949
    return data


def write(data, path):
    """Write a frame as the name of the file says; .data is as MovieLens has it, without a header."""
    if path.suffix == ".parquet":
        data.to_parquet(path)
        return path
    separator = "," if ".csv" in path.name else "\t"
    text = data.to_csv(sep=separator, index=False, header=path.suffix != ".data")
    if path.suffix == ".gz":
        path.write_bytes(gzip.compress(text.encode()))
    else:
        path.write_text(text)
    return path


NAMES = {"row": "user", "column": "item", "value": "rating"}
OPTIONS = {"rank": 2, "l2": 0.3, "n_jobs": 1, "random_state": 0}
FILES = ["likes.csv", "likes.tsv", "likes.csv.gz", "likes.tsv.gz", "likes.parquet", "likes.txt"]


def fitted(path, **options):
    return bundle(path, **options).model_


def bundle(path, **options):
    return fit_file(path, **{**NAMES, "like_at": 4, **OPTIONS, **options})


def names_of(recommender):
    rules = recommender.reading_
    return rules.row, rules.column, rules.value


@pytest.fixture
def model_path(tmp_path):
    bundle(write(frame(SEEN), tmp_path / "train.csv")).save(tmp_path / "model.tribit")
    return tmp_path / "model.tribit"


@pytest.mark.parametrize("name", FILES)
def test_from_a_file_to_an_answer(tmp_path, name):
    model = bundle(write(frame(SEEN), tmp_path / name))
    assert names_of(model) == ("user", "item", "rating")
    assert model.row_ids_.tolist() == USERS
    assert sorted(model.column_ids_.tolist()) == ITEMS
    model.save(tmp_path / "model.tribit")

    test = write(frame(HELD_OUT), tmp_path / f"test-{name}")
    result = evaluate_file(tmp_path / "model.tribit", test)
    assert result.n_entries == len(HELD_OUT)
    assert result.accuracy == 1.0
    assert result.auc == 1.0
    users, items = (list(side) for side in zip(*HELD_OUT, strict=True))
    x = model.model_.decision_function(users, items)
    signs = np.array([1 if likes(*pair) else -1 for pair in HELD_OUT])
    assert result.log_loss == pytest.approx(np.mean(np.logaddexp(0, -signs * x)))

    out = tmp_path / ("scores.csv" if name == "likes.txt" else f"scores-{name}")
    done = predict_file(tmp_path / "model.tribit", test, out)
    assert (len(done), done.n_skipped, n_unknown(done)) == (len(HELD_OUT), 0, 0)
    table = read_table(out)
    assert list(table.columns) == ["user", "item", "probability", "label", "basis"]
    assert table.columns["user"].tolist() == users
    assert table.columns["item"].tolist() == items
    written = np.array(table.columns["probability"], dtype=float)
    np.testing.assert_array_equal(written, model.predict_proba(users, items))
    np.testing.assert_array_equal(np.array(table.columns["label"], dtype=float), signs)


def test_every_file_gives_the_same_model(tmp_path):
    models = [fitted(write(frame(SEEN), tmp_path / name)) for name in FILES]
    for model in models[1:]:
        np.testing.assert_array_equal(model.row_factors_, models[0].row_factors_)


@pytest.mark.parametrize("kind", [str, int])
def test_a_file_without_a_header_as_movielens_has_it(tmp_path, kind):
    row, column, value = map(kind, (0, 1, 2))
    model = bundle(write(frame(SEEN), tmp_path / "u.data"), row=row, column=column, value=value)
    assert names_of(model) == ("0", "1", "2")
    model.save(tmp_path / "model.tribit")
    test = write(frame(HELD_OUT), tmp_path / "u1.data")
    assert evaluate_file(tmp_path / "model.tribit", test).accuracy == 1.0
    predict_file(tmp_path / "model.tribit", test, tmp_path / "scores.tsv")
    assert read_table(tmp_path / "scores.tsv").columns["row"].tolist() == [u for u, _ in HELD_OUT]
    # A file with a header can be used too, if its columns are named.
    named = write(frame(HELD_OUT), tmp_path / "test.csv")
    assert evaluate_file(tmp_path / "model.tribit", named, **NAMES).accuracy == 1.0


def test_labels_need_no_like_at(tmp_path):
    labels = write(frame(SEEN, value="label", stars=(1, -1)), tmp_path / "train.csv")
    ratings = write(frame(SEEN), tmp_path / "ratings.csv")
    model = fitted(labels, value="label", like_at=None)
    np.testing.assert_array_equal(model.row_factors_, fitted(ratings).row_factors_)
    with pytest.raises(InvalidInputError, match=r"line 2 of ratings\.csv: the value .* is nei"):
        fitted(ratings, like_at=None)


def test_without_a_value_column_every_pair_is_a_like(tmp_path):
    liked = write(frame([pair for pair in SEEN if likes(*pair)]), tmp_path / "train.csv")
    model = bundle(liked, value=None, like_at=None, gammas=(0, 1, 0), rho=1 / 3, intercept=False)
    assert names_of(model) == ("user", "item", None)
    model.save(tmp_path / "model.tribit")
    test = write(frame([pair for pair in HELD_OUT if likes(*pair)]), tmp_path / "test.csv")
    result = evaluate_file(tmp_path / "model.tribit", test)
    assert result.auc is None
    assert result.accuracy == 1.0


def test_duplicates(tmp_path):
    twice = pd.concat([frame(SEEN), frame(SEEN[:1], stars=(1, 5))])
    path = write(twice, tmp_path / "train.csv")
    with pytest.raises(
        InvalidInputError, match=rf"line 2 of .* and line {len(SEEN) + 2} of .*both"
    ):
        fitted(path)
    first, last = fitted(path, duplicates="first"), fitted(path, duplicates="last")
    once = fitted(write(frame(SEEN), tmp_path / "once.csv"))
    np.testing.assert_array_equal(first.row_factors_, once.row_factors_)
    assert not np.array_equal(last.row_factors_, once.row_factors_)


def test_duplicates_in_a_test_set(tmp_path, model_path):
    twice = pd.concat([frame(HELD_OUT), frame(HELD_OUT[:1], stars=(1, 5))])
    path = write(twice, tmp_path / "test.csv")
    assert evaluate_file(model_path, path, duplicates="first").accuracy == 1.0
    last = evaluate_file(model_path, path, duplicates="last")
    assert last.error_rate == pytest.approx(1 / len(HELD_OUT))
    with pytest.raises(InvalidInputError, match="both give row 'u0', column '100'"):
        evaluate_file(model_path, path)


def test_duplicates_in_a_test_set_are_placed_by_their_lines(tmp_path, model_path):
    twice = frame([("u9", "100"), HELD_OUT[0], HELD_OUT[0]])
    twice.loc[2, "rating"] = 7 - twice.loc[1, "rating"]
    path = write(twice, tmp_path / "test.csv")
    with pytest.raises(InvalidInputError, match=r"line 3 of test\.csv and line 4 of test\.csv"):
        evaluate_file(model_path, path)


def test_unknown_ids_are_refused_or_left_out(tmp_path, model_path):
    more = pd.concat(
        [frame(HELD_OUT[:2]), frame([("u77", "100"), ("u1", "999")]), frame(HELD_OUT[2:5])]
    )
    path = write(more, tmp_path / "test.csv")
    match = r"line 4 of test\.csv: the model was not fitted on the id 'u77' in column 'user'"
    for call in (
        lambda: evaluate_file(model_path, path, unknown="error"),
        lambda: predict_file(model_path, path, tmp_path / "scores.csv", unknown="error"),
    ):
        with pytest.raises(InvalidInputError, match=match):
            call()
    assert not (tmp_path / "scores.csv").exists()
    done = predict_file(model_path, path, tmp_path / "scores.csv", unknown="skip")
    assert (len(done), done.n_skipped, n_unknown(done)) == (5, 2, 0)
    table = read_table(tmp_path / "scores.csv")
    assert list(zip(table.columns["user"], table.columns["item"], strict=True)) == HELD_OUT[:5]
    result = evaluate_file(model_path, path, unknown="skip")
    assert (result.n_entries, result.n_skipped) == (5, 2)
    assert result.accuracy == 1.0
    with pytest.warns(UnknownIdWarning, match="2 of the 7 test entries"):
        result = evaluate_file(model_path, path)
    assert (result.n_entries, result.n_unknown) == (7, 2)


def test_the_line_of_a_wrong_value_after_skipped_records(tmp_path, model_path):
    path = tmp_path / "test.csv"
    path.write_text("user,item,rating\nstranger,100,5\nu1,100,5\nu2,101,inf\n")
    with pytest.raises(
        InvalidInputError, match=r"line 4 of test\.csv: the value inf is not finite"
    ):
        evaluate_file(model_path, path, unknown="skip")


def test_a_test_set_of_strangers(tmp_path, model_path):
    path = write(frame([("u77", "100")]), tmp_path / "test.csv")
    for call in (
        lambda: evaluate_file(model_path, path, unknown="skip"),
        lambda: predict_file(model_path, path, tmp_path / "scores.csv", unknown="skip"),
        lambda: recommend_file(model_path, path, tmp_path / "scores.csv", unknown="skip"),
    ):
        with pytest.raises(
            InvalidInputError, match=r"No entry of test\.csv has a row id and a col"
        ):
            call()
    assert not (tmp_path / "scores.csv").exists()


def test_other_column_names_than_in_the_fit(tmp_path, model_path):
    renamed = frame(HELD_OUT).rename(columns={"user": "who", "item": "what", "rating": "stars"})
    path = write(renamed, tmp_path / "test.csv")
    names = {"row": "who", "column": "what"}
    assert evaluate_file(model_path, path, **names, value="stars").accuracy == 1.0
    predict_file(model_path, path, tmp_path / "scores.csv", **names)
    assert list(read_table(tmp_path / "scores.csv").columns)[:2] == ["who", "what"]
    with pytest.raises(InvalidInputError, match=r"test\.csv has no column 'user'; choose one of"):
        evaluate_file(model_path, path)


def test_a_model_fitted_in_python_on_numbers(tmp_path):
    data = frame(SEEN).assign(item=lambda f: f["item"].astype(int))
    seen = Observations.from_frame(data, row="user", column="item", value="rating", like_at=4)
    model = BinaryMatrixCompletion(like_at=4, **OPTIONS).fit(seen)
    model.save(tmp_path / "model.tribit")
    path = write(frame(HELD_OUT), tmp_path / "test.csv")
    # The names of the frame's columns are kept.
    assert evaluate_file(tmp_path / "model.tribit", path).accuracy == 1.0
    # And one with no ids at all: the file's are positions.
    positions = BinaryMatrixCompletion(**OPTIONS).fit(np.array([[1, 0, -1], [-1, 1, 1]]))
    positions.save(tmp_path / "model.tribit")
    path.write_text("user,item\n1,0\n0,2\n")
    predict_file(tmp_path / "model.tribit", path, tmp_path / "out.csv", row="user", column="item")
    np.testing.assert_array_equal(
        np.array(read_table(tmp_path / "out.csv").columns["probability"], dtype=float),
        positions.predict_proba([1, 0], [0, 2]),
    )


def test_parquet_integers_are_the_ids_of_a_text_file(tmp_path, model_path):
    data = frame(HELD_OUT).assign(item=lambda f: f["item"].astype(int))
    path = write(data, tmp_path / "test.parquet")
    assert evaluate_file(model_path, path).accuracy == 1.0


@pytest.mark.parametrize("name", ["probability", "label"])
def test_an_id_column_with_the_name_of_an_answer_is_not_lost(tmp_path, name):
    data = frame(SEEN).rename(columns={"user": name})
    path = write(data, tmp_path / "train.csv")
    fitted(path, row=name).save(tmp_path / "model.tribit")
    with pytest.raises(InvalidInputError, match=name):
        predict_file(tmp_path / "model.tribit", path, tmp_path / "scores.csv")


def test_a_wrong_parameter_is_told_before_the_file_is_read(tmp_path):
    with pytest.raises(TypeError, match="ranks"):
        fit_file(tmp_path / "absent.csv", row="user", column="item", ranks=3)
    with pytest.raises(InvalidInputError, match="There is no file"):
        fit_file(tmp_path / "absent.csv", row="user", column="item")


def test_the_saved_model_answers_in_python(model_path):
    model = load(model_path)
    assert model.predict(["u0", "u0"], ["100", "101"]).tolist() == [1, -1]

"""Every registered question: its fields are the parameters of a method and the options of a command."""

import inspect
import re
from dataclasses import MISSING, dataclass

import numpy as np
import pytest
import typer

from tribit import (
    BinaryMatrixCompletion,
    InvalidInputError,
    InvalidTypeError,
    Observations,
    Recommender,
)
from tribit.cli import app
from tribit.data.reading import Reading
from tribit.questions import QUESTIONS
from tribit.questions.base import OMIT, Change, Question, asks, fields_of, option
from tribit.questions.changes import FoldIn, Incorporate, Update
from tribit.questions.kinds import Ids, Table, kind_of

#: Methods whose names are not those of the commands.
METHODS = {"predict": "predictions", "export": "vectors"}
CHANGES = {"fold_in": FoldIn, "update": Update}
#: Options and arguments that no field makes.
OWN = {"model", "out", "escape_formulas", "as_json", "help"}
#: What a command needs beside the option that is tried.
NEEDED = {
    "predict": ["pairs.csv"],
    "evaluate": ["test.csv"],
    "explain": ["u0", "i1"],
    "similar": ["--column", "i1"],
    "positions": ["-n", "1"],
    "ask": ["--budget", "3"],
    "value": ["lists.csv"],
    "export": ["-o", "vectors.npz"],
}
KINDS = {
    **{name: entry.load() for name, entry in QUESTIONS.items()},
    **CHANGES,
    "--new": Incorporate,
}
FIELDS = [(name, field) for name, kind in KINDS.items() for field in fields_of(kind)]


def wrong_values(field):
    """Return values that break a rule of a field; none where it has no rules."""
    rules, types = field.about.rules, field.types
    if "choices" in rules:
        return ["maybe", 3]
    if types[0] is bool:
        return ["maybe", 2]
    if types[0] is int:
        return [rules.get("ge", 1) - 1, 2.5, "few"]
    if types[0] is float and {"gt", "lt"} <= rules.keys():
        return [rules["gt"], rules["lt"], np.nan, "much"]
    return [-1.0, np.nan, "much"] if types[0] is float else []


WRONG = [(name, field, value) for name, field in FIELDS for value in wrong_values(field)]


def titled(part):
    return getattr(part, "name", None) or str(part)


def method_of(name):
    return getattr(Recommender, METHODS.get(name, name))


def given(kind):
    """Return a value for each field that has no default."""
    fields = [each for each in fields_of(kind) if each.default is MISSING]
    return {each.name: 3 if each.types[0] is int else None for each in fields}


@pytest.fixture(scope="module")
def recommender():
    rng = np.random.default_rng(0)
    labels = np.where(rng.random((12, 9)) < 0.6, rng.choice([-1, 1], (12, 9)), 0)
    ids = [f"u{n}" for n in range(12)], [f"i{n}" for n in range(9)]
    i, j = np.nonzero(labels)
    model = BinaryMatrixCompletion(rank=1, l2=1.0, search=False, n_jobs=1)
    found = Recommender(model, random_state=0).fit(Observations(i, j, labels[i, j], (12, 9), *ids))
    found.reading_ = Reading(row="user", column="item", value="label")
    return found


@pytest.fixture(scope="module")
def folder(tmp_path_factory, recommender):
    """A saved recommender, and tables that commands read."""
    folder = tmp_path_factory.mktemp("asked")
    recommender.save(folder / "model")
    (folder / "pairs.csv").write_text("user,item\nu0,i1\n")
    (folder / "test.csv").write_text("user,item,label\nu0,i1,1\n")
    (folder / "new.csv").write_text("user,item,label\nzoe,i1,1\nzoe,i2,-1\n")
    return folder


# Fields


@pytest.mark.parametrize(("name", "field"), FIELDS, ids=titled)
def test_a_field_has_a_help_text_of_one_sentence(name, field):
    text = field.about.help
    assert re.fullmatch(r"[A-Z].*\.", text), f"{name}: {text}"
    assert ". " not in text


@pytest.mark.parametrize(("name", "field"), FIELDS, ids=titled)
def test_a_default_keeps_the_rules(name, field):
    for default in (field.default, field.default_of("command"), field.default_of("serve")):
        if default is not MISSING and default is not OMIT:
            assert field.check(default) == default, name
            assert type(field.check(default)) is type(default)


@pytest.mark.parametrize(("name", "field"), FIELDS, ids=titled)
def test_a_flag_is_no_other_spelling_of_its_own_name(name, field):
    assert field.about.flag != f"--{field.name.replace('_', '-')}", name
    assert not (field.about.flag and field.about.argument)


def test_there_are_rules_of_every_kind():
    ruled = {(field.types[0], "choices" in field.about.rules) for _, field, _ in WRONG}
    assert ruled == {(str, True), (bool, False), (int, False), (float, False)}


# Methods


@pytest.mark.parametrize(("name", "field", "value"), WRONG, ids=titled)
def test_a_wrong_value_is_refused_by_the_name_of_its_field(name, field, value):
    kind = KINDS[name]
    with pytest.raises((InvalidInputError, InvalidTypeError), match=rf"^{field.name} ") as caught:
        kind(**given(kind) | {field.name: value})
    assert str(caught.value).count(". ") == 0


@pytest.mark.parametrize("name", [*QUESTIONS, *CHANGES])
def test_a_method_has_the_fields_as_parameters(name):
    kind, method = KINDS[name], method_of(name)
    itself, *parameters = inspect.signature(method).parameters.values()
    assert itself.name == "self"
    made = inspect.signature(kind).parameters
    assert [each.name for each in parameters] == [each.name for each in fields_of(kind)]
    for each in parameters:
        assert (each.kind, each.default) == (made[each.name].kind, made[each.name].default)
    assert kind.__doc__.splitlines()[0] in method.__doc__
    for field in fields_of(kind):
        assert f"\n{field.name} : " in method.__doc__
        assert f"\n    {field.about.help}\n" in method.__doc__


@pytest.mark.parametrize("name", [*QUESTIONS, *CHANGES])
def test_an_unknown_keyword_is_refused(name, recommender):
    method = METHODS.get(name, name)
    message = (
        rf"^{method}\(\): .*unexpected keyword argument 'colour'; its parameters are \(.*\)\.$"
    )
    with pytest.raises(InvalidTypeError, match=message):
        getattr(recommender, method)(**given(KINDS[name]), colour="red")


@pytest.mark.parametrize("name", [*QUESTIONS, *CHANGES])
def test_who_was_not_fitted_is_asked_in_vain(name):
    from sklearn.exceptions import NotFittedError

    with pytest.raises(NotFittedError):
        getattr(Recommender(), METHODS.get(name, name))(**given(KINDS[name]))


def test_every_question_is_registered():
    def below(kind):
        return {kind for each in kind.__subclasses__() for kind in (each, *below(each))}

    ours = {each for each in below(Question) if each.__module__.startswith("tribit.")}
    assert ours == {entry.load() for entry in QUESTIONS.values()}
    assert all(issubclass(KINDS[name], Change) for name in (*CHANGES, "--new"))


def test_a_question_of_ones_own_is_a_method_and_keeps_its_rules(recommender):
    @dataclass(frozen=True)
    class Count(Question[int]):
        """Return how many rows there are, times a number."""

        times: int = option(MISSING, "Factor.", ge=2)
        share: float | None = option(None, "Share of them.", gt=0, lt=1)
        side: str = option("rows", "Which side.", choices=("rows", "columns"))

        def answer(self, recommender):
            return self.times * recommender.shape_[("rows", "columns").index(self.side)]

    count = asks(Count)
    assert count.__name__ == "count"
    assert count(recommender, 2) == 24
    assert count(recommender, times=3, side="columns") == 27
    with pytest.raises(InvalidInputError, match="times must be a whole number, at least 2"):
        count(recommender, 1)
    with pytest.raises(InvalidInputError, match=r"share must be in \(0, 1\)"):
        count(recommender, 2, share=1)
    text = count.__doc__
    assert text.startswith("Return how many rows there are, times a number.\n\nParameters\n")
    assert "times : int\n    Factor.\n" in text
    assert "share : float or None, default=None\n" in text
    assert "side : {'rows', 'columns'}, default='rows'\n" in text


def test_kinds_are_found_in_unions():
    assert kind_of(Ids | None).name == "ids"
    assert kind_of(Table).name == "table"
    assert kind_of(int) is kind_of(float | None) is None


# Commands


def options_of(name):
    command = typer.main.get_command(app).commands[name]
    return {each.name: each for each in command.get_params(typer.Context(command))}


def offered(kind):
    return [each for each in fields_of(kind) if each.default_of("command") is not OMIT]


@pytest.mark.parametrize("name", QUESTIONS)
def test_a_command_offers_the_fields_that_are_for_it(name):
    kind, found = KINDS[name], options_of(name)
    ours = offered(kind)
    later = offered(KINDS["--new"]) if kind.after_changes else []
    # Options of the tables that it reads have the names of the fields of the fit's rules; see tests/cli.
    tables = set(options_of("update")) - OWN - {"file", "row_features", "column_features"}
    tables = tables if kind.after_changes else set()
    assert {each.name for each in (*ours, *later)} == found.keys() - OWN - (
        tables - {each.name for each in (*ours, *later)}
    )
    for field in ours:
        made, default = found[field.name], field.default_of("command")
        assert made.help.startswith(field.about.help)
        assert made.required == (default is MISSING)
        if field.about.argument:
            assert made.param_type_name == "argument"
        else:
            assert made.opts == [field.about.flag or f"--{field.name.replace('_', '-')}"]
        if kind_of(field.hint) is None:
            assert made.default == (None if default is MISSING else default)


OFFERED = [
    (name, field, value)
    for name in QUESTIONS
    for field in offered(KINDS[name])
    for value in wrong_values(field)
    if field.types[0] is not bool  # a flag has no value
]


@pytest.mark.parametrize(("name", "field", "value"), OFFERED, ids=titled)
def test_a_wrong_value_is_refused_by_the_name_of_its_option(
    run, folder, monkeypatch, name, field, value
):
    monkeypatch.chdir(folder)
    (flag,) = options_of(name)[field.name].opts
    code, out, err = run(name, "model", *NEEDED.get(name, []), flag, value)
    assert (code, out) == (2, "")
    assert re.fullmatch(r"Error: [^\n]+\.\n", err), err
    assert re.search(rf"(?<![\w-]){flag}(?![\w-])", err.split("(Usage:")[0]), err


@pytest.mark.parametrize("name", QUESTIONS)
def test_a_command_refuses_an_option_that_it_does_not_offer(run, folder, monkeypatch, name):
    monkeypatch.chdir(folder)
    hidden = {field.name for field in fields_of(KINDS[name])} - set(options_of(name))
    for option_ in ("colour", *sorted(hidden)):
        flag = f"--{option_.replace('_', '-')}"
        code, out, err = run(name, "model", *NEEDED.get(name, []), flag, "3")
        assert (code, out) == (2, "")
        assert f"No such option: {flag}" in err


def test_none_switches_an_option_off(run, folder, monkeypatch):
    monkeypatch.chdir(folder)
    whole, none = (
        run("recommend", "model", "--for", "u0", *words)[1] for words in ([], ["--level", "none"])
    )
    assert "lower" in whole
    assert "lower" not in none


def test_a_wrong_value_is_refused_before_anything_is_read(run, tmp_path):
    command = ["predict", tmp_path / "absent", tmp_path / "none.csv", "--unknown", "maybe"]
    code, _, err = run(*command)
    assert code == 2
    assert "--unknown must be one of popularity, skip, error; got 'maybe'" in err


def test_new_rows_are_asked_about_only_where_nothing_else_is(run, folder, monkeypatch):
    """``--new`` brings rows; a question about columns stays one."""
    monkeypatch.chdir(folder)
    for words, heading in ((["--column", "i1"], "item"), ([], "user")):
        code, out, err = run("similar", "model", *words, "--new", "new.csv", "-n", "2")
        assert (code, err) == (0, "")
        assert out.split()[:3] == ["of", heading, "similarity"]


def test_unknown_rows_are_answered_refused_or_skipped(run, folder, monkeypatch):
    monkeypatch.chdir(folder)
    command = ["recommend", "model", "--for", "zed", "--for", "u3", "-n", "1"]
    code, out, _ = run(*command)
    assert code == 0
    assert [line.split()[0] for line in out.splitlines()[1:]] == ["zed", "u3"]
    code, out, _ = run(*command, "--unknown", "skip")
    assert code == 0
    assert [line.split()[0] for line in out.splitlines()[1:]] == ["u3"]
    code, out, _ = run(*command, "--unknown", "skip", "-o", "lists.csv")
    assert re.search(r"columns listed +1 \(1 with unknown ids left out\)\n", out)
    code, _, err = run(*command, "--unknown", "error")
    assert (code, "'zed'" in err) == (2, True)
    code, _, err = run("recommend", "model", "--for", "zed", "--unknown", "skip")
    assert code == 2
    assert "The model was not fitted on the user 'zed'" in err

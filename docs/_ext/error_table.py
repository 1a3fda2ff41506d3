"""Directive ``error-table``: the sentences of all errors of some packages, read from the code at build time."""

import ast
import re
from pathlib import Path

from docutils import nodes
from docutils.parsers.rst import Directive

SOURCE = Path(__file__).parents[2] / "src" / "tribit"
#: Errors with a sentence.
KINDS = {"InvalidInputError", "InvalidTypeError", "UnknownIdError", "OutOfMemoryError"}
#: What a value that differs from case to case is shown as.
VALUE = "…"
#: Where the cause ends and the remedy begins: the first that a sentence has.
SPLITS = [re.compile(r"(.*?); (.+)", re.DOTALL), re.compile(r"(.*)(?:: |\. |, so )(.+)", re.DOTALL)]


def words(node):
    """Return the text of an expression, with "…" for what is known only when it is raised."""
    match node:
        case ast.Constant(str() as text):
            return text
        case ast.JoinedStr(parts):
            return "".join(map(words, parts))
        case ast.FormattedValue(value):
            return words(value)
        case ast.BinOp(left, ast.Add(), right):
            return words(left) + words(right)
        case ast.Call(ast.Name("parameter"), [ast.Constant(str() as name)]):
            return name
        case ast.Call(ast.Name("parameter"), [ast.Constant(str() as name), value]):
            given = repr(value.value) if isinstance(value, ast.Constant) else VALUE
            return f"{name}={given}"
        case ast.Call(ast.Name("either"), [ast.Constant(str() as python), *_]):
            return python
    return VALUE


def sentences(package):
    """Return (cause, remedy, kind) of each error that the modules of a package or a module raise."""
    folder = SOURCE / package
    found = set()
    for path in sorted(folder.rglob("*.py")) if folder.is_dir() else [folder]:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            match node:
                case ast.Raise(ast.Call(ast.Name(kind), [message, *_])) if kind in KINDS:
                    text = words(message)
                    if len(re.findall(r"\w{2,}", text)) >= 3:  # else it is made elsewhere
                        split = next(filter(None, (each.fullmatch(text) for each in SPLITS)), None)
                        found.add((*(split.groups() if split else (text, "")), kind))
    return sorted(found, key=lambda each: (each[0].lstrip(VALUE).casefold(), *each))


class ErrorTable(Directive):
    """Show the causes and remedies of the errors of some packages or modules, given as arguments."""

    required_arguments = 1
    final_argument_whitespace = True

    def run(self):
        group = nodes.tgroup(cols=3)
        for width in (55, 30, 15):
            group += nodes.colspec(colwidth=width)
        head, body = nodes.thead(), nodes.tbody()
        head += self.row("cause", "remedy", "error")
        for package in self.arguments[0].split():
            for cause, remedy, kind in sentences(package):
                body += self.row(cause, remedy, kind)
        group += [head, body]
        return [nodes.table("", group, classes=["error-table"])]

    @staticmethod
    def row(*texts):
        row = nodes.row()
        for text in texts:
            row += nodes.entry("", nodes.paragraph(text, text))
        return row


def setup(app):
    app.add_directive("error-table", ErrorTable)
    return {"parallel_read_safe": True}

"""Run the code blocks of the manual and compare their output.

The output of ``>>>`` lines in a ``python`` block is compared. In a ``console`` block each line after ``$`` is a command
that must succeed, and the following lines are its output. The blocks of a page share their names, those of ``__main__``
as in a script, and all pages share one temporary folder. Numbers with a decimal point may differ by two percent or one
hundredth; ``...`` matches anything; numbers of iterations, seconds and lines on progress are not compared.

Pages that need data (``data_pages``) are run if ``TRIBIT_DATA`` names a folder with them.

By hand: python docs/_ext/run_examples.py docs/quickstart.md
"""

import contextlib
import doctest
import io
import os
import re
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path
from types import ModuleType

FENCE = re.compile(r"^```(python|console)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
EFFORT = re.compile(r"^(iterations|seconds) .*$", re.MULTILINE)
PROGRESS = re.compile(r"^Progress: .*\n", re.MULTILINE)
NUMBER = re.compile(r"(?<![\w.])-?\d+\.\d+(?:e[+-]?\d+)?")


class NumberChecker(doctest.OutputChecker):
    """Compare text exactly, and numbers with a decimal point approximately."""

    def check_output(self, want, got, optionflags):
        optionflags |= doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
        want, got = EFFORT.sub(r"\1", want), EFFORT.sub(r"\1", PROGRESS.sub("", got))
        if super().check_output(want, got, optionflags):
            return True
        pairs = list(zip(NUMBER.findall(want), NUMBER.findall(got), strict=False))
        near = all(abs(float(a) - float(b)) <= max(0.01, 0.02 * abs(float(a))) for a, b in pairs)
        return near and super().check_output(
            NUMBER.sub("0.0", want), NUMBER.sub("0.0", got), optionflags
        )


def run_page(page, folder):
    """Run the blocks of one page in a folder and return the problems."""
    script = ModuleType("__main__")
    before, sys.modules["__main__"] = sys.modules["__main__"], script
    try:
        return run_blocks(page, folder, vars(script))
    finally:
        sys.modules["__main__"] = before


def run_blocks(page, folder, names):
    text = page.read_text(encoding="utf-8")
    problems = []
    for match in FENCE.finditer(text):
        line = text.count("\n", 0, match.start()) + 2
        kind, code = match.groups()
        with contextlib.chdir(folder), warnings.catch_warnings():
            warnings.simplefilter("error")
            if kind == "console":
                problems += run_commands(code, page.name, line)
            elif ">>>" in code:
                problems += run_doctest(code, names, page.name, line)
            else:
                try:
                    with contextlib.redirect_stdout(io.StringIO()):
                        exec(compile("\n" * (line - 1) + code, page.name, "exec"), names)
                except Exception as error:
                    problems.append(f"{page.name}, block at line {line}: {error!r}")
    return problems


def run_doctest(code, names, page, line):
    report = []
    test = doctest.DocTestParser().get_doctest(code, names, page, page, line - 1)
    test.globs = names  # not a copy: blocks of a page share their names
    runner = doctest.DocTestRunner(checker=NumberChecker(), verbose=False)
    done = runner.run(test, out=report.append, clear_globs=False)
    return ["".join(report)] if done.failed else []


def run_commands(code, page, line):
    problems = []
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"
    environment = {**os.environ, "PATH": path, "COLUMNS": "100", "NO_COLOR": "1"}
    for block in re.split(r"^\$ ", code, flags=re.MULTILINE)[1:]:
        command, want = block.split("\n", 1)
        done = subprocess.run(
            ["bash", "-c", f"exec 2>&1; {command}"],
            env=environment,
            stdout=subprocess.PIPE,
            text=True,
            check=False,
        )
        agrees = not want.strip() or NumberChecker().check_output(want, done.stdout, 0)
        if done.returncode or not agrees:
            problems.append(f"{page}, block at line {line}: $ {command}\nprinted\n{done.stdout}")
    return problems


def run_pages(pages):
    with tempfile.TemporaryDirectory() as folder:
        return [problem for page in pages for problem in run_page(page, folder)]


def check(app):
    from sphinx.util import logging  # noqa: PLC0415 - by hand no Sphinx is needed

    named = [*app.config.example_pages]
    if os.environ.get("TRIBIT_DATA"):
        named = [*app.config.data_pages, *named]  # CONTRIBUTING adds to registries, so it is last
    else:
        logging.getLogger(__name__).info(
            "not run, as TRIBIT_DATA is not set: %s", app.config.data_pages
        )
    pages = [Path(app.srcdir, page).resolve() for page in named]
    # In a separate process, because CONTRIBUTING adds to registries, which would change the help texts.
    command = [sys.executable, __file__, *map(str, pages)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        logging.getLogger(__name__).warning("Examples are wrong: %s", done.stderr)


def setup(app):
    app.add_config_value("example_pages", [], "env")
    app.add_config_value("data_pages", [], "env")
    app.connect("builder-inited", check)
    return {"parallel_read_safe": True}


if __name__ == "__main__":
    found = run_pages([Path(argument).resolve() for argument in sys.argv[1:]])
    sys.exit("\n".join(found) if found else 0)

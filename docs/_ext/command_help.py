"""Directive ``command-help``: the output of ``tribit COMMAND --help``, generated at build time."""

import re

from docutils import nodes
from docutils.parsers.rst import Directive
from typer.testing import CliRunner

from tribit.cli import app

COLUMNS = "100"
COLOURS = re.compile(r"\x1b\[[0-9;]*m")


class CommandHelp(Directive):
    """Show the help of a command, or of the program without an argument."""

    optional_arguments = 1

    def run(self):
        command = ["tribit", *self.arguments, "--help"]
        environment = {"COLUMNS": COLUMNS, "TERMINAL_WIDTH": COLUMNS, "NO_COLOR": "1"}
        result = CliRunner().invoke(app, command[1:], env=environment, prog_name="tribit")
        if result.exit_code:
            raise self.error(f"{' '.join(command)} ended with exit code {result.exit_code}.")
        plain = COLOURS.sub("", result.stdout).strip("\n")
        text = "\n".join(line.rstrip() for line in plain.splitlines()).strip("\n")
        return [nodes.literal_block(text, text, language="text")]


def setup(app):
    app.add_directive("command-help", CommandHelp)
    return {"parallel_read_safe": True}

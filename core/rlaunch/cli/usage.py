"""Wrong usage of the command line, in rlaunch's words."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from difflib import get_close_matches
from typing import Any

from rlaunch.cli.table import COMMANDS
from rlaunch.codes import Code

EXIT = 64
_NEAR = 0.65
"""How alike a flag must be to be suggested, hyphens before it left out: `--name` is near `--job-name`."""


def tell(error: Any, args: Sequence[str]) -> int:
    """Print a usage error of typer on stderr and return 64."""
    if type(error).__name__ == "NoArgsIsHelpError":
        sys.stderr.write(f"{error.format_message()}\n")
        return EXIT
    message, hint = words(error, args)
    path = error.ctx.command_path if error.ctx is not None else "rlaunch"
    see = f"see `{path} --help`"
    sys.stderr.write(f"error[core.usage]: {message}\n  hint: {f'{hint}; {see}' if hint else see}\n")
    return EXIT


def words(error: Any, args: Sequence[str]) -> tuple[str, str]:
    """Return message and hint for a usage error, by its kind."""
    kind = type(error).__name__
    if kind == "NoSuchOption":
        known = [
            flag
            for param in error.ctx.command.params
            for flag in (*param.opts, *param.secondary_opts)
            if flag.startswith("--")
        ]
        name = error.option_name.replace("_", "-").lstrip("-")
        near = get_close_matches(name, [flag.lstrip("-") for flag in known], n=1, cutoff=_NEAR)
        typed = (word.partition("=")[0] for word in args)
        name = next(
            (word for word in typed if word.replace("_", "-") == error.option_name),
            error.option_name,
        )
        return f"there is no flag `{name}`", f"did you mean `--{near[0]}`?" if near else ""
    command = next((word for word in args[1:] if word in COMMANDS), None)
    late = f"a command comes first: `rlaunch {command} …`" if command else ""
    if kind == "MissingParameter":
        return f"`{_named(error.param)}` is missing", late
    if kind == "BadParameter" and error.param is not None:
        return f"`{_named(error.param)}`: {_lower(error.message)}", ""
    message = _lower(error.format_message())
    if message.startswith("no such command"):
        word = next((word for word in args if not word.startswith("-")), "")
        near = get_close_matches(word, COMMANDS, n=1)
        return f"there is no command `{word}`", f"did you mean `rlaunch {near[0]}`?" if near else ""
    if message.startswith("got unexpected extra argument"):
        return message, late
    return message, ""


def _named(param: Any) -> str:
    if param.param_type_name == "argument":
        return str(param.metavar or param.name)
    return str(max(param.opts, key=len))


def _lower(text: str) -> str:
    return f"{text[:1].lower()}{text[1:]}".rstrip(".").replace("'", "`")


CODES = (
    Code(
        "core.usage",
        "The command line is not one that rlaunch takes.\n\n"
        "Exit code 64, so that a script can tell it from a run that failed. `rlaunch COMMAND --help`\n"
        "lists the flags; nothing was read or sent.",
    ),
)

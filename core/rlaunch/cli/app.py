"""The root command: lazy sub-commands, and the launch as the command that needs no name."""

from __future__ import annotations

import os
from contextlib import suppress
from importlib import import_module
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

from rlaunch.cli.table import COMMANDS

USAGE: Any = typer.BadParameter.__base__
"""The class of all usage errors; typer has no public name for it."""

_HELP = """Launch, watch and diagnose RL post-training runs: one recipe, any cluster.

    rlaunch --cluster local --rl_config recipe.yaml --model_path M --train_data '["D"]' --dry-run

Without a command the flags below launch a run. Every flag may be written with hyphens or underscores."""


def _grouped(params: list[Any], ctx: typer.Context, formatter: Any) -> None:
    """Write the flags under the headings that their declarations name."""
    groups: dict[str, list[tuple[str, str]]] = {}
    for param in params:
        record = param.get_help_record(ctx)
        if record is not None:
            usual = "Arguments" if param.param_type_name == "argument" else "Options"
            groups.setdefault(param.rich_help_panel or usual, []).append(record)
    for title in sorted(groups, key=lambda title: title == "Options"):  # our own last
        with formatter.section(title):
            formatter.write_dl(groups[title])


class Command(TyperCommand):
    """A command whose help page has its flags in groups."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the options of the help page."""
        _grouped(self.get_params(ctx), ctx, formatter)


class Lazy(TyperCommand):
    """A name and its line of help; the module `rlaunch.cli.NAME` is loaded when it is called."""

    def load(self) -> Command:
        """Return the real command."""
        module = import_module(f"rlaunch.cli.{self.name}")
        one = typer.Typer(add_completion=False, rich_markup_mode=None)
        one.command(self.name, cls=Command)(module.command)
        real = typer.main.get_command(one)
        assert isinstance(real, Command)  # noqa: S101  # typer makes the class that it was given
        return real

    def make_context(self, info_name: Any, args: Any, parent: Any = None, **extra: Any) -> Any:
        """Parse the arguments with the real command; they are kept as they were typed."""
        typed = list(args)
        context = self.load().make_context(info_name, args, parent=parent, **extra)
        context.meta["rlaunch.typed"] = typed
        return context


class _RootName(typer.Context):
    """The launch is written `rlaunch`, not `rlaunch launch`."""

    @property
    def command_path(self) -> str:
        parent: Any = self.parent
        return str(parent.command_path)


class Launch(Lazy):
    """`rlaunch --cluster …`: the root's name and the root's help page."""

    def load(self) -> Command:
        real = super().load()
        real.context_class = _RootName
        real.get_help = lambda ctx: ctx.parent.get_help()  # type: ignore[method-assign, union-attr]
        return real


class Root(TyperGroup):
    """The group that finds out whether a command or a launch was typed."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.launch = Launch("launch", help="Launch a run.", hidden=True, rich_markup_mode=None)
        for name, line in COMMANDS.items():
            self.commands[name] = Lazy(name, help=line, rich_markup_mode=None)
        self.commands["launch"] = self.launch

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Put `launch` in front where the first word is a flag that is not the root's own."""
        own = {flag for param in self.get_params(ctx) for flag in param.opts}
        if (
            args
            and args[0].startswith("-")
            and args[0].partition("=")[0].replace("_", "-") not in own
        ):
            args = ["launch", *args]
        return super().parse_args(ctx, args)

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the commands, then the flags of the launch, then the root's own."""
        self.format_commands(ctx, formatter)
        launch = [p for p in self.launch.load().params if p.name != "help"]
        _grouped([*launch, *self.get_params(ctx)], ctx, formatter)

    def shell_complete(self, ctx: Any, incomplete: str) -> list[Any]:
        """Complete commands, and the launch's flags where a flag is being typed."""
        found = super().shell_complete(ctx, incomplete)
        if incomplete.startswith("-"):
            more = self.launch.load().shell_complete(ctx, incomplete)
            found += [item for item in more if item.value != "--help"]
        return found


app = typer.Typer(
    cls=Root,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    no_args_is_help=True,
    context_settings={
        "token_normalize_func": lambda flag: flag.replace("_", "-"),
        "help_option_names": ["--help", "-h"],
        "max_content_width": 100,
    },
)


def _version(wanted: bool) -> None:
    if wanted:
        from rlaunch import __version__

        typer.echo(f"rlaunch {__version__}")
        raise typer.Exit


@app.callback(help=_HELP)
def root(
    version: bool = typer.Option(
        False, "--version", callback=_version, is_eager=True, help="Print the version."
    ),
) -> None:
    """Take the root's own flags; everything else is a command's."""


def _refuse_bytes(args: list[str]) -> None:
    """Raise RlaunchError `core.not-text` for words that hold a NUL byte, or bytes that are not UTF-8."""
    text = "".join(args)
    if text.isascii() and "\0" not in text:
        return
    from rlaunch.texts import trouble

    bad = [index for index, word in enumerate(args) if trouble(word)]
    if not bad:
        return
    from rlaunch.errors import RlaunchError
    from rlaunch.given import fault

    findings = []
    for index in bad:
        word, before = args[index], args[index - 1] if index else ""
        name = next((w.partition("=")[0] for w in (word, before) if w.startswith("-")), "")
        place = f"argument {index + 1}" if not name or trouble(name) else name
        key, equals, _ = word.partition("=")  # what follows may be a secret
        findings.append(
            fault(key[:80] if equals else f"argument {index + 1}", trouble(word), place)
        )
    raise RlaunchError(*findings)


def run(args: list[str]) -> int:
    """Run one command line. Returns its exit code: 64 for wrong usage, which is told on stderr.

    Raises RlaunchError.
    """
    if "_RLAUNCH_COMPLETE" in os.environ:
        app(args, prog_name="rlaunch")
    _refuse_bytes(args)
    command = typer.main.get_command(app)
    try:
        with command.make_context("rlaunch", list(args)) as ctx:
            return int(command.invoke(ctx) or 0)
    except typer.Exit as ended:
        return ended.exit_code
    except USAGE as error:
        from rlaunch.cli.usage import EXIT, tell

        with suppress(OSError):  # where stderr cannot be written, the code still says it
            tell(error, args)
        return EXIT

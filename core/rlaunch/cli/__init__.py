"""The command line. Only this package knows typer, prints, and turns errors into exit codes.

Nothing but the standard library's smallest modules at the top: what is imported here is paid by
every `rlaunch --help` and every press of the tab key.
"""

import atexit
import gc
import os
import sys
from contextlib import suppress
from typing import Any


def main(argv: list[str] | None = None) -> int:
    """Run one command and return its exit code; the one place where errors become codes.

    0 done · 1 the run failed · 2 absent · 3 refused or could not · 4 still going · 64 usage ·
    130 interrupted, and the job goes on · 141 the reader of our output went away. A bug keeps its
    traceback.
    """
    if argv is None:
        argv = sys.argv[1:]
        _prepare()
    try:
        return _run(argv)
    except KeyboardInterrupt:
        with suppress(OSError):
            sys.stderr.write("interrupted\n")
        return 130
    except BrokenPipeError:
        _discard(sys.stdout)
        return 141
    except OSError as error:
        if not _of_stdout(error):
            raise
        with suppress(OSError):
            sys.stderr.write(f"error[core.output]: stdout cannot be written: {error.strerror}\n")
        _discard(sys.stdout)
        return 3


def _run(argv: list[str]) -> int:
    try:
        from rlaunch.cli.app import run

        code = run(argv)
        sys.stdout.flush()
    except (KeyboardInterrupt, OSError):
        raise
    except Exception as error:
        from rlaunch.errors import RlaunchError

        if not isinstance(error, RlaunchError) or os.environ.get("RLAUNCH_TRACEBACK"):
            raise
        from rlaunch.cli.speak import refuse

        return refuse(error.findings, json="--json" in argv)
    return code


def _of_stdout(error: OSError) -> bool:
    """Tell whether it was raised where we print: in `speak`, in `_run`, or in typer's help pages."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    name = str(trace.tb_frame.f_globals.get("__name__")) if trace is not None else ""
    return name in {__name__, "rlaunch.cli.speak"} or name.startswith("typer.")


def _discard(stream: Any) -> None:
    """Let nothing more be written to a stream, and nothing that it still holds fail at the exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _open_closed() -> None:
    """Put nothing in the place of closed streams, so that no file becomes stdout (`rlaunch … >&-`)."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest free number, which is this one
    for name in ("stdin", "stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "r" if name == "stdin" else "w"))  # noqa: SIM115, PTH123  # for the life of the process


def _prepare() -> None:
    """Set up this process for a short life; not done when `main` is called with arguments."""
    _open_closed()
    gc.disable()  # commands that stay turn it on again
    atexit.register(gc.freeze)  # leaving no longer walks every object: a fifth of a launch
    os.environ.setdefault("TYPER_USE_RICH", "0")
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "1")  # its search reads every distribution
    if "_RLAUNCH_COMPLETE" in os.environ:
        sys.modules["rich"] = None  # type: ignore[assignment]  # typer imports it to strip markup that is not there
    for stream in (
        sys.stdout,
        sys.stderr,
    ):  # a path that is no text in this locale must not end a run
        stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]  # both are text streams

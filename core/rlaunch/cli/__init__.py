"""The command line. Only this package knows typer, prints, and turns errors into exit codes.

Nothing but the standard library's smallest modules at the top: what is imported here is paid by
every `rlaunch --help` and every press of the tab key.
"""

import atexit
import gc
import os
import sys


def main(argv: list[str] | None = None) -> int:
    """Run one command and return its exit code; the one place where errors become codes.

    0 done · 1 the run failed · 2 absent · 3 refused or could not · 4 still going · 64 usage ·
    130 interrupted · 141 the reader of our output went away. A bug keeps its traceback.
    """
    if argv is None:
        argv = sys.argv[1:]
        _prepare()
    try:
        from rlaunch.cli.app import run

        code = run(argv)
        sys.stdout.flush()
    except KeyboardInterrupt:
        sys.stderr.write("interrupted\n")
        return 130
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    except Exception as error:
        from rlaunch.errors import RlaunchError

        if not isinstance(error, RlaunchError) or os.environ.get("RLAUNCH_TRACEBACK"):
            raise
        from rlaunch.cli.speak import refuse

        return refuse(error.findings, json="--json" in argv)
    return code


def _prepare() -> None:
    """Set up this process for a short life; not done when `main` is called with arguments."""
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

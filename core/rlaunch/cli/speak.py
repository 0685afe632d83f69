"""How rlaunch speaks: data on stdout, findings and progress on stderr, plain where it is piped."""

from __future__ import annotations

import os
import shutil
import sys
import threading
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from rlaunch.model import Finding, Status
from rlaunch.texts import brief

_COLOURS = {"error": "\x1b[31m", "warning": "\x1b[33m", "note": "\x1b[36m"}
_CLEAR = "\r\x1b[2K"


def refuse(
    findings: Iterable[Finding], *, json: bool = False, said: Collection[Finding] = ()
) -> int:
    """Tell why nothing came of it, with `--json` also as a document on stdout; returns 3.

    What was `said` before is only in the document.
    """
    voice = Voice(json=json)
    shown = tuple(findings)
    voice.show(finding for finding in shown if finding not in said)
    if json:
        from rlaunch.documents import findings_to_json

        voice.document(findings_to_json(shown))
    return 3


class Voice:
    """The two streams of one command. With `json`, stdout is kept for the one document."""

    def __init__(self, *, json: bool = False) -> None:
        self.json = json
        self.terminal = sys.stderr.isatty() and os.environ.get("TERM") != "dumb"
        self._colour = self.terminal and not os.environ.get("NO_COLOR")
        self._shown = False  # a progress line stands on the terminal
        self._turn = threading.RLock()  # progress comes from a thread of its own

    def put(self, text: str) -> None:
        """Print data on stdout, exactly as it is. BrokenPipeError passes."""
        with self._turn:
            self._clear()
            sys.stdout.write(text)
            sys.stdout.flush()

    def say(self, line: str) -> None:
        """Print a line for people: stdout, or stderr where stdout is kept for a document."""
        if self.json:
            self.tell(line)
        else:
            self.put(f"{line}\n")

    def document(self, document: Mapping[str, Any]) -> None:
        """Print the one JSON document."""
        from rlaunch.documents import to_text

        self.put(to_text(document))

    def record(self, document: Mapping[str, Any]) -> None:
        """Print one JSON document of a stream, on a line of its own."""
        import json

        self.put(json.dumps(document, ensure_ascii=False) + "\n")

    def tell(self, line: str) -> None:
        """Print a line on stderr; a reader that went away never harms a launch."""
        with self._turn:
            self._clear()
            self._error(f"{line}\n")

    def show(self, findings: Iterable[Finding]) -> None:
        """Print findings on stderr."""
        from rlaunch.render import finding as render

        for finding in findings:
            text = render(finding)
            if self._colour:
                text = (
                    f"{_COLOURS[finding.level]}{finding.level}\x1b[0m{text[len(finding.level) :]}"
                )
            self.tell(text)

    def report(self, line: str) -> None:
        """Take a line of the flow: a finding stays, everything else is progress."""
        if line.startswith(("warning[", "note[", "error[")):
            self.tell(line)
        else:
            self.progress(line)

    def progress(self, line: str) -> None:
        """Show where long work is: in place on a terminal, a line where it is piped."""
        if not self.terminal:
            self._error(f"{line}\n")
            return
        width = shutil.get_terminal_size().columns - 1
        line = "".join(letter if letter.isprintable() else " " for letter in line)
        with self._turn:
            self._error(f"{_CLEAR}{line[:width]}")
            self._shown = True

    def _clear(self) -> None:
        if self._shown:
            self._error(_CLEAR)
            self._shown = False

    def _error(self, text: str) -> None:
        try:
            sys.stderr.write(text)
            sys.stderr.flush()
        except OSError:  # its reader went away, or its disk is full
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stderr.fileno())


def status_line(status: Status, at: str = "") -> str:
    """Return one transition as a line: `TIME job STATE (reason) attempt=1 exit=7: detail`.

    Where the scheduler says when a waiting job may start (`native["expected_start"]`), that is told too; the
    detail, of one line and at most 300 characters, is what a cluster knows beside the reason
    (`native["detail"]`; `--json` has all of it).
    """
    parts = [at or status.since, str(status.job), str(status.state)]
    start = None if status.state.ended else status.native.get("expected_start")
    why = ", ".join(text for text in (status.reason, start and f"expected start {start}") if text)
    if why:
        parts.append(f"({why})")
    facts = {"attempt": status.attempt, "exit": status.exit_code, "signal": status.signal}
    parts += [f"{name}={value}" for name, value in facts.items() if value is not None]
    line = " ".join(part for part in parts if part)
    detail = brief(status.native.get("detail"))
    return f"{line}: {detail}" if detail else line


def table(rows: Iterable[tuple[str, ...]]) -> str:
    """Return rows in columns that are as wide as their widest cell; empty for no rows."""
    cells = [tuple(str(cell) for cell in row) for row in rows]
    if not cells:
        return ""
    widths = [max(len(row[i]) for row in cells) for i in range(len(cells[0]))]
    lines = [
        "  ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)).rstrip()
        for row in cells
    ]
    return "\n".join(lines) + "\n"

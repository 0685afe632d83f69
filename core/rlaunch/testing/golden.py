"""Golden files: the whole text of something, readable in review.

A file that is missing is a failure, a file that no test asks for is one too, and `--update-golden`
writes what is there now.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from pathlib import Path


class Golden:
    """The golden files of one test session."""

    def __init__(self, update: bool) -> None:
        self.update = update
        self.asked: dict[Path, set[str]] = {}
        """folder -> names that tests asked for."""

    def check(self, folder: Path, name: str, text: str) -> None:
        """Compare `text` with the file, or write it with `--update-golden`."""
        self.asked.setdefault(folder, set()).add(name)
        path = folder / name
        if self.update:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
            return
        hint = "run with --update-golden and read the change"
        assert path.is_file(), f"there is no golden file `{name}`; {hint}"
        kept = path.read_text(encoding="utf-8")
        if kept != text:
            lines = difflib.unified_diff(
                kept.splitlines(), text.splitlines(), f"{name} (kept)", f"{name} (now)", lineterm=""
            )
            raise AssertionError(f"`{name}` has changed; {hint}\n" + "\n".join(lines))

    def orphans(self, suffixes: Iterable[str] = (".txt", ".json")) -> list[Path]:
        """Return files of the folders asked about that no test asked for."""
        return [
            path
            for folder, names in self.asked.items()
            for path in sorted(folder.iterdir())
            if path.suffix in suffixes and path.name not in names
        ]

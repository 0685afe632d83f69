"""The text of `task.py`, read once when the plugin's planning is imported: a constant of this version."""

from __future__ import annotations

from pathlib import Path

TASK = Path(__file__).with_name("task.py").read_text(encoding="utf-8")

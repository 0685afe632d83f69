"""Plan → text. Pure. What is shown is what is sent, in full: nothing wrapped, coloured or cut."""

from __future__ import annotations

import json
import shlex
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any

from rlaunch.model import Finding, Plan, Setting


def finding(found: Finding) -> str:
    """Render one finding: `level[code]: message`, then its place and what to type."""
    lines = [f"{found.level}[{found.code}]: {found.message}"]
    if found.place:
        lines.append(f"  at {found.place}")
    if found.hint:
        lines.append(f"  hint: {found.hint}")
    return "\n".join(lines)


def plan(shown: Plan) -> str:
    """Render a whole plan, the text of `--dry-run`."""
    return "\n".join(_lines(shown)) + "\n"


def _lines(shown: Plan) -> Iterator[str]:
    run = shown.run
    yield f"run        {run.id}"
    yield f"recipe     {run.recipe.path} (sha256 {run.recipe.sha256[:12]}, experiment {run.identity[:12]})"
    yield f"cluster    {run.cluster} (profile {run.profile.get('name', '')})"
    yield f"gang       {run.nodes} node(s) x {run.gpus_per_node} GPU(s)"
    commit = run.workspace.commit[:12] or "not in git"
    dirty = f", {len(run.workspace.dirty)} file(s) changed" if run.workspace.dirty else ""
    yield f"workspace  {run.workspace.root} ({commit}{dirty})"
    yield from _section("settings", _settings(run.provenance, env=False))
    yield from _command(shown)
    if shown.command.stage:
        yield from _section("staging, on every node", [shlex.join(shown.command.stage)])
    yield from _section("environment", [f"{k}={v!r}" for k, v in sorted(shown.env.items())])
    yield from _section("environment, why", _settings(run.provenance, env=True))
    yield from _section("secrets (names only)", list(shown.secrets))
    yield from _section("recipe, leaf by leaf", _ledger(shown))
    for file in shown.files:
        yield from _section(
            f"file {file.place}:{file.path} (mode {file.mode:04o})", file.content.split("\n")
        )
    yield from _section(
        "artifacts",
        [f"{a.place}:{a.path} sha256 {a.sha256} {a.size} bytes" for a in shown.artifacts],
    )
    yield from _section(
        "secret files",
        [
            f"{s.place}:{s.path} (mode {s.mode:04o}): {', '.join(s.names)}"
            for s in shown.secret_files
        ],
    )
    native = json.dumps(shown.native, indent=2, ensure_ascii=False)
    yield from _section("what the scheduler is sent", native.split("\n"))
    seen = shown.observed
    facts = [f"{k} = {json.dumps(v, ensure_ascii=False)}" for k, v in sorted(seen.facts.items())]
    yield from _section(f"observed ({seen.source or 'nothing'}, {seen.at or 'not now'})", facts)


def _command(shown: Plan) -> Iterator[str]:
    yield from _section("command", [shlex.quote(word) for word in shown.command.argv])
    yield from _section("overrides, with what each replaces", _overrides(shown))
    if own := shown.command.own:
        title = f"command, besides, once {own.place} has a checkpoint"
        yield from _section(title, [shlex.quote(word) for word in own.words])


def _section(title: str, lines: list[str]) -> Iterator[str]:
    if lines:
        yield ""
        yield f"{title}:"
        yield from (f"  {line}" for line in lines)


def _settings(provenance: Mapping[str, Setting], *, env: bool) -> list[str]:
    rows = [(k, s) for k, s in sorted(provenance.items()) if k.startswith("env.") is env]
    if env:
        return [_why(k.removeprefix("env."), s) for k, s in rows]
    return [_why(f"{k} = {json.dumps(s.value, ensure_ascii=False)}", s) for k, s in rows]


def _why(head: str, setting: Setting) -> str:
    reason = f": {setting.reason}" if setting.reason else ""
    return f"{head}  [{setting.source}{reason}]"


def _overrides(shown: Plan) -> list[str]:
    from rlaunch.skyrl.replaced import replaced

    lines = []
    for text, lost in replaced(shown.command.argv, shown.run.overrides, _filed(shown)):
        was = f"was {', '.join(lost)}" if lost else "nothing was sent for it"
        lines.append(f"{shlex.quote(text)}  [{was}]")
    return lines


def _filed(shown: Plan) -> Mapping[str, Any]:
    """Return the values that travel in a file because no argument can carry them."""
    from rlaunch.skyrl.emit import FILE
    from rlaunch.smoke.values import parse

    for file in shown.command.files:
        if file.path == FILE:
            with suppress(ValueError):  # a plan file may have been written by anybody
                return parse(file.content)
    return {}


def _ledger(shown: Plan) -> list[str]:
    entries = shown.command.ledger
    if not entries:
        return []
    counts = Counter(e.fate for e in entries)
    lines = [", ".join(f"{count} {fate}" for fate, count in sorted(counts.items()))]
    lines += [f"dropped {e.key}: {e.detail}" for e in entries if e.fate == "dropped"]
    return lines

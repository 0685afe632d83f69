"""A run on its way to being decided: what is known, where it came from, what is wrong with it. Pure."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from typing import Any

from rlaunch.layers import Layered
from rlaunch.model import Context, Finding, Paths, Recipe, Request, Setting
from rlaunch.settings import SETTINGS

LABEL = re.compile(r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?\Z")
NAME_LIMIT = 54
"""Characters of a run's name: with `-` and eight hex digits it stays a DNS label of 63."""

PATHS = ("python", "run_dir", "storage_root", "data_root", "artifacts_dir", "rendezvous_dir")
"""Settings that are paths: their placeholders are filled in for each run."""


def label(text: str, limit: int = NAME_LIMIT) -> str:
    """Make a DNS label of any text; a long one keeps its beginning and gets a hash."""
    slug = re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-") or "run"
    if len(slug) <= limit:
        return slug
    digest = hashlib.sha256(text.encode()).hexdigest()[:6]
    return f"{slug[: limit - 7].rstrip('-')}-{digest}"


def strings(text: str | None) -> tuple[str, ...] | None:
    """Read a JSON list of strings; None stays None. Raises ValueError for anything else.

    Half a surrogate pair (`\\ud800`), which JSON can write, makes no string.
    """
    if text is None:
        return None
    try:
        items = json.loads(text)
    except RecursionError:  # nested by thousands
        items = None
    if not isinstance(items, list) or not all(isinstance(i, str) and i for i in items):
        raise ValueError(text)
    "".join(items).encode()  # UnicodeEncodeError is a ValueError
    return tuple(items)


class Draft:
    """Collects provenance and findings on the way to a run."""

    def __init__(
        self, recipe: Recipe, request: Request, layered: Layered, context: Context
    ) -> None:
        self.recipe, self.request, self.layered, self.context = recipe, request, layered, context
        self.profile = layered.profile
        self.findings: list[Finding] = []
        self.provenance: dict[str, Setting] = {}

    def say(self, code: str, message: str, place: str, hint: str) -> None:
        self.findings.append(Finding("error", code, message, place, hint))

    def source(self, name: str) -> str:
        if name in self.layered.sources:
            return self.layered.sources[name]
        written = name in self.profile.model_fields_set
        return f"profile {self.profile.name}" if written else "default"

    def note(self, name: str, value: Any, source: str = "", reason: str = "") -> Any:
        source = source or self.source(name)
        if not reason and source.startswith("profile"):
            reason = self.profile.reasons.get(name, "")
        self.provenance[name] = Setting(value, source, reason)
        return value

    def flag(self, name: str) -> str:
        return self.request.flags.get(
            name, SETTINGS[name].flag if name in SETTINGS else f"--set {name}"
        )


def fill_paths(draft: Draft, run_id: str, name: str) -> tuple[Paths, str]:
    c, profile = draft.context, draft.profile
    known = {
        "state": c.state,
        "home": c.home,
        "user": user_at(getattr(profile, "host", None), c.user),
        "run": run_id,
        "name": name,
        "python": c.python,
        "workspace": c.workspace.root,
    }

    def fill(field: str) -> str:
        return str(draft.note(field, fill_words(str(getattr(profile, field)), known)))

    known["run_dir"] = fill("run_dir")
    python, data, artifacts = fill("python"), fill("data_root"), fill("artifacts_dir")
    storage, rendezvous = fill("storage_root").rstrip("/"), fill("rendezvous_dir").rstrip("/")
    if "rendezvous_dir" in draft.layered.sources:
        rendezvous = draft.note(
            "rendezvous_dir", f"{rendezvous}/{run_id}", reason="a fresh sub-path"
        )
    for root in profile.facts()["retired_roots"]:
        for field, path in (("rendezvous_dir", rendezvous), ("storage_root", storage)):
            if path.startswith(root["root"]):
                draft.say(
                    "core.retired-root",
                    f"`{root['root']}` is retired: {root['reason']}",
                    draft.flag(field),
                    f"leave `{field}` out: the profile's root is `{profile.storage_root}`",
                )
    storage = storage if run_id in storage.split("/") else f"{storage}/{run_id}"
    return Paths(known["run_dir"], rendezvous, storage, data, artifacts), python


def fill_words(text: str, known: Mapping[str, str]) -> str:
    """Return a path of a profile with each `{word}` and a leading `~/` filled; others stay."""
    for word, value in known.items():
        text = text.replace("{" + word + "}", value)
    return f"{known['home']}{text[1:]}" if text.startswith("~/") else text


def user_at(host: str | None, user: str) -> str:
    """Return who `user` is on a login node: `ada@login` says it, any other host has the same name."""
    named, at, _ = (host or "").rpartition("@")
    return named if at and named else user

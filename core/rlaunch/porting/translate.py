"""A recipe's body and two profiles → the body for the other cluster, with every change. Pure."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from typing import Any

from rlaunch import env as environ
from rlaunch.model import Finding, Recipe
from rlaunch.porting import environment, here, places, shape
from rlaunch.porting.changes import Change, Draft, Translation
from rlaunch.skyrl.derive import retired
from rlaunch.skyrl.emit import SECTIONS, leaves
from rlaunch.skyrl.entrypoints import TOY
from rlaunch.skyrl.tree import MISSING, look

TEMPLATE = "generator.engine_init_kwargs.custom_chat_template_chat_completion_path"


def translate(
    recipe: Recipe,
    target: Mapping[str, Any],
    source: Mapping[str, Any] | None = None,
    accept: Iterable[str] = (),
) -> Translation:
    """Return the recipe for the cluster of profile `target`; profiles as `Profile.facts()` gives them.

    Without `source` only what follows from the target alone is changed. `accept` are keys whose change
    was accepted. What cannot be done is an error among the findings.
    """
    draft = Draft(recipe, target, source, frozenset(accept))
    environment.translate(draft)
    shape.translate(draft)
    for key in here.OUTPUTS:
        _output(draft, key)
    for wish in here.wishes(draft.body, target):
        draft.set(wish.key, wish.value, wish.reason)
    if source is not None:
        _from(draft, source)
        _propose(draft, source)
    _unknown(draft)
    return Translation(draft.body, tuple(draft.changes), tuple(draft.findings))


def mechanical(
    recipe: Recipe, profile: Mapping[str, Any]
) -> tuple[Recipe, tuple[Change, ...], tuple[Finding, ...]]:
    """Return the recipe as a launch on this cluster takes it, whatever cluster it was written for.

    The changes, and an error for each thing that does not follow from the profile.
    """
    made = translate(recipe, profile)
    return recipe._replace(body=made.body), made.changes, made.findings


def _output(draft: Draft, key: str) -> None:
    """Move an output path from a retired root, or from the source's storage to the target's."""
    value = draft.value(key)
    if not isinstance(value, str):
        return
    if found := retired(value, draft.target):
        draft.set(key, found[1], f"`{found[0]}` is a retired storage root")
    elif draft.source is not None and draft.elsewhere:
        theirs, ours = (
            places.fixed(str(p.get("storage_root", ""))) for p in (draft.source, draft.target)
        )
        if (
            places.remote(theirs)
            and places.remote(ours)
            and value.startswith(f"{theirs.rstrip('/')}/")
        ):
            draft.set(
                key,
                f"{ours.rstrip('/')}{value[len(theirs.rstrip('/')) :]}",
                f"storage of `{draft.here}`",
            )
        elif places.absolute(value) and places.foreign(value, draft.target):
            draft.set(key, None, f"a directory of `{draft.there}`; null is one of the run's own")


def _from(draft: Draft, source: Mapping[str, Any]) -> None:
    """Change what follows from the two profiles together."""
    online = source.get("egress") is False and draft.target.get("egress") is True
    if online and draft.value(here.LOGGER) == "console" and draft.value("entrypoint") != TOY:
        draft.set(here.LOGGER, "wandb", f"the nodes of `{draft.here}` reach the internet")
    template = draft.value(TEMPLATE)
    if isinstance(template, str) and template.startswith("./"):
        draft.set(
            TEMPLATE, template.removeprefix("./"), "the same file, as a path of the workspace"
        )
    for section in SECTIONS:
        for key, value in leaves(draft.body.get(section.recipe), section.recipe):
            if (
                key not in here.OUTPUTS
                and places.absolute(value)
                and places.foreign(value, draft.target)
            ):
                environment.warn(draft, key, value)


def _propose(draft: Draft, source: Mapping[str, Any]) -> None:
    """Propose the target's usual value where the recipe has the source's; a value of its own stays."""
    usual = source.get("proposals") or {}
    for key, proposal in (draft.target.get("proposals") or {}).items():
        written, theirs = (
            look(draft.body, key, MISSING),
            usual.get(key, {"value": MISSING})["value"],
        )
        wanted = proposal["value"]
        variable = key.startswith("extra_env.")
        if variable and key.partition(".")[2] in (draft.value("container.extra_env") or {}):
            continue
        if variable and written is not MISSING:
            written, theirs, wanted = (_text(value) for value in (written, theirs, wanted))
        if written == theirs and written != wanted and not (variable and written is MISSING):
            draft.propose(key, wanted, str(proposal["reason"]))


def _text(value: Any) -> Any:
    return environ.coerce(value) if isinstance(value, str | int | float) else value


def _unknown(draft: Draft) -> None:
    """Refuse an accepted key that nothing would change: a typo would be a change that is not made."""
    for key in sorted(draft.accept - draft.offered):
        near = difflib.get_close_matches(key, draft.offered, 1)
        known = ", ".join(f"`{name}`" for name in sorted(draft.offered))
        hint = f"did you mean `{near[0]}`?" if near else f"to be accepted: {known or 'nothing'}"
        message = f"no change of `{key}` is waiting to be accepted"
        draft.findings.append(Finding("error", "port.accept", message, f"--accept {key}", hint))

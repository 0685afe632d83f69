"""Names for `--skip-preflight`: of a check, or of a code that a check says."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from difflib import get_close_matches
from typing import TYPE_CHECKING

from rlaunch.codes import Code
from rlaunch.errors import RlaunchError
from rlaunch.model import Finding

if TYPE_CHECKING:
    from rlaunch.choose import Chosen

SECRETS = "secrets"
"""The check that every cluster has: what the run cannot do without is at hand."""
FLAG = "--skip-preflight"


def unknown(names: Iterable[str], chosen: Chosen) -> Iterator[Finding]:
    """Yield an error for each name that would skip nothing, with what it may have meant."""
    valid = (SECRETS, *chosen.cluster.checks)
    for name in sorted(names):
        if "." in name or not name.strip():
            yield from _no_code(name, chosen)
        elif name not in valid:
            near = get_close_matches(name, valid, 1)
            meant = f"did you mean `{near[0]}`? " if near else ""
            listed = ", ".join(f"`{check}`" for check in valid)
            yield Finding(
                "error", "core.check-unknown", f"`{chosen.name}` has no preflight check `{name}`",
                f"{FLAG} {name}", f"{meant}its checks: {listed}; or the code of a finding",
            )  # fmt: skip


def _no_code(name: str, chosen: Chosen) -> Iterator[Finding]:
    from rlaunch import explain

    try:
        explain.find(name, chosen.plugins.modules, place=FLAG)
    except RlaunchError as error:
        yield from error.findings


CODES = (
    Code(
        "core.check-unknown",
        "`--skip-preflight` names a check that the cluster does not have.\n\n"
        "It would skip nothing. Every cluster has the check `secrets` and those of its plugin; the code of\n"
        "a finding skips just that finding.",
    ),
)

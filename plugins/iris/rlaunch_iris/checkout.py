"""The operator's MarinSkyRL against the commit that the image bakes: what a run would not get."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rlaunch.shell import Shell

SHOWN = 8


def image_of(profile: Mapping[str, Any], image: str | None) -> Mapping[str, Any] | None:
    """Return what the profile knows of an image's digest; None where it knows nothing."""
    digest = (image or "").partition("@")[2]
    if not digest:
        return None
    known: Mapping[str, Any] = profile["images"]
    return known.get(digest) or next((v for k, v in known.items() if digest.startswith(k)), None)


def compare(profile: Mapping[str, Any], image: str | None, shell: Shell) -> dict[str, Any]:
    """Compare the checkout with the image. Empty where there is nothing to compare; else plain data:

    `path`, `head`, `baked`, `ahead` (commits of HEAD that the image lacks), `changed` (files in use that
    differ, at most eight), `changed_count`; or `path` and `problem`, with `absent` where no checkout is.
    """
    baked = str((image_of(profile, image) or {}).get("skyrl") or "")
    path = os.path.expanduser(str(profile["skyrl_checkout"]))  # noqa: PTH111  # `~nobody` stays
    if not baked or not profile["skyrl_checkout"]:
        return {}
    if not Path(path).is_dir():
        return {"path": path, "problem": "there is no such directory", "absent": True}
    git = ["git", "-C", path]
    head = shell.run([*git, "rev-parse", "HEAD"], timeout=4)
    if head.code != 0:
        return {"path": path, "problem": "it is no git checkout"}
    here = {"path": path, "head": head.out.strip(), "baked": baked}
    if shell.run([*git, "cat-file", "-e", f"{baked}^{{commit}}"], timeout=4).code != 0:
        return {
            **here,
            "problem": f"it does not have the image's commit {baked}; `git fetch` gets it",
        }
    count = shell.run([*git, "rev-list", "--count", f"{baked}..HEAD"], timeout=4)
    changed = shell.run(
        [*git, "diff", "--name-only", f"{baked}...HEAD", "--", *profile["skyrl_used"]], timeout=4
    )
    if count.code != 0 or changed.code != 0 or not count.out.strip().isdigit():
        return {**here, "problem": "git could not compare the commits"}
    files = [line for line in changed.out.split("\n") if line]
    return {
        **here, "ahead": int(count.out), "changed": files[:SHOWN], "changed_count": len(files),
    }  # fmt: skip

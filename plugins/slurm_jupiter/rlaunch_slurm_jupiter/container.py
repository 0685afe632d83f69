"""The container of a job: which image, what is bound, as argv. Pure.

Values of the environment never stand here: Apptainer evaluates `--env` and `APPTAINERENV_*` as shell
text, and passes plain inherited variables on as they are.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from rlaunch.model import Run


class Container(NamedTuple):
    """What `apptainer exec` is given."""

    sif: str
    binds: tuple[str, ...]
    overlays: tuple[str, ...]
    pydeps: tuple[str, ...]
    program: str
    gpu_flag: str

    def argv(self) -> tuple[str, ...]:
        """Return the words before the program that runs inside."""
        words = [self.program, "exec"]
        words += [self.gpu_flag] if self.gpu_flag else []
        for overlay in self.overlays:
            words += ["--overlay", overlay if overlay.endswith((":ro", ":rw")) else f"{overlay}:ro"]
        for bind in self.binds:
            words += ["--bind", bind]
        return (*words, self.sif)


def container_of(run: Run, needed: Iterable[str]) -> Container | None:
    """Return the run's container; None when neither recipe nor profile names an image.

    `needed` are directories that the job must see at their own path; those that no bind covers are
    bound too. Recipe before profile, but for binds, which add up.
    """
    profile = run.profile
    written = run.recipe.body.get("container")
    block: Mapping[str, Any] = written if isinstance(written, Mapping) else {}
    set_by_hand = run.provenance.get("sif")
    typed = set_by_hand is not None and set_by_hand.source == "command line"
    sif = profile.get("sif") if typed else block.get("sif") or profile.get("sif")
    if not sif:
        return None
    binds = list(dict.fromkeys((*profile["binds"], *_texts(block.get("binds")))))
    for folder in needed:
        if not any(covers(bind, folder) for bind in binds):
            binds.append(folder)
    return Container(
        sif=str(sif),
        binds=tuple(binds),
        overlays=tuple(_texts(block.get("overlays")) or profile["overlays"]),
        pydeps=pydeps_of(run),
        program=str(profile["apptainer"]),
        gpu_flag=str(profile["gpu_flag"]) if run.gpus_per_node else "",
    )


def pydeps_of(run: Run) -> tuple[str, ...]:
    """Return the directories that stand first on PYTHONPATH, by priority."""
    written = run.recipe.body.get("container")
    block: Mapping[str, Any] = written if isinstance(written, Mapping) else {}
    text = block.get("pydeps") or run.profile["pydeps"]
    parts = _texts(text) if isinstance(text, list | tuple) else str(text or "").split(":")
    return tuple(part for part in parts if part)


def covers(bind: str, path: str) -> bool:
    """Tell whether a bind makes `path` visible at its own place: `dir` or `src:dst[:opts]`."""
    source, _, rest = bind.partition(":")
    target = rest.partition(":")[0] or source
    return source == target and f"{path.rstrip('/')}/".startswith(f"{target.rstrip('/')}/")


def _texts(value: Any) -> tuple[str, ...]:
    if isinstance(value, str):
        return (value,)
    return tuple(str(item) for item in value) if isinstance(value, list | tuple) else ()

"""Rules about the task image: by digest, sound, right for the trainer, not behind your checkout. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable

from rlaunch.codes import rule
from rlaunch.model import Finding, Plan, Run
from rlaunch_iris.checkout import image_of

_DIGEST = re.compile(r"[^\s@]+@sha256:[0-9a-f]{64}\Z")


def error(code: str, message: str, place: str, hint: str) -> Finding:
    """Make an error."""
    return Finding("error", code, message, place, hint)


def warning(code: str, message: str, place: str, hint: str) -> Finding:
    """Make a warning."""
    return Finding("warning", code, message, place, hint)


def in_pods(run: Run) -> bool:
    """Tell whether the cluster runs pods (and not processes of a local controller)."""
    return bool(run.profile["backend"] == "kubernetes")


def argument(plan: Plan, key: str) -> str:
    """Return the last value that the trainer's arguments give a key, without quotes; empty for none."""
    found = ""
    for word in plan.command.argv:
        name, equals, value = word.partition("=")
        if equals and name.lstrip("+~") == key:
            found = value.strip("'\"")
    return found


@rule("iris.image-missing")
def image_is_given(run: Run, plan: Plan) -> Iterable[Finding]:
    """The run has no task image.

    On Kubernetes the image is the whole runtime; without one the cluster's default image would start,
    which has no Ray and no trainer.
    """
    if in_pods(run) and not run.task_image:
        yield error(
            "iris.image-missing", "no task image is given", "--task-image",
            "`--task-image NAME@sha256:…`, or leave the profile's in place",
        )  # fmt: skip


@rule("iris.image-floating")
def image_is_fixed(run: Run, plan: Plan) -> Iterable[Finding]:
    """The task image is named by a tag.

    Nodes keep an image under its tag (`imagePullPolicy: IfNotPresent`), so that one gang can run two
    builds of it, and a rerun another one than the first. Only a digest names one image.
    """
    if run.task_image and not _DIGEST.match(run.task_image):
        yield error(
            "iris.image-floating",
            f"the image `{run.task_image}` is not named by its digest, so nodes may run different builds",
            "--task-image", "`--task-image NAME@sha256:<64 hex digits>`; `crane digest NAME:TAG` prints it",
        )  # fmt: skip


@rule("iris.image-withdrawn")
def image_is_sound(run: Run, plan: Plan) -> Iterable[Finding]:
    """The image is known to be broken.

    The profile names digests that nobody should use, with the reason.
    """
    known = image_of(run.profile, run.task_image)
    if known and known.get("withdrawn"):
        yield error(
            "iris.image-withdrawn", f"the image {known.get('tag', '')} is withdrawn: {known['withdrawn']}",
            "--task-image", "leave `--task-image` out: the profile's image is a sound one",
        )  # fmt: skip


@rule("iris.image-unknown", level="warning")
def image_is_known(run: Run, plan: Plan) -> Iterable[Finding]:
    """Nobody knows which MarinSkyRL the image bakes.

    The profile lists the commit for each digest. Without it the check against your checkout is left out,
    and the run may execute code that you do not see.
    """
    if run.task_image and _DIGEST.match(run.task_image) and in_pods(run):
        known = image_of(run.profile, run.task_image)
        if not known or not (known.get("skyrl") or known.get("withdrawn")):
            yield warning(
                "iris.image-unknown", "the commit of MarinSkyRL that this image bakes is not known here",
                "--task-image", "add the digest to `images:` of a profile, or pass `--skyrl-ref COMMIT`",
            )  # fmt: skip


@rule("iris.image-megatron")
def image_has_megatron(run: Run, plan: Plan) -> Iterable[Finding]:
    """The recipe trains with Megatron, and the profile's image cannot.

    `strategy: megatron` needs an image that was built with it; no digest of one is known, so it must be
    named.
    """
    setting = run.provenance.get("task_image")
    chosen = setting is not None and setting.source in {"command line", "rlaunch.toml"}
    if in_pods(run) and argument(plan, "trainer.strategy") == "megatron" and not chosen:
        yield error(
            "iris.image-megatron", "`trainer.strategy` is `megatron`, and the profile's image has none of it",
            "trainer.strategy", "`--task-image NAME@sha256:…` of a `gpu-rl-megatron` build",
        )  # fmt: skip


@rule("iris.image-behind", waivable=True)
def image_is_current(run: Run, plan: Plan) -> Iterable[Finding]:
    """Your MarinSkyRL has commits that the image lacks, in files that a run executes.

    Without `--skyrl-ref` the gang runs what the image bakes. A fix that landed later is then not there: a
    run once died at `build_models` of a crash that had been mended for days.
    """
    seen = plan.observed.facts.get("skyrl") or {}
    if run.skyrl_ref or not seen.get("ahead") or not seen.get("changed"):
        return
    files = ", ".join(f"`{name}`" for name in seen["changed"])
    more = seen["changed_count"] - len(seen["changed"])
    yield error(
        "iris.image-behind",
        f"the image bakes MarinSkyRL {seen['baked']}, and `{seen['path']}` is {seen['ahead']} commits ahead "
        f"at {seen['head'][:12]}; in use and different: {files}{f' and {more} more' if more > 0 else ''}",
        "--skyrl-ref", f"`--skyrl-ref {seen['head'][:12]}` runs your commit (push it first)",
    )  # fmt: skip


@rule("iris.skyrl-unseen", level="warning")
def checkout_was_compared(run: Run, plan: Plan) -> Iterable[Finding]:
    """Your MarinSkyRL could not be compared with the image's.

    The message says why; the check against stale code was left out. Who has no checkout at all is told in a
    note.
    """
    seen = plan.observed.facts.get("skyrl") or {}
    if seen.get("problem") and not run.skyrl_ref:
        yield Finding(
            "note" if seen.get("absent") else "warning",
            "iris.skyrl-unseen", f"`{seen['path']}` could not be compared with the image: {seen['problem']}",
            "skyrl_checkout", "`--set skyrl_checkout=DIR` names your MarinSkyRL; empty: do not compare",
        )  # fmt: skip


RULES = (
    image_is_given,
    image_is_fixed,
    image_is_sound,
    image_is_known,
    image_has_megatron,
    image_is_current,
    checkout_was_compared,
)

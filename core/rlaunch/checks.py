"""Rules that hold on every cluster. Pure; asked for every plan, and again for a plan file at submit."""

from __future__ import annotations

import re
from collections.abc import Iterable

from rlaunch import env as environment
from rlaunch import leaks
from rlaunch.codes import Code, rule
from rlaunch.hooks import hookimpl
from rlaunch.model import Finding, Plan, Run


@rule("core.secret-in-plan")
def secrets_are_names(run: Run, plan: Plan) -> Iterable[Finding]:
    """A name is both a secret and a plain variable.

    Every variable arrives exactly once. A secret's value is filled in at submit, so a plain value of
    the same name would be lost or would leak.
    """
    for name in sorted(set(plan.secrets) & plan.env.keys()):
        yield Finding(
            "error",
            "core.secret-in-plan",
            f"`{name}` is a secret and stands in the environment too",
            f"env.{name}",
            "keep it in the secrets file",
        )


@rule("core.secret-refused")
def secrets_spare_the_cluster(run: Run, plan: Plan) -> Iterable[Finding]:
    """A profile, or `--set secrets=…`, asks for `AWS_*`, `R2_*` or S3 keys of fsspec as a secret.

    The cluster's own credentials are what the job must use; forwarded ones replace them silently.
    """
    for name in plan.secrets:
        if not environment.refused(name) and name.upper() != "FSSPEC_S3":
            continue
        yield Finding(
            "error",
            "core.secret-refused",
            f"`{name}` would replace the credentials that the cluster gives the job",
            f"secrets.{name}",
            "take it out of `secrets`: the profile's, or those of `--set secrets=…`",
        )


def environment_again(run: Run, plan: Plan) -> Iterable[Finding]:
    """Judge the planned environment: a plan file may have been written by anybody."""
    for name, value in plan.env.items():
        for finding in environment.judge(name, value, f"env.{name}"):
            if finding.code != "env.reserved":  # what the plugin itself plans
                yield finding


@rule("core.no-data", waivable=True)
def data_is_given(run: Run, plan: Plan) -> Iterable[Finding]:
    """The run has no training data.

    Neither `--train_data` nor `data.train_data` names any: the trainer would stop after the nodes
    were given to it. A trainer that needs none is launched with `--allow core.no-data`.
    """
    if not run.train_data:
        yield Finding(
            "error",
            "core.no-data",
            "no training data is named",
            "--train_data",
            """`--train_data '["ORG/NAME"]'`""",
        )


_NO_REF = re.compile(
    r"\A\Z|\A[-/.^~]|[\x00-\x20\x7f\\:?*\[]|\.\.|//|/\.|[./]\Z|\.lock(?:[/~^@]|\Z)|[^/]{256}"
)
"""What git takes in no name of a branch or tag, and an option; nothing that it does take."""


@rule("core.skyrl-ref")
def reference_is_one(run: Run, plan: Plan) -> Iterable[Finding]:
    """`--skyrl-ref` is nothing that git could check out.

    It becomes an argument of `git checkout` on every node. A leading dash would be an option there; a blank,
    a control character, or what git takes in no name, would fail after the nodes were given.
    """
    ref = run.skyrl_ref
    if ref is not None and _NO_REF.search(ref):
        cut = ref if len(ref) <= 60 else f"{ref[:60]}…"
        shown = "".join(c if c.isprintable() else ascii(c)[1:-1] for c in cut)
        yield Finding(
            "error",
            "core.skyrl-ref",
            f"`{shown}` is nothing that git could check out",
            "--skyrl-ref",
            "a commit of MarinSkyRL, such as `--skyrl-ref 0a1b2c3d`; or the name of a branch or tag",
        )


RULES = (secrets_are_names, secrets_spare_the_cluster, data_is_given, reference_is_one)


@hookimpl
def rlaunch_check(run: Run, plan: Plan) -> Iterable[Finding]:
    """Ask every rule."""
    yield from environment_again(run, plan)
    yield from leaks.of_plan(run, plan)
    for check in RULES:
        yield from check(run, plan)


CODES: tuple[Code, ...] = tuple(r.code for r in RULES)  # type: ignore[attr-defined]  # set by @rule

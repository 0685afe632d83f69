"""Recipe + profile + flags + context → Run. Pure: same input, same run.

Order, for every plane: command line > recipe > `rlaunch.toml` > cluster profile > default.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from rlaunch import env as environment
from rlaunch import identity, leaks
from rlaunch.draft import LABEL, NAME_LIMIT, PATHS, Draft, fill_paths, label, strings
from rlaunch.layers import Layered
from rlaunch.model import Context, Finding, Recipe, Request, Run
from rlaunch.porting import here
from rlaunch.skyrl import geometry, ledger, overrides

_LEAKS = frozenset({"env.refused", "env.secret-literal"})
"""Codes that mean: somebody's credential stands in what was written."""

_NOT_SHOWN = ("env", "env_rules", "reasons", "unsupported", "name", "plugin", "proposals")


class Resolution(NamedTuple):
    """A run, unless an error is among the findings that kept it from being made."""

    run: Run | None
    findings: tuple[Finding, ...]


def resolve(recipe: Recipe, request: Request, layered: Layered, context: Context) -> Resolution:
    """Decide everything. Never raises for what a user wrote: faults are findings."""
    work = Draft(recipe, request, layered, context)
    work.findings.extend(ledger.check_keys(recipe))
    work.findings.extend(leaks.of_recipe(recipe))
    body = _override(work)
    model = _model(work, body)
    data = _dataset(work, "train_data", request.train_data, body)
    val = _dataset(work, "val_data", request.val_data, body)
    nodes = _nodes(work, body)
    name = _name(work)
    env = environment.gather(
        recipe,
        typed=_under(layered.sources, "env.", work.profile.env, "command line"),
        user=_under(layered.sources, "env.", work.profile.env, "rlaunch.toml"),
        profile={k: v for k, v in work.profile.env.items() if f"env.{k}" not in layered.sources},
        rules=work.profile.facts()["env_rules"],
        cluster=work.profile.name,
    )
    env = here.at_home(env, work.profile.facts())
    work.findings.extend(env.findings)
    _stray(work)
    if any(f.code in _LEAKS for f in work.findings):
        return Resolution(None, tuple(work.findings))  # a plan would show the value
    if nodes is None or model is None or name is None or data is None or val is None:
        return Resolution(None, tuple(work.findings))
    run = _assemble(work, model=model, data=data, val=val, nodes=nodes, name=name, env=env)
    return Resolution(run, tuple(work.findings))


def _under(
    sources: Mapping[str, str], prefix: str, values: Mapping[str, str], source: str
) -> dict[str, str]:
    names = (
        k.removeprefix(prefix) for k, s in sources.items() if k.startswith(prefix) and s == source
    )
    return {name: values[name] for name in names}


def _override(work: Draft) -> Mapping[str, Any]:
    """Return the recipe's body as the overrides leave it; a bad override is a finding."""
    parsed = []
    for text in work.request.overrides:
        try:
            parsed.append(overrides.parse(text))
        except ValueError as error:
            key, equals, _ = text.partition("=")  # the value may be a secret
            work.say(
                "recipe.override",
                f"`{key[:80]}{equals and '=…'}` is no override: {error}",
                "--skyrl_override",
                "write `a.b.c=value` or `++a.b.c=value`",
            )
            continue
        work.findings.extend(leaks.of_override(parsed[-1]))
    body: Mapping[str, Any] = overrides.apply(work.recipe.body, tuple(parsed))
    return body


def _model(work: Draft, body: Mapping[str, Any]) -> str | None:
    if work.request.model_path:
        return str(work.note("model_path", work.request.model_path, "command line"))
    found: Any = body
    for key in ("trainer", "policy", "model", "path"):
        found = found.get(key) if isinstance(found, Mapping) else None
    if isinstance(found, str) and found:
        return str(work.note("model_path", found, "recipe"))
    work.say(
        "core.model-missing",
        "no model is given: neither `--model_path` nor `trainer.policy.model.path`",
        "--model_path",
        "`--model_path ORG/NAME`",
    )
    return None


def _dataset(
    work: Draft, name: str, text: str | None, body: Mapping[str, Any]
) -> tuple[str, ...] | None:
    try:
        typed = strings(text)
    except ValueError:
        work.say(
            "core.data-list",
            f"`{str(text)[:80]}` is not a JSON list of strings",
            work.request.flags.get(name, f"--{name}"),
            f"""write `--{name} '["ORG/NAME"]'`, with the quotes""",
        )
        return None
    if typed is not None:
        return tuple(work.note(name, list(typed), "command line"))
    section = body.get("data")
    written = section.get(name) if isinstance(section, Mapping) else None
    if written is not None and not isinstance(written, list | tuple):
        work.say(
            "core.data-list",
            f"`data.{name}` is not a list",
            work.recipe.at(f"data.{name}"),
            "write a YAML list of names",
        )
        return None
    return tuple(str(item) for item in work.note(name, list(written or ()), "recipe"))


def _nodes(work: Draft, body: Mapping[str, Any]) -> int | None:
    typed = work.layered.launch.get("nodes")
    budget = geometry.budget(body, work.profile.gpus_per_node, typed)
    for finding in budget.findings:
        key = finding.place
        work.findings.append(
            finding._replace(place=work.recipe.at(key) if key else work.flag("nodes"))
        )
    if budget.nodes is None:
        return None
    if typed is not None:
        return int(work.note("nodes", typed, work.layered.sources["nodes"]))
    return int(work.note("nodes", budget.nodes, "derived", "computed from the recipe's placement"))


def _name(work: Draft) -> str | None:
    typed = work.layered.launch.get("name")
    if typed is None:
        stem = work.recipe.path.replace("\\", "/").rpartition("/")[2].rpartition(".")[0]
        stamp = re.sub(r"[^0-9]", "", work.context.now)[2:14]
        return str(
            work.note("name", label(f"{label(stem, 40)}-{stamp}"), "derived", "recipe and time")
        )
    if not LABEL.match(typed) or len(typed) > NAME_LIMIT:
        work.say(
            "core.job-name",
            f"`{typed}` is no name for a job: lower-case letters, digits and `-`, at most {NAME_LIMIT}",
            work.flag("name"),
            f"`--job-name {label(typed)}`",
        )
        return None
    return str(work.note("name", typed, work.layered.sources["name"]))


def _stray(work: Draft) -> None:
    """Say once that credentials of the operator's shell stay there."""
    stray = sorted(n for n in work.context.present if environment.refused(n))
    if stray:
        names = ", ".join(f"`{n}`" for n in stray)
        work.findings.append(
            Finding(
                "note",
                "env.not-forwarded",
                f"not sent, though in your shell or secrets file: {names}",
            )
        )


def _assemble(  # over 40 lines: a run has forty fields, each said once
    work: Draft,
    *,
    model: str,
    data: tuple[str, ...],
    val: tuple[str, ...],
    nodes: int,
    name: str,
    env: environment.Environment,
) -> Run:
    profile, context, launch = work.profile, work.context, work.layered.launch
    run_id = f"{name}-{context.run_id}"
    paths, python = fill_paths(work, run_id, name)
    facts = profile.facts()
    plain = {
        field: work.note(field, facts[field])
        for field in facts
        if field not in (*PATHS, *_NOT_SHOWN)
    }
    if "skyrl_ref" in launch:
        work.note("skyrl_ref", launch["skyrl_ref"])
    secrets = tuple(n for n in profile.secrets if n not in env.values)
    return Run(
        id=run_id,
        name=name,
        cluster=work.request.cluster,
        profile=facts,
        user=context.user,
        created=context.now,
        version=context.version,
        recipe=work.recipe,
        workspace=context.workspace,
        model_path=model,
        train_data=data,
        val_data=val,
        nodes=nodes,
        gpus_per_node=plain["gpus_per_node"],
        cpu=plain["cpu"],
        memory=plain["memory"],
        disk=plain["disk"],
        max_retries=plain["max_retries"],
        timeout_s=plain["timeout_s"],
        priority=plain["priority"],
        preemptible=plain["preemptible"],
        task_image=plain["task_image"],
        skyrl_ref=launch.get("skyrl_ref"),
        python=python,
        paths=paths,
        resume=work.note(
            "resume",
            work.request.resume,
            "command line" if work.request.resume != "never" else "default",
        ),
        overrides=work.request.overrides,
        env=env.values,
        secrets=secrets,
        allow=work.request.allow,
        identity=identity.hash_of(work.recipe, model, data, val, work.request.overrides),
        provenance={**work.provenance, **env.provenance},
    )

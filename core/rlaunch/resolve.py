"""Recipe + profile + flags + context → Run. Pure: same input, same run.

Order, for every plane: command line > recipe > `rlaunch.toml` > cluster profile > default.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from rlaunch import env as environment
from rlaunch import identity
from rlaunch.layers import Layered
from rlaunch.model import Context, Finding, Paths, Recipe, Request, Run, Setting
from rlaunch.porting import here
from rlaunch.settings import SETTINGS
from rlaunch.skyrl import geometry, ledger, overrides

LABEL = re.compile(r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?\Z")
NAME_LIMIT = 54
"""Characters of a run's name: with `-` and eight hex digits it stays a DNS label of 63."""

_LEAKS = frozenset({"env.refused", "env.secret-literal"})
"""Codes that mean: somebody's credential stands in what was written."""

_NOT_SHOWN = ("env", "env_rules", "reasons", "unsupported", "name", "plugin", "proposals")
_PATHS = ("python", "run_dir", "storage_root", "data_root", "artifacts_dir", "rendezvous_dir")


class Resolution(NamedTuple):
    """A run, unless an error is among the findings that kept it from being made."""

    run: Run | None
    findings: tuple[Finding, ...]


def label(text: str, limit: int = NAME_LIMIT) -> str:
    """Make a DNS label of any text; a long one keeps its beginning and gets a hash."""
    slug = re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-") or "run"
    if len(slug) <= limit:
        return slug
    digest = hashlib.sha256(text.encode()).hexdigest()[:6]
    return f"{slug[: limit - 7].rstrip('-')}-{digest}"


def strings(text: str | None) -> tuple[str, ...] | None:
    """Read a JSON list of strings; None stays None. Raises ValueError for anything else."""
    if text is None:
        return None
    items = json.loads(text)
    if not isinstance(items, list) or not all(isinstance(i, str) and i for i in items):
        raise ValueError(text)
    return tuple(items)


class _Work:
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


def resolve(recipe: Recipe, request: Request, layered: Layered, context: Context) -> Resolution:
    """Decide everything. Never raises for what a user wrote: faults are findings."""
    work = _Work(recipe, request, layered, context)
    work.findings.extend(ledger.check_keys(recipe))
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
        rules={k: r.model_dump() for k, r in work.profile.env_rules.items()},
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


def _override(work: _Work) -> Mapping[str, Any]:
    """Return the recipe's body as the overrides leave it; a bad override is a finding."""
    parsed = []
    for text in work.request.overrides:
        try:
            parsed.append(overrides.parse(text))
        except ValueError as error:
            work.say(
                "recipe.override",
                f"`{text}` is no override: {error}",
                "--skyrl_override",
                "write `a.b.c=value` or `++a.b.c=value`",
            )
            continue
        last = parsed[-1].key.rpartition(".")[2]
        if environment.refused(last):
            work.findings.extend(environment.judge(last, "", f"--skyrl_override {parsed[-1].key}"))
        elif environment.looks_secret(last) and parsed[-1].value not in (None, ""):
            work.findings.extend(environment.judge(last, "-", f"--skyrl_override {parsed[-1].key}"))
    body: Mapping[str, Any] = overrides.apply(work.recipe.body, tuple(parsed))
    return body


def _model(work: _Work, body: Mapping[str, Any]) -> str | None:
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
    work: _Work, name: str, text: str | None, body: Mapping[str, Any]
) -> tuple[str, ...] | None:
    try:
        typed = strings(text)
    except ValueError:
        work.say(
            "core.data-list",
            f"`{text}` is not a JSON list of strings",
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


def _nodes(work: _Work, body: Mapping[str, Any]) -> int | None:
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


def _name(work: _Work) -> str | None:
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


def _stray(work: _Work) -> None:
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


def _paths(work: _Work, run_id: str, name: str) -> tuple[Paths, str]:
    c, profile = work.context, work.profile
    known = {
        "state": c.state,
        "home": c.home,
        "user": c.user,
        "run": run_id,
        "name": name,
        "python": c.python,
        "workspace": c.workspace.root,
    }

    def fill(field: str) -> str:
        text = str(getattr(profile, field))
        for word, value in known.items():
            text = text.replace("{" + word + "}", value)
        text = f"{c.home}{text[1:]}" if text.startswith("~/") else text
        work.note(field, text)
        return text

    known["run_dir"] = fill("run_dir")
    python, data, artifacts = fill("python"), fill("data_root"), fill("artifacts_dir")
    storage, rendezvous = fill("storage_root").rstrip("/"), fill("rendezvous_dir").rstrip("/")
    if "rendezvous_dir" in work.layered.sources:
        rendezvous = work.note(
            "rendezvous_dir", f"{rendezvous}/{run_id}", reason="a fresh sub-path"
        )
    for root in profile.retired_roots:
        for field, path in (("rendezvous_dir", rendezvous), ("storage_root", storage)):
            if path.startswith(root.root):
                work.say(
                    "core.retired-root",
                    f"`{root.root}` is retired: {root.reason}",
                    work.flag(field),
                    f"leave `{field}` out: the profile's root is `{profile.storage_root}`",
                )
    storage = storage if run_id in storage.split("/") else f"{storage}/{run_id}"
    return Paths(known["run_dir"], rendezvous, storage, data, artifacts), python


def _assemble(
    work: _Work,
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
    paths, python = _paths(work, run_id, name)
    facts = profile.facts()
    plain = {
        field: work.note(field, facts[field])
        for field in type(profile).model_fields
        if field not in (*_PATHS, *_NOT_SHOWN)
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

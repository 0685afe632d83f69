"""Credentials that stand anywhere in a recipe or an override: at any depth, in mappings and lists. Pure.

`env` judges the variables of the job. What goes to the trainer inside its own configuration (`env` blocks
of sandboxes, `runtime_env.env_vars`) reaches processes all the same, so the absolute refusals hold there.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from rlaunch import env
from rlaunch.model import Finding, Plan, Recipe, Run
from rlaunch.skyrl.overrides import Override, parse
from rlaunch.survey import NULL

_INNOCENT = re.compile(
    r"(?:[a-z_]*_)?(?:bos|eos|pad|unk|sep|cls|mask|stop|start|end|begin|image|video|audio|special|think"
    r"|per|new|tool|vision)_token\Z"
    r"|(?:[a-z_]*_)?(?:prompt|input|output|question|label|answer|response|reward|dataset|data|sort|group"
    r"|images?|videos?|messages|text|chat|uid|primary|foreign|partition|metric|env|model)_key\Z|key\Z"
)
"""Keys of trainers that end as a secret's do, even where they name an owner (`hf_dataset_key`)."""
_OWNED = frozenset({
    "access", "account", "admin", "anthropic", "api", "auth", "aws", "azure", "bearer", "client",
    "credential", "credentials", "daytona", "deploy", "encryption", "gcp", "gcs", "gemini", "gh",
    "git", "github", "gitlab", "google", "groq", "hf", "hub", "hugging", "huggingface", "license",
    "master", "mistral", "modal", "oauth", "openai", "openrouter", "passwd", "password",
    "personal", "private", "r2", "refresh", "registry", "s3", "secret", "secrets", "service",
    "session", "shared", "signing", "slack", "ssh", "storage", "together", "wandb",
})  # fmt: skip
"""Words that make a lower-case `…_key` or `…_token` a secret; others are columns and tokens of a text."""
_ISSUED = re.compile(
    r"sk-\w|hf_[A-Za-z0-9]{8}|gh[pousr]_\w|github_pat_|glpat-|xox[a-z]-|(?:AKIA|ASIA)[A-Z0-9]{12}|dtn_\w"
)
"""How keys begin that are recognised under any name that ends as a secret's does."""
_VARIABLE = r"([A-Z_][A-Z0-9_]*)"
_REFERENCE = re.compile(
    r"\$(?P<shell>[A-Za-z_]\w*)\Z"
    r"|\$\{\s*(?:(?:oc\.)?env:|oc\.(?:select|decode):)?\s*(?P<quote>[\"']?)(?P<name>[\w.\[\]]+)(?P=quote)\s*"
    r"(?:\}\Z|:?\?[^{}]*\}\Z|(?:,|:?[-=+]|:)(?P<default>.*)\}\Z)"
    rf"|os\.environ/{_VARIABLE}\Z|\{{env:{_VARIABLE}\}}\Z|\{{\{{\s*{_VARIABLE}\s*\}}\}}\Z",
    re.DOTALL,
)
"""A reference to a variable or a key: of a shell, OmegaConf, LiteLLM, OpenCode, a template."""
_ASSIGNED = re.compile(r"\s*(?:export\s+)?([A-Za-z_][A-Za-z0-9_]*)=(\S+)\s*\Z")
_STORE = re.compile("aws_|r2_|fsspec_s3", re.IGNORECASE)
"""What an argument has to hold before it is worth reading: most plans have none."""
_WITHIN = re.compile(
    r"\b(?<!\benv -u )((?:(?:APPTAINER|SINGULARITY)ENV_)?(?:AWS|R2|FSSPEC_S3)_[A-Z0-9_]+)"
    r"(=|[\"']?[ \t]*:[ \t]*)"
    r"([\"']?\$\{[^{}]*\}[^\s,}]*|[^\s,}]+)"
)
_PLACEHOLDERS = frozenset({
    "", "none", "null", "empty", "local", "unused", "placeholder", "not-needed", "not_needed",
    "no-key", "no_key", "no-key-required", "sk-no-key-required", "fake", "fake-key", "fake_key",
    "sk-fake", "dummy", "dummy-key", "dummy_key", "sk-dummy",
})  # fmt: skip
"""What a client is given, in lower case, where a server asks for no key (`EMPTY` in vLLM's documentation)."""
_TWIN = re.compile(r"(?:APPTAINER|SINGULARITY)ENV_")
_VARIABLES = re.compile(r"(?:container\.)?extra_env\.")


def of_recipe(recipe: Recipe) -> Iterator[Finding]:
    """Yield the credentials that a recipe names outside its variables, which `env.gather` judges.

    A null is not sent, and so is not judged.
    """
    for path, name, value in _named(recipe.body):
        head, _, variable = path.rpartition(".")
        its_own = name == variable and head in {"extra_env", "container.extra_env"}
        if its_own:
            continue
        if found := _judge(name, value, ""):
            yield found._replace(place=recipe.at(path))


def of_override(override: Override) -> Iterator[Finding]:
    """Yield the credentials that an override names, in its key or anywhere in its value.

    A null, and a deletion without a value, send nothing and so are not judged.
    """
    key, value = override.key, override.value
    for path, name, inner in ((key, *part) for part in _parts(key, value)):
        if found := _judge(name, inner, f"--skyrl_override {path}", path):
            yield found
    for path, name, inner in _named(value, key):
        if found := _judge(name, inner, f"--skyrl_override {path}", path):
            yield found


def of_plan(run: Run, plan: Plan) -> Iterator[Finding]:
    """Yield the credentials of a plan's recipe, overrides and arguments, whoever wrote the plan."""
    yield from of_recipe(run.recipe)
    for word in dict.fromkeys((*run.overrides, *plan.command.argv)):
        if _STORE.search(word) or word in run.overrides:
            try:
                override = parse(word)
            except (
                ValueError
            ):  # another program's argument, or an override that is refused elsewhere
                continue
            yield from of_override(override)


def _judge(name: str, value: Any, place: str, path: str = "") -> Finding | None:
    """Return what is wrong with one name; the value is looked at and never shown.

    A null is nothing. The cluster's own names stand in capitals, outside the variables of the job; in other
    letters (`r2_score`, `aws_region`) they have to look like a secret's too. Numbers are no secrets under a
    lower-case name (`input_cost_per_token`).
    """
    if value is None or value == NULL:
        return None
    plain = _TWIN.sub("", name)
    exact = plain.isupper() or env.looks_secret(plain) or _VARIABLES.match(path) is not None
    if (exact and env.refused(plain)) or env.holds_keys(plain, str(value)):
        return None if _is_own(value) else env.refusal(name, place)
    if env.looks_secret(plain) and _is_literal(plain, value):
        return env.literal(name, place)
    return None


def _parts(key: str, value: Any) -> Iterator[tuple[str, Any]]:
    """Yield the names in a dotted key, each with what it holds: the last the value, the others a mapping."""
    parts = re.split(r"[./@]", key)
    for index, part in enumerate(parts):
        rest = ".".join(parts[index + 1 :])
        yield part, {rest: value} if rest and value is not None else value


def _named(value: Any, path: str = "") -> Iterator[tuple[str, str, Any]]:
    """Yield `(path, name, value)` of all below a value that may name a variable.

    That is every key of a mapping, `{name: N, value: V}`, the text `N=V`, and the cluster's own names with a
    value inside any text, a command line or JSON.
    """
    if isinstance(value, Mapping):
        name = value.get("name")
        if isinstance(name, str) and "value" in value:
            yield path, name, value["value"]
        for key, item in value.items():
            inner = f"{path}.{key}" if path else str(key)
            yield from ((inner, *part) for part in _parts(str(key), item))
            yield from _named(item, inner)
    elif isinstance(value, list | tuple):
        for index, item in enumerate(value):
            yield from _named(item, f"{path}[{index}]")
    elif isinstance(value, str):
        found = _ASSIGNED.match(value)
        if found:
            yield path, found[1], found[2].strip("\"';")
            if found[1].isupper() and env.refused(found[1]):
                return  # the whole text is its value
        for hit in _WITHIN.finditer(value, found.end(1) if found else 0):
            if hit[2] == "=" or _is_key(value, hit):
                inner = hit[3].strip("\"';)]")
                yield path, hit[1], None if inner == "null" and hit[2] != "=" else inner


def _is_key(text: str, hit: re.Match[str]) -> bool:
    """Tell whether `NAME: value` in a text is JSON or YAML, and no prose.

    It is where the name stands in quotes or braces, or where the line has one word more and no other. A
    shell's `${NAME:-default}` reads a variable and sets none; the default may still be a secret.
    """
    before, after = text[: hit.start()], text[hit.end() :]
    if before.endswith("${") and hit[3][0] in "-+?":
        return env.looks_secret(hit[1]) and hit[3][0] != "?" and len(hit[3]) > 1
    line = before.rpartition("\n")[2] + after.partition("\n")[0]
    braces = before.count("{") > before.count("}")
    return hit[2][0] in "\"'" or braces or not line.strip(" \t\r-")


def _is_own(value: Any) -> bool:
    """Tell whether a value is nothing but a reference to one of the cluster's own variables."""
    found = _REFERENCE.match(value) if isinstance(value, str) else None
    if found is None:
        return False
    name = next(text for key in ("shell", "name", 5, 6, 7) if (text := found[key]))
    return name.isupper() and env.refused(name) and (found["default"] or "") in {"", "null"}


def _is_literal(name: str, value: Any) -> bool:
    """Tell whether a value under a secret's name is one; a reference is none, but its default may be."""
    if isinstance(value, list | tuple):
        return any(_is_literal(name, item) for item in value)
    if not isinstance(value, str):
        return isinstance(value, int | float) and not isinstance(value, bool) and name.isupper()
    named = value.isupper() and value.isascii() and value.isidentifier() and env.looks_secret(value)
    if named or value == NULL or value.lower() in _PLACEHOLDERS:
        return False
    if found := _REFERENCE.match(value):
        return found["default"] is not None and _is_literal(name, found["default"].strip(" \"'"))
    return not _is_innocent(name) or _ISSUED.match(value) is not None


def _is_innocent(name: str) -> bool:
    """Tell whether a lower-case `…_key` or `…_token` is a column or a token of a text (`eot_token`)."""
    if name.isupper():
        return False
    words = set(re.split(r"[^a-z0-9]+", re.sub(r"_id\Z", "", name.lower())))
    others = words - {"key", "token"}
    owned = others == words or not others or others & _OWNED
    return _INNOCENT.match(name) is not None or not owned

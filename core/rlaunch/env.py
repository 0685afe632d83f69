"""The environment of the job: one coercion rule, one precedence, every decision with its reason.

Pure. Values come from the recipe's `extra_env` (and `container.extra_env`), from `--set env.NAME=…`,
from the user's configuration and from the profile; what a profile's rules drop, keep, set or refuse
is listed with the rule's reason. Refusals stand above all of it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from rlaunch.model import Finding, Recipe, Setting

LIMIT = 96 * 1024
"""Bytes of all names and values together (Linux allows 128 KiB for one string; schedulers less)."""

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_DOLLAR = re.compile(r"\$(?:[A-Za-z_{(])")
_SECRET = re.compile(r"(?:_|\b)(?:KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIALS?)(?:_ID)?\Z")
_KEYED = re.compile("key|secret|token", re.IGNORECASE)
_STORE_KEYS = re.compile(r"FSSPEC_S3_\w*(?:KEY|SECRET|TOKEN|PASSWORD)")
_TLS_OFF = {
    "PYTHONHTTPSVERIFY": "0",
    "NODE_TLS_REJECT_UNAUTHORIZED": "0",
    "GIT_SSL_NO_VERIFY": None,
    "CURL_INSECURE": None,
    "HF_HUB_DISABLE_SSL_VERIFY": None,
}
RESERVED = ("RLAUNCH_", "RAY_ADDRESS", "RAY_AUTH_MODE", "RAY_AUTH_TOKEN")


class Environment(NamedTuple):
    """What the job will see, and why."""

    values: Mapping[str, str]
    provenance: Mapping[str, Setting]
    """`env.NAME` -> the value (None where dropped), its source and the reason."""
    findings: tuple[Finding, ...]


def refused(name: str) -> bool:
    """Tell whether a name belongs to the cluster's own credentials: `AWS_*`, `R2_*`, `FSSPEC_S3_KEY`, …"""
    upper = name.upper()
    return upper.startswith(("AWS_", "R2_")) or _STORE_KEYS.match(upper) is not None


def holds_keys(name: str, value: str) -> bool:
    """Tell whether `FSSPEC_S3` carries credentials in its JSON."""
    return name.upper() == "FSSPEC_S3" and _KEYED.search(value) is not None


def looks_secret(name: str) -> bool:
    """Tell whether a name says that its value is a secret (`…_KEY`, `…_TOKEN`, `…_SECRET`)."""
    return _SECRET.search(name.upper()) is not None


def coerce(value: Any) -> str | None:
    """Turn a YAML value into the string that the process gets.

    true and false become `1` and `0`; numbers their shortest decimal text; null means "not set" (None
    is returned). Raises TypeError for lists and mappings.
    """
    if value is None:
        return None
    if isinstance(value, bool):
        return "1" if value else "0"
    if isinstance(value, str):
        return value
    if isinstance(value, int | float):
        return repr(value)
    raise TypeError(type(value).__name__)


class _Draft:
    """Collects values, reasons and findings while the layers are laid on one another."""

    def __init__(self) -> None:
        self.values: dict[str, str] = {}
        self.provenance: dict[str, Setting] = {}
        self.findings: list[Finding] = []

    def put(self, name: str, value: str, source: str, reason: str = "") -> None:
        self.values[name] = value
        self.provenance[f"env.{name}"] = Setting(value, source, reason)

    def drop(self, name: str, source: str, reason: str) -> None:
        self.values.pop(name, None)
        self.provenance[f"env.{name}"] = Setting(None, source, f"dropped: {reason}")

    def say(self, code: str, message: str, place: str, hint: str) -> None:
        self.findings.append(Finding("error", code, message, place, hint))


def gather(
    recipe: Recipe,
    *,
    typed: Mapping[str, Any],
    user: Mapping[str, Any],
    profile: Mapping[str, Any],
    rules: Mapping[str, Mapping[str, Any]],
    cluster: str,
) -> Environment:
    """Lay the layers on one another: profile, `rlaunch.toml`, recipe, command line; then judge.

    `rules` maps a name, or a prefix with `*`, to `{action, value, reason}`.
    """
    draft = _Draft()
    _layer(draft, profile, f"profile {cluster}", lambda name: f"profile {cluster}: env.{name}")
    _layer(draft, user, "rlaunch.toml", lambda name: f"rlaunch.toml: env.{name}")
    written = _fold(recipe, draft)
    _layer(draft, written, "recipe", lambda name: _place(recipe, name))
    _layer(draft, typed, "command line", lambda name: f"--set env.{name}")
    _apply_rules(draft, rules, recipe, cluster, frozenset(typed))
    _judge(draft, recipe)
    return Environment(draft.values, draft.provenance, tuple(draft.findings))


def _place(recipe: Recipe, name: str) -> str:
    for section in ("extra_env", "container.extra_env"):
        for key in (f"{section}.{name}", f"{section}.APPTAINERENV_{name}"):
            if key in recipe.marks:
                return recipe.at(key)
    return f"env.{name}"


def _layer(draft: _Draft, values: Mapping[str, Any], source: str, place: Any) -> None:
    for name, raw in values.items():
        try:
            value = coerce(raw)
        except TypeError as error:
            draft.say(
                "env.not-scalar", f"`{name}` is a {error}, and an environment variable is one string",
                place(name), "write the value as one quoted string",
            )  # fmt: skip
            continue
        if value is None:
            draft.drop(str(name), source, "null means not set")
        else:
            draft.put(str(name), value, source)


def _sections(recipe: Recipe, draft: _Draft) -> Iterator[tuple[str, Mapping[Any, Any]]]:
    container = recipe.body.get("container")
    parts = {
        "container.extra_env": container.get("extra_env")
        if isinstance(container, Mapping)
        else None,
        "extra_env": recipe.body.get("extra_env"),
    }
    for key, part in parts.items():
        if isinstance(part, Mapping):
            yield key, part
        elif part is not None:
            draft.say(
                "env.not-mapping", f"`{key}` is not a mapping of names to values",
                recipe.at(key), f"write `{key}:` with one `NAME: value` a line",
            )  # fmt: skip


def _fold(recipe: Recipe, draft: _Draft) -> dict[str, Any]:
    """Return the recipe's variables: twins folded into their plain name, the top level winning."""
    written: dict[str, Any] = {}
    for section, part in _sections(recipe, draft):
        plain = {str(k): v for k, v in part.items() if not str(k).startswith("APPTAINERENV_")}
        for key, value in part.items():
            name = str(key).removeprefix("APPTAINERENV_")
            if name == str(key):
                continue
            if name in plain and _text(plain[name]) != _text(value):
                draft.say(
                    "env.twins-differ",
                    f"`{name}` and its twin `{key}` have different values",
                    recipe.at(f"{section}.{key}"),
                    f"keep one of them: rlaunch sets `{name}` inside the container by itself",
                )
            plain.setdefault(name, value)
            draft.provenance[f"env.{key}"] = Setting(
                None, "recipe", f"folded into {name}: the launcher carries it into the container"
            )
        for name, value in plain.items():
            if name in written and _text(written[name]) != _text(value):
                draft.findings.append(
                    Finding(
                        "warning",
                        "env.container-shadowed",
                        f"`{name}` stands in `container.extra_env` and in `extra_env`, which wins",
                        recipe.at(f"{section}.{name}"),
                        "keep the one that is meant",
                    )
                )
            written[name] = value
    return written


def _text(value: Any) -> Any:
    try:
        return coerce(value)
    except TypeError:
        return value


def rule_for(name: str, rules: Mapping[str, Mapping[str, Any]]) -> Mapping[str, Any] | None:
    """Return the rule for a name: its own, else that of the longest prefix with `*`; None without one."""
    if name in rules:
        return rules[name]
    prefixes = [p for p in rules if p.endswith("*") and name.startswith(p[:-1])]
    return rules[max(prefixes, key=len)] if prefixes else None


def _apply_rules(
    draft: _Draft,
    rules: Mapping[str, Mapping[str, Any]],
    recipe: Recipe,
    cluster: str,
    typed: frozenset[str],
) -> None:
    """Apply the profile's rules; what was typed on the command line only a refusal changes."""
    for name in list(draft.values):
        rule = rule_for(name, rules)
        if rule is None or (name in typed and rule["action"] != "refuse"):
            continue
        reason, source = str(rule["reason"]), draft.provenance[f"env.{name}"].source
        match rule["action"]:
            case "drop":
                draft.drop(name, source, reason)
            case "refuse":
                draft.say(
                    "env.refused-here", f"`{name}` is refused on `{cluster}`: {reason}",
                    _place(recipe, name), "take it out of the recipe",
                )  # fmt: skip
            case "keep":
                draft.put(name, draft.values[name], source, f"kept: {reason}")
    for name, rule in rules.items():
        if rule["action"] == "set" and name not in typed:
            draft.put(name, str(rule["value"]), f"profile {cluster}", str(rule["reason"]))


def _judge(draft: _Draft, recipe: Recipe) -> None:
    for name, value in draft.values.items():
        draft.findings.extend(judge(name, value, _place(recipe, name)))
    size = sum(
        len(n.encode()) + len(v.encode("utf-8", "replace")) + 2 for n, v in draft.values.items()
    )
    if size > LIMIT:
        largest = max(draft.values, key=lambda n: len(draft.values[n]))
        draft.say(
            "env.too-large",
            f"the environment has {size} bytes of {LIMIT}; the largest is `{largest}`",
            _place(recipe, largest),
            "put large values into a file of the workspace and pass its path",
        )


def judge(name: str, value: str, place: str) -> Iterable[Finding]:
    """Yield what is wrong with one variable, from whatever source it comes."""
    if not _NAME.match(name):
        yield Finding(
            "error", "env.name", f"`{name}` is no name of an environment variable", place,
            "use letters, digits and `_`, not beginning with a digit",
        )  # fmt: skip
    if refused(name) or holds_keys(name, value):
        yield refusal(name, place)
    elif name.startswith(RESERVED):
        yield Finding(
            "error", "env.reserved", f"`{name}` is set by rlaunch itself", place, "take it out"
        )
    elif name in _TLS_OFF and _TLS_OFF[name] in (None, value):
        yield Finding(
            "error", "env.tls-off", f"`{name}` would switch off the verification of TLS", place,
            "give the proxy's certificate instead (`SSL_CERT_FILE`)",
        )  # fmt: skip
    elif looks_secret(name) and value:
        yield literal(name, place)
    if "\0" in value:
        yield Finding("error", "env.nul", f"`{name}` has a NUL byte", place, "take it out")
    elif _DOLLAR.search(value):
        yield Finding(
            "error", "env.dollar", f"`{name}` has `$`, and nothing expands it: it arrives literally",
            place, "write the value out, or `--allow env.dollar` to send it as it stands",
        )  # fmt: skip


def refusal(name: str, place: str) -> Finding:
    """Return the finding of a name that belongs to the cluster's credentials."""
    return Finding(
        "error", "env.refused",
        f"`{name}` would replace the storage credentials that the cluster gives the job", place,
        f"take `{name}` out; no flag allows it",
    )  # fmt: skip


def literal(name: str, place: str) -> Finding:
    """Return the finding of a secret that was written down; it never shows the value."""
    return Finding(
        "error", "env.secret-literal", f"`{name}` is a secret, and its value stands in plain text",
        place, f"put `{name}` into the secrets file and name it in the profile's `secrets`",
    )  # fmt: skip

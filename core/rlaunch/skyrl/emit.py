"""A recipe's sections → Hydra arguments, in a fixed order. Pure.

    config_groups      +GROUP=NAME, first
    trainer, generator, data, rollout       SECTION.KEY=VALUE; `++` below the mappings that SkyRL's base
                                            configuration leaves open (`OPEN`)
    teacher            ++teacher.KEY=VALUE (no base configuration has the section)
    terminal_bench     +terminal_bench_config.KEY=VALUE (renamed)

`rollout` goes out plain: a trainer that knows fan-out has the section in its base configuration, and
one that does not must say so instead of running without it. The older builder dropped it.

What the grammar cannot carry goes into one YAML file that travels with the run, as a configuration
group of the `_global_` package: `--config-dir=DIR +rlaunch=values`. Hydra merges it over the base
configuration and under all other arguments.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from rlaunch.skyrl import grammar
from rlaunch.survey import NULL


class Section(NamedTuple):
    """How one section of a recipe goes out."""

    recipe: str
    hydra: str
    prefix: str


SECTIONS = (
    Section("trainer", "trainer", ""),
    Section("generator", "generator", ""),
    Section("data", "data", ""),
    Section("rollout", "rollout", ""),
    Section("environment", "environment", ""),
    Section("teacher", "teacher", "++"),
    Section("terminal_bench", "terminal_bench_config", "+"),
    Section("smoke", "smoke", "++"),
)
OPEN = (
    ".engine_init_kwargs", ".hf_hub_", ".enable_db_registration", ".optimizer_kwargs", ".rope_scaling",
    ".wrap_policy", ".model_config_kwargs.", ".chat_template_kwargs.", "_config_kwargs.",
)  # fmt: skip
"""Parts of keys below which the base configuration fixes no keys."""
INLINE = ("rope_scaling",)
"""Mappings that the trainer wants whole: one argument, not one per leaf."""
FILE = "hydra/rlaunch/values.yaml"
_LEAVES = frozenset({str, int, float, bool, type(None), list})
"""Asked first: most values are leaves, and asking for Mapping costs ten times as much."""


class Argument(NamedTuple):
    """One leaf as it goes out."""

    key: str
    """The recipe's dotted key."""
    text: str
    """The argument; empty where the value travels in the file."""
    value: Any


class Emitted(NamedTuple):
    """All arguments in order, and the file's text where one is needed."""

    groups: tuple[Argument, ...]
    arguments: tuple[Argument, ...]
    filed: Mapping[str, Any]
    """Nested mapping of the values that only the file can carry."""


def leaves(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Yield `(dotted key, value)` of every leaf; a list and an empty mapping are leaves."""
    if value.__class__ not in _LEAVES and isinstance(value, Mapping) and value:
        for key, inner in value.items():
            yield from leaves(inner, f"{path}.{key}" if path else str(key))
    else:
        yield path, value


def _outgoing(value: Any, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:
    if value.__class__ in _LEAVES:
        yield path, value
    elif isinstance(value, Mapping) and value and not (path and path[-1] in INLINE):
        for key, inner in value.items():
            yield from _outgoing(inner, (*path, str(key)))
    else:
        yield path, value


def prefix(section: Section, hydra_key: str) -> str:
    """Return the prefix of a key: the section's, or `++` where the base fixes no keys."""
    if section.prefix or not any(part in hydra_key for part in OPEN):
        return section.prefix
    return "++"


def emit(body: Mapping[str, Any], quoted: frozenset[str] = frozenset()) -> Emitted:
    """Return the arguments of a body in which everything is decided.

    Null leaves and empty mappings go out as nothing (the trainer's default applies); `!null` goes out
    as null. Text such as `8e-6` is a number unless its key is in `quoted`.
    """
    groups: list[Argument] = []
    arguments: list[Argument] = []
    filed: dict[str, Any] = {}
    chosen = body.get("config_groups")
    for group, name in chosen.items() if isinstance(chosen, Mapping) else ():
        if isinstance(name, str | list) and name:
            text = f"+{group}={_text(name)}"
            groups.append(Argument(f"config_groups.{group}", text, name))
    for section in SECTIONS:
        content = body.get(section.recipe)
        if not isinstance(content, Mapping):
            continue
        for path, value in _outgoing(content, ()):
            if value is None or value == {}:
                continue
            key = f"{section.recipe}.{'.'.join(path)}"
            plain = _decided(value, key, quoted)
            text = _argument(section, path, plain)
            arguments.append(Argument(key, text, plain))
            if not text:
                _file(filed, (section.hydra, *path), plain)
    return Emitted(tuple(groups), tuple(arguments), filed)


class Number(str):
    """Text that is a number for Hydra and text for YAML 1.1 (`8e-6`): it goes out with its own digits."""

    __slots__ = ()


def _decided(value: Any, key: str, quoted: frozenset[str]) -> Any:
    """Turn the marker of an explicit null into null, and `8e-6` into a number, at any depth."""
    if isinstance(value, str):
        if value == NULL:
            return None
        return Number(value) if key not in quoted and grammar.is_exponent(value) else value
    if isinstance(value, list):
        return [_decided(item, f"{key}[{index}]", quoted) for index, item in enumerate(value)]
    if value.__class__ not in _LEAVES and isinstance(value, Mapping):
        return {name: _decided(item, f"{key}.{name}", quoted) for name, item in value.items()}
    return value


def _text(value: Any) -> str:
    if isinstance(value, Number):
        return str(value)
    if isinstance(value, list):
        return "[" + ",".join(_item(item) for item in value) + "]"
    if isinstance(value, Mapping):
        return (
            "{"
            + ",".join(f"{grammar.key(name)}:{_item(item)}" for name, item in value.items())
            + "}"
        )
    return grammar.write(value)


def _item(value: Any) -> str:
    """Write a value inside a list or mapping: texts always in double quotes, as people read lists."""
    if isinstance(value, str) and not isinstance(value, Number):
        return grammar.quote(value, '"')
    return _text(value)


def _argument(section: Section, path: tuple[str, ...], value: Any) -> str:
    """Return the argument of a leaf, or nothing where only the file can carry it."""
    hydra_key = ".".join((section.hydra, *path))
    if hydra_key.count(".") != len(path) or not grammar.writable_key(hydra_key):
        return ""
    try:
        text = _text(value)
    except grammar.Unwritable:
        return ""
    return f"{prefix(section, hydra_key)}{hydra_key}={text}" if grammar.fits(text) else ""


def _file(tree: dict[str, Any], path: tuple[str, ...], value: Any) -> None:
    for part in path[:-1]:
        tree = tree.setdefault(part, {})
    tree[path[-1]] = value


def file_text(filed: Mapping[str, Any]) -> str:
    """Return the YAML of the values that travel in the file, every text in double quotes."""
    return "# @package _global_\n" + "".join(
        f"{_yaml(key)}: {_yaml(value)}\n" for key, value in filed.items()
    )


def _yaml(value: Any) -> str:
    if isinstance(value, Number):
        return repr(float(value))
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, float):
        return repr(value).replace("inf", ".inf").replace("nan", ".nan")
    if isinstance(value, int):
        return str(value)
    if isinstance(value, str):
        return '"' + "".join(escaped(letter) for letter in value) + '"'
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{_yaml(key)}: {_yaml(item)}" for key, item in value.items()) + "}"
    return "[" + ", ".join(_yaml(item) for item in value) + "]"


def escaped(letter: str) -> str:
    """Return a letter as it stands inside double quotes in YAML."""
    code = ord(letter)
    if letter in '"\\':
        return "\\" + letter
    if letter.isprintable() and code != 0xFEFF:
        return letter
    return (
        f"\\x{code:02x}"
        if code < 0x100
        else f"\\u{code:04x}"
        if code < 0x10000
        else f"\\U{code:08x}"
    )

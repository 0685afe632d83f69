"""Changes made in a recipe's text, in place: every other line stays as it was, comments and all. Pure.

The places of keys come from YAML's own parser. What was written is read again and compared with what was
meant, so that a way of writing that is not understood here is an error and never a wrong recipe.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from rlaunch import recipes
from rlaunch.errors import RecipeError
from rlaunch.model import Recipe
from rlaunch.porting.changes import Change
from rlaunch.porting.scalars import flow, scalar
from rlaunch.skyrl.tree import look

_INNER = "container.extra_env"


class _NotInPlaceError(Exception):
    """A key stands where it cannot be changed by itself; the text says why."""


class Spot(NamedTuple):
    """A key of a block or flow mapping, with its value."""

    key: Any
    value: Any
    parent: Any


class Edit(NamedTuple):
    """A piece of text in place of another."""

    start: int
    end: int
    text: str


def rewrite(text: str, recipe: Recipe, body: Mapping[str, Any], changes: Iterable[Change]) -> str:
    """Return the text with the changes made; `body` is what it must then read as.

    Raises RecipeError `port.rewrite` where a key cannot be changed in place.
    """
    import yaml

    made = [change for change in changes if change.action != "keep"]
    try:
        for step in (_replace, _raise, _append):
            text = step(text, body, made)
        again = recipes.parse(text.encode(), recipe.path)
    except _NotInPlaceError as error:
        raise _refusal(recipe, str(error)) from error
    except RecipeError as error:
        raise _refusal(recipe, error.findings[0].message) from error
    except yaml.YAMLError as error:
        raise _refusal(recipe, "half-way it is no YAML") from error
    if not same(again.body, body):
        raise _refusal(recipe, "read again, it says something else")
    return text


def same(one: Any, other: Any) -> bool:
    """Tell whether two bodies are equal, types included (1 is not true)."""
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(same(a, b) for a, b in zip(one, other, strict=True))
    return type(one) is type(other) and (one == other or one != one)  # noqa: PLR0124  # NaN is like NaN


def _refusal(recipe: Recipe, why: str) -> RecipeError:
    return RecipeError.of(
        "port.rewrite", f"the recipe cannot be changed in place: {why}", place=recipe.path,
        hint="write the keys of the table out, without aliases and merges, or change them by hand",
    )  # fmt: skip


def _spots(text: str) -> dict[str, Spot]:
    """Return every key of the text by its dotted path; what stands behind an alias is not among them."""
    import yaml

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    found: dict[str, Spot] = {}

    def walk(node: Any, path: str) -> None:
        for key, value in node.value:
            if key.value == "<<":
                continue
            name = f"{path}.{key.value}" if path else str(key.value)
            found[name] = Spot(key, value, node)
            alias = value.start_mark.index < key.start_mark.index
            if value.id == "mapping" and not alias:
                walk(value, name)

    root: Any = yaml.compose(text, Loader=loader)
    if root is not None and root.id == "mapping":
        walk(root, "")
    return found


def _apply(text: str, edits: Iterable[Edit]) -> str:
    for edit in sorted(set(edits), reverse=True):
        text = text[: edit.start] + edit.text + text[edit.end :]
    return text


def _line(text: str, index: int) -> int:
    """Return the index at which the line of `index` begins."""
    return text.rfind("\n", 0, index) + 1


def _next(text: str, index: int) -> int:
    """Return the index after the end of the line of `index`."""
    found = text.find("\n", index)
    return len(text) if found < 0 else found + 1


def _last(node: Any) -> int:
    """Return the index of a node's last character; the marks of a block reach over what follows it."""
    if node.id == "scalar" or node.flow_style:
        end: int = node.end_mark.index
        return end if node.id != "scalar" or node.style not in ("|", ">") else end - 1
    parts = [part for pair in node.value for part in pair] if node.id == "mapping" else node.value
    return max((_last(part) for part in parts), default=node.start_mark.index)


def _lines(text: str, spot: Spot) -> tuple[int, int]:
    """Return the span of all lines of a key and its value, with the comments that stand deeper below it."""
    end = _next(text, max(_last(spot.value), spot.key.end_mark.index))
    column, probe = spot.key.start_mark.column, end
    while probe < len(text):
        line = text[probe : _next(text, probe)]
        comment = line.lstrip(" ")
        if comment.strip() and not (comment.startswith("#") and len(line) - len(comment) > column):
            break
        probe += len(line)
        end = probe if comment.strip() else end
    return _line(text, spot.key.start_mark.index), end


def _ending(text: str) -> str:
    """Return how the lines of a text end."""
    return "\r\n" if "\r\n" in text else "\n"


def _replace(text: str, body: Mapping[str, Any], changes: list[Change]) -> str:
    """Make the changes of keys that are there: values, names, and entries taken out."""
    spots = _spots(text)
    emptied = [path for path in _emptied(body) if path in spots]
    edits = [Edit(*_lines(text, spots[path]), "") for path in emptied]
    for change in changes:
        path = change.key.rpartition(".")[0]
        lifted = "container" not in body and path == "container"
        if change.action == "add" or lifted or path in emptied:
            continue
        spot = spots.get(change.key)
        if spot is None:
            raise _NotInPlaceError(f"`{change.key}` comes from an alias or a merge")
        if spot.parent.flow_style:
            edits.append(_whole(spots, change, body))
        elif change.action == "remove":
            edits.append(Edit(*_lines(text, spot), ""))
        else:
            edits.extend(_value(text, spot, change))
    return _apply(text, edits)


def _emptied(body: Mapping[str, Any]) -> Iterable[str]:
    """Yield the sections of variables that are no longer there once their last entry is."""
    if "extra_env" not in body:
        yield "extra_env"
    if "container" in body and look(body, _INNER) is None:
        yield _INNER


def _whole(spots: Mapping[str, Spot], change: Change, body: Mapping[str, Any]) -> Edit:
    """Write a flow mapping anew, as it must be in the end."""
    path = change.key.rpartition(".")[0]
    while spots[path].parent.flow_style and "." in path:
        path = path.rpartition(".")[0]
    node = spots[path].value
    home = "extra_env" if path == _INNER and "container" not in body else path
    value = look(body, home)
    return Edit(
        node.start_mark.index, node.end_mark.index, flow(value if value is not None else {})
    )


def _value(text: str, spot: Spot, change: Change) -> Iterable[Edit]:
    name = (change.to or change.key).rpartition(".")[2]
    if name != spot.key.value:
        yield Edit(spot.key.start_mark.index, spot.key.end_mark.index, scalar(name))
    if same(change.before, change.after):
        return
    if spot.value.start_mark.index < spot.key.start_mark.index:
        raise _NotInPlaceError(f"`{change.key}` is an alias")
    start, end = spot.value.start_mark.index, _last(spot.value)
    new = scalar(change.after) if not isinstance(change.after, list) else flow(change.after)
    if spot.value.id == "sequence" and not spot.value.flow_style:
        start = spot.key.end_mark.index + 1  # behind the colon; the items' lines go
        end = _next(text, end) - 1
        new = f" {new}"
    elif start == end:
        new = f" {new}"
    yield Edit(start, end, new)


def _raise(text: str, body: Mapping[str, Any], changes: list[Change]) -> str:
    """Take the container block away and put its variables where it stood, or into `extra_env`."""
    spots = _spots(text)
    if "container" in body or "container" not in spots:
        return text
    start, end = _lines(text, spots["container"])
    inner = spots.get(_INNER)
    block = ""
    if inner is not None and inner.value.id == "mapping" and inner.value.value:
        block = _inner(text, inner, _indent(text, spots.get("extra_env")))
    home = spots.get("extra_env")
    if home is None or not block:
        head = f"extra_env:{_ending(text)}" if block and home is None else ""
        return f"{text[:start]}{head}{block}{text[end:]}"
    at = _lines(text, home)[1]
    return _apply(text, [Edit(start, end, ""), Edit(at, at, block)])


def _indent(text: str, spot: Spot | None) -> str:
    if spot is None or spot.value.id != "mapping" or not spot.value.value:
        return "  "
    return " " * int(spot.value.value[0][0].start_mark.column)


def _inner(text: str, spot: Spot, indent: str) -> str:
    """Return the lines below `container.extra_env`, indented as lines of the top level."""
    if spot.value.flow_style:
        raise _NotInPlaceError("`container.extra_env` stands in braces")
    first = spot.value.value[0][0]
    own = first.start_mark.column
    start, end = _next(text, spot.key.end_mark.index), _lines(text, spot)[1]
    lines = []
    for line in text[start:end].split("\n"):
        stripped = line[own:] if not line[:own].strip() else line.lstrip(" ")
        lines.append(f"{indent}{stripped}" if stripped.strip() else line)
    block = "\n".join(lines)
    return block if block.endswith("\n") else f"{block}{_ending(text)}"


def _append(text: str, body: Mapping[str, Any], changes: list[Change]) -> str:
    """Write keys that were not there behind the last key of their section, or a new section at the end."""
    end = _ending(text)
    for change in changes:
        if change.action != "add" or look(_read(text), change.key) == change.after:
            continue
        spots = _spots(text)
        path, _, name = change.key.rpartition(".")
        value = flow(change.after) if isinstance(change.after, list) else scalar(change.after)
        home = spots.get(path)
        if home is None:
            lead = "" if text.endswith("\n") or not text else end
            text = f"{text}{lead}{path}:{end}  {name}: {value}{end}"
        elif home.value.id != "mapping" or home.value.flow_style:
            span = home.value.start_mark.index, home.value.end_mark.index
            text = _apply(text, [Edit(*span, f" {flow(look(body, path))}")])
        else:
            at = _lines(text, home)[1]
            lead = "" if text[:at].endswith("\n") else end
            text = f"{text[:at]}{lead}{_indent(text, home)}{name}: {value}{end}{text[at:]}"
    return text


def _read(text: str) -> Mapping[str, Any]:
    return recipes.parse(text.encode(), "").body

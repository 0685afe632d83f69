"""Read a recipe: YAML as PyYAML's safe loader reads it, with the place of every key.

`read` is the only function here that touches a file; `parse` is pure. A recipe that cannot be taken
as it stands is refused with a finding: nothing is repaired, and nothing is read in part.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from typing import Any

from rlaunch import reading
from rlaunch.errors import RecipeError
from rlaunch.model import Finding, Recipe
from rlaunch.reading import LIMIT
from rlaunch.survey import NULL, Survey, kind

__all__ = ["LIMIT", "NULL", "leaves", "outside", "parse", "read"]


def read(path: str, *, workspace: str | None = None) -> Recipe:
    """Return the recipe at `path`, exactly as it was written.

    With `workspace`, a recipe that lies outside it (symlinks followed) is refused. Raises RecipeError
    with at least one finding, code `recipe.…`.
    """
    from pathlib import Path

    file = Path(path)
    if not path or not file.exists():
        raise RecipeError(_missing(path))
    if workspace is not None and (finding := outside(path, workspace)):
        raise RecipeError(finding)
    try:
        return parse(reading.read(str(file.absolute()), LIMIT + 1), path)  # `parse` knows the limit
    except reading.NotReadable as error:
        raise _unreadable(path, str(error)) from None


def outside(path: str, workspace: str) -> Finding | None:
    """Return a finding when `path`, symlinks followed, lies outside the workspace."""
    from pathlib import Path

    root, file = Path(workspace).resolve(), Path(path).resolve()
    if file.is_relative_to(root):
        return None
    return Finding(
        "error",
        "recipe.outside-workspace",
        f"the recipe `{path}` lies outside the workspace `{root}`, and the job would not have it",
        path,
        f"copy it into `{root}`, or give `--workspace` the checkout that it belongs to",
    )


def parse(data: bytes, path: str) -> Recipe:
    """Return the recipe in `data`; `path` is only written into it. Raises RecipeError."""
    if len(data) > LIMIT:
        raise RecipeError.of(
            "recipe.too-large",
            f"`{path}` has more than {LIMIT // 1024} KiB",
            place=path,
            hint="a recipe is configuration; large data belongs into a file that it names",
        )
    node, loader = _compose(_decode(data, path), path)
    if node is None or node.tag != "tag:yaml.org,2002:map":
        what = "is empty" if node is None else f"holds a {kind(node)}, not keys"
        mark = getattr(node, "start_mark", None)
        raise RecipeError.of(
            "recipe.not-mapping",
            f"the recipe {what}",
            place=f"{path}:{mark.line + 1}:{mark.column + 1}" if mark else path,
            hint="a recipe is a mapping of sections: `entrypoint:`, `trainer:`, `generator:`, …",
        )
    survey = Survey(path)
    survey.walk(node)
    if survey.findings:
        raise RecipeError(*survey.findings)
    body = _construct(loader, node, path)
    digest = hashlib.sha256(data).hexdigest()
    return Recipe(path, digest, body, survey.marks, tuple(sorted(survey.quoted)))


def _missing(path: str) -> Finding:
    import difflib
    from pathlib import Path

    folder = Path(path).parent
    try:
        names = [p.name for p in folder.iterdir() if p.suffix in {".yaml", ".yml"}]
    except OSError:
        names = []
    near = difflib.get_close_matches(Path(path).name, names, 1)
    hint = f"did you mean `{folder / near[0]}`?" if near else "give the path of a YAML file"
    return Finding("error", "recipe.missing", f"there is no recipe `{path}`", "--rl_config", hint)


def _unreadable(path: str, reason: str) -> RecipeError:
    return RecipeError(
        Finding(
            "error",
            "recipe.unreadable",
            f"the recipe `{path}` cannot be read: {reason}",
            path,
            f"look at `ls -l {path}`",
        )
    )


def _decode(data: bytes, path: str) -> str:
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        head = data[: error.start]
        line = head.count(b"\n") + 1
        column = len(head.rpartition(b"\n")[2].decode("utf-8", "replace")) + 1
        raise RecipeError.of(
            "recipe.not-utf8",
            f"byte 0x{data[error.start]:02x} is not UTF-8",
            place=f"{path}:{line}:{column}",
            hint=f"`iconv -f latin1 -t utf-8 {path}`, if it was written in Latin-1",
        ) from None


def _loader() -> Any:
    """Return the fastest safe loader, a class of our own that knows the tag `!null`."""
    import yaml

    class Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]  # chosen at run time
        pass

    Loader.add_constructor(NULL, lambda _loader, _node: NULL)
    return Loader


def _compose(text: str, path: str) -> tuple[Any, Any]:
    import yaml

    try:
        loader = _loader()(text)
        return loader.get_single_node(), loader
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = f"{path}:{mark.line + 1}:{mark.column + 1}" if mark else path
        raise _not_yaml(error.problem or str(error), place) from None
    except yaml.reader.ReaderError as error:
        head = text[: error.position] if isinstance(error.position, int) else ""
        place = f"{path}:{head.count(chr(10)) + 1}:{len(head.rpartition(chr(10))[2]) + 1}"
        raise _not_yaml(error.reason, place) from None
    except RecursionError:
        raise _not_yaml("it is nested too deep", path) from None


def _not_yaml(problem: str, place: str) -> RecipeError:
    return RecipeError(
        Finding(
            "error",
            "recipe.not-yaml",
            f"the recipe is not YAML: {problem}",
            place,
            "look at this line and the one above: indentation, a missing `:` or an open quote",
        )
    )


def _construct(loader: Any, node: Any, path: str) -> Mapping[str, Any]:
    """Build the values. `!null` reads as the text `!null`, the mark of an explicit null."""
    import yaml

    try:
        body: dict[str, Any] = loader.construct_document(node)
    except (yaml.MarkedYAMLError, ValueError, OverflowError) as error:
        mark = getattr(error, "problem_mark", None)
        place = f"{path}:{mark.line + 1}:{mark.column + 1}" if mark else path
        problem = getattr(error, "problem", None) or str(error)
        raise RecipeError.of(
            "recipe.unsupported-value",
            f"a value cannot be read: {problem}",
            place=place,
            hint="quote the value, if it is text",
        ) from None
    return body


def leaves(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Yield every leaf with its dotted path; an empty mapping or list is a leaf, and a list's items
    come one by one as `path[0]`.
    """
    if isinstance(value, Mapping) and value:
        for key, inner in value.items():
            yield from leaves(inner, f"{path}.{key}" if path else str(key))
    elif isinstance(value, list) and value:
        for index, inner in enumerate(value):
            yield from leaves(inner, f"{path}[{index}]")
    else:
        yield path, value

"""Write docs/reference/ from the code, so that the two cannot disagree.

    python tools/reference.py            write
    python tools/reference.py --check    say what is not current, and exit 1 then

Also keeps the dry run in README.md: the text between its markers is cut out of the golden plan.
Over 300 lines: it is one function for each page, and what they share.
"""

from __future__ import annotations

import functools
import inspect
import json
import operator
import os
import re
import subprocess
import sys
import tempfile
import typing
from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType, UnionType
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
REFERENCE = ROOT / "docs" / "reference"
GOLDEN = ROOT / "tests" / "golden" / "smoke.local.txt"
SHOWN = ("command:", "staging, on every node:", "environment:")
"""Sections of the golden plan that the README shows; the first lines always."""
SETTINGS_SHOWN = ("cpu ", "gpus_per_node ", "max_retries ", "nodes ", "train_data ")
BEGIN, END = "<!-- dry-run: begin -->", "<!-- dry-run: end -->"
MADE = "<!-- Made by tools/reference.py (`make reference`); change the code instead. -->\n\n"


def plugins() -> list[ModuleType]:
    """Return the cluster plugins of this repository, as far as they are installed."""
    homes = sorted(path.parent for path in ROOT.glob("plugins/*/pyproject.toml"))
    names = [path.name for home in homes for path in home.glob("rlaunch_*") if path.is_dir()]
    return [import_module(name) for name in names if find_spec(name)]


def commands() -> str:
    """Return the page of all commands: each one's own help."""
    from rlaunch.cli.table import COMMANDS

    env = {**os.environ, "COLUMNS": "100", "HOME": tempfile.gettempdir(), "NO_COLOR": "1"}
    parts = [
        "# Commands\n\nThe launch flags stand on the root command: `rlaunch --cluster …` launches. "
        "Each flag is known with hyphens and with underscores.\n\nExit codes, the same everywhere: "
        "0 done or succeeded · 1 failed, killed, unschedulable, or the admission timed out (the job is "
        "left) · 2 absent · 3 refused, or could not · 4 still going (`--once`, `status`) · 64 wrong usage "
        "· 130 interrupted (the job goes on; where `--kill-on-interrupt` stopped it, the code is that of its "
        "state then, 1 for KILLED). Of several runs the worst counts.\n"
    ]
    for name in ("", *COMMANDS):
        argv = [sys.executable, "-m", "rlaunch", *([name] if name else []), "--help"]
        done = subprocess.run(argv, capture_output=True, text=True, env=env, check=True, timeout=60)
        parts.append(
            f"\n## rlaunch{f' {name}' if name else ''}\n\n```text\n{done.stdout.rstrip()}\n```\n"
        )
    return "".join(parts)


def codes() -> str:
    """Return the page of all codes."""
    from rlaunch import explain

    known = explain.codes(plugins())
    parts = [
        "# Codes\n\nEverything that rlaunch refuses, warns about or notes has a code, `owner.slug`. "
        "`rlaunch explain CODE` prints the same page. Waivable ones pass with `--allow CODE`, and the "
        "run record keeps that.\n"
    ]
    owner = ""
    for name, code in sorted(known.items()):
        if name.partition(".")[0] != owner:
            owner = name.partition(".")[0]
            parts.append(f"\n## {owner}\n")
        waivable = ", waivable" if code.waivable else ""
        parts.append(f"\n### `{name}`\n\n*{code.level}{waivable}*\n\n{code.page.rstrip()}\n")
    return "".join(parts)


def reasons() -> str:
    """Return the page of all reasons that a state is given."""
    from rlaunch import endings, scheduling

    groups = {
        "What the node agent ends an attempt for": endings.AGENT,
        "Somebody ended it, or it never began": scheduling.ASKED,
        "A limit was met": scheduling.LIMITS,
        "What it ran on was lost": scheduling.MACHINES,
        "It ended before, or beside, its agents": scheduling.SCRIPT,
        "It waits, or is on its way": scheduling.WAITS,
        "How far the agents are": endings.PHASES,
    }
    parts = [
        "# Reasons\n\nThey stand in brackets behind a state: `FAILED (head-lost)`. `rlaunch explain REASON` "
        "prints the same page, also for a reason with what a cluster said after it (`kueue: …`). A reason "
        "that is a sentence is its own explanation. What a cluster knows beside the reason stands at the "
        "end of the line, and `rlaunch diagnose RUN` shows the lines behind it.\n"
    ]
    for title, group in groups.items():
        parts.append(f"\n## {title}\n")
        parts += [f"\n### `{name}`\n\n{page.rstrip()}\n" for name, page in group.items()]
    return "".join(parts)


def kind_of(annotation: object) -> str:
    """Return a type as one writes it, without what checks its values."""
    kind = plain_of(getattr(annotation, "__forward_arg__", annotation))
    text = kind if isinstance(kind, str) else inspect.formatannotation(kind)
    return re.sub(r"\b(typing|collections\.abc|rlaunch\.profiles)\.", "", text)


def plain_of(annotation: Any) -> Any:
    """Return a type without the metadata of `Annotated`, at any depth."""
    kind, parts = typing.get_origin(annotation), typing.get_args(annotation)
    if kind is None or kind is typing.Literal:
        return annotation
    plain = tuple(map(plain_of, parts[:1] if kind is typing.Annotated else parts))
    joined = kind in (typing.Union, UnionType, typing.Annotated)
    return functools.reduce(operator.or_, plain) if joined else kind[plain]


def row(*cells: str) -> str:
    """Return one line of a Markdown table."""
    return "| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in cells) + " |\n"


def settings() -> str:
    """Return the page of all settings: flags, profile fields, shipped values with their reasons."""
    from rlaunch.profiles import Profile
    from rlaunch.settings import SETTINGS

    parts = [
        "# Settings\n\nOne order for all of them: command line > recipe > `rlaunch.toml` > profile > "
        "default. "
        "`--set SETTING=VALUE` reaches every one; `rlaunch explain SETTING --cluster NAME` says what a value "
        "is and why.\n\n## Launch settings\n\n| setting | flag | what it is |\n| --- | --- | --- |\n"
    ]
    parts += [row(f"`{name}`", f"`{spec.flag}`", spec.about) for name, spec in SETTINGS.items()]
    parts.append("\n## Profile fields of every cluster\n\n")
    parts += fields(Profile, {})
    for plugin in plugins():
        model = plugin.rlaunch_cluster().Profile
        own = {k: v for k, v in model.model_fields.items() if k not in Profile.model_fields}
        parts.append(f"\n## Profile fields of {plugin.DEFAULT_PROFILE}, beside those\n\n")
        parts += fields(model, own)
        for name, path in plugin.PROFILES.items():
            parts.append(f"\n## Shipped profile `{name}`\n\n```yaml\n{Path(path).read_text()}```\n")
    return "".join(parts)


def fields(model: type[Any], only: Mapping[str, Any]) -> Iterator[str]:
    """Yield a table of a profile model's fields."""
    from rlaunch.schemas import field_notes

    notes = field_notes(model)
    yield "| field | type | default | what it is |\n| --- | --- | --- | --- |\n"
    for name, field in (only or model.model_fields).items():
        default = (
            "required" if field.is_required() else f"`{json.dumps(field.default, default=str)}`"
        )
        yield row(f"`{name}`", f"`{kind_of(field.annotation)}`", default, notes.get(name, ""))


def signature(function: Callable[..., Any]) -> str:
    """Return `def name(arguments) -> result`, as it stands in the source."""
    return f"def {function.__name__}{inspect.signature(function)}".replace("'", "")


def documented(heading: str, function: Callable[..., Any]) -> str:
    """Return one function's entry."""
    code = f"```python\n{signature(function)}\n```"
    return f"\n{heading} `{function.__name__}`\n\n{code}\n\n{inspect.getdoc(function)}\n"


def hooks_page() -> str:
    """Return the page of the hooks."""
    from rlaunch import hooks

    parts = [
        "# Hooks\n\nA plugin is a module whose hookimpls read like its table of contents. An implementation "
        "may take fewer arguments than its specification. Results are sorted; a plugin that raises becomes "
        "the finding `core.plugin-failed`, which names it.\n"
    ]
    for name, function in vars(hooks).items():
        if name.startswith("rlaunch_"):
            first = getattr(function, "rlaunch_spec", {}).get("firstresult")
            parts.append(documented("##", function))
            parts.append("\nThe first answer that is not None counts.\n" if first else "")
    return "".join(parts)


def cluster_page() -> str:
    """Return the page of `Cluster`, the models that pass through it, and the promises."""
    from rlaunch import cluster, model
    from rlaunch.schemas import field_notes
    from rlaunch.testing.conformance import ClusterConformance

    parts = [f"# The cluster contract\n\n{inspect.getdoc(cluster.Cluster)}\n\n## Methods\n"]
    parts += [
        documented("###", function)
        for name, function in vars(cluster.Cluster).items()
        if inspect.isfunction(function) and not name.startswith("_")
    ]
    parts.append(
        "\n## Promises\n\nEach is a test that a plugin inherits from "
        "`rlaunch.testing.conformance.ClusterConformance`.\n\n"
    )
    for name in (n for n in dir(ClusterConformance) if n.startswith("test_")):
        promise = " ".join((inspect.getdoc(getattr(ClusterConformance, name)) or "").split())
        parts.append(f"- `{name}`: {promise}\n")
    parts.append("\n## Models\n")
    for kind in (*queries(cluster), *queries(model)):
        parts.append(
            f"\n### `{kind.__name__}`\n\n{inspect.getdoc(kind)}\n\n| field | type | what it is |\n"
        )
        parts.append("| --- | --- | --- |\n")
        notes = field_notes(kind)
        parts += [
            row(f"`{n}`", f"`{kind_of(t)}`", notes[n]) for n, t in kind.__annotations__.items()
        ]
    return "".join(parts)


def queries(module: ModuleType) -> list[Any]:
    """Return the value classes that a module defines."""
    return [
        kind
        for kind in vars(module).values()
        if inspect.isclass(kind) and hasattr(kind, "_fields") and kind.__module__ == module.__name__
    ]


def schemas() -> str:
    """Return the page of the JSON documents."""
    parts = [
        "# JSON documents\n\n`--json` prints one document on stdout and nothing else. A later version of a "
        "schema may add keys and never changes one.\n"
    ]
    shared: dict[str, Mapping[str, Any]] = {}
    for path in sorted((ROOT / "docs" / "schemas").glob("*.json")):
        schema = json.loads(path.read_text(encoding="utf-8"))
        link = f"Schema: [docs/schemas/{path.name}](../schemas/{path.name})"
        parts.append(f"\n## {path.stem}\n\n{schema['description']}\n\n{link}\n\n")
        parts.append(keys(schema))
        shared |= schema["$defs"]
    parts.append("\n## Their parts\n")
    for name, part in sorted(shared.items()):
        parts.append(f"\n### `{name}`\n\n{part['description']}\n\n{keys(part)}")
    return "".join(parts)


def keys(schema: Mapping[str, Any]) -> str:
    """Return a table of an object's keys; a part is named where a key holds one or several of it."""
    text = "| key | what it is |\n| --- | --- |\n"
    for key, one in schema["properties"].items():
        parts = sorted(set(re.findall(r"#/\$defs/(\w+)", json.dumps(one))))
        of = f" ({', '.join(f'`{part}`' for part in parts)})" if parts else ""
        text += row(f"`{key}`", one["description"] + of)
    return text


def readme() -> str:
    """Return README.md with the dry run as it is now."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n```text\n{excerpt()}\n```\n{END}{after}"


def excerpt() -> str:
    """Cut the shown sections out of the golden plan; `…` stands for what is left out."""
    sections = GOLDEN.read_text(encoding="utf-8").split("\n\n")
    kept = [sections[0]]
    for section in sections[1:]:
        title, *lines = section.split("\n")
        if title == "settings:":
            shown = [line for line in lines if line.strip().startswith(SETTINGS_SHOWN)]
            kept.append("\n".join([title, *shown, "  …"]))
        elif title in SHOWN:
            kept.append(section)
        elif kept[-1] != "…":
            kept.append("…")
    return "\n\n".join(kept)


def pages() -> dict[Path, str]:
    """Return every generated file and what should be in it."""
    made = {
        "commands.md": commands,
        "codes.md": codes,
        "reasons.md": reasons,
        "settings.md": settings,
        "hooks.md": hooks_page,
        "cluster.md": cluster_page,
        "documents.md": schemas,
    }
    return {REFERENCE / name: MADE + write() for name, write in made.items()} | {
        ROOT / "README.md": readme()
    }


def main(check: bool) -> int:
    """Write the pages, or compare them; returns the exit code."""
    stale = []
    for path, text in pages().items():
        if path.is_file() and path.read_text(encoding="utf-8") == text:
            continue
        stale.append(path.relative_to(ROOT))
        if not check:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
    for name in stale:
        print(f"{'is not current' if check else 'written'}: {name}")
    if stale and check:
        print("run `make reference`, and read the change")
    return 1 if stale and check else 0


if __name__ == "__main__":
    sys.exit(main("--check" in sys.argv[1:]))

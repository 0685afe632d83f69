"""`rlaunch explain`: the page of a code or of a reason, or a setting's meaning, value and source."""

# No `from __future__ import annotations`: typer reads these annotations as they are.
from typing import TYPE_CHECKING, Annotated

import typer

from rlaunch.cli.flags import Cluster, Json

if TYPE_CHECKING:
    from rlaunch.cli.speak import Voice
    from rlaunch.codes import Code
    from rlaunch.explain import Page


def command(
    name: Annotated[
        str, typer.Argument(metavar="[CODE|SETTING|REASON]", help="Without one, all are listed.")
    ] = "",
    cluster: Cluster = "",
    json: Json = False,
) -> int:
    """Explain a code, a setting or a reason.

    `env.dollar` is a code; `cpu` is a setting, with --cluster that cluster's; `head-lost` is a reason
    that `status` gives. Without a name all are listed, with --cluster that cluster's own fields too.
    """
    from rlaunch import explain
    from rlaunch.cli.speak import Voice
    from rlaunch.endings import REASONS, name_of

    voice = Voice(json=json)
    if not name:
        return _list(voice, cluster)
    if (reason := name.replace("_", "-")) in REASONS:
        return _tell_reason(voice, reason, REASONS[reason])
    if "." not in name and (page := _setting(voice, name, cluster)) is not None:
        return _tell_setting(voice, page)
    if reason := name_of(name):
        return _tell_reason(voice, reason, REASONS[reason])
    return _tell_code(voice, explain.find(name))


def _setting(voice: "Voice", name: str, cluster: str) -> "Page | None":
    from rlaunch import explain
    from rlaunch.cli.opening import world_for
    from rlaunch.discovery import names

    world = world_for(voice, artifacts=False)
    installed = names()
    usual = str(world.user.get("cluster", "")) or (
        "local" if "local" in installed else next(iter(installed), "")
    )
    return explain.setting(world, name.replace("-", "_"), cluster or usual)


def _tell_setting(voice: "Voice", page: "Page") -> int:
    if voice.json:
        from rlaunch.documents import plain
        from rlaunch.shapes import ExplainDocument

        document = ExplainDocument(
            "rlaunch.explain/1", "setting", page.name, page.about, None, None,
            page.cluster, page.value, page.source, page.reason,
        )  # fmt: skip
        voice.document(plain(document))
        return 0
    from json import dumps

    voice.put(f"{page.name} = {dumps(page.value, ensure_ascii=False)}  [{page.source}]\n")
    voice.put(f"  {page.about.rstrip('.') or 'a field of the profile'}, on `{page.cluster}`\n")
    if page.reason:
        voice.put(f"  why: {page.reason}\n")
    voice.put("  a flag or `--set` > recipe > rlaunch.toml > profile > default\n")
    return 0


def _tell_code(voice: "Voice", code: "Code") -> int:
    if voice.json:
        from rlaunch.documents import plain
        from rlaunch.shapes import ExplainDocument

        document = ExplainDocument(
            "rlaunch.explain/1", "code", code.code, code.page, code.level, code.waivable,
            None, None, None, None,
        )  # fmt: skip
        voice.document(plain(document))
        return 0
    waived = f"`--allow {code.code}` lets it pass" if code.waivable else "no flag lets it pass"
    voice.put(f"{code.code} ({code.level})\n\n{code.page}\n")
    if code.level == "error":
        voice.put(f"\n{waived}.\n")
    return 0


def _tell_reason(voice: "Voice", name: str, page: str) -> int:
    if voice.json:
        from rlaunch.documents import plain
        from rlaunch.shapes import ExplainDocument

        document = ExplainDocument(
            "rlaunch.explain/1", "reason", name, page, None, None, None, None, None, None
        )
        voice.document(plain(document))
        return 0
    voice.put(f"{name} (reason)\n\n{page}\n\n`rlaunch diagnose RUN` shows the lines behind it.\n")
    return 0


def _list(voice: "Voice", cluster: str) -> int:
    from rlaunch import explain
    from rlaunch.cli.opening import world_for
    from rlaunch.cli.speak import table
    from rlaunch.endings import REASONS

    codes, settings = explain.codes(), dict(explain.settings())
    if cluster:
        own = explain.fields(world_for(voice, artifacts=False), cluster)
        settings = {**own, **settings}
    if voice.json:
        from rlaunch.documents import plain
        from rlaunch.shapes import NamesDocument

        names = (tuple(codes), tuple(settings), tuple(REASONS))
        voice.document(plain(NamesDocument("rlaunch.names/1", *names)))
        return 0
    voice.put(table([(c.code, c.level, c.page.partition("\n")[0]) for c in codes.values()]))
    voice.put("\n" + table(list(settings.items())))
    reasons = [(name, page.partition("\n")[0]) for name, page in REASONS.items()]
    voice.put("\n" + table(reasons))
    return 0

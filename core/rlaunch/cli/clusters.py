"""`rlaunch clusters`: the names that `--cluster` takes; nothing is imported to list them."""

# No `from __future__ import annotations`: typer reads these annotations as they are.
from typing import TYPE_CHECKING, Annotated

import typer

from rlaunch.cli.flags import Json

if TYPE_CHECKING:
    from rlaunch.cli.speak import Voice


def command(
    check: Annotated[
        str | None, typer.Option("--check", metavar="FILE", help="Validate a profile file instead.")
    ] = None,
    json: Json = False,
) -> int:
    """List the clusters that `--cluster` takes."""
    from rlaunch.cli.speak import Voice, table
    from rlaunch.discovery import claims

    voice = Voice(json=json)
    if check is not None:
        return _check(voice, check)
    known = claims()
    if json:
        from rlaunch.documents import clusters_to_json

        voice.document(clusters_to_json(known))
    elif known:
        rows = [
            (name, several[0].module, " and ".join(claim.distribution for claim in several))
            for name, several in known.items()
        ]
        voice.put(table([("NAME", "PLUGIN", "DISTRIBUTION"), *rows]))
    else:
        voice.tell("no cluster plugin is installed; `pip install rlaunch-local` brings one")
    return 0


def _check(voice: "Voice", file: str) -> int:
    """Validate one profile file. Raises what is wrong with it."""
    from rlaunch.choose import choose
    from rlaunch.cli.opening import world_for

    name = file if "/" in file or file.endswith((".yaml", ".yml")) else f"./{file}"
    chosen = choose(world_for(voice, artifacts=False), name)
    voice.show(chosen.findings)
    profile = chosen.layered.profile
    if voice.json:
        from rlaunch.documents import findings_to_json

        voice.document(findings_to_json(chosen.findings))
    else:
        voice.say(f"{file}: the profile `{profile.name}` of the plugin `{profile.plugin}` is valid")
    return 0

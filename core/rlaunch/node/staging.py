"""Runs the staging command of a node and reads what it has staged."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from .children import Child
from .reasons import STAGING_FAILED, Ending, fail

if TYPE_CHECKING:
    from .agent import Agent


def stage(agent: Agent) -> None:
    """Stage on this node and note the counts; raises `Ending` with reason `staging-failed`.

    A node that fails says so in its record, and rank 0 ends the gang at once.
    """
    argv = agent.flags.stage
    if not argv:
        return
    rank, nodes = agent.flags.rank, agent.flags.nodes
    agent.enter("staging")
    agent.log.say(f"Staging train_data on this node (rank {rank}/{nodes}): {guess_names(argv)!r}")
    started = time.monotonic()
    printed: list[bytes] = []
    _run(agent, argv, printed)
    staged = read_staged(printed)
    paths = [str(item.get("path", "")) for item in staged]
    agent.log.say(f"train_data staged to node-local paths: {paths!r}")
    agent.log.say(f"Staging took {time.monotonic() - started:.1f} s")
    agent.enter("staging", staged=count_items(staged))


def _run(agent: Agent, argv: Sequence[str], printed: list[bytes]) -> None:
    def take(line: bytes) -> None:
        if line.strip():
            printed[:] = [line]
        agent.log.put(line)

    def take_error(line: bytes) -> None:
        if line.strip():
            trouble[:] = [line]
        agent.log.put(line)

    trouble: list[bytes] = []
    try:
        child = Child(
            agent.loop,
            argv,
            env=agent.env,
            cwd=agent.cwd,
            take=take,
            take_errors=take_error,
        )
    except OSError as error:
        raise Ending(fail(STAGING_FAILED, f"staging cannot start: {error}")) from error
    agent.adopt(child)
    limit = agent.flags.liveness_timeout
    while not agent.loop.until(lambda: child.drained, 5.0):
        if limit and time.monotonic() - child.heard_at > limit:
            child.kill()
            raise Ending(fail(STAGING_FAILED, f"staging printed nothing for {limit:g} s"))
        if child.ended and time.monotonic() - child.heard_at > 5:
            child.finish()  # a descendant holds its pipe
    if child.status != 0:
        last = (trouble or printed or [b""])[0].decode("utf-8", "replace")
        raise Ending(fail(STAGING_FAILED, f"staging exited {child.status}: {last}"[:500]))


def read_staged(printed: Sequence[bytes]) -> list[Mapping[str, Any]]:
    """Read the last line of standard output: `{"staged": [{"name", "path", "count"}…]}`."""
    try:
        staged = json.loads(printed[0])["staged"]
        if isinstance(staged, list) and all(isinstance(item, dict) for item in staged):
            return staged
    except (ValueError, KeyError, TypeError, IndexError):
        pass
    raise Ending(fail(STAGING_FAILED, "staging printed no JSON line with what it staged"))


def count_items(staged: Sequence[Mapping[str, Any]]) -> dict[str, int]:
    """Return the count of items by data set, of those that have one."""
    return {
        str(item.get("name", "")): item["count"]
        for item in staged
        if isinstance(item.get("count"), int)
    }


def compare(rank: int, staged: Mapping[str, int], mine: Mapping[str, int]) -> str:
    """Return how a rank's counts differ from rank 0's, or nothing."""
    for name, count in sorted(mine.items()):
        if staged.get(name, count) != count:
            return f"rank {rank} staged {staged[name]} items of `{name}`, rank 0 staged {count}"
    for name in sorted(set(staged) ^ set(mine)):
        here = rank if name in staged else 0
        return f"only rank {here} staged `{name}`"
    return ""


def guess_names(argv: Sequence[str]) -> list[str]:
    """Return the data sets in a staging command, for its log line: what follows `stage` and its options."""
    words = list(argv[argv.index("stage") + 1 :]) if "stage" in argv else []
    names = []
    while words:
        word = words.pop(0)
        if word.startswith("--"):
            if "=" not in word and words:
                words.pop(0)
        else:
            names.append(word)
    return names

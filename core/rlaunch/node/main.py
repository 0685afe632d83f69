"""`rlaunch-node.pyz agent …` and `rlaunch-node.pyz stage …`."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from .reasons import AGENT_FAILED, BAD_FLAGS, EXIT_CODES, Ending, Outcome, fail

if TYPE_CHECKING:
    from .agent import Agent

USAGE = """usage: rlaunch-node.pyz agent --run-id ID --attempt N --rank R --nodes N --rendezvous DIR
           --node-ip IP --work-dir DIR [options] -- DRIVER ARGV…
       rlaunch-node.pyz stage --data-root DIR NAME…

Runs on every node of a gang; `agent --help` lists the options.
"""


def main(words: Sequence[str]) -> int:
    """Run a sub-command; returns its exit code. The agent's codes are in `reasons.EXIT_CODES`."""
    command, rest = (words[0], list(words[1:])) if words else ("", [])
    if command in ("-h", "--help"):
        print(USAGE, end="")
        return 0
    if command == "stage":
        from .datasets import main as stage

        return stage(rest)
    if command != "agent":
        print(USAGE, end="", file=sys.stderr)
        return EXIT_CODES[BAD_FLAGS]
    return run_agent(rest)


def run_agent(words: Sequence[str]) -> int:
    """Run one node's agent to its end; returns the exit code."""
    from .agent import Agent
    from .flags import parse_agent_flags
    from .head import HeadRole
    from .output import Log
    from .worker import WorkerRole

    try:
        flags = parse_agent_flags(words)
        label = f"rank={flags.rank}/{flags.nodes} attempt={flags.attempt}"
        log = Log(flags.log_file, label)
        agent = Agent(flags, log)
    except Ending as ending:
        print(f"[rlaunch-node] {ending.outcome.reason}: {ending.outcome.detail}", file=sys.stderr)
        return ending.outcome.code
    except OSError as error:
        print(f"[rlaunch-node] {BAD_FLAGS}: {error}", file=sys.stderr)
        return EXIT_CODES[BAD_FLAGS]
    agent.open()
    role: Role = HeadRole(agent) if flags.rank == 0 else WorkerRole(agent)
    outcome = guard(role)
    agent.close(outcome)
    sys.stdout.flush()
    os._exit(outcome.code)  # a thread that hangs in the store must not hold the node


class Role(Protocol):
    """A head or a worker."""

    agent: Agent

    def run(self) -> None:
        """Go through all phases; ends by raising `Ending`."""

    def finish(self, outcome: Outcome) -> Outcome:
        """End everything; returns what became of the outcome."""
        ...


def guard(role: Role) -> Outcome:
    """Run a role and finish it whatever happens; a bug is an outcome too, with its traceback logged."""
    try:
        role.run()
        outcome = fail(AGENT_FAILED, "the role came back")
    except Ending as ending:
        outcome = ending.outcome
    except Exception as error:  # noqa: BLE001  # a bug must still end the gang
        outcome = fail(AGENT_FAILED, repr(error))
        for line in traceback.format_exc().splitlines():
            role.agent.log.say(line)
    try:
        return role.finish(outcome)
    except Exception as error:  # noqa: BLE001  # teardown trouble never changes an exit code
        for line in traceback.format_exc().splitlines():
            role.agent.log.say(line)
        role.agent.log.say(f"teardown: {error!r}")
        role.agent.kill_all()
        return outcome

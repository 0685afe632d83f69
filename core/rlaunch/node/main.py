"""`rlaunch-node.pyz agent …` and `rlaunch-node.pyz stage …`."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Protocol

from .reasons import AGENT_FAILED, BAD_FLAGS, EXIT_CODES, Ending, Outcome, fail

if TYPE_CHECKING:
    from .agent import Agent
    from .flags import Flags

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
    if command == "agent" and rest[:1] in (["-h"], ["--help"]):
        from .flags import build_parser

        print(build_parser().format_help(), end="")
        return 0
    if command != "agent":
        print(USAGE, end="", file=sys.stderr)
        return EXIT_CODES[BAD_FLAGS]
    return run_agent(rest)


def run_agent(words: Sequence[str]) -> int:
    """Run one node's agent to its end; returns the exit code."""
    from .environment import marks_of
    from .flags import choose_ray_temp, parse_agent_flags
    from .warden import dismiss, name_session, post_warden

    try:
        flags = parse_agent_flags(words)
        if flags.lifeline_fd is not None:
            os.fstat(flags.lifeline_fd)
    except OSError:
        return _refuse("`--lifeline-fd` is not an open descriptor")
    except Ending as ending:
        return _refuse(ending.outcome.detail)
    folder = "" if flags.ray_temp else choose_ray_temp(flags)
    warden = post_warden(marks_of(flags), spare=flags.lifeline_fd, folder=folder)
    try:
        role = _make_role(flags)
    except Ending as ending:
        dismiss(warden)
        return _refuse(ending.outcome.detail)
    except OSError as error:
        dismiss(warden)
        return _refuse(str(error))
    role.agent.name_session = partial(name_session, warden)
    role.agent.open()
    outcome = guard(role)
    role.agent.close(outcome)
    dismiss(warden)
    sys.stdout.flush()
    os._exit(outcome.code)  # a thread that hangs in the store must not hold the node


def _make_role(flags: Flags) -> Role:
    from .agent import Agent
    from .head import HeadRole
    from .output import Log
    from .worker import WorkerRole

    log = Log(flags.log_file, f"rank={flags.rank}/{flags.nodes} attempt={flags.attempt}")
    agent = Agent(flags, log)
    return HeadRole(agent) if flags.rank == 0 else WorkerRole(agent)


def _refuse(detail: str) -> int:
    print(f"[rlaunch-node] {BAD_FLAGS}: {detail}", file=sys.stderr)
    return EXIT_CODES[BAD_FLAGS]


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
    role.agent.loop.end(outcome)  # the grace counts from here, where nothing else began it
    try:
        return role.finish(outcome)
    except Exception as error:  # noqa: BLE001  # teardown trouble never changes an exit code
        for line in traceback.format_exc().splitlines():
            role.agent.log.say(line)
        role.agent.log.say(f"teardown: {error!r}")
        role.agent.kill_all()
        return outcome

"""The protocol between real agents, up to the point where Ray would start: they are held in staging.

Over 300 lines: the protocol is read from start to end.
"""

from __future__ import annotations

import json
import re
import signal
import socket
import sys
import time
from collections.abc import Callable

import pytest

from .gangs import IDLE_STAGE, Gang

MakeGang = Callable[[int], Gang]
HELD = ("--stage", IDLE_STAGE)


def stage_script(body: str) -> tuple[str, str]:
    """Return the flag for a staging command of a few words of Python."""
    return ("--stage", json.dumps([sys.executable, "-c", body]))


def hold(gang: Gang, *, attempt: int = 1, lifeline: bool = False) -> list:
    """Start all ranks and wait until they are connected and staging."""
    members = [
        gang.start(rank, *HELD, attempt=attempt, lifeline=lifeline) for rank in range(gang.nodes)
    ]
    for rank in range(1, gang.nodes):
        gang.wait_for(lambda rank=rank: "Connected to the agent" in gang.log(rank, attempt))
    gang.wait_for(lambda: gang.rank(0, attempt).get("phase") == "staging")
    return members


def test_failed_staging_ends_the_gang_at_once_and_names_the_rank(make_gang: MakeGang) -> None:
    """One rank whose staging fails ends all within seconds, with its last words in the outcome."""
    gang = make_gang(3)
    head, other = gang.start(0, *HELD), gang.start(2, *HELD)
    failing = stage_script("import sys; sys.exit('no space left for `builtin/sums`')")
    broken = gang.start(1, *failing)
    began = time.monotonic()
    assert broken.wait(20) == 65
    assert head.wait(20) == 65
    assert other.wait(20) == 65
    assert time.monotonic() - began < 15
    assert gang.done["reason"] == "staging-failed"
    assert gang.done["outcome"] == "failed"
    assert "rank 1" in gang.done["detail"]
    assert "no space left" in gang.done["detail"]
    assert gang.rank(1)["reason"] == "staging-failed"
    assert gang.left() == []


def test_failed_staging_is_seen_in_the_store_where_the_rank_never_connected(
    make_gang: MakeGang,
) -> None:
    """A rank that failed and left before rank 0 began still ends the gang by its record."""
    gang = make_gang(2)
    broken = gang.start(1, *stage_script("raise SystemExit(3)"))
    assert broken.wait(20) == 65
    head = gang.start(0, *HELD)
    assert head.wait(20) == 65
    assert "rank 1" in gang.done["detail"]


def test_another_count_on_one_rank_is_a_staging_failure(make_gang: MakeGang) -> None:
    """Ranks that staged different numbers of tasks never start the driver."""
    gang = make_gang(2)

    def counting(count: int) -> tuple[str, str]:
        staged = {"staged": [{"name": "d", "path": "/d", "count": count}]}
        return stage_script(f"print({json.dumps(staged)!r})")

    head, worker = gang.start(0, *counting(100)), gang.start(1, *counting(95))
    assert head.wait(30) == 65
    assert worker.wait(30) == 65
    assert "rank 1 staged 95 items of `d`, rank 0 staged 100" in gang.done["detail"]


def test_killed_head_ends_the_workers_with_head_lost(make_gang: MakeGang) -> None:
    """A SIGKILLed rank 0 publishes nothing, and its workers end by themselves with that reason."""
    gang = make_gang(2)
    head, worker = hold(gang)
    head.signal(signal.SIGKILL)
    assert worker.wait(30) == 67
    assert gang.rank(1)["reason"] == "head-lost"
    assert gang.rank(1)["exit_code"] == 67
    assert gang.done == {}
    head.wait()
    gang.wait_for(lambda: gang.left() == [], 5)


def test_killed_worker_ends_the_gang_with_worker_lost(make_gang: MakeGang) -> None:
    """Rank 0 names the worker that is gone and ends the others."""
    gang = make_gang(3)
    head, victim, other = hold(gang)
    victim.signal(signal.SIGKILL)
    assert head.wait(30) == 68
    assert other.wait(30) == 68
    assert gang.done["reason"] == "worker-lost"
    assert "rank 1" in gang.done["detail"]
    gang.wait_for(lambda: gang.left() == [], 5)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signalled_head_ends_within_its_grace(make_gang: MakeGang, number: int) -> None:
    """A signal gives 128+n on all ranks, a named reason and a termination record, in the grace."""
    gang = make_gang(2)
    head, worker = hold(gang)
    began = time.monotonic()
    head.signal(number)
    assert head.wait(10) == 128 + number
    assert time.monotonic() - began < 4
    assert worker.wait(10) == 128 + number
    assert gang.done["reason"] == "terminated"
    assert gang.done["signal"] == number
    assert gang.done["exit_code"] is None
    record = gang.read("term/1/0.json")
    assert record["reason"] == "terminated"
    assert record["samples"][-1]["disk"]
    assert record["samples"][-1]["memory"]["host_available"] > 0
    assert gang.left() == []


def test_signalled_worker_ends_the_gang_with_worker_lost(make_gang: MakeGang) -> None:
    """A worker that is told to end exits 128+15, and the gang ends naming it and the signal."""
    gang = make_gang(2)
    head, worker = hold(gang)
    worker.signal(signal.SIGTERM)
    assert worker.wait(10) == 143
    assert head.wait(10) == 68
    assert gang.done["reason"] == "worker-lost"
    assert "rank 1" in gang.done["detail"]
    assert "signal 15" in gang.done["detail"]
    assert gang.rank(1)["reason"] == "terminated"


def test_agents_end_when_their_supervisor_is_gone(make_gang: MakeGang) -> None:
    """The end of the lifeline ends every agent within ten seconds, with that reason."""
    gang = make_gang(2)
    members = hold(gang, lifeline=True)
    began = time.monotonic()
    for member in members:
        member.cut()
    codes = [member.wait(15) for member in members]
    assert time.monotonic() - began < 10
    assert codes == [71, 71]
    assert gang.done["reason"] == "supervisor-lost"
    assert gang.left() == []


@pytest.mark.parametrize("rank", [0, 1])
def test_success_of_an_earlier_attempt_ends_every_rank_with_0(
    make_gang: MakeGang, rank: int
) -> None:
    """The only thing that crosses the fence: a run that has succeeded is not run again."""
    gang = make_gang(2)
    succeeded = {"run": gang.run, "attempt": 1, "outcome": "succeeded", "exit_code": 0}
    gang.write("ray_head.done", succeeded)
    assert gang.start(rank, *HELD, attempt=2).wait(20) == 0
    assert gang.done == succeeded
    assert gang.read("ray_head.json") == {}


def test_stale_files_are_ignored_whatever_their_times(make_gang: MakeGang) -> None:
    """Files of an earlier attempt or another run are passed over, though written an hour ahead."""
    gang = make_gang(2)
    ahead = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + 3600))
    dead = {
        "head_ip": "127.9.9.9",
        "port": 1,
        "agent_port": 2,
        "token": "old",
        "num_nodes": 2,
        "written_at": ahead,
        "ray_version": "1",
        "python_version": "3",
    }
    gang.write("ray_head.json", {"run": gang.run, "attempt": 1, **dead})
    gang.write("ray_head.done", {"run": gang.run, "attempt": 1, "outcome": "failed", "at": ahead})
    ended = {"rank": 1, "node": "n", "pid": 1, "phase": "ended", "at": ahead, "since": ahead}
    gang.write("ranks/1/1.json", {"run": gang.run, "attempt": 1, "reason": "ray-failed", **ended})
    gang.write("ranks/2/1.json", {"run": "other", "attempt": 2, "reason": "ray-failed", **ended})
    worker = gang.start(1, *HELD, attempt=2)
    gang.wait_for(lambda: "Ignoring stale ray_head.json" in gang.log(1, 2))
    gang.wait_for(lambda: "Ignoring stale ray_head.done" in gang.log(1, 2))
    head = gang.start(0, *HELD, attempt=2)
    gang.wait_for(lambda: "Connected to the agent" in gang.log(1, 2))
    assert gang.read("ray_head.json")["attempt"] == 2
    head.signal(signal.SIGTERM)
    assert head.wait(10) == 143
    assert worker.wait(10) == 143
    assert gang.done["attempt"] == 2


def test_rendezvous_works_between_nodes_an_hour_apart(make_gang: MakeGang) -> None:
    """No time is compared: a head whose records carry a time an hour back is found at once."""
    gang = make_gang(2)
    head = gang.start(0, *HELD)
    gang.wait_for(lambda: gang.read("ray_head.json"))
    behind = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() - 3600))
    gang.write("ray_head.json", {**gang.read("ray_head.json"), "written_at": behind})
    gang.write("ranks/1/0.json", {**gang.rank(0), "at": behind, "since": behind})
    began = time.monotonic()
    gang.start(1, *HELD)
    gang.wait_logged(1, "Connected to the agent")
    assert time.monotonic() - began < 15
    head.signal(signal.SIGTERM)
    assert head.wait(10) == 143


def test_late_worker_of_an_ended_attempt_ends_as_it_ended(make_gang: MakeGang) -> None:
    """A worker that comes after its attempt has failed leaves with the gang's code."""
    gang = make_gang(2)
    failed = {"outcome": "failed", "reason": "driver-exit", "exit_code": 7, "code": 7}
    gang.write("ray_head.done", {"run": gang.run, "attempt": 1, **failed})
    assert gang.start(1, *HELD).wait(20) == 7


def test_agent_of_an_attempt_that_was_overtaken_leaves(make_gang: MakeGang) -> None:
    """Rank 0 of an older attempt touches nothing once a later one has begun."""
    gang = make_gang(1)
    later = {"run": gang.run, "attempt": 5, "outcome": "failed", "reason": "driver-exit"}
    gang.write("ray_head.done", later)
    assert gang.start(0, attempt=4).wait(20) == 73
    assert gang.done == later
    assert gang.rank(0, 4) == {}


def test_second_rank_0_of_an_attempt_leaves(make_gang: MakeGang) -> None:
    """Only one agent can claim an attempt; the other changes no record."""
    gang = make_gang(1)
    first = gang.start(0, *HELD)
    gang.wait_for(lambda: gang.rank(0).get("phase") == "staging")
    published = gang.read("ray_head.json")
    assert gang.start(0, *HELD).wait(20) == 73
    assert gang.read("ray_head.json") == published
    assert gang.rank(0)["phase"] == "staging"
    first.signal(signal.SIGTERM)
    assert first.wait(10) == 143


def test_stranger_without_the_token_is_turned_away(make_gang: MakeGang) -> None:
    """A connection that does not know the attempt's token is closed and changes nothing."""
    gang = make_gang(2)
    gang.start(0, *HELD)
    gang.wait_for(lambda: gang.read("ray_head.json"))
    place = (gang.net + ".1", gang.read("ray_head.json")["agent_port"])
    hello = {"run": gang.run, "attempt": 1, "rank": 1, "node": "x", "pid": 1, "phase": "ended"}
    hello.update(at="", since="", reason="staging-failed", token="guess")
    with socket.create_connection(place, timeout=10) as stranger:
        stranger.sendall(json.dumps(hello).encode() + b"\n")
        assert stranger.recv(100) == b""
    gang.wait_for(lambda: gang.rank(0)["phase"] == "staging")
    assert "Rank 1 is here" not in gang.log(0)


def test_worker_waits_in_vain_for_rank_0(make_gang: MakeGang) -> None:
    """Where rank 0 never starts, the worker says so after the rendezvous time-out."""
    gang = make_gang(2)
    assert gang.start(1, "--rendezvous-timeout", "2").wait(20) == 66
    assert gang.rank(1)["reason"] == "rank-missing"
    assert "rank 0" in gang.rank(1)["detail"]


def test_different_versions_are_a_mismatch(make_gang: MakeGang) -> None:
    """A worker whose Ray is another one than rank 0's names both and ends the gang."""
    gang = make_gang(2)
    head = gang.start(0, *HELD)
    gang.wait_for(lambda: gang.read("ray_head.json"))
    gang.write("ray_head.json", {**gang.read("ray_head.json"), "ray_version": "2.9.9"})
    assert gang.start(1).wait(20) == 72
    assert head.wait(20) == 72
    assert gang.done["reason"] == "version-mismatch"
    assert "2.9.9" in gang.done["detail"]


def test_full_or_forbidden_store_is_named(make_gang: MakeGang) -> None:
    """A rendezvous place that takes no writes ends the head with `store-failed`, not with a hang."""
    gang = make_gang(1)
    gang.rendezvous.write_text("not a directory")
    head = gang.start(0, *HELD)
    time.sleep(2)
    head.signal(signal.SIGTERM)
    assert head.wait(10) == 143


def test_bring_up_and_waiting_stay_within_the_request_budget(make_gang: MakeGang) -> None:
    """Up to staging a gang of 3 asks the store at most 8N+20 times, and then not at all."""
    gang = make_gang(3)
    members = hold(gang)
    time.sleep(6)
    members[0].signal(signal.SIGTERM)
    for member in members:
        member.wait(10)
    counts = [
        int(re.findall(r"Store requests: (\d+)", gang.log(rank))[-1]) for rank in range(gang.nodes)
    ]
    assert sum(counts) <= 8 * gang.nodes + 20, counts


@pytest.mark.e2e
def test_store_has_to_do_where_no_connection_is_possible(make_gang: MakeGang) -> None:
    """A worker that cannot reach rank 0's agent watches the store, and still ends as rank 0 ends."""
    gang = make_gang(2)
    head = gang.start(0, *HELD)
    gang.wait_for(lambda: gang.read("ray_head.json"))
    with socket.socket() as nobody:
        nobody.bind((gang.net + ".1", 0))
        closed = nobody.getsockname()[1]
        gang.write("ray_head.json", {**gang.read("ray_head.json"), "agent_port": closed})
        worker = gang.start(1)
        gang.wait_logged(1, "watching the store instead")
        gang.wait_logged(0, "Rank 1 is here")
        head.signal(signal.SIGTERM)
        assert head.wait(10) == 143
        assert worker.wait(45) == 143

"""The agent's command line."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlaunch.node.flags import LONGEST_TEMP, choose_ray_temp, parse_agent_flags
from rlaunch.node.reasons import Ending

NEEDED = ["--run-id", "r-1", "--attempt", "1", "--rank", "0", "--nodes", "2"]
NEEDED += ["--rendezvous", "/r", "--node-ip", "127.3.3.1", "--work-dir", "/w"]


def refuse(*words: str, driver: tuple[str, ...] = ("--", "python")) -> str:
    """Return what is said against these flags."""
    with pytest.raises(Ending) as caught:
        parse_agent_flags([*NEEDED, *words, *driver])
    assert caught.value.outcome.reason == "bad-flags"
    assert caught.value.outcome.code == 64
    return caught.value.outcome.detail


def test_defaults_are_the_documented_ones() -> None:
    """Time-outs, grace and authentication have the values that the design names."""
    flags = parse_agent_flags([*NEEDED, "--", "python"])
    assert flags.rendezvous_timeout == flags.join_timeout == 1800
    assert flags.liveness_timeout == 9000
    assert (flags.grace, flags.lead) == (25, 0)
    assert flags.ray_auth == "token"
    assert (flags.gpus, flags.memory, dict(flags.ports), flags.stage) == (None, None, {}, ())


@given(st.lists(st.text(min_size=1), min_size=1))
def test_driver_arrives_word_by_word(driver: list[str]) -> None:
    """Everything after the first `--` is the driver's, whatever it looks like."""
    assert parse_agent_flags([*NEEDED, "--", *driver]).driver == tuple(driver)


def test_flags_of_the_driver_are_not_the_agents() -> None:
    """A flag of the agent's name after `--` belongs to the driver."""
    flags = parse_agent_flags([*NEEDED, "--", "python", "--rank", "9", "--", "x"])
    assert flags.rank == 0
    assert flags.driver == ("python", "--rank", "9", "--", "x")


def test_unknown_flag_is_an_error() -> None:
    """A misspelt flag never becomes the start of the driver, as it did in the older launcher."""
    assert "--join-time-out" in refuse("--join-time-out", "5")


def test_abbreviation_is_an_error() -> None:
    """`--join` is not `--join-timeout`."""
    assert "--join" in refuse("--join", "5")


@pytest.mark.parametrize("driver", [(), ("--",)])
def test_driver_is_mandatory(driver: tuple[str, ...]) -> None:
    """Without `--`, or with nothing after it, there is nothing to run."""
    assert "driver" in refuse(driver=driver)


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (("--rank", "2"), "`--rank 2`"),
        (("--nodes", "0"), "`--rank 0`"),
        (("--attempt", "-1"), "`--attempt -1`"),
        (("--run-id", "../x"), "`--run-id ../x`"),
        (("--node-ip", "127.0.0.1"), "replaced by Ray"),
        (("--grace", "2"), "`--grace 2`"),
        (("--lead", "-1"), "`--lead -1`"),
        (("--lead", "soon"), "--lead"),
        (("--join-timeout", "0"), "timeout"),
        (("--ports", "gcs=0"), "gcs=0"),
        (("--ports", "gcd=1"), "gcd=1"),
        (("--ports", "gcs=1,gcs=2"), "gcs=2"),
        (("--ports", "min-worker=5"), "max-worker"),
        (("--stage", "python"), "--stage"),
        (("--stage", "[1]"), "--stage"),
        (("--ray-auth", "none"), "--ray-auth"),
        (("--ray-temp", "/" + "x" * LONGEST_TEMP), "leave room"),
        (("--cpus", "many"), "--cpus"),
    ],
)
def test_impossible_value_is_named(words: tuple[str, ...], named: str) -> None:
    """Each value that cannot work is refused before anything starts, naming the flag."""
    assert named in refuse(*words)


def test_ports_stage_and_paths_are_read() -> None:
    """`--ports` is a map, `--stage` an argv, `--pythonpath` may come several times."""
    words = ["--ports", "gcs=6379,agent=8100", "--stage", '["python", "a b"]']
    words += ["--pythonpath", "/a", "--pythonpath", "/b"]
    flags = parse_agent_flags([*NEEDED, *words, "--", "python"])
    assert flags.ports == {"gcs": 6379, "agent": 8100}
    assert flags.stage == ("python", "a b")
    assert flags.pythonpath == ("/a", "/b")


def test_temp_dir_of_its_own_is_short_and_differs_by_rank(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ray's sockets fit, even where the temporary directory has a long name."""
    monkeypatch.setattr("tempfile.tempdir", "/very/long" * 10)
    flags = parse_agent_flags([*NEEDED, "--", "python"])
    folders = {choose_ray_temp(flags._replace(rank=rank)) for rank in (0, 1)}
    assert len(folders) == 2
    assert all(len(folder) <= LONGEST_TEMP for folder in folders)

"""The kit catches what it says it catches: for each promise, a cluster that breaks it."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import rlaunch_acme
from tests.conformance.broken import BROKEN
from tests.third_party.acme.conformance_acme import AcmeBench

from rlaunch.testing.conformance import ClusterConformance
from rlaunch.testing.kit import Kit


class Suite(ClusterConformance):
    """The kit, with few examples: a broken cluster breaks at once."""

    examples = 25


PROMISES = sorted(name for name in dir(ClusterConformance) if name.startswith("test_"))


def keep(promise: str, plugin: ModuleType, tmp: Path) -> None:
    """Try one promise on a bench of its own, with the jobs that it asks for."""
    kit = Kit(plugin, AcmeBench(tmp))
    method = getattr(Suite(), promise)
    wanted = method.__code__.co_varnames[1 : method.__code__.co_argcount]
    given: dict[str, Any] = {one: kit for one in ("kit", "job_kit") if one in wanted}
    if "failed" in wanted:
        given["failed"] = kit.run_to_end(kit.job("7"))
    if "succeeded" in wanted:
        given["succeeded"] = kit.run_to_end(kit.job("0"))
    if "stopped" in wanted:
        given["stopped"] = kit.run_until_heard(kit.job("hang"))
        kit.cluster.stop(given["stopped"])
    method(**given)


def test_every_promise_has_a_broken_cluster() -> None:
    """No promise goes without a cluster that breaks it."""
    assert sorted(BROKEN) == PROMISES


def test_every_promise_says_what_it_is() -> None:
    """Each promise has a docstring: together they are the plugin contract in the documentation."""
    assert all(getattr(ClusterConformance, name).__doc__ for name in PROMISES)


@pytest.mark.parametrize("promise", PROMISES)
def test_broken_cluster_is_caught(promise: str, tmp_path: Path) -> None:
    """A cluster that breaks a promise fails the test of that promise, which says what is broken."""
    with pytest.raises(AssertionError, match=BROKEN[promise].says):
        keep(promise, BROKEN[promise].plugin(), tmp_path)


@pytest.mark.parametrize("promise", PROMISES)
def test_good_cluster_keeps_it(promise: str, tmp_path: Path) -> None:
    """The same plugin, not broken, keeps the promise: what was caught was the breakage."""
    keep(promise, rlaunch_acme, tmp_path)

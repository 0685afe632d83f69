"""`ClusterConformance`: the contract of a cluster plugin, as tests.

    class TestAcme(ClusterConformance):
        plugin = rlaunch_acme
        bench = AcmeBench

Each method is one promise; its docstring says it. Jobs that really run are marked `gang`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import ClassVar

import pytest

from rlaunch.model import JobRef
from rlaunch.testing.answer_promises import AnswerPromises
from rlaunch.testing.bench import Bench
from rlaunch.testing.job_promises import JobPromises
from rlaunch.testing.kit import Ended, Kit
from rlaunch.testing.plan_promises import PlanPromises

__all__ = ["ClusterConformance"]


class ClusterConformance(PlanPromises, AnswerPromises, JobPromises):
    """Inherit it, name the plugin and the bench, and every promise is a test of yours."""

    plugin: ClassVar[ModuleType]
    bench: ClassVar[Callable[[Path], Bench]]
    """Makes the bench; called with a fresh directory."""

    @pytest.fixture
    def kit(self, tmp_path: Path) -> Iterator[Kit]:
        """The plugin on a bench of its own."""
        bench = type(self).bench(tmp_path)
        try:
            yield Kit(self.plugin, bench)
        finally:
            bench.close()

    @pytest.fixture(scope="class")
    @classmethod
    def job_kit(cls, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kit]:
        """The plugin on the bench that the class's real jobs run on."""
        bench = cls.bench(tmp_path_factory.mktemp("jobs"))
        try:
            yield Kit(cls.plugin, bench)
        finally:
            bench.close()

    @pytest.fixture(scope="class")
    @classmethod
    def failed(cls, job_kit: Kit) -> Ended:
        """A gang whose driver exits 7."""
        return job_kit.run_to_end(job_kit.job("7", nodes=job_kit.bench.nodes))

    @pytest.fixture(scope="class")
    @classmethod
    def succeeded(cls, job_kit: Kit) -> Ended:
        """A job whose driver exits 0."""
        return job_kit.run_to_end(job_kit.job("0"))

    @pytest.fixture(scope="class")
    @classmethod
    def stopped(cls, job_kit: Kit) -> JobRef:
        """A running job that was stopped."""
        ref = job_kit.run_until_heard(job_kit.job("hang"))
        job_kit.cluster.stop(ref)
        return ref

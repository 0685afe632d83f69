"""A long log is the same log: what a diagnosis says of it, and the memory that it takes."""

from __future__ import annotations

import random
import subprocess
import sys

import pytest

from rlaunch import logscan, longlog
from rlaunch.ladder import climb, judge
from rlaunch.longlog import LongLog, gather
from rlaunch.model import Evidence, LogLine
from rlaunch.skyrl.diagnosis import diagnose
from rlaunch.skyrl.milestones import milestones

from . import appendix as log


def noise(count: int, seed: int) -> list[str]:
    """Lines of no meaning, among them ones that nearly match."""
    dice = random.Random(seed)  # a test's data
    words = ("token", "Ray nodes alive: 5/8", "Engine", "retrying", "naïve \udcff", "", "\t")
    return [log.finelog("09:50:00", dice.randrange(8), dice.choice(words)) for _ in range(count)]


def made(seed: int, *, attempts: int = 1) -> list[LogLine]:
    """A healthy run's lines of several attempts with noise between them."""
    dice = random.Random(seed)  # a test's data
    lines: list[LogLine] = []
    for attempt in range(attempts):
        texts = log.healthy() if attempt == attempts - 1 else log.bring_up(attempt)
        for text in texts if attempt == 0 else [*log.bring_up(attempt), *texts]:
            lines += [LogLine(one, at="") for one in noise(dice.randrange(400), seed)]
            lines.append(LogLine(text))
    return lines


@pytest.mark.parametrize("attempts", [1, 2])
@pytest.mark.parametrize("seed", range(3))
def test_a_diagnosis_of_packed_lines_is_the_same(seed: int, attempts: int) -> None:
    """Rungs with their lines and counts, findings and verdict: all as on the whole log."""
    lines = tuple(made(seed, attempts=attempts))
    plain = log.evidence([])._replace(lines=lines)
    packed = plain._replace(lines=LongLog(lines))

    def all_of(evidence: Evidence) -> tuple[object, ...]:
        rungs = climb(milestones(evidence.facts), evidence)
        findings = tuple(diagnose(evidence))
        newest, some = logscan.newest_attempt(evidence)
        return rungs, findings, judge(rungs, evidence, findings), newest, tuple(some)

    assert all_of(packed) == all_of(plain)


def test_packed_lines_are_a_sequence() -> None:
    """Length, order, single lines, ends and reverse, as with a tuple; more than once."""
    lines = tuple(LogLine(f"{n} é", n % 3, n % 2, "t") for n in range(10_000))
    packed = LongLog(iter(lines))
    assert (len(packed), packed.attempts) == (10_000, {0, 1})
    assert tuple(packed) == tuple(packed) == lines
    assert tuple(reversed(packed)) == lines[::-1]
    for part in (slice(-5000, None), slice(4095, 4097), slice(3, 3), slice(9_999, 20_000)):
        assert packed[part] == lines[part]
    assert (packed[0], packed[4096], packed[-1]) == (lines[0], lines[4096], lines[-1])
    with pytest.raises(IndexError):
        packed[10_000]
    assert not LongLog(())


def test_short_logs_are_tuples() -> None:
    """Packing begins where it saves something."""
    lines = [LogLine("x" * 10, 0, 1) for _ in range(100)]
    assert gather(iter(lines), whole=1000) == tuple(lines)
    packed = gather(iter(lines), whole=999)
    assert isinstance(packed, LongLog)
    assert list(packed) == lines


def test_beyond_the_memory_for_it_blocks_go_to_a_file(monkeypatch: pytest.MonkeyPatch) -> None:
    """The file has no name, and what was read from it is what was written."""
    monkeypatch.setattr(longlog, "HELD", 1000)
    lines = [LogLine(f"{n:x} {hash(str(n))}") for n in range(20_000)]
    packed = LongLog(lines)
    assert packed._file._rolled  # type: ignore[attr-defined]  # that it rolled over is the point
    assert list(packed) == lines


MEASURED = """
from rlaunch import ladder, longlog
from rlaunch.model import Evidence, LogLine, RunFacts
from rlaunch.skyrl import diagnosis, milestones
def lines(size):
    n = done = 0
    while done < size:
        text = f"(Engine pid={n}) step {n} loss {n * 0.37:.6f} Engine 000: Avg generation {n}" + "x" * 40
        yield LogLine(text, n % 8, 1, f"2026-01-01T00:00:{n % 60:02}.{n % 1000:03}Z")
        n, done = n + 1, done + len(text)
evidence = Evidence(RunFacts(nodes=8), (), longlog.gather(lines(%d)), "2026-01-01T01:00:00Z")
ladder.climb(milestones.milestones(evidence.facts), evidence)
tuple(diagnosis.diagnose(evidence))
peak = next(row for row in open("/proc/self/status") if row.startswith("VmHWM:"))
print(len(evidence.lines), int(peak.split()[1]) // 1024)  # ru_maxrss would be the parent's, too
"""


@pytest.mark.timeout(120)
def test_a_long_log_is_diagnosed_in_bounded_memory() -> None:
    """All of a diagnosis stays below 130 MiB on 50 MB of text, which a tuple of them takes 150 for."""
    code = MEASURED.replace("%d", str(50_000_000))
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=100
    )
    count, peak = map(int, done.stdout.split())
    assert count > 400_000
    assert peak < 130, f"{peak} MiB"

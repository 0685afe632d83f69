"""SLURM's text, as recorded and as anything else."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlaunch_slurm_jupiter import queries
from rlaunch_slurm_jupiter.states import TABLE, Link, meaning

RECORDINGS = sorted((Path(__file__).parent / "recordings").glob("*.json"))
READERS = {
    "squeue": queries.read_queue,
    "sacct": queries.read_accounting,
    "scontrol": queries.read_job,
    "sinfo": queries.read_nodes,
}


def _field(seen: Link, field: str) -> object:
    if field == "state":
        return str(seen.meaning.state)
    return list(seen.steps) if field == "steps" else getattr(seen, field)


@pytest.mark.parametrize("path", RECORDINGS, ids=lambda p: p.stem)
def test_recordings_are_read(path: Path) -> None:
    """What each version of SLURM printed is read to the jobs that were there."""
    recording = json.loads(path.read_text(encoding="utf-8"))
    for entry in recording["answers"]:
        found = READERS[entry["tool"]](entry["text"])
        if isinstance(found, Link):
            found = {found.job: found}
        assert found is not None
        for key, wanted in entry["means"].items():
            seen = found[key]
            if isinstance(seen, Link):
                for field, value in wanted.items():
                    got = _field(seen, field)
                    assert got == value, f"{entry['tool']} {key}.{field}"
            else:
                assert list(seen) == wanted
        assert set(found) == set(entry["means"])


def test_every_version_is_recorded() -> None:
    """From 20.11 to 24.11 there is one recording of each major version."""
    versions = {json.loads(p.read_text(encoding="utf-8"))["version"][:5] for p in RECORDINGS}
    assert {"20.11", "21.08", "22.05", "23.02", "23.11", "24.05", "24.11"} <= versions


@pytest.mark.parametrize(
    "reader",
    [queries.read_queue, queries.read_accounting, queries.read_nodes, queries.read_running],
)
@pytest.mark.parametrize("text", ["", "\n", "Segmentation fault\n", "{}", "JOBID\n1\n"])
def test_silence_is_no_answer(reader: object, text: str) -> None:
    """Text without the header, nothing included, is never read as "no jobs"."""
    with pytest.raises(queries.NotAnswered):
        reader(text)  # type: ignore[operator]  # one of the readers above


def test_warnings_before_the_table_are_skipped() -> None:
    """What a login node prints before the table does not matter."""
    text = f"Welcome to JUPITER\n\n{queries.QUEUE_HEADER}\n7|RUNNING|None|2026-01-02T03:04:05|n1|x|/d\n"
    assert queries.read_queue(text)["7"].start == "2026-01-02T03:04:05Z"


def test_strange_names_break_nothing() -> None:
    """A foreign job's name with the separator in it stays one row."""
    text = f"{queries.QUEUE_HEADER}\n7|RUNNING|None|N/A||a|b|c|/d|e\n"
    assert queries.read_queue(text)["7"].name == "a"


@given(st.text(max_size=200))
def test_any_text_is_read_or_refused(text: str) -> None:
    """Arbitrary text gives jobs with numbers for ids, or NotAnswered, and nothing else."""
    for header, reader in (
        (queries.QUEUE_HEADER, queries.read_queue),
        (queries.ACCOUNT_HEADER, queries.read_accounting),
    ):
        for whole in (text, f"{header}\n{text}"):
            try:
                found = reader(whole)
            except queries.NotAnswered:
                continue
            assert all(job.isdecimal() for job in found)
    seen = queries.read_job(text)
    assert seen is None or seen.job.isdecimal()
    assert queries.gpus_of(text) >= 0
    meaning(text)


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("gpu:4", 4),
        ("gpu:gh200:4", 4),
        ("gpu:gh200:4(S:0-3)", 4),
        ("gpu:a100:2,gpu:h100:2(S:1)", 4),
        ("gpu", 1),
        ("(null)", 0),
        ("mps:400", 0),
        ("craynetwork:4,gpu:4", 4),
        ("gpu:a100:4(S:0,2,4),shard:16", 4),
    ],
)
def test_gpus_are_counted(text: str, count: int) -> None:
    """Each way in which GRES are written gives the number of GPUs."""
    assert queries.gpus_of(text) == count


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("0:0", (0, None)),
        ("7:0", (7, None)),
        ("0:9", (0, 9)),
        ("143:0", (143, 15)),
        ("", (None, None)),
        ("x:y", (None, None)),
        ("0:125", (0, 125)),
    ],
)
def test_exit_codes(text: str, wanted: tuple[int | None, int | None]) -> None:
    """`code:signal` is read; a code above 128 is a shell's word for a signal."""
    assert queries.exit_of(text) == wanted


@pytest.mark.parametrize(
    ("text", "job"),
    [
        ("123\n", "123"),
        ("123;cluster\n", "123"),
        ("sbatch: lua: note\n42\n", "42"),
        ("", None),
        ("error\n", None),
        ("42\nWelcome\n99999\n", None),
    ],
)
def test_the_submitted_id(text: str, job: str | None) -> None:
    """The job id is found behind whatever a submit plugin printed."""
    assert queries.read_submitted(text) == job


def test_every_state_has_a_meaning() -> None:
    """No state of SLURM is unknown, and whatever is unknown is neither ended nor well."""
    for word in TABLE:
        assert meaning(word).state != "UNKNOWN"
        assert meaning(f"{word.lower()} by 1000") == meaning(word)
    assert (str(meaning("XYZZY").state), meaning("XYZZY").ended) == ("UNKNOWN", False)

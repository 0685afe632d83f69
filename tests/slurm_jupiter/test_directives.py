"""The `#SBATCH` lines: what each profile makes of a run, and how they are written."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlaunch.model import Run
from rlaunch_slurm_jupiter import directives

Lines = Callable[..., list[str]]


@pytest.fixture
def lines(run_on: Callable[..., Run]) -> Lines:
    """The options that a run is submitted with."""
    return lambda *profile, **settings: list(directives.directives(run_on(*profile, **settings)))


@pytest.mark.parametrize(
    ("profile", "settings", "wanted"),
    [
        ("jupiter", {}, "--gres=gpu:4"),
        ("alpha", {}, "--gpus-per-node=8"),
        ("jupiter", {"gpu_request": "gres-typed", "gpu_type": "gh200"}, "--gres=gpu:gh200:4"),
        ("capella", {"gpu_type": "h100"}, "--gpus-per-node=h100:4"),
    ],
)
def test_gpus_are_asked_for_as_the_site_wants(
    lines: Lines, profile: str, settings: dict[str, Any], wanted: str
) -> None:
    """Each format of a GPU request is written as SLURM takes it."""
    assert wanted in lines(profile, **settings)


def test_whole_nodes_ask_for_no_gpus(lines: Lines) -> None:
    """On a cluster of whole nodes no option mentions GPUs."""
    assert not [x for x in lines("vista") if "gpu:" in x or "gpus" in x]


def test_absent_settings_are_not_said(lines: Lines) -> None:
    """What the profile does not know is left to SLURM."""
    said = {x.partition("=")[0] for x in lines("perlmutter")}
    assert "--qos" in said
    assert not said & {"--partition", "--account", "--reservation", "--mem", "--licenses"}


def test_memory_and_licences(lines: Lines) -> None:
    """Memory is said in whole MiB, licences as they are."""
    said = lines("capella")
    assert f"--mem={710 * 1024}M" in said
    assert "--licenses=walrus:1,octopus:1,narwhal:1,cat:1" in said


@pytest.mark.parametrize(
    ("nodes", "wanted"), [(91, "02:00:00"), (92, "06:00:00"), (183, "06:00:00"), (184, "12:00:00")]
)
def test_wall_time_follows_the_number_of_nodes(lines: Lines, nodes: int, wanted: str) -> None:
    """Without `--time-limit` a job asks for the longest that its size is given."""
    assert f"--time={wanted}" in lines("frontier", nodes=nodes)


def test_typed_wall_time_is_asked_for_as_typed(lines: Lines) -> None:
    """What was typed is sent, even where a rule will refuse it: nothing is corrected silently."""
    assert "--time=1-00:00:00" in lines(timeout_s=86400)


def test_bad_nodes_are_excluded(lines: Lines) -> None:
    """Every excluded list is in one option."""
    bad = [{"nodes": "n[1-2]", "reason": "x"}, {"nodes": "n9", "reason": "y"}]
    assert "--exclude=n[1-2],n9" in lines(bad_nodes=bad)


def test_retries_allow_a_requeue(lines: Lines) -> None:
    """Without retries a job is never started again by SLURM itself."""
    assert "--no-requeue" in lines()
    assert "--requeue" in lines(max_retries=1)


def test_nothing_of_the_shell_is_exported(lines: Lines) -> None:
    """The submitting shell's environment stays there, but for five names."""
    assert "--export=HOME,USER,LOGNAME,PATH,LANG" in lines()


@given(st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=30))
def test_any_value_survives_the_line(value: str) -> None:
    """A value with blanks, quotes or `#` is quoted as SLURM's own parser and a shell read it."""
    text = directives.line(f"--comment={value}")
    words = shlex.split(text.removeprefix("#SBATCH "), posix=True)
    assert words == [f"--comment={value}"]


def test_percent_begins_a_field_of_a_file_name(lines: Lines) -> None:
    """A directory with `%` is doubled in the output pattern, and only there."""
    said = lines(run_dir="/s/50%/{run}")
    assert "--output=/s/50%%/rl-0a1b2c3d/job-%j.out" in said
    assert "--chdir=/s/50%/rl-0a1b2c3d" in said

"""Layers: profile, rlaunch.toml and command line become one validated profile with sources."""

from typing import Any

import pytest

from rlaunch.errors import RlaunchError
from rlaunch.layers import Layered, lay
from rlaunch.profiles import Profile

BASE: dict[str, Any] = {
    "name": "here",
    "plugin": "local",
    "gpus_per_node": 8,
    "cpu": 48,
    "run_dir": "/r",
    "storage_root": "/s",
    "data_root": "/d",
    "unsupported": {"priority": "there is no queue"},
}


def lay_on(**layers: Any) -> Layered:
    """Lay typed and user settings on BASE."""
    given = {"user": {}, "typed": {}, "flags": {}, **layers}
    return lay(Profile, BASE, origin="here.yaml", **given)


def refused(**layers: Any) -> list[tuple[str, str]]:
    """The codes and places of the refusal."""
    with pytest.raises(RlaunchError) as caught:
        lay_on(**layers)
    return [(f.code, f.place) for f in caught.value.findings]


def test_the_command_line_wins_and_sources_are_kept():
    """A typed setting beats rlaunch.toml, which beats the profile."""
    laid = lay_on(user={"cpu": 32, "memory": "1GiB"}, typed={"cpu": "16"})
    assert (laid.profile.cpu, laid.profile.memory) == (16, "1GiB")
    assert laid.sources == {"cpu": "command line", "memory": "rlaunch.toml"}


def test_launch_settings_are_kept_apart():
    """`nodes` is no field of a profile and comes back by itself."""
    laid = lay_on(typed={"nodes": "2"})
    assert laid.launch == {"nodes": 2}


def test_a_dotted_name_reaches_into_a_mapping():
    """`env.NAME` sets one variable, even when the name has dots."""
    laid = lay_on(typed={"env.A": "1", "env.B.C": "2"})
    assert laid.profile.env == {"A": "1", "B.C": "2"}
    assert BASE.get("env") is None


def test_numbers_are_text_where_text_is_meant():
    """`--set env.N=2` and a text field given as a number arrive as their text."""
    laid = lay_on(typed={"env.N": 2, "env.B": True, "description": 7})
    assert laid.profile.env == {"N": "2", "B": "1"}
    assert laid.profile.description == "7"
    assert refused(typed={"env.N": None}) == [("core.setting-invalid", "--set env.N")]
    assert refused(typed={"env.L": [1]}) == [("env.not-scalar", "--set env.L")]


def test_what_cannot_be_set():
    """The plugin of a profile is not a setting, and no number is infinite."""
    assert refused(typed={"plugin": "iris"}) == [("core.setting-invalid", "--set plugin")]
    assert refused(typed={"grace_s": float("inf")}) == [("profile.invalid", "--set grace_s")]


def test_an_unknown_setting_has_a_suggestion():
    """A typo is an error with the nearest name."""
    with pytest.raises(RlaunchError) as caught:
        lay_on(typed={"memry": "1GiB"}, flags={})
    (finding,) = caught.value.findings
    assert (finding.code, finding.place) == ("core.setting-unknown", "--set memry")
    assert finding.hint == "did you mean `memory`?"


def test_a_bad_value_has_the_flag_as_place():
    """`--num-nodes 0` is refused at the flag as it was typed."""
    assert refused(typed={"nodes": 0}, flags={"nodes": "--num_nodes"}) == [
        ("core.setting-invalid", "--num_nodes")
    ]


def test_a_flag_that_means_nothing_here_is_named():
    """A setting that the profile calls unsupported is refused, not ignored."""
    assert refused(typed={"priority": "batch"}, flags={"priority": "--priority"}) == [
        ("core.flag-unsupported", "--priority")
    ]


def test_a_launch_flag_that_the_profile_lacks_is_named():
    """A flag of the command line that this kind of cluster has no field for is refused as such."""
    assert refused(typed={"host": "u@login"}, flags={"host": "--host"}) == [
        ("core.flag-unsupported", "--host")
    ]


def test_all_faults_come_at_once():
    """Two faults are two findings, not one after the other."""
    assert len(refused(typed={"nodes": 0, "memry": 1})) == 2


def test_pydantic_faults_are_placed_where_the_value_came_from():
    """A value that does not fit the schema is blamed on its layer."""
    assert refused(user={"max_retries": 0, "grace_s": "x"}) == [("profile.invalid", "rlaunch.toml")]
    assert refused(typed={"grace_s": 1}) == [("profile.invalid", "--set grace_s")]
    with pytest.raises(RlaunchError) as caught:
        lay(Profile, {**BASE, "cqu": 1}, origin="x.yaml", user={}, typed={}, flags={})
    (finding,) = caught.value.findings
    assert (finding.place, finding.hint) == ("x.yaml", "did you mean `cpu`?")


@pytest.mark.parametrize("value", ["/a\0b", "/a\ud800b", ["x", "a\0b"], {"a\0": 1}])
def test_what_cannot_be_sent_is_refused_from_every_layer(value: Any):
    """A NUL byte, or what is not UTF-8, is refused in a flag, in rlaunch.toml and in a profile."""
    assert refused(typed={"run_dir": value})[0] == ("core.not-text", "--set run_dir")
    assert refused(user={"run_dir": value})[0] == ("core.not-text", "rlaunch.toml")
    with pytest.raises(RlaunchError) as caught:
        lay(Profile, {**BASE, "run_dir": value}, origin="here.yaml", user={}, typed={}, flags={})
    assert (caught.value.findings[0].code, caught.value.findings[0].place) == (
        "core.not-text",
        "here.yaml",
    )

"""What the agent's children get as their environment."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlaunch.node.environment import (
    GLOO,
    OF_ANOTHER_RAY,
    add_gloo,
    add_ray,
    build_environment,
    find_interface,
    read_env_file,
)
from rlaunch.node.flags import parse_agent_flags
from rlaunch.node.reasons import Ending

from .test_flags import NEEDED

TEXT = st.text(st.characters(exclude_characters="\0", exclude_categories=("Cs",)))


@settings(deadline=None)  # files on a busy machine
@given(st.dictionaries(st.from_regex(r"[A-Z_]{1,9}", fullmatch=True), TEXT))
def test_values_arrive_unchanged(
    tmp_path_factory: pytest.TempPathFactory, values: dict[str, str]
) -> None:
    """Commas, quotes, `$`, newlines and any script come out as they went in."""
    path = tmp_path_factory.mktemp("env") / "env.json"
    path.write_text(json.dumps(values), encoding="utf-8")
    flags = parse_agent_flags([*NEEDED, "--env-file", str(path), "--", "python"])
    assert values.items() <= build_environment(flags, {}).items()


def test_order_is_inherited_file_secrets_own(tmp_path: Path) -> None:
    """The env file stands above what is inherited, secrets above it, the agent's marks above all."""
    (tmp_path / "e").write_text(json.dumps({"A": "file", "B": "file", "RLAUNCH_RANK": "9"}))
    (tmp_path / "s").write_text(json.dumps({"B": "secret"}))
    words = ["--env-file", str(tmp_path / "e"), "--secrets-file", str(tmp_path / "s")]
    flags = parse_agent_flags([*NEEDED, *words, "--pythonpath", "/x", "--", "python"])
    env = build_environment(flags, {"A": "shell", "C": "shell", "PYTHONPATH": "/y"})
    assert (env["A"], env["B"], env["C"]) == ("file", "secret", "shell")
    assert env["RLAUNCH_RANK"] == "0"
    assert env["RLAUNCH_NODES"] == "2"
    assert env["PYTHONPATH"] == "/x:/y"
    assert env["PYTHONUNBUFFERED"] == "1"


def test_another_ray_is_forgotten_unless_the_plan_names_it(tmp_path: Path) -> None:
    """An outer cluster's variables are dropped; other settings of Ray stay, and so does the env file."""
    (tmp_path / "e").write_text(json.dumps({"RAY_NAMESPACE": "mine"}))
    flags = parse_agent_flags([*NEEDED, "--env-file", str(tmp_path / "e"), "--", "python"])
    inherited = {**dict.fromkeys(OF_ANOTHER_RAY, "x"), "RAY_CGRAPH_get_timeout": "300"}
    env = build_environment(flags, inherited)
    assert set(OF_ANOTHER_RAY) & set(env) == {"RAY_NAMESPACE"}
    assert env["RAY_NAMESPACE"] == "mine"
    assert env["RAY_CGRAPH_get_timeout"] == "300"


def test_authentication_is_always_explicit() -> None:
    """Ray is never left to decide by a file in somebody's home directory."""
    assert add_ray({}, auth="disabled", token="t") == {"RAY_AUTH_MODE": "disabled"}
    env = add_ray({}, auth="token", token="t", address="10.0.0.1:6379")
    assert env["RAY_AUTH_MODE"] == "token"
    assert env["RAY_AUTH_TOKEN"] == "t"
    assert env["RAY_ADDRESS"] == "10.0.0.1:6379"


@pytest.mark.parametrize(
    "text", ["", "[]", '{"A": 1}', '{"A=B": "x"}', '{"": "x"}', '{"A": "\\u0000"}']
)
def test_broken_file_is_named_without_its_values(tmp_path: Path, text: str) -> None:
    """What is wrong is said with the file's and the variable's name, never with a value."""
    path = tmp_path / "secrets.json"
    path.write_text(text)
    with pytest.raises(Ending) as caught:
        read_env_file(str(path))
    assert caught.value.outcome.reason == "bad-flags"
    assert "secrets.json" in caught.value.outcome.detail


def test_missing_file_is_named(tmp_path: Path) -> None:
    """A file that is not there is a mistake in the flags."""
    with pytest.raises(Ending, match="bad-flags"):
        read_env_file(str(tmp_path / "none"))


def test_gloo_is_told_the_interface_of_the_node() -> None:
    """With several nodes Ray gets the interface that has the node's address; what the job says stays."""
    flags = parse_agent_flags([*NEEDED, "--", "python"])._replace(node_ip="127.0.0.1", nodes=2)
    assert find_interface("127.0.0.1") == "lo"
    assert add_gloo({"A": "b"}, flags) == {"A": "b", GLOO: "lo"}
    assert add_gloo({GLOO: "ib0"}, flags) == {GLOO: "ib0"}
    assert add_gloo({}, flags._replace(nodes=1)) == {}
    assert add_gloo({}, flags._replace(node_ip="192.0.2.1")) == {}
    assert add_gloo({}, flags._replace(node_ip="::1")) == {}

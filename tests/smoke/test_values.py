"""The file of values that fit no argument: what the launcher emits, the toy trainer reads."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from rlaunch.model import File
from rlaunch.skyrl import emit
from rlaunch.smoke import settings, values
from rlaunch.smoke.__main__ import main
from rlaunch.smoke.overrides import OverrideError, parse

DATA = "data.train_data=['/d']"
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text(st.characters(exclude_categories=["Cs"]))
)


def emitted(folder: Path, body: dict[str, Any]) -> list[str]:
    """Write the file of a body as the launcher does; return all arguments as they arrive."""
    made = emit.emit(body)
    place = folder / "hydra"
    file = File(emit.FILE, "run-dir", 0o644, emit.file_text(made.filed))
    (folder / file.path).parent.mkdir(parents=True, exist_ok=True)
    (folder / file.path).write_text(file.content, encoding="utf-8")
    extra = [f"--config-dir={place}", "+rlaunch=values"] if made.filed else []
    return [*extra, *(a.text for a in made.arguments if a.text)]


def test_a_long_value_and_a_key_with_a_space_arrive(tmp_path: Path) -> None:
    """What is too long for an argument, or has a key that no argument can write, arrives by the file."""
    long = "p\u00e4ge \"'\\\n\t\u2028\U0001f600" * 30_000
    body = {
        "trainer": {"run_name": long, "a key": {"deep": [1, {"two words": None}]}, "epochs": 3},
        "data": {"train_data": ["/d"]},
    }
    words = emitted(tmp_path, body)
    assert words[0].startswith("--config-dir=")
    assert all(len(word) < 200 for word in words)
    read = settings.read(words)
    assert (read.run_name, read.epochs, read.train_data) == (long, 3, ("/d",))
    _, tree = values.load(words)
    assert tree["trainer"]["a key"] == {"deep": [1, {"two words": None}]}


def test_an_argument_wins_over_the_file(tmp_path: Path) -> None:
    """A key of the file is set anew by an argument, and its neighbours stay."""
    body = {"trainer": {"run_name": "x" * 200_000, "a b": 1}, "data": {"train_data": ["/d"]}}
    words = [*emitted(tmp_path, body), "trainer.run_name=short"]
    assert settings.read(words).run_name == "short"
    rest, base = values.load(words)
    tree = settings.build_tree((parse(word) for word in rest), base)
    assert tree["trainer"] == {"run_name": "short", "a b": 1}


@given(
    st.dictionaries(
        st.text(st.characters(exclude_categories=["Cs"]), min_size=1),
        st.recursive(
            SCALARS,
            lambda inner: (
                st.lists(inner, max_size=3) | st.dictionaries(st.text("a b:"), inner, max_size=3)
            ),
            max_leaves=6,
        ),
        max_size=3,
    )
)
def test_every_emitted_file_is_read_as_yaml_reads_it(filed: dict[str, Any]) -> None:
    """Whatever the launcher writes into the file is read back as the same values."""
    text = emit.file_text(filed)
    assert values.parse(text) == filed
    told = yaml.safe_load(text) or {}
    assert list(told) == list(filed)


def test_numbers_without_an_end() -> None:
    """Infinities and not-a-number are YAML's words."""
    read = values.parse(emit.file_text({"a": [float("inf"), float("-inf"), float("nan")]}))
    assert read["a"][:2] == [math.inf, -math.inf]
    assert math.isnan(read["a"][2])


@pytest.mark.parametrize(
    "words",
    [["--config-dir=/nowhere"], ["+rlaunch=values"], ["--config-dir=/nowhere", "+rlaunch=values"]],
)
def test_half_of_it_is_an_error(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """One of the two arguments alone, or a file that is not there, ends the trainer with a sentence."""
    with pytest.raises(OverrideError):
        values.load(words)
    assert main([*words, DATA]) == 2
    assert capsys.readouterr().err.count("\n") == 1


@pytest.mark.parametrize("text", ['"a"', '"a": [1', '"a": {"b" 1}', '"a": word', '"a": "open'])
def test_another_shape_is_refused(text: str) -> None:
    """A file of another shape is refused, never read in part."""
    with pytest.raises(ValueError, match=r".+"):
        values.parse(text)

"""What is written is what Hydra reads: the real parser of hydra-core judges."""

import re
from typing import Any

import pytest
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import QuotedString
from hydra.errors import HydraException
from hypothesis import example, given, settings
from hypothesis import strategies as st

from rlaunch.skyrl import grammar, overrides
from rlaunch.skyrl.emit import _text

PARSER = OverridesParser.create()
NASTY = "'\"\\\n\t\r $#,=~{}[]()@:!%^&*|/?.<>-+_0123456789eEnulinfatrusé李"
TEXTS = st.text(
    st.one_of(
        st.sampled_from(NASTY),
        st.characters(blacklist_categories=("Cs",), blacklist_characters="\0"),
    ),
    max_size=12,
)
SPECIAL = (
    "8e-6",
    "123",
    "true",
    "null",
    "~/x",
    "it's",
    "-",
    "1_0",
    ".5",
    "1.",
    "a b",
    "$x",
    "0x1",
    "inf",
    "",
)
KEYS = st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,6}", fullmatch=True).filter(
    lambda key: key.lower() not in {"true", "false", "null", "inf", "nan"}
)
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(allow_nan=False),
    TEXTS,
    st.sampled_from(SPECIAL),
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(KEYS, inner, max_size=4)),
    max_leaves=8,
)
BITS = [
    "a", "b.c", "=", "+", "++", "~", ",", "[", "]", "{", "}", ":", "'", '"', "\\", "1", "-2", "3.5",
    "1e-6", "true", "null", "inf", "${x}", "$", "/", "@", "(", ")", "choice(", "é", "#", "\\,",
    "\\\\", "x-y", "0", "_", " ", "\t", "\n",
]  # fmt: skip
LINES = st.lists(st.sampled_from(BITS), max_size=10).map("".join)


def plain(value: Any) -> Any:
    """Return a value of the real parser without its wrappers."""
    if isinstance(value, QuotedString):
        return value.text
    if isinstance(value, list):
        return [plain(item) for item in value]
    if isinstance(value, dict):
        return {plain(key): plain(item) for key, item in value.items()}
    return value


def read(text: str) -> tuple[overrides.Override | None, int]:
    """Return the override, or the column of its fault."""
    try:
        return overrides.parse(text), 0
    except overrides.OverrideError as error:
        return None, error.column


def typed(value: Any) -> Any:
    """Return a value with the type of every part, so that 1, 1.0 and true differ."""
    if isinstance(value, list):
        return [typed(item) for item in value]
    if isinstance(value, dict):
        return {key: typed(item) for key, item in value.items()}
    return type(value), value


@settings(max_examples=300, deadline=None)
@given(VALUES)
@example("it's")
@example("back\\slash\\")
@example("\\'")
@example(['a"b', "c'd", None, {"k": ["x,y"]}])
def test_what_is_written_is_read_back(value: Any):
    """Any text, number, boolean, null, list or mapping arrives with its value and type."""
    for write in (grammar.write, _text):
        read = PARSER.parse_override(f"k={write(value)}")
        assert not read.is_sweep_override()
        assert typed(plain(read.value())) == typed(value)


@settings(max_examples=100, deadline=None)
@given(st.from_regex(re.compile(grammar._EXPONENT.pattern, re.ASCII), fullmatch=True))
def test_a_number_with_an_exponent_stays_that_number(text: str):
    """`8e-6`, text for YAML 1.1, is that float for Hydra when it goes out as it stands."""
    text = text.rstrip("\n")
    assert grammar.is_exponent(text)
    assert typed(PARSER.parse_override(f"k={text}").value()) == typed(float(text))


@pytest.mark.parametrize(
    "value", [{"a b": 1}, {"true": 1}, {"1": 1}, {"a.b": 1}, "nul\0", ["x", {"": 0}]]
)
def test_what_the_grammar_cannot_carry_is_refused(value: Any):
    """A quoted key would be a syntax error and a NUL byte ends an argument: no text is made."""
    with pytest.raises(grammar.Unwritable):
        grammar.write(value)


@pytest.mark.parametrize(
    ("key", "good"),
    [
        ("a.b-c.d_1", True),
        ("a.1", False),
        ("a.b c", False),
        ("a..b", False),
        ("a.b@c", False),
        ("é", False),
    ],
)
def test_keys_are_checked_before_they_are_written(key: str, good: bool):
    """Only what Hydra takes on the left of `=` goes there."""
    assert grammar.writable_key(key) is good


@settings(max_examples=600, deadline=None)
@given(st.one_of(LINES, LINES.map(lambda text: f"k={text}")))
def test_an_override_is_read_as_hydra_reads_it(text: str):
    """What is accepted has Hydra's key and value; what is refused is a fault, a sweep or a function."""
    try:
        hydra = PARSER.parse_override(text)
    except HydraException:
        hydra = None
    ours, column = read(text)
    if ours is None:
        special = hydra is None or hydra.is_sweep_override() or "(" in text or "@" in text
        assert special or not hydra.key_or_group
        assert 1 <= column <= len(text) + 1
        return
    assert hydra is not None
    assert not hydra.is_sweep_override()
    package = f"@{hydra.package}" if hydra.package is not None else ""
    assert ours.key == f"{hydra.key_or_group}{package}"
    assert repr(typed(ours.value)) == repr(typed(plain(hydra.value())))


@pytest.mark.parametrize(
    ("text", "column", "word"),
    [
        ("a.b", 4, "no `=`"),
        ("=3", 1, "key"),
        ("a=1,2", 4, "sweep"),
        ("a=choice(1,2)", 3, "sweep"),
        ("a=int(1)", 3, "functions"),
        ("a=[1", 5, "too early"),
        ("a=#x", 3, "quotes"),
        ("a='x", 3, "never closed"),
        ("a b=1", 2, "followed"),
        ("a={b}", 5, "`:`"),
        ("", 1, "key"),
    ],
)
def test_a_faulty_override_names_its_column(text: str, column: int, word: str):
    """The message says what is wrong and where."""
    with pytest.raises(overrides.OverrideError, match=re.escape(word)) as caught:
        overrides.parse(text)
    assert caught.value.column == column


def test_overrides_change_a_body_without_touching_it():
    """Later overrides win, a deletion removes, and the recipe itself stays as it was written."""
    body = {"trainer": {"epochs": 1, "seed": 2}, "terminal_bench": {"harbor": {"max_retries": 3}}}
    texts = (
        "trainer.epochs=2", "trainer.epochs=3", "~trainer.seed", "++generator.engine_init_kwargs.x='1'",
        "++terminal_bench_config.harbor.max_retries=5", "hydra.run.dir=/x", "+group/a=b",
    )  # fmt: skip
    after = overrides.apply(body, [overrides.parse(text) for text in texts])
    assert after == {
        "trainer": {"epochs": 3},
        "terminal_bench": {"harbor": {"max_retries": 5}},
        "generator": {"engine_init_kwargs": {"x": "1"}},
    }
    assert body["trainer"] == {"epochs": 1, "seed": 2}

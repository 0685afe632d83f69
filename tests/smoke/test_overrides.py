"""The toy trainer's argument parser against the real one of hydra-core."""

from __future__ import annotations

from typing import Any

import pytest
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.errors import HydraException
from hypothesis import example, given, settings
from hypothesis import strategies as st

from rlaunch.smoke.overrides import OverrideError, parse

HYDRA = OverridesParser.create()

ALPHABET = "ab_1079 .,:=-+eE\\'\"[]{}()/$%@?|*\t~#lnutrfasié"
ATOMS = [
    "null", "true", "False", "inf", "-nan", "1e5", "8e-6", "1_000", "007", "1.", ".5", "-.5e-3", "+3",
    "abc", "a-b", "a/b:c", "${x.y}", "$HOME", "it\\'s", "'it\\'s'", '"a\\\\"', "''", '""', "'\\\\'",
    "[", "]", "{", "}", "(", ")", ",", ":", "=", " ", "\\,", "\\ ", "\\\\", "a b", "'\n'", "\\=",
]  # fmt: skip


def _same(left: Any, right: Any) -> bool:
    # repr: 1 is not True is not 1.0, nan is nan
    return repr(left) == repr(right)


def _compare(argument: str) -> bool:
    """Fail where both parsers take the argument and differ; return whether ours took it."""
    try:
        ours = parse(argument)
    except OverrideError:
        return False
    theirs = HYDRA.parse_override(argument)
    assert not theirs.is_sweep_override()
    assert (ours.key, ours.package) == (theirs.key_or_group, theirs.package)
    mark = {"": "CHANGE", "+": "ADD", "++": "FORCE_ADD", "~": "DEL"}[ours.mark]
    assert theirs.type is not None
    assert theirs.type.name == mark
    assert _same(ours.value, theirs.value())
    return True


@given(st.text(alphabet=ALPHABET, max_size=14))
@example("8e-6")
@example("'a\\\\'")
@example('"a\\"b"')
@example("{a:b:c, d: [1, {e: null}]}")
@settings(max_examples=400, deadline=None)
def test_any_value_that_is_taken_has_the_value_that_hydra_gives_it(text: str) -> None:
    """For any text after `=`, ours either refuses or agrees with hydra-core."""
    _compare(f"a.b={text}")


@given(st.lists(st.sampled_from(ATOMS), max_size=8))
@settings(max_examples=600, deadline=None)
def test_values_made_of_the_grammars_own_words_agree_with_hydra(words: list[str]) -> None:
    """Words of the grammar in any order: refused, or the same value as hydra-core."""
    _compare("++a.b=" + "".join(words))


@given(st.lists(st.sampled_from(ATOMS), max_size=6))
@settings(max_examples=400, deadline=None)
def test_nothing_that_hydra_takes_is_refused_but_sweeps_and_functions(words: list[str]) -> None:
    """What hydra-core reads as one plain value, ours reads too."""
    argument = "a=" + "".join(words)
    try:
        theirs = HYDRA.parse_override(argument)
    except HydraException:
        return
    plain = not theirs.is_sweep_override() and "(" not in argument
    if plain:
        assert _compare(argument)


SCALARS = st.none() | st.booleans() | st.integers(-(10**9), 10**9) | st.floats(allow_nan=False)
NAMES = st.from_regex(r"k_[a-z0-9_]{0,5}", fullmatch=True)


def _written(value: Any) -> str:
    if isinstance(value, list):
        return "[" + ",".join(map(_written, value)) + "]"
    if isinstance(value, dict):
        return "{" + ",".join(f"{key}:{_written(item)}" for key, item in value.items()) + "}"
    return "null" if value is None else repr(value).lower()


@given(
    st.recursive(
        SCALARS,
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(NAMES, inner, max_size=4),
        max_leaves=8,
    )
)
@settings(max_examples=150, deadline=None)
def test_a_value_written_in_the_grammar_comes_back(value: Any) -> None:
    """Numbers, booleans, nulls, lists and dicts survive being written and read."""
    assert _same(parse(f"a={_written(value)}").value, value)
    assert _compare(f"a={_written(value)}")


@given(st.text(min_size=0, max_size=20))
@settings(max_examples=400, deadline=None)
def test_any_string_in_single_quotes_arrives_unchanged(text: str) -> None:
    """The quoting rule of launchers (escape quotes, double backslashes before them) is undone."""
    body = ""
    for index, char in enumerate(text):
        rest = text[index:].lstrip("\\")
        before_quote = char == "\\" and (not rest or rest[0] == "'")
        body += "\\'" if char == "'" else "\\\\" if before_quote else char
    assert parse(f"a='{body}'").value == text


@pytest.mark.parametrize(
    "key", ["a", "a.b-c.d", "$a", "a.0.b", "a/b", "a/b@c.d", "a@b", "_a", "a.$b", "A1"]
)
def test_keys_that_hydra_takes_are_taken(key: str) -> None:
    """Dotted keys, groups and packages are read as Hydra reads them."""
    for mark in ("", "+", "++", "~"):
        assert _compare(f"{mark}{key}=1")
    assert _compare(f"~{key}")


@pytest.mark.parametrize(
    ("argument", "word"),
    [
        ("a=1,2", "sweep"),
        ("a=choice(1,2)", "function"),
        ("a=b=c", "quote"),
        ("a=#x", "quotes"),
        ("a=(x)", "quote"),
        ("a=李明", "quotes"),
        ("a='it's'", "quote"),
        ("=1", "key=value"),
        ("0=1", "key=value"),
        ("a", "key=value"),
        ("+a", "key=value"),
        ("a b=1", "key=value"),
        ("", "key=value"),
        ("a=[1", "ends"),
        ("a={'k': 1}", "quote"),
    ],
)
def test_what_is_refused_is_named_with_its_reason(argument: str, word: str) -> None:
    """A bad argument is quoted in the message, with what to do about it."""
    with pytest.raises(OverrideError, match=word) as caught:
        parse(argument)
    assert f"`{argument}`" in str(caught.value)

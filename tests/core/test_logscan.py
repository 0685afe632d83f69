"""Finding lines fast, and never missing one."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlaunch.logscan import literals, search
from rlaunch.model import LogLine, RunFacts
from rlaunch.skyrl import sightings
from rlaunch.skyrl.milestones import milestones
from rlaunch.skyrl.signatures import SIGNATURES

PATTERNS = sorted(
    {pattern for milestone in milestones(RunFacts()) for pattern in milestone.patterns}
    | {signature.pattern for signature in SIGNATURES}
    | set(sightings._PATTERNS.values())
)


@pytest.mark.parametrize("pattern", PATTERNS)
def test_every_pattern_has_literals_that_its_matches_contain(pattern: str) -> None:
    """The literals that lines are chosen by stand in whatever the pattern matches."""
    found = literals(pattern)
    assert found, "without a literal, every line of a log meets the regular expression"

    @given(st.from_regex(pattern))
    @settings(max_examples=40, deadline=None)
    def check(text: str) -> None:
        assert any(literal in text for literal in found)

    check()


@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        (r"abcd", ("abcd",)),
        (r"ab\.cd", ("ab.cd",)),
        (r"abcd?ef", ("abc",)),
        (r"abcd*|efgh+", ("abc", "efgh")),
        (r"(abc|def)gh ", ("gh ",)),
        (r"[]abc]xyz[^]\]]", ("xyz",)),
        (r"ab(?:c(d)[)])efg", ("efg",)),
        (r"abc{2}def", ("def",)),
        (r"\d+ab", ()),
        (r"abc|", ()),
        (r"(?i)abcd", ()),
        (r"", ()),
    ],
)
def test_literals_are_cut_at_whatever_may_vary(pattern: str, found: tuple[str, ...]) -> None:
    """Optional characters, groups, classes and counts never become part of a literal."""
    assert literals(pattern) == found


@given(
    st.lists(st.text(alphabet="abcd \n", max_size=12), max_size=40),
    st.lists(st.sampled_from(["abc", "bcd|cda", "a.c", "(?i)ABC", "ab+", "^$", "d$"]), max_size=4),
)
@settings(max_examples=300, deadline=None)
def test_searching_in_blocks_finds_what_searching_each_line_finds(
    texts: list[str], patterns: list[str]
) -> None:
    """Block search is an optimisation: same lines, same patterns, same order."""
    lines = [LogLine(text, rank=number) for number, text in enumerate(texts)]
    fast = [(hit.line.rank, hit.key) for hit in search(iter(lines), patterns)]
    slow = [
        (line.rank, key)
        for line in lines
        for key, pattern in enumerate(patterns)
        if re.search(pattern, line.text)
    ]
    assert fast == slow


def test_lines_beyond_the_first_block_are_found() -> None:
    """A milestone in the last of fifteen thousand lines is not lost."""
    lines = [LogLine("nothing", 0)] * 15_000 + [LogLine("Training done!", 0)]
    assert [hit.line.text for hit in search(lines, ["Training done!"])] == ["Training done!"]

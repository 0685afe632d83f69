"""The patterns of classes match as fnmatch does."""

from fnmatch import fnmatchcase

from hypothesis import given
from hypothesis import strategies as st

from rlaunch.skyrl import classes

TEXT = st.text("ab._", max_size=8)


@given(TEXT, st.text("ab._*", max_size=8))
def test_patterns_of_text_and_stars(key: str, pattern: str):
    """Matching by hand agrees with the standard library for every pattern of text and `*`."""
    assert classes._matches(key, [pattern]) == fnmatchcase(key, pattern)


def test_no_pattern_uses_more_than_stars():
    """The tables hold no `?` or `[`, which the matching by hand does not know."""
    tables = [p for p, _ in (*classes.MECHANICAL, *classes.TUNING)]
    tables += [*classes.SCIENCE, *classes.ENV_MECHANICAL, *classes.ENV_TUNING]
    assert [p for p in tables if "?" in p or "[" in p] == []

"""The errors that rlaunch has already explained.

    RlaunchError            carries findings; the command line prints them and exits 3
    ├── RecipeError         the recipe or the request is wrong
    ├── PluginError         a plugin is missing, broken or claimed twice
    └── ClusterError        the cluster could not be asked or did not do it (`transient`)
        └── UnclearSubmitError   the job may have been taken

Anything else that escapes is a bug and keeps its traceback.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Self

from rlaunch.model import Finding


class RlaunchError(Exception):
    """A refusal or failure that has been explained by at least one finding."""

    def __init__(self, *findings: Finding) -> None:
        super().__init__("; ".join(f"{f.level}[{f.code}]: {f.message}" for f in findings))
        self.findings = findings

    @classmethod
    def of(cls, code: str, message: str, *, place: str = "", hint: str = "") -> Self:
        """Make the error from one finding's parts."""
        return cls(Finding("error", code, message, place, hint))


@contextmanager
def named(usual: str, here: str) -> Iterator[None]:
    """Let the findings of an error that is raised inside stand at `here` where they stand at `usual`.

    For a command that takes by another argument what a launch takes by the flag `usual`.
    """
    try:
        yield
    except RlaunchError as error:
        error.findings = tuple(
            found._replace(place=here) if found.place == usual else found
            for found in error.findings
        )
        raise


class RecipeError(RlaunchError):
    """The recipe or the request is wrong; nothing was sent."""


class PluginError(RlaunchError):
    """A plugin is unknown, does not import, or its name is claimed twice."""


class ClusterError(RlaunchError):
    """The cluster could not be asked, or did not do what it was asked."""

    def __init__(self, *findings: Finding, transient: bool = False) -> None:
        super().__init__(*findings)
        self.transient = transient


class UnclearSubmitError(ClusterError):
    """Nobody knows whether the scheduler took the job: it must not be sent again before it was asked.

    The record keeps such a run open, so that `status` asks for it and `stop` ends what is there.
    """

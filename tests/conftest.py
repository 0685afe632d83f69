"""The conformance kit's pytest plugin serves rlaunch's own tests too."""

import os

import pytest

pytest_plugins = ["rlaunch.testing.plugin"]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """In CI a real gang that failed is tried once more, and that is told as a RERUN.

    Ray gives its own start 30 s; a machine that stalls for as long ends a gang that is in order. All
    other tests have one try, everywhere.
    """
    if not os.environ.get("CI"):
        return
    for item in items:
        if item.get_closest_marker("gang") or item.get_closest_marker("e2e"):
            item.add_marker(pytest.mark.flaky(reruns=1))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Show why a first try failed, though the second one passed: it may be a fault that comes seldom."""
    for report in terminalreporter.stats.get("rerun", []):
        terminalreporter.section(f"first try of {report.nodeid}")
        terminalreporter.write_line(report.longreprtext[-4000:])

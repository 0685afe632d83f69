"""The conformance kit's pytest plugin serves rlaunch's own tests too."""

pytest_plugins = ["rlaunch.testing.plugin"]

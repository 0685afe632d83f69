"""The conformance kit: what a cluster plugin promises, as tests that its author inherits.

`ClusterConformance` (module `conformance`) has the promises, `Bench` (module `bench`) is what an
author writes so that they can be tried, `fakes` and `strategies` help with it. The pytest plugin
is opt-in: `pytest_plugins = ["rlaunch.testing.plugin"]` in the top `conftest.py`.
"""

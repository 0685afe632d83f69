"""The outsider's own test files are run by the outsider's pytest, in `test_third_party.py`."""

collect_ignore = ["acme"]

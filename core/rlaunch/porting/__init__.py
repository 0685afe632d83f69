"""A recipe of one cluster, rewritten for another: what follows from the two profiles, and nothing else.

Every change has a class and a reason. Mechanical ones follow from the profiles and are made; tuning that
belongs to a cluster's hardware is proposed and kept as it is unless accepted; what may change the
experiment needs `--accept KEY`, key by key. `translate` decides (pure), `rewrite` changes the text in
place, `port` reads and writes files.
"""

from __future__ import annotations

from rlaunch.porting.changes import Change, Translation
from rlaunch.porting.translate import mechanical, translate

__all__ = ["Change", "Translation", "mechanical", "translate"]

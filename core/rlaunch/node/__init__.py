"""The node agent: runs inside the job, one per node, and needs nothing but Python 3.10.

Rank 0 starts Ray's head, waits for all nodes and runs the driver; the others join, park and end with
it. The package is packed as a zipapp (`rlaunch-node.pyz`), so its imports are relative and it knows
nothing of the rest of rlaunch. `docs/reference/node-agent.md` describes flags, files, reasons and codes.
"""

PROTOCOL = "rlaunch.node/1"
"""Name of the rendezvous protocol; agents of one gang must speak the same."""

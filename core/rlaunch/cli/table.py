"""The commands and one line about each: all that `--help` and completion need to know of them."""

COMMANDS = {
    "plan": "Show what a launch would send, or write it to a plan file.",
    "check": "Judge recipes offline, many at once.",
    "port": "Rewrite a recipe of one cluster for another.",
    "submit": "Send a plan file as it is.",
    "runs": "List the runs that were recorded on this machine.",
    "status": "Say how runs stand, once.",
    "watch": "Print each change of a run's state until it has ended.",
    "logs": "Print a run's output.",
    "diagnose": "Say how far a run has come, with the lines that prove it.",
    "stop": "Stop one run.",
    "clusters": "List the clusters that `--cluster` takes.",
    "explain": "Explain a code, a setting or a reason.",
    "doctor": "Check this installation.",
}

"""The pages of what this plugin says and no rule says."""

from __future__ import annotations

from rlaunch.codes import Code

CODES = (
    Code(
        "iris.workspace-shadows",
        "A file of the workspace hides a module of Python's own.\n\n"
        "The workspace is first on PYTHONPATH of everything that runs in the job, Ray "
        "included: a `code.py` at its top made Ray die at its import of `pdb`.",
        "warning",
    ),
    Code(
        "iris.absent",
        "The controller has no such job.\n\nIt was never there, or ended more than seven days ago.",
    ),
    Code(
        "iris.bad-time",
        "A time cannot be read.\n\nTimes are RFC 3339, such as `2026-07-01T12:00:00Z`.",
    ),
    Code(
        "iris.kubeconfig",
        "The kubeconfig cannot be used.\n\n"
        "It is the file of the setting `kubeconfig`; where that is `auto`, `$KUBECONFIG`, and without it, or "
        "where it does not have the context, `~/.kube/coreweave-iris`. Its context is the profile's "
        "`kube_context`. The controller of a CoreWeave cluster is reached through it, and nodes are "
        "listed with it.",
    ),
    Code(
        "iris.kubernetes-failed",
        "The Kubernetes API did not answer, or refused.\n\n"
        "A token of the console lasts for a while only.",
    ),
    Code(
        "iris.storage-refused",
        "The store does not take the keys that the job will have.\n\n"
        "One object was written, read and deleted beside the rendezvous, or was to be. In the "
        "job the gang would stand still at bring-up.",
    ),
    Code(
        "iris.storage-untried",
        "The store could not be tried from this machine.\n\n"
        "That is no fault of the run: the job reaches the store by a way of its own.",
        "note",
    ),
    Code(
        "iris.check-failed",
        "A preflight check failed by itself.\n\n"
        "That says nothing about the run; the message has the reason.",
    ),
    Code(
        "iris.check-late",
        "A preflight check gave no answer in time.\n\n"
        "All checks together take ten seconds at most. A late look at nodes and pods is a warning; a "
        "controller or a store that is late stops the launch, and `--skip-preflight NAME` goes without the "
        "check.",
    ),
    Code(
        "iris.client-aging",
        "The installed Iris client is older than 14 days.\n\n"
        "A controller refuses clients that are so much older than its own build, and "
        "controllers are rebuilt every few days.",
        "warning",
    ),
    Code(
        "iris.running-limit",
        "As many RL runs run on the cluster as may run at once.\n\n"
        "The sandboxes of all runs share one quota; runs that wait for admission do not "
        "count. `--allow` lets one more through, and it is recorded.",
        "error",
        waivable=True,
    ),
    Code(
        "iris.wrong-cluster",
        "The kubeconfig leads to another cluster than the profile's.\n\n"
        "None of its nodes carries the label of this cluster's Iris.",
    ),
    Code(
        "iris.queue-missing",
        "Kueue has no such queue in the namespace.\n\nWithout it a gang is gated for ever.",
    ),
    Code(
        "iris.never-fits",
        "The gang would not fit even if nobody else ran.\n\n"
        "Allocatable minus what the system's own pods hold, per node. Kueue would keep the "
        "gang SchedulingGated for ever, and the controller would say `running`.",
    ),
    Code(
        "iris.no-room",
        "The gang does not fit now; it will wait.\n\n"
        "Allocatable minus the requests of all bound pods, per node.",
        "warning",
    ),
    Code(
        "iris.client-missing",
        "The Iris client is not installed.\n\n"
        "The plugin plans without it; submit, status, logs and stop need it. Newer clients "
        "need Python 3.12.",
    ),
    Code(
        "iris.client-broken",
        "The Iris client is installed and cannot be imported.\n\n"
        "Usually `marin-finelog` is months older than `marin-iris`, or `--pre` brought a "
        "release candidate of httpx.",
    ),
    Code(
        "iris.client-old",
        "The controller refuses clients that are more than 14 days older than itself.\n\n"
        "A pinned client therefore dies within two weeks; upgrade it.",
    ),
    Code(
        "iris.controller-silent",
        "The controller took the question and did not answer in time.\n\n"
        "Nothing is known then: the state is UNKNOWN, never ABSENT.",
    ),
    Code(
        "iris.controller-unreachable",
        "Nobody answers at the controller's address.\n\n"
        "A run goes on without its controller; only the view of it is lost.",
    ),
    Code(
        "iris.controller-failed",
        "The controller answered with a failure of its own.\n\nTry again; a run goes on meanwhile.",
    ),
    Code(
        "iris.no-connection",
        "The way to the controller could not be opened.\n\n"
        "On CoreWeave it is a `kubectl port-forward`, which needs the kubeconfig; elsewhere "
        "an URL.",
    ),
    Code(
        "iris.config-invalid",
        "A cluster file does not fit the installed client.\n\n"
        "Iris's schema is strict and tied to the client's version; each client brings the "
        "files that it can read.",
    ),
    Code(
        "iris.bad-id",
        "The text is no id of an Iris job.\n\nAn id is `/user/name`.",
    ),
    Code(
        "iris.name-taken",
        "The controller has a job of this name.\n\n"
        "A name is the job's identity there: submitting over a finished one would delete its "
        "history.",
    ),
    Code(
        "iris.refused",
        "The request was refused.\n\nThe message has the controller's own words.",
    ),
    Code(
        "iris.keys-missing",
        "The controller wants storage keys of your own.\n\n"
        "Since October 2026 every job brings `CW_KEY_ID` and `CW_KEY_SECRET`; before, the "
        "cluster lent one pair to all.",
    ),
    Code(
        "iris.not-allowed",
        "The controller knows you and does not allow it, or does not know you.\n\n"
        "The message has its own words.",
    ),
    Code(
        "iris.answer-unreadable",
        "Something answered that is no Iris controller.\n\nLook at the address.",
    ),
    Code(
        "iris.workspace-secret",
        "A file that travels with the workspace holds secrets by its name.\n\n"
        "`.env`, private keys, `.netrc`, kubeconfigs and credentials are refused; the archive "
        "is stored by the controller and readable by others.",
    ),
    Code(
        "iris.workspace-too-large",
        "The packed workspace is larger than Iris takes (25 MiB).\n\n"
        "The message names the largest files.",
    ),
    Code(
        "iris.workspace-changed",
        "The workspace has changed since the plan was made.\n\n"
        "What is submitted is what was shown, so the plan must be made again.",
    ),
    Code(
        "iris.submit-unknown",
        "Nobody knows whether the job was submitted.\n\n"
        "The launch was sent and no answer came; asking for the job gave none either. It is "
        "not sent again.",
    ),
    Code(
        "iris.artifact-changed",
        "A zipapp of the installed rlaunch is not the one that was planned.\n\n"
        "rlaunch was upgraded or edited between plan and submit; make the plan again.",
    ),
)

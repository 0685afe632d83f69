"""What a cluster says of a run beside its agents: the words of schedulers, batch scripts and supervisors.

They stand in brackets behind the state, as the named reasons of `rlaunch.endings` do. A word of SLURM's
own is written as SLURM writes it. Text only.
"""

from __future__ import annotations

from collections.abc import Mapping

ASKED: Mapping[str, str] = {
    "stopped": "Somebody stopped the run: `rlaunch stop`, or Ctrl-C with `--kill-on-interrupt`.\n\n"
    "Nothing is wrong with it. `--resume auto` with `--if-exists new` goes on from its checkpoint.",
    "cancelled": "The job was cancelled at the scheduler (`scancel`), not with `rlaunch stop`.\n\n"
    "SLURM tells by whom: `sacct -j JOB -o State%30`.",
    "preempted": "A more urgent job took the nodes.\n\n"
    "With `--max-retries` the run is queued again and resumes; without, launch again with\n"
    "`--resume auto`.",
    "revoked": "The scheduler took the job back, for a sibling of it runs on another cluster.",
    "not-sent": "The launch was refused before anything was sent, so no cluster knows of the run.\n\n"
    "What follows is the refusal. Mend it and launch again.",
}
"""A run that somebody ended, or never began."""

LIMITS: Mapping[str, str] = {
    "timeout": "The run's own time limit was reached: `--timeout`.\n\n"
    "It was ended as by `rlaunch stop`. Launch again with `--resume auto`, or with a longer limit.",
    "time-limit": "The job met its wall limit.\n\n"
    "`--max-retries K` makes a chain of jobs that resume; `--timeout` asks for more, up to what the\n"
    "partition gives.",
    "deadline": "The job could not end before the deadline that it was submitted with.",
    "out-of-memory": "The job used more memory than it had asked for, and the kernel ended it.\n\n"
    "`--memory` asks for more; CPU offload and Ray's object store count against it.",
}
"""A run that met a limit."""

MACHINES: Mapping[str, str] = {
    "node-failure": "A node was lost under the job.\n\n"
    "`--max-retries 1` runs it again. A node that fails often belongs into the profile's `bad_nodes`.",
    "lost-its-node": "An attempt lost its node to the cluster, and the next one waits.\n\n"
    "That is no failure of the run, and does not count as a retry. What follows is the cluster's word.",
    "boot-failure": "A node did not boot.\n\n`--max-retries 1` runs the job again, on others.",
    "launch-failure": "SLURM could not start the job on its nodes.\n\n"
    "`scontrol show job JOB` and the administrators know more.",
    "reconfiguration-failure": "A node did not come back as the job needs it.\n\nLaunch again.",
    "no-output-file": "SLURM could not open the job's output file: quota or permissions.\n\n"
    "Look at your quota of files; `--set run_dir=DIR/{run}` lies elsewhere.",
    "not-written": "The run directory could not be written in the job.\n\n"
    "Look at quota, a full disk, and the mounts of the nodes.",
}
"""A run that lost what it ran on."""

SCRIPT: Mapping[str, str] = {
    "job-failed": "The job ended with an error, and no agent of it left a word.\n\n"
    "`rlaunch logs RUN`, and `job-ID.out` in the run directory, have what was printed.",
    "no-outcome": "Every agent ended, and none said how the run ended.\n\n"
    "The rendezvous directory may have been unreachable at the end: `rlaunch logs RUN` has the last\n"
    "lines of each rank.",
    "step-killed": "The job's step was killed from outside, before any rank could say more.\n\n"
    "The run directory's `job-ID.out` has SLURM's words; `--max-retries 1` runs it again.",
    "step-failed": "The job's step ended before any rank could say why.\n\n"
    "The run directory's `job-ID.out` has SLURM's words: an image or a Python that does not start.",
    "script-failed": "A command of the batch script failed.\n\n"
    "`job-ID.out` in the run directory has its words; quota and full disks are the usual causes.",
    "before-failed": "A line of the profile's `before` ended the job.\n\n"
    "`rlaunch logs RUN` has what it said; `--set before=[…]` changes the lines.",
    "module-failed": "A module did not load.\n\n"
    "`module avail` on the login node lists them; `--set modules=[…]` changes them.",
    "sif-missing": "The image was not there on the node.\n\n"
    "`--set sif=PATH` on a file system that the nodes share.",
    "wrong-shape": "The scheduler gave another number of nodes or tasks than the gang has.\n\n"
    "An option of the site or of `SBATCH_*` in the environment changed the request.",
    "bad-task": "A node could not read what it was to run.\n\n"
    "A file of the run directory was changed or lost. Make a new plan; if it comes again, it is a bug\n"
    "of rlaunch.",
    "no-address": "A node has none of the interfaces that the profile names.\n\n"
    "`--set interfaces=[NAME]`; the rank's line in the log lists what the node has.",
    "networks-unknown": "The batch node did not say which networks it is attached to.\n\n"
    "`ip -4 addr` must work there: the gang's own connections must not go through the proxy.",
    "tunnel-failed": "The tunnel out of the compute nodes could not be made.\n\n"
    "`ssh LOGIN true` from a compute node must work without a question.",
    "tunnel-dead": "The internet could not be reached through the tunnel.\n\n"
    "`rlaunch logs RUN` has what was tried; an image needs the wrapper's library in `binds`.",
    "supervisor-error": "The supervisor of a local run failed by a fault of its own.\n\n"
    "The detail has the error, `supervisor.log` in the run directory its traceback; a full disk is the\n"
    "usual cause. Anything else is a bug of rlaunch: report it with that log.",
    "not-started": "The supervisor of a local run did not start, so nothing of it did.\n\n"
    "The detail says why; `supervisor.log` in the run directory may have more.",
}
"""A run that ended before, or beside, its agents."""

WAITS: Mapping[str, str] = {
    "submitting": "The launch is placing the run and starting its supervisor; it takes seconds.",
    "retry": "The attempt before failed, and the next one begins.\n\n"
    "The detail has how it failed. `--max-retries` says how many there are.",
    "requeued": "SLURM has put the job back into its queue: preemption, a lost node, or a retry.\n\n"
    "It resumes from its own checkpoint when it starts again.",
    "requeued-held": "SLURM has put the job back and holds it.\n\n"
    "`scontrol release JOB` lets it go on, once what it was held for is mended.",
    "reservation-deleted": "The reservation that the job was to run in is gone, and SLURM holds the job.\n\n"
    "Stop it and launch without the reservation.",
    "nodes-configuring": "The nodes are given and are being made ready: booting or a prolog.",
    "expediting": "SLURM starts the job again, at once and before others.",
    "stage-in": "A burst buffer is being filled before the job starts.",
    "stage-out": "A burst buffer is being emptied; the job has ended.",
    "resizing": "The job is changing its size.",
    "suspended": "SLURM has suspended the job: it keeps its nodes and does not run.\n\n"
    "The scheduler resumes it (`scontrol resume JOB`); a gang that stands for long loses connections.",
    "signaling": "SLURM is sending the job a signal.",
    "completing": "The job has ended and SLURM clears its nodes.",
    "kueue": "Kueue holds the gang back until all of its nodes can be had at once.\n\n"
    "What follows is Kueue's own word for what is lacking. The run needs nothing but patience, a smaller\n"
    "`--num-nodes`, or another `--priority`.",
    "image": "A node cannot pull the job's image, and tries again.\n\n"
    "What follows is Kubernetes' word. A misspelt digest (`--task-image`), or a registry that wants\n"
    "credentials, never mends itself: stop the run.",
    "Priority": "Jobs of higher priority wait for the same nodes.\n\n"
    "`rlaunch status RUN` shows the expected start, where SLURM has one.",
    "Resources": "The job is next, and waits until enough nodes are free.",
    "Dependency": "The job waits for another one: the next link of a chain does until the first ends.",
    "BeginTime": "The job may not begin for a while: SLURM has put it back.",
    "ReqNodeNotAvail": "A node that the job needs is down, drained or reserved, often for maintenance.\n\n"
    "`scontrol show reservation` lists those; a shorter `--timeout` may fit before one.",
    "JobHeldUser": "The job was held by its owner; `scontrol release JOB` lets it go on.",
    "JobHeldAdmin": "The job was held by an administrator; only one can release it.",
    "JobArrayTaskLimit": "As many tasks of the array run as may.",
    "Licenses": "The job waits for a license.",
    "NodeDown": "A node that the job needs is down.",
    "Reservation": "The job waits for its reservation to begin.",
    "BadConstraints": "No node has what the job asks for: it will never start.\n\n"
    "Stop it, and ask for less, or for other features.",
    "DependencyNeverSatisfied": "The job that it waits for did not end as it should: it will never start.\n\n"
    "Stop it and launch again with `--resume auto`.",
    "PartitionNodeLimit": "The partition takes no job of so many nodes: it will never start.",
    "PartitionTimeLimit": "The partition takes no job of that length: it will never start.\n\n"
    "Stop it and launch with a shorter `--timeout`; `--max-retries` makes a chain.",
    "ReservationDeleted": "The reservation of the job is gone: it will never start.",
    "InvalidAccount": "The account cannot be used here: the job will never start.\n\n"
    "`--set account=NAME`; `sacctmgr show assoc user=$USER` lists yours.",
    "InvalidQOS": "The QOS cannot be used here: the job will never start.",
    "QOS-limit": "A limit of the job's QOS is reached (SLURM's `QOS…`).\n\n"
    "It starts when other jobs under that limit end. A `…PerJob` limit is never met by waiting: ask for\n"
    "less.",
    "association-limit": "A limit of the account or the user is reached (SLURM's `Assoc…`).\n\n"
    "It starts when other jobs under that limit end, or when there is budget again.",
}
"""A run that waits, or is on its way between two states."""

FAMILIES: Mapping[str, str] = {"qos": "QOS-limit", "assoc": "association-limit"}
"""How a family of SLURM's words begins, in lower case -> the page of all of them."""

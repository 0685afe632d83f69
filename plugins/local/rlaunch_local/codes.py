"""What the local cluster can say beside the rules of `checks.py`."""

from rlaunch.codes import Code

CODES: tuple[Code, ...] = (
    Code(
        "local.not-linux",
        "This machine is not Linux.\n\nThe supervisor tells its processes apart by /proc and pidfds; "
        "both are Linux's. Run rlaunch in a Linux container or VM.",
    ),
    Code(
        "local.no-python",
        "The job's interpreter does not exist, or does not start.\n\n`python` of the profile is the "
        "interpreter of the job, by default the one that runs rlaunch. "
        "`--set python=/path/to/venv/bin/python` names another.",
    ),
    Code(
        "local.no-ray",
        "The job's interpreter lacks Ray, or NumPy for the toy trainer.\n\nrlaunch itself needs neither; "
        "the job does. `pip install 'rlaunch-local[ray]'` brings both, and `--set python=…` names an "
        "interpreter that has them. Python 3.10 is the oldest that the node agent runs on.",
    ),
    Code(
        "local.port-busy",
        "A planned port or address is in use.\n\nPorts are probed before planning; another program took "
        "one since, or the plan was made offline. Make the plan again.",
    ),
    Code(
        "local.no-disk",
        "Too little room on the disk.\n\nCheckpoints, logs and Ray's session need it, and Ray refuses "
        "objects on a disk that is 95 % full. `min_disk` of the profile is the least.",
        waivable=True,
    ),
    Code(
        "local.no-memory",
        "Too little memory for so many pretended nodes.\n\nEach takes about `node_needs` of the profile, "
        "and the kernel kills a process of the gang when there is none left: an end without a message.",
        waivable=True,
    ),
    Code(
        "local.small-shm",
        "`/dev/shm` is smaller than the object stores.\n\nRay then keeps objects in a file below /tmp, "
        "which works and is slow. In a container, start it with a larger `--shm-size`.",
        level="warning",
    ),
    Code(
        "local.not-writable",
        "A directory of the run cannot be made or written.\n\n`--set run_dir=DIR` and "
        "`--set temp_root=DIR` place the run and Ray's session elsewhere.",
    ),
    Code(
        "local.gpus-shared",
        "The pretended nodes promise more GPUs than the machine has.\n\nRay hands out "
        "CUDA_VISIBLE_DEVICES 0 to `gpus_per_node` − 1 on every node, so that processes of several nodes "
        "meet on one GPU. Right for a toy, wrong for a measurement.",
        level="warning",
    ),
    Code(
        "local.no-checkpoint",
        "The run is to go on from a checkpoint that is not on this machine.\n\n`--resume` takes the absolute "
        "path of one directory `global_step_N`, as the trainer wrote it; `--resume auto` looks for the "
        "newest one of the same name.",
    ),
    Code(
        "local.run-exists",
        "The run directory holds a run already.\n\nA run id is used once: a second run in the same "
        "directory would read the first one's files.",
    ),
    Code(
        "local.not-written",
        "The run directory could not be written.\n\nNo room, no permission, or a path of the plan that "
        "leads out of it. Nothing was started.",
    ),
    Code(
        "local.submit-unknown",
        "The supervisor of a run was started and did not say in time that it lives.\n\n"
        "It may go on all the same, so the run stays open in the record: `rlaunch status` asks for it.",
    ),
    Code(
        "local.no-supervisor",
        "The supervisor did not start.\n\nIts log has the reason. Nothing else was started, and the "
        "secrets file is gone.",
    ),
    Code(
        "local.not-stopped",
        "Processes of the run are still there after `stop`.\n\nThe kernel could not end them (state D: "
        "a hung file system), or they belong to another user. `stop` again tries again.",
    ),
    Code(
        "local.absent",
        "This machine has no such run.\n\n`rlaunch runs` lists the runs that were started here.",
    ),
    Code(
        "local.artifact-changed",
        "An archive is not the one that the plan was made with.\n\nWhat is submitted is what was shown. "
        "The installed rlaunch has changed since the plan was made: make it again.",
    ),
)

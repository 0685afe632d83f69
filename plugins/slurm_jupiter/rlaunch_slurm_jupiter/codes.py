"""The pages of codes that belong to no rule function: preflight, submit, status, logs, stop."""

from __future__ import annotations

from rlaunch.codes import Code

CODES = (
    Code(
        "slurm_jupiter.host",
        "The login node did not answer.\n\n"
        "`host:` is spoken to through the system's ssh and your own configuration, without questions: "
        "`ssh HOST true` must work. A login node that cannot fork answers 254 or 127; that is no news "
        "about any job.",
    ),
    Code(
        "slurm_jupiter.not-asked",
        "SLURM could not be asked.\n\n"
        "`squeue`, `sacct` or `sinfo` failed, or printed something without its header. Nothing is "
        "concluded from it; the state is `UNKNOWN`. In preflight it also stands for a look at the site that "
        "failed, and the hint names the check to skip.",
    ),
    Code(
        "slurm_jupiter.refused",
        "SLURM does not take the job, in its own words.\n\n"
        "Asked with `sbatch --test-only` before anything is written. `Invalid account` means: not yours "
        "here, or not in this partition; `Requested node configuration is not available`: no node has it.",
    ),
    Code(
        "slurm_jupiter.submit-unknown",
        "Nobody knows whether SLURM took the job.\n\n"
        "`sbatch` gave no clear answer, and the job, which is looked for by its name, was not seen or could "
        "not be asked about. It is not sent a second time. The run stays open in the record: `rlaunch "
        "status` asks by name, and says `ABSENT` once SLURM answers that it has no such job; `rlaunch stop` "
        "cancels what is there.",
    ),
    Code(
        "slurm_jupiter.start",
        "When SLURM would start the job, by `sbatch --test-only`.\n\n"
        "An estimate: jobs before it may end early.",
        "note",
    ),
    Code(
        "slurm_jupiter.nodes",
        "The partition has too few usable nodes with that many GPUs.\n\n"
        "Nodes that are down or drained, and those that the profile excludes, do not count.",
    ),
    Code(
        "slurm_jupiter.run-dir",
        "The run directory cannot be made.\n\n"
        "It must lie on a file system that the login node and all compute nodes share. In a profile with "
        "`host:` a path below `~` is your laptop's home.",
    ),
    Code(
        "slurm_jupiter.disk",
        "The run directory's file system has too little room or too few inodes.\n\n"
        "A job that cannot write its log ends with exit 0:53 after seconds and leaves nothing to read.",
    ),
    Code(
        "slurm_jupiter.sif",
        "The image is missing, or built for another architecture.\n\n"
        "The number in the SIF's own header is read, 48 bytes of it.",
    ),
    Code(
        "slurm_jupiter.running-runs",
        "As many runs as the cluster may have are there already.\n\n"
        "Sandboxes and licences are shared; one more run starves all of them.",
    ),
    Code(
        "slurm_jupiter.not-staged",
        "Model or data are not on the shared file system, and compute nodes have no internet.\n\n"
        "They are brought there once, on the login node; the hint says how. The job would end minutes "
        "after its nodes were given to it.",
    ),
    Code(
        "slurm_jupiter.no-checkpoint",
        "The run is to go on from a checkpoint that is not on the cluster.\n\n`--resume` takes the absolute "
        "path of one directory `global_step_N`, as the trainer wrote it, on the file system of the compute "
        "nodes. The job would end minutes after its nodes were given to it.",
    ),
    Code(
        "slurm_jupiter.world-size",
        "The checkpoint's shards were written by another number of ranks.\n\n"
        "FSDP shards carry their world size in their names and fit no other.",
    ),
    Code(
        "slurm_jupiter.run-exists",
        "The run directory holds a run already.\n\nA run id is used once.",
    ),
    Code(
        "slurm_jupiter.not-written",
        "A directory on the site cannot be written.\n\nQuota and permissions are the usual reasons.",
    ),
    Code(
        "slurm_jupiter.source",
        "The workspace cannot be sent.\n\n"
        "What git tracks and what is new travels, by the hash of its content; what git ignores does not.",
    ),
    Code(
        "slurm_jupiter.workspace-changed",
        "The workspace has changed since the plan was made.\n\n"
        "It is known on the cluster by the hash of its content, so what is sent is what was planned.",
    ),
    Code(
        "slurm_jupiter.artifact-changed",
        "A zipapp is not the one that was planned.\n\nThe installed rlaunch has changed since.",
    ),
    Code(
        "slurm_jupiter.no-run-dir",
        "SLURM no longer knows where the run lies.\n\n"
        "The directory comes with the job; accounting forgets old ones.",
    ),
    Code(
        "slurm_jupiter.not-stopped",
        "Jobs of the run are still there after the time that SLURM allows itself.\n\n"
        "A node that hangs keeps a job in COMPLETING.",
    ),
)

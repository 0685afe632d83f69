"""The pages of what a port says."""

from __future__ import annotations

from rlaunch.codes import Code

CODES = (
    Code(
        "port.needs-accept",
        "The port would change what the experiment is, or something that nobody has classified.\n\n"
        "Such changes are never made by the way: `--accept KEY` takes one of them, each by its own key.",
    ),
    Code(
        "port.accept",
        "`--accept` names a key that no change waits for.\n\n"
        "A typo would be a change that is not made. The hint names the keys that can be accepted.",
    ),
    Code(
        "port.geometry",
        "The recipe makes whole nodes on its own cluster and does not on the other.\n\n"
        "GPUs that are paid for would stay idle. The message has the sum; sizes are changed in the recipe,\n"
        "by whoever knows which of them may change.",
    ),
    Code(
        "port.tensor-parallel",
        "A tensor-parallel group is wider than a node of the other cluster.\n\n"
        "Groups stay inside a node. Narrower engines, and more of them, take the same GPUs; that changes\n"
        "memory and speed of an engine, so it is made with `--accept KEY` only.",
    ),
    Code(
        "port.foreign-path",
        "An absolute path that nothing says exists on the other cluster.\n\n"
        "It was kept. A file that lies in the workspace, named by its relative path, is on every cluster.",
        "warning",
    ),
    Code(
        "port.no-image",
        "The other cluster starts runs in an image, and neither profile nor recipe names one there.\n\n"
        "The run would start on the Python of the nodes. `container.sif` in the recipe or `--set sif=PATH`\n"
        "at the launch names an image.",
        "note",
    ),
    Code(
        "port.rewrite",
        "The recipe is written in a way that cannot be changed in place.\n\n"
        "Comments and order of a recipe are kept by changing single places of its text. Values behind an\n"
        "alias or a merge stand in several places at once; what would come out is read again before it is\n"
        "written, and was not what was meant.",
    ),
    Code(
        "port.exists",
        "The output file is there already.\n\nNothing is written over without `--force`.",
    ),
)

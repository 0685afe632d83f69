"""The pages of codes that belong to no rule function: reading, keys, geometry. Pure data."""

from __future__ import annotations

from rlaunch.codes import Code

CODES = (
    Code(
        "recipe.missing",
        "There is no file of that name.\n\n"
        "A missing recipe was once a warning, and the job died minutes later in its pod.",
    ),
    Code(
        "recipe.unreadable",
        "The recipe exists and cannot be read.\n\nThe message has the system's reason.",
    ),
    Code(
        "recipe.outside-workspace",
        "The recipe lies outside the checkout that travels with the job.\n\n"
        "Symbolic links are followed. `rlaunch check` takes a recipe wherever it lies.",
    ),
    Code(
        "recipe.not-utf8",
        "The recipe is not UTF-8.",
    ),
    Code(
        "recipe.not-yaml",
        "The recipe is not YAML.\n\n"
        "The place is where the parser gave up; the fault is there or just above. One "
        "document only.",
    ),
    Code(
        "recipe.not-mapping",
        "The recipe is not a mapping of sections.\n\n"
        "An empty file, a list or a single value at the top is no recipe.",
    ),
    Code(
        "recipe.duplicate-key",
        "A key is written twice in one mapping.\n\n"
        "YAML loaders keep the last one without a word, so one of two decisions is lost.",
    ),
    Code(
        "recipe.key-not-text",
        "A key is a number, a date, a boolean or null.\n\n"
        "In YAML 1.1 `on:`, `yes:` and `1:` are no text. Quote it.",
    ),
    Code(
        "recipe.alias-loop",
        "An alias holds itself.\n\nIt would never end.",
    ),
    Code(
        "recipe.too-large",
        "The recipe is larger than a recipe can be.\n\n"
        "More than 1 MiB, or more than 20,000 values once aliases are written out, or nested "
        "deeper than 48.",
    ),
    Code(
        "recipe.unsupported-value",
        "A value is no text, number, boolean, null, list or mapping.\n\n"
        "Dates, sets, binary data and unknown tags cannot be passed to a trainer. Quote a "
        "date that is text; `!null` is the only tag: an explicit null.",
    ),
    Code(
        "skyrl.not-a-count",
        "A size of the placement is no whole number of at least 1.\n\nNumbers in quotes are text.",
    ),
    Code(
        "skyrl.no-gpus",
        "A recipe for GPUs on nodes that have none.\n\n"
        "Only the toy trainer (`entrypoint: rlaunch.smoke`) runs on CPUs.",
    ),
    Code(
        "skyrl.engines-missing",
        "Disaggregated, and the number of engines is null.\n\n"
        "Derived as nodes × GPUs / TP it would count the policy's GPUs too, and the run would "
        "wait for engines that never start. The hint has the number that fits.",
    ),
    Code(
        "skyrl.policy-missing",
        "Disaggregated, and the policy's node count is null.\n\n"
        "Derived as all nodes it would leave no GPU for the engines.",
    ),
    Code(
        "skyrl.colocated-sum",
        "Colocated engines do not take exactly the policy's GPUs.\n\n"
        "SkyRL asserts that engines × TP × PP × DP is the policy's world size when all models "
        "share GPUs.",
    ),
    Code(
        "skyrl.placement-reshaped",
        "The recipe's placement was written for nodes of another size.\n\n"
        "The world size is kept and laid on whole nodes of this cluster. An override of the "
        "placement on the command line is taken as it is.",
        "note",
    ),
    Code(
        "skyrl.nodes-mismatch",
        "The nodes that are asked for are not the recipe's.\n\n"
        "`--num-nodes` is optional: it is computed from the recipe. The message has the "
        "arithmetic.",
    ),
    Code(
        "skyrl.tp-crosses-node",
        "A tensor-parallel group is larger than a node.\n\n"
        "Engines decode over NVLink inside one node; groups across nodes were refused by the "
        "process group or crept.",
    ),
    Code(
        "skyrl.policy-too-wide",
        "The policy asks for more GPUs per node than a node has, and its world size does not "
        "fill whole nodes.\n\n"
        "The older launcher cut the number down without a word, which changed the world size.",
    ),
    Code(
        "skyrl.gpus-left-over",
        "Whole nodes have more GPUs than the roles take.\n\n"
        "They are paid for and idle. The message has the arithmetic.",
        "warning",
    ),
    Code(
        "recipe.entrypoint",
        "The recipe does not say what to start.\n\n"
        "`entrypoint` is a Python module or a short name.",
    ),
    Code(
        "recipe.unknown-key",
        "A key that nobody reads.\n\n"
        "70 of 401 real recipes had a section that an older launcher dropped without a word; "
        "four of them trained with the opposite of what they said.",
    ),
    Code(
        "recipe.wrong-shape",
        "A section has a value where keys are expected, or the other way round.",
    ),
    Code(
        "skyrl.newer-schema",
        "A key of the newer recipe schema, which derives a dozen others.\n\n"
        "rlaunch does not guess what it would derive: write the keys out.",
    ),
)

"""The pages of codes that belong to no rule function of their own: environment, settings, launch."""

from __future__ import annotations

from rlaunch.codes import Code

CODES = (
    Code(
        "env.not-scalar",
        "An environment value is a list or a mapping.\n\nA process gets strings. Quote the value.",
    ),
    Code(
        "env.not-mapping",
        "`extra_env` is not a mapping.\n\n"
        "An unreadable block was once dropped with a warning; now it is an error.",
    ),
    Code(
        "env.twins-differ",
        "A variable and its `APPTAINERENV_` twin differ.\n\n"
        "Twins were typed by hand and drifted. rlaunch carries every variable into the "
        "container itself: keep the plain name.",
    ),
    Code(
        "env.container-shadowed",
        "A variable stands in `container.extra_env` and in `extra_env` with two values.\n\n"
        "The top level wins.",
        "warning",
    ),
    Code(
        "env.refused-here",
        "The cluster's profile refuses this variable.\n\n"
        "The profile gives the reason; it is printed with the error.",
    ),
    Code(
        "env.name",
        "A name that no shell or process accepts.\n\n"
        "Letters, digits and `_`, not beginning with a digit.",
    ),
    Code(
        "env.refused",
        "`AWS_*` and `R2_*` are never sent to a job, from any source.\n\n"
        "The cluster injects credentials for its own store; a forwarded key replaced them, "
        "and the rendezvous went to another cloud's store without an error. `FSSPEC_S3` with "
        "keys, and `FSSPEC_S3_KEY` and its like, are the same. It holds at any depth of a recipe or "
        "an override, in mappings and lists, since such a block reaches processes too. What is merely "
        "present in your shell is not forwarded either.",
    ),
    Code(
        "env.reserved",
        "A variable that rlaunch sets itself.\n\n"
        "`RLAUNCH_*`, `RAY_ADDRESS` and Ray's authentication are given by the node agent on "
        "every node.",
    ),
    Code(
        "env.tls-off",
        "The variable would switch off the verification of TLS.\n\n"
        "A proxy needs its certificate (`SSL_CERT_FILE`), not blindness.",
    ),
    Code(
        "env.secret-literal",
        "A secret's value stands in a recipe or on a command line, at any depth.\n\n"
        "Plans, logs and the run record can be pasted into a ticket only while secrets are "
        "names.",
    ),
    Code(
        "env.nul",
        "A NUL byte cannot be part of an environment variable.\n\n"
        "The system would cut the value there.",
    ),
    Code(
        "env.dollar",
        "`$NAME` in a value: nothing expands it.\n\n"
        "A shell would, Kubernetes would not: the same recipe meant two things. Waived with "
        "`--allow env.dollar` it arrives literally, everywhere.",
        "error",
        True,
    ),
    Code(
        "env.too-large",
        "The environment is larger than 96 KiB.\n\n"
        "Schedulers and the kernel refuse larger ones late and without a name.",
    ),
    Code(
        "env.not-forwarded",
        "Credentials of your shell or secrets file stay here.\n\n"
        "`AWS_*` and `R2_*` were seen and not sent.",
        "note",
    ),
    Code(
        "core.model-missing",
        "No model is given.\n\n`--model_path`, or `trainer.policy.model.path` in the recipe.",
    ),
    Code(
        "core.data-list",
        "A data flag is not a JSON list of strings.\n\n"
        "Plain text was once taken as one dataset without a word. Quote the list for the "
        "shell.",
    ),
    Code(
        "core.job-name",
        "The name cannot be a job's name on every cluster.\n\n"
        "It becomes a DNS label: lower-case letters, digits and `-`, beginning and ending "
        "with a letter or digit; with `-` and the run id it has at most 63 characters.",
    ),
    Code(
        "core.retired-root",
        "A storage root that the cluster no longer serves.\n\n"
        "Writes to it stall without an error; runs were lost that way. The profile says since "
        "when and why.",
    ),
    Code(
        "recipe.override",
        "An override is not in Hydra's grammar.\n\n"
        "The message has the position. `a.b=value` changes a key, `++a.b=value` adds or "
        "changes one.",
    ),
    Code(
        "core.no-trainer",
        "No trainer knows the recipe's entry point.\n\n"
        "The built-in plugin knows `rlaunch.smoke` and SkyRL's; another trainer is a plugin "
        "that answers `rlaunch_command`.",
    ),
    Code(
        "core.not-observed",
        "The cluster could not be looked at before planning.\n\n"
        "The profile's values stand in, and the plan says so.",
        "warning",
    ),
    Code(
        "core.allow",
        "`--allow` names a code that does not exist or cannot be waived.\n\n"
        "Absolute refusals stand above every flag.",
    ),
    Code(
        "plan.version",
        "The plan was made by another version of rlaunch.\n\n"
        "What is submitted is what was shown; another version may send something else.",
    ),
    Code(
        "plan.workspace-changed",
        "The workspace has changed since the plan was made.\n\n"
        "The job would run other code than the plan shows.",
    ),
    Code(
        "plan.artifact-changed",
        "A zipapp is not the one that was planned.\n\nThe installed rlaunch has changed since.",
    ),
    Code(
        "plan.submitted",
        "A run id is submitted once.\n\n"
        "A second submit of one plan would start a second gang under the same name and "
        "directory.",
    ),
    Code(
        "run.live",
        "A run of this name is still going.\n\n"
        "Two runs of one name would share a record and a rendezvous. A dry run asks the run record "
        "alone, so\na run without a recorded end counts; a launch asks the cluster.",
    ),
    Code(
        "run.taken",
        "A run of this name has ended.\n\nUsing a name again is a choice: `--if-exists new`.",
    ),
    Code(
        "run.series",
        "The name belongs to another experiment.\n\n"
        "The science of the recipe (or model, data, overrides) differs from the last run of "
        "this name: results under one name would not be comparable. `--new-series` says that "
        "it is meant.",
    ),
)

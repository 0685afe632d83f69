"""Rules of training: batches, sampling, logging, resuming. Pure."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping

from rlaunch.codes import rule
from rlaunch.skyrl.case import Case, Fault
from rlaunch.skyrl.names import OWN_KWARGS, SAMPLING
from rlaunch.skyrl.overrides import Override
from rlaunch.skyrl.tree import names

_BATCH, _MINI = "trainer.train_batch_size", "trainer.policy_mini_batch_size"
_REGISTERS = "enable_db_registration"


@rule("skyrl.engine-kwarg")
def engine_kwargs_are_free(case: Case) -> Iterator[Fault]:
    """An engine argument that SkyRL passes itself.

    The engine would get it twice and refuse to start. Most have a key of their own under `generator`.
    """
    kwargs = case.value("generator.engine_init_kwargs")
    own = case.value("generator")
    for name in kwargs if isinstance(kwargs, Mapping) else ():
        if name in OWN_KWARGS:
            near = difflib.get_close_matches(
                name, [k for k in own if k != "engine_init_kwargs"], 1, 0.7
            )
            hint = f"`generator.{near[0]}` is its place" if near else "take it out: SkyRL sets it"
            key = f"generator.engine_init_kwargs.{name}"
            yield Fault(key, f"`{name}` is passed to the engine by SkyRL itself", hint)


@rule("skyrl.sampling-params")
def sampling_params_are_known(case: Case) -> Iterator[Fault]:
    """A sampling parameter that SkyRL does not take.

    It takes max_generate_length, repetition_penalty, temperature, top_p, min_p, top_k, logprobs and stop.
    """
    for section in ("generator.sampling_params", "generator.eval_sampling_params"):
        params = case.value(section)
        for name in params if isinstance(params, Mapping) else ():
            if name not in SAMPLING:
                near = difflib.get_close_matches(name, SAMPLING, 1)
                hint = (
                    f"did you mean `{near[0]}`?"
                    if near
                    else f"known are {', '.join(f'`{s}`' for s in SAMPLING)}"
                )
                yield Fault(f"{section}.{name}", f"there is no sampling parameter `{name}`", hint)


@rule("skyrl.mini-batch")
def mini_batch_fits(case: Case) -> Iterator[Fault]:
    """The mini-batch is larger than the batch, does not divide it, or differs under full asynchrony.

    SkyRL asserts that the batch is a multiple of the mini-batch; the fully asynchronous trainer needs both
    to be equal.
    """
    batch, mini = case.count(_BATCH, 0), case.count(_MINI, 0)
    if not batch or not mini:
        return
    if batch < mini or batch % mini:
        word = "smaller than" if batch < mini else "no multiple of"
        yield Fault(
            _MINI,
            f"the batch of {batch} is {word} the mini-batch of {mini}",
            f"`policy_mini_batch_size: {batch}`",
        )
    elif batch != mini and isinstance(case.value("trainer.fully_async"), Mapping):
        message = f"fully asynchronous training needs equal batches: {batch} and {mini}"
        yield Fault(_MINI, message, f"`policy_mini_batch_size: {batch}`")


@rule("skyrl.reentrant-offload", level="warning")
def reentrant_checkpointing_with_offload(case: Case) -> Iterator[Fault]:
    """Reentrant gradient checkpointing together with CPU offload."""
    key = "trainer.gradient_checkpointing_use_reentrant"
    if case.truth(key) and case.truth("trainer.policy.fsdp_config.cpu_offload"):
        yield Fault(
            key,
            "reentrant checkpointing and CPU offload do not go together",
            f"`{key.rpartition('.')[2]}: false`",
        )


def _logs_to_wandb(case: Case) -> bool:
    logger = case.value("trainer.logger")
    return "wandb" in (logger if isinstance(logger, list) else [logger or "wandb"])


@rule("skyrl.wandb-key")
def wandb_has_its_key(case: Case) -> Iterator[Fault]:
    """The logger is wandb, and nothing would bring its key into the job.

    SkyRL asserts WANDB_API_KEY when it starts. Whether the key is at hand is asked in preflight; here the
    question is whether the cluster's profile forwards it at all.
    """
    if not _logs_to_wandb(case) or case.env.get("WANDB_MODE") in {"offline", "disabled", "dryrun"}:
        return
    if "WANDB_API_KEY" not in {*case.run.secrets, *case.env}:
        message = (
            "the logger is `wandb`, and `WANDB_API_KEY` is not among the names that are forwarded"
        )
        yield Fault(
            "trainer.logger", message, "`logger: console`, or name it in the profile's `secrets`"
        )


@rule("skyrl.wandb-offline", waivable=True)
def wandb_needs_the_internet(case: Case) -> Iterator[Fault]:
    """The logger is wandb on nodes without internet, and WANDB_MODE is not offline."""
    offline = case.run.profile.get("egress") is False
    if (
        offline
        and _logs_to_wandb(case)
        and case.env.get("WANDB_MODE") not in {"offline", "disabled", "dryrun"}
    ):
        message = "the logger is `wandb`, and the nodes of this cluster have no internet"
        yield Fault(
            "trainer.logger", message, "`logger: console`, or `--set env.WANDB_MODE=offline`"
        )


@rule("skyrl.upload-offline", waivable=True)
def upload_needs_the_hub(case: Case) -> Iterator[Fault]:
    """Traces are uploaded after training while the Hugging Face libraries are offline.

    The upload starts when training has ended and fails then; nobody notices for hours.
    """
    names = [
        n
        for n in ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE")
        if case.env.get(n, "0") not in {"", "0"}
    ]
    if case.truth("terminal_bench.trace_upload.enabled") and names:
        message = f"traces are to be uploaded, and `{names[0]}` keeps the hub out of reach"
        hint = "`--skyrl_override terminal_bench_config.trace_upload.enabled=false`, and upload by hand"
        yield Fault("terminal_bench.trace_upload.enabled", message, hint)


@rule("skyrl.db-registration")
def database_stays_unregistered(case: Case) -> Iterator[Fault]:
    """`enable_db_registration` is anything but false, at any depth, in mappings and in lists.

    Registration is a step by hand after a run; no recipe, override or flag switches it on.
    """
    told = set()
    for key, name, value in names(case.body):
        if name.rpartition(".")[2] == _REGISTERS and value is not False and value is not None:
            told.add(case.place(key))
            message = f"`{key}` is `{value}`, and only `false` is allowed"
            yield Fault(key, message, f"`{_REGISTERS}: false`")
    for override in case.overrides:
        place = f"--skyrl_override {override.text}"
        if place not in told and _opens_registration(override):
            message = f"`{override.text}` would leave the registration open"
            yield Fault(place, message, "leave it out")


def _opens_registration(override: Override) -> bool:
    """Tell whether an override by itself, whatever follows it, switches the registration on."""
    own = _REGISTERS in re.split(r"[./@]", override.key)
    if own and (override.deletes or override.value is not False):
        return override.deletes or override.value is not None or override.chooses
    return any(
        name.rpartition(".")[2] == _REGISTERS and value is not False and value is not None
        for _, name, value in names(override.value)
    )


@rule("skyrl.resume-foreign", waivable=True)
def resume_stays_in_the_run(case: Case) -> Iterator[Fault]:
    """A run that would go on from any checkpoint it finds in a directory that the recipe names.

    `resume_mode: latest` with a fixed `ckpt_path` takes up an older run's checkpoint without a word. A null
    `ckpt_path` is the run's own directory.
    """
    path = case.run.recipe.body.get("trainer")
    written = path.get("ckpt_path") if isinstance(path, Mapping) else None
    latest = case.run.resume == "never" and case.value("trainer.resume_mode") == "latest"
    if written and latest and case.run.id not in str(case.value("trainer.ckpt_path")):
        message = f"`latest` would go on from whatever checkpoint lies in `{written}`"
        yield Fault("trainer.ckpt_path", message, "`ckpt_path: null`, or `--resume PATH`")


@rule("skyrl.resume-lost", level="warning")
def attempts_resume(case: Case) -> Iterator[Fault]:
    """New attempts of the run would start at step 0.

    One that started from a given checkpoint (`from_path`) goes on from the run's own as soon as there is one.
    """
    mode = case.value("trainer.resume_mode")
    if case.run.max_retries and mode not in {None, "latest", "from_path"}:
        message = f"`resume_mode` is `{mode}`, so a new attempt loses what was trained before it"
        yield Fault("trainer.resume_mode", message, "`resume_mode: latest`, or `--max-retries 0`")


RULES = (
    engine_kwargs_are_free, sampling_params_are_known, mini_batch_fits, reentrant_checkpointing_with_offload,
    wandb_has_its_key, wandb_needs_the_internet, upload_needs_the_hub, database_stays_unregistered,
    resume_stays_in_the_run, attempts_resume,
)  # fmt: skip

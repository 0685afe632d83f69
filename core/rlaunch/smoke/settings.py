"""Arguments → settings: the keys that the toy trainer uses, checked; all others are kept unread."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from . import values as filed
from .overrides import Override, OverrideError, parse

MODEL = "toy/grpo"


class SettingsError(ValueError):
    """An argument that cannot be used; the message names the key and what it should be."""


class Settings(NamedTuple):
    """What a training run is told. Defaults stand in the table `KEYS`."""

    max_steps: int | None
    """Optimiser-visible steps in all; None: `epochs` decides."""
    epochs: int
    train_batch_size: int
    """Prompts per step."""
    mini_batch_size: int
    """Prompts per update; 0 is the whole batch."""
    update_epochs: int
    eval_interval: int
    ckpt_interval: int
    """Steps between checkpoints; 0 writes none, not even at the end."""
    ckpt_path: str | None
    export_path: str | None
    resume_mode: str
    """`none`, `latest` or `from_path`."""
    resume_path: str | None
    run_name: str
    seed: int
    lr: float
    eps_clip_low: float
    eps_clip_high: float
    max_grad_norm: float | None
    model: str
    n_samples: int
    engines: int | None
    """Rollout workers; None is one per node."""
    max_num_seqs: int | None
    """Trials that an engine works on at once; the others of its batch wait."""
    temperature: float
    train_data: tuple[str, ...]
    val_data: tuple[str, ...]
    trials_dir: str | None
    concurrent_trials: int
    fail_at_step: int | None
    exit_code: int
    fail_attempts: int | None
    hang_at_step: int | None
    step_seconds: float
    save_seconds: float | None
    dump_env: str | None
    eat_at_step: int | None
    eat_bytes: int
    eat_in: str
    dial: str | None


Check = Callable[[Any], Any]


def _whole(least: int, most: int | None = None, *, null: bool = False) -> Check:
    upto = f" and at most {most}" if most is not None else ""

    def check(value: Any) -> int | None:
        if value is None and null:
            return None
        if isinstance(value, bool) or not isinstance(value, int):
            raise ValueError(f"a whole number of at least {least}{upto}")
        if value < least or (most is not None and value > most):
            raise ValueError(f"a whole number of at least {least}{upto}")
        return value

    return check


def _real(least: float, *, null: bool = False) -> Check:
    def check(value: Any) -> float | None:
        if value is None and null:
            return None
        good = isinstance(value, (int, float)) and not isinstance(value, bool)
        if not good or not least <= value < float("inf"):
            raise ValueError(f"a number of at least {least:g}")
        return float(value)

    return check


def _above_zero(value: Any) -> float:
    try:
        number = float(_real(0.0)(value))
    except ValueError:
        number = 0.0
    if number <= 0:
        raise ValueError("a number above 0")
    return number


def _text(*, null: bool = False) -> Check:
    def check(value: Any) -> str | None:
        if value is None and null:
            return None
        if not isinstance(value, str) or not value:
            raise ValueError("a text")
        return value

    return check


def _path(value: Any) -> str | None:
    if value is None:
        return None
    if not isinstance(value, str) or not value:
        raise ValueError("a path or a URL")
    return value


def _paths(value: Any) -> tuple[str, ...]:
    if isinstance(value, str) and value:
        value = [value]
    if value is None:
        return ()
    if not isinstance(value, list) or not all(isinstance(v, str) and v for v in value):
        raise ValueError("a list of directories")
    return tuple(value)


def _mode(value: Any) -> str:
    if value is None:
        return "none"
    if value not in ("none", "latest", "from_path"):
        raise ValueError("`none`, `latest` or `from_path`")
    return str(value)


def _model(value: Any) -> str:
    if value is None or value == MODEL:
        return MODEL
    raise ValueError(f"`{MODEL}`: the toy trainer knows no other model")


def _one_of(*words: str) -> Check:
    def check(value: Any) -> str:
        if value not in words:
            raise ValueError(" or ".join(f"`{word}`" for word in words))
        return str(value)

    return check


class Key(NamedTuple):
    """One key that is used: where it goes, its default, and what it must be."""

    key: str
    field: str
    default: Any
    check: Check


KEYS: tuple[Key, ...] = (
    Key("trainer.max_steps", "max_steps", None, _whole(1, null=True)),
    Key("trainer.epochs", "epochs", 1, _whole(1)),
    Key("trainer.train_batch_size", "train_batch_size", 16, _whole(1)),
    Key("trainer.policy_mini_batch_size", "mini_batch_size", 0, _whole(0)),
    Key("trainer.update_epochs_per_batch", "update_epochs", 1, _whole(1)),
    Key("trainer.eval_interval", "eval_interval", 0, _whole(-1)),
    Key("trainer.ckpt_interval", "ckpt_interval", 0, _whole(-1)),
    Key("trainer.ckpt_path", "ckpt_path", None, _path),
    Key("trainer.export_path", "export_path", None, _path),
    Key("trainer.resume_mode", "resume_mode", "none", _mode),
    Key("trainer.resume_path", "resume_path", None, _path),
    Key("trainer.run_name", "run_name", "smoke", _text()),
    Key("trainer.seed", "seed", 42, _whole(0)),
    Key("trainer.policy.optimizer_config.lr", "lr", 0.2, _above_zero),
    Key(
        "trainer.policy.optimizer_config.max_grad_norm", "max_grad_norm", 1.0, _real(0.0, null=True)
    ),
    Key("trainer.algorithm.eps_clip_low", "eps_clip_low", 0.2, _real(0.0)),
    Key("trainer.algorithm.eps_clip_high", "eps_clip_high", 0.2, _real(0.0)),
    Key("trainer.policy.model.path", "model", MODEL, _model),
    Key("generator.n_samples_per_prompt", "n_samples", 8, _whole(2)),
    Key("generator.num_inference_engines", "engines", None, _whole(1, null=True)),
    Key("generator.max_num_seqs", "max_num_seqs", None, _whole(1, null=True)),
    Key("generator.sampling_params.temperature", "temperature", 1.0, _above_zero),
    Key("data.train_data", "train_data", (), _paths),
    Key("data.val_data", "val_data", (), _paths),
    Key("terminal_bench_config.trials_dir", "trials_dir", None, _path),
    Key("terminal_bench_config.harbor.n_concurrent_trials", "concurrent_trials", 64, _whole(1)),
    Key("smoke.fail_at_step", "fail_at_step", None, _whole(1, null=True)),
    Key("smoke.exit_code", "exit_code", 1, _whole(1, 255)),
    Key("smoke.fail_attempts", "fail_attempts", None, _whole(0, null=True)),
    Key("smoke.hang_at_step", "hang_at_step", None, _whole(1, null=True)),
    Key("smoke.step_seconds", "step_seconds", 0.0, _real(0.0)),
    Key("smoke.save_seconds", "save_seconds", None, _real(0.0, null=True)),
    Key("smoke.dump_env", "dump_env", None, _path),
    Key("smoke.eat_at_step", "eat_at_step", None, _whole(1, null=True)),
    Key("smoke.eat_bytes", "eat_bytes", 0, _whole(0)),
    Key("smoke.eat_in", "eat_in", "driver", _one_of("driver", "worker")),
    Key("smoke.dial", "dial", None, _text(null=True)),
)
"""Every key that is used. The `smoke.` ones inject faults and are for tests:

`fail_at_step` ends the driver at the start of that step with `exit_code`; with `fail_attempts=K`
only in attempts whose number is below K (RLAUNCH_ATTEMPT; the local cluster counts from 1).
`hang_at_step` prints nothing more from that step on. `step_seconds` stretches every step to that
many seconds. With `save_seconds` SIGTERM ends the step (and `hang_at_step`), then takes so long to
write a checkpoint and exits with 143. `dump_env` is a directory: the driver writes its environment to
`driver.json`, one rollout worker per node to `node-I.json`. At `eat_at_step` the driver, or with
`eat_in=worker` a process of Ray's, takes `eat_bytes` of memory for a second. `dial=HOST:PORT`
makes the driver connect there and print the line that it is told.
"""


def read(arguments: Iterable[str]) -> Settings:
    """Return the settings of a command line; raises `SettingsError` for what cannot be used.

    Arguments are applied from left to right, so the last one wins, whatever mark they carry: the
    toy has no base configuration that `+` could clash with. A file of values lies below all of them.
    """
    try:
        words, base = filed.load(tuple(arguments))
        tree = build_tree((parse(word) for word in words), base)
    except OverrideError as error:
        raise SettingsError(str(error)) from None
    values: dict[str, Any] = {}
    for key in KEYS:
        found, value = _look_up(tree, key.key)
        if not found:
            values[key.field] = key.default
            continue
        try:
            values[key.field] = key.check(value)
        except ValueError as error:
            shown = "null" if value is None else f"`{value}`"
            raise SettingsError(f"`{key.key}` is {shown} and should be {error}") from None
    settings = Settings(**values)
    if not settings.train_data:
        raise SettingsError("`data.train_data` names no directory: stage one first")
    needed = {"latest": "ckpt_path", "from_path": "resume_path"}.get(settings.resume_mode)
    if needed and not getattr(settings, needed):
        raise SettingsError(
            f"`trainer.resume_mode` is `{settings.resume_mode}`, but `trainer.{needed}` is not set"
        )
    return settings


def build_tree(overrides: Iterable[Override], base: dict[str, Any] | None = None) -> dict[str, Any]:
    """Return the nested mapping that the arguments describe, laid on `base`, in place.

    `+group=name` with an undotted key chooses a configuration group and is no value; `~key` takes
    a key away; a mapping is merged into the one that is there.
    """
    tree: dict[str, Any] = {} if base is None else base
    for override in overrides:
        path = override.key.replace("/", ".").split(".")
        group = override.mark == "+" and len(path) == 1 and isinstance(override.value, str)
        if group or "/" in override.key:
            continue
        node = tree
        for part in path[:-1]:
            inner = node.setdefault(part, {})
            if not isinstance(inner, dict):
                raise OverrideError(f"`{override.key}` is below `{part}`, which is a value")
            node = inner
        if override.mark == "~":
            node.pop(path[-1], None)
        else:
            node[path[-1]] = _merge(node.get(path[-1]), override.value)
    return tree


def _merge(there: Any, value: Any) -> Any:
    """Lay a value on what is there as Hydra does: mappings are merged, all else replaces."""
    if not isinstance(value, Mapping):
        return value
    base = dict(there) if isinstance(there, Mapping) else {}
    return {**base, **{key: _merge(base.get(key), item) for key, item in value.items()}}


def _look_up(tree: Mapping[str, Any], key: str) -> tuple[bool, Any]:
    node: Any = tree
    for part in key.split("."):
        if not isinstance(node, Mapping) or part not in node:
            return False, None
        node = node[part]
    return True, node

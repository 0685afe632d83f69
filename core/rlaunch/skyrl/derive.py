"""Values that rlaunch decides for the trainer, each with its reason. Pure.

A recipe's explicit value stays, but for six: the model, its served name and the data follow the
command line; a placement for nodes of another size is laid on this cluster's; a retired storage root
is moved; an output or logger that this cluster cannot serve is one that it can; a checkpoint named
with `--resume` is the one to go on from; database registration is off.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from rlaunch.model import Run
from rlaunch.skyrl import entrypoints, geometry
from rlaunch.skyrl.overrides import Override, apply
from rlaunch.skyrl.tree import MISSING, look, placed

ADAPTED = "adapted: "
"""Beginning of the reason of a value that was changed because of the cluster."""


class Derived(NamedTuple):
    """One decided value."""

    key: str
    value: Any
    why: str


def data_directory(root: str, name: str) -> str:
    """Return where a dataset lies in the job: `<root>/<first 16 hex digits of sha256(name)>`.

    A name that is a path (`/…`, `./…`, `../…`) is used where it lies, as staging does.
    """
    if name.startswith(("/", "./", "../")):
        return name
    return f"{root.rstrip('/')}/{hashlib.sha256(name.encode()).hexdigest()[:16]}"


def derive(run: Run, overrides: tuple[Override, ...]) -> tuple[Derived, ...]:
    """Return every value that rlaunch decides for this run, in the order of the sections."""
    body = run.recipe.body
    found = [
        *_storage(run),
        *_adapted(run),
        *_resume(run),
        *_placement(run, overrides),
        *_model(run),
        *_data(run),
        *_moved(run),
    ]
    if (
        entrypoints.is_skyrl(look(body, "entrypoint"))
        and look(body, "trainer.enable_db_registration") is None
    ):
        why = "registration is a step by hand; the base's default is not relied upon"
        found.append(Derived("trainer.enable_db_registration", False, why))
    return tuple(found)


def decided(body: Mapping[str, Any], derived: tuple[Derived, ...]) -> Mapping[str, Any]:
    """Return the body with every derived value in its place."""
    for item in derived:
        body = placed(body, item.key, item.value)
    return body


def _storage(run: Run) -> Iterator[Derived]:
    body, storage = run.recipe.body, run.paths.storage.rstrip("/")
    if look(body, "trainer.run_name") is None:
        yield Derived("trainer.run_name", run.name, "null: the run's name")
    for key, folder in (("ckpt_path", "checkpoints"), ("export_path", "exports")):
        if look(body, f"trainer.{key}") is None:
            why = "null: the run's storage, shared by its attempts"
            yield Derived(f"trainer.{key}", f"{storage}/{folder}", why)
    section = look(body, "terminal_bench")
    if isinstance(section, Mapping) and section.get("trials_dir") is None:
        yield Derived(
            "terminal_bench.trials_dir", f"{storage}/trace_jobs", "null: the run's storage"
        )


def _adapted(run: Run) -> Iterator[Derived]:
    """What a recipe that was written for another cluster needs to run on this one."""
    from rlaunch.porting.here import OUTPUTS, wishes

    storage = run.paths.storage.rstrip("/")
    places = dict(zip(OUTPUTS, ("trace_jobs", "checkpoints", "exports"), strict=True))
    for key, value, reason in wishes(run.recipe.body, run.profile):
        own = f"{storage}/{places[key]}" if key in places else value
        yield Derived(key, own, f"{ADAPTED}{reason}")


def _resume(run: Run) -> Iterator[Derived]:
    if run.resume not in {"never", "auto"}:
        yield Derived("trainer.resume_mode", "from_path", "`--resume PATH`")
        yield Derived("trainer.resume_path", run.resume, "`--resume PATH`")
    elif look(run.recipe.body, "trainer.resume_mode") is None:
        yield Derived(
            "trainer.resume_mode", "latest", "null: attempts of a run go on from its checkpoints"
        )


def _placement(run: Run, overrides: tuple[Override, ...]) -> Iterator[Derived]:
    """Node and GPU counts that are null, or that were written for nodes of another size."""
    written = run.recipe.body
    toy = look(written, "entrypoint") == entrypoints.TOY
    if run.gpus_per_node < 1:
        return
    laid = geometry.reshape(written, run.gpus_per_node)[0] if not toy else written
    budget = geometry.budget(apply(written, overrides), run.gpus_per_node, run.nodes)
    policy = next((role for role in budget.roles if role.name == "policy"), None)
    nodes = policy.units if policy else run.nodes
    for role in ("policy", "ref"):
        keys = {
            f"{geometry.PLACEMENT}.{role}_num_nodes": nodes,
            f"{geometry.PLACEMENT}.{role}_num_gpus_per_node": policy.size
            if policy
            else run.gpus_per_node,
        }
        for key, default in keys.items():
            value = look(laid, key)
            if value is None:
                yield Derived(key, default, "null: computed from the run's nodes")
            elif value != look(written, key) and not any(_decides(o, keys) for o in overrides):
                yield Derived(
                    key, value, f"laid on nodes of {run.gpus_per_node} GPUs; the world size stays"
                )
    if toy:
        return
    if look(written, geometry.ENGINES) is None and budget.engines is not None:
        why = f"null: {budget.arithmetic()}, shared with engines"
        yield Derived(geometry.ENGINES, budget.engines, why)
    tp = "generator.inference_engine_tensor_parallel_size"
    if look(written, tp) is None and isinstance(look(written, "generator"), Mapping):
        yield Derived(tp, geometry.TP_DEFAULT, "absent: SkyRL's default, in writing")


def _decides(override: Override, keys: Iterable[str]) -> bool:
    return any(override.value_at(key) is not MISSING for key in keys)


def _model(run: Run) -> Iterator[Derived]:
    yield Derived("trainer.policy.model.path", run.model_path, "`--model_path`")
    if look(run.recipe.body, "entrypoint") == entrypoints.TOY:
        return
    served = run.model_path.rstrip("/").rpartition("/")[2]
    why = "last part of the model's path, the name that the trainer asks for"
    yield Derived("generator.engine_init_kwargs.served_model_name", served, why)


def _data(run: Run) -> Iterator[Derived]:
    for key, names in (("train_data", run.train_data), ("val_data", run.val_data)):
        folders = [data_directory(run.paths.data, name) for name in names]
        yield Derived(f"data.{key}", folders, f"`--{key}`, staged on every node")


def retired(text: str, profile: Mapping[str, Any]) -> tuple[str, str] | None:
    """Return the retired storage root that a path lies under and where the path belongs now."""
    for item in profile.get("retired_roots") or ():
        root = str(item["root"]).rstrip("/")
        if text == root or text.startswith(f"{root}/"):
            return root, f"{_live_root(profile, root)}{text[len(root) :]}"
    return None


def _live_root(profile: Mapping[str, Any], old: str) -> str:
    """Return the root that stands for a retired one: bucket for bucket, directory for directory."""
    live = str(profile.get("storage_root", "")).rstrip("/")
    scheme, mark, rest = live.partition("://")
    if mark and "/" not in old.partition("://")[2]:
        return f"{scheme}://{rest.partition('/')[0]}"
    return live


def _moved(run: Run) -> Iterator[Derived]:
    from rlaunch.skyrl.emit import SECTIONS, leaves

    if not run.profile.get("retired_roots"):
        return
    for section in SECTIONS:
        for key, value in leaves(run.recipe.body.get(section.recipe), section.recipe):
            if isinstance(value, str) and (found := retired(value, run.profile)):
                root, live = found
                yield Derived(key, live, f"moved: `{root}` is a retired storage root")

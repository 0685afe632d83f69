"""Recipes judged without sending anything and without looking at a cluster: `rlaunch check`.

Model and data are a launch's flags; where a recipe names none, stand-ins take their place. The profile
is loaded once for all recipes.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from rlaunch import launching, recipes, resumption
from rlaunch.codes import Code
from rlaunch.errors import RlaunchError
from rlaunch.layers import Layered
from rlaunch.model import Finding, Observed, Plan, Recipe, Request, Run
from rlaunch.resolve import resolve
from rlaunch.skyrl.tree import look

if TYPE_CHECKING:
    from rlaunch.choose import Chosen
    from rlaunch.plugins import Plugins
    from rlaunch.world import World

MODEL = "given/at-launch"
DATA = "given/at-launch"
_OF_CLUSTER = frozenset({"skyrl.adapted"})
"""What is changed for the cluster at hand: where none was named, it would be changed for a stand-in."""
_OF_MODEL = frozenset({"skyrl.served-name"})
"""What names the model that is launched: where none was named, it would name the stand-in."""


class Checked(NamedTuple):
    """What is to be said about one recipe."""

    path: str
    findings: tuple[Finding, ...]
    """Errors first."""
    nodes: int | None = None
    """Nodes that it comes to; None where that could not be told."""
    gpus_per_node: int | None = None

    @property
    def refused(self) -> bool:
        """True where an error is among the findings."""
        return any(found.level == "error" for found in self.findings)

    def count(self, level: str) -> int:
        """Return the number of findings of one level."""
        return sum(1 for found in self.findings if found.level == level)


class Bench(NamedTuple):
    """What recipes are judged by, opened once."""

    world: World
    plugins: Plugins
    chosen: Chosen | None
    """None: no cluster in particular."""
    model: str | None = None
    allow: tuple[str, ...] = ()

    @classmethod
    def open(
        cls,
        world: World,
        cluster: str = "",
        *,
        model: str | None = None,
        allow: tuple[str, ...] = (),
    ) -> Bench:
        """Load the cluster, or the rules that hold on every one. Raises as `choose` does."""
        # what lies in the operator's shell or checkout says nothing about a recipe
        context = world.context._replace(present=frozenset())
        world = world._replace(context=context)
        if cluster:
            from rlaunch.choose import choose

            chosen = choose(world, cluster)
            return cls(world, chosen.plugins, chosen, model, allow)
        from rlaunch import checks, discovery, given, skyrl
        from rlaunch.plugins import Plugins

        return cls(
            world, Plugins((checks, given, skyrl, *discovery.always()[0])), None, model, allow
        )

    @property
    def findings(self) -> tuple[Finding, ...]:
        """Plugins that failed to load: warnings."""
        return self.chosen.findings if self.chosen else ()


def check(bench: Bench, paths: Iterable[str]) -> Iterator[Checked]:
    """Judge recipe after recipe, wherever they lie; one that cannot be read does not stop the others."""
    for path in paths:
        try:
            recipe = recipes.read(path)
        except RlaunchError as error:
            findings = tuple(
                f._replace(place=path) if f.place == "--rl_config" else f for f in error.findings
            )
            yield Checked(path, findings)
        else:
            yield judge(bench, recipe)


def judge(bench: Bench, recipe: Recipe) -> Checked:
    """Judge one recipe that was read. All problems are findings."""
    findings: list[Finding] = []
    nodes = gpus = None
    try:
        layered = _layers(bench, recipe)
        request, stand_ins = _request(bench, recipe)
        findings.extend(stand_ins)
        resolution = resolve(recipe, request, layered, bench.world.context)
        findings.extend(resolution.findings)
        if resolution.run is not None:
            run = resumption.with_model_facts(resolution.run)
            nodes, gpus = run.nodes, run.gpus_per_node
            unsaid = frozenset() if bench.chosen else _OF_CLUSTER
            unsaid |= _OF_MODEL if request.model_path == MODEL else frozenset()
            findings.extend(f for f in _rules(bench, run) if f.code not in unsaid)
    except RlaunchError as error:
        findings.extend(error.findings)
    kept = launching.waive(tuple(findings), bench.allow, bench.chosen)
    return Checked(recipe.path, launching.tidy(kept), nodes, gpus)


def _layers(bench: Bench, recipe: Recipe) -> Layered:
    if bench.chosen is not None:
        return bench.chosen.layered
    from rlaunch import anywhere

    return anywhere.layered(recipe.body)


def _request(bench: Bench, recipe: Recipe) -> tuple[Request, tuple[Finding, ...]]:
    """Return the launch that is pretended, and a note of what stands in."""
    model = bench.model or look(recipe.body, "trainer.policy.model.path")
    data = look(recipe.body, "data.train_data")
    missing = [] if model else ["`--model_path`"]
    missing += [] if data else ["`--train_data`"]
    request = Request(
        rl_config=recipe.path,
        cluster=bench.chosen.name if bench.chosen else "",
        model_path=str(model or MODEL),
        train_data=None if data else json.dumps([DATA]),
        allow=bench.allow,
        offline=True,
    )
    if not missing:
        return request, ()
    message = f"checked with stand-ins for {' and '.join(missing)}, which a launch gives"
    return request, (Finding("note", "core.stand-in", message, recipe.path),)


def _rules(bench: Bench, run: Run) -> Iterator[Finding]:
    command = bench.plugins.command(run)
    if command is None:
        yield launching.no_trainer(run)
        return
    if bench.chosen is not None:
        plan = bench.chosen.cluster.plan(run, command, Observed())
    else:
        plan = Plan(run, command, run.env, run.secrets, command.files, (), (), {}, Observed())
    yield from plan.findings
    yield from bench.plugins.check(run, plan)


CODES = (
    Code(
        "core.stand-in",
        "A recipe was checked without its model or data.\n\n"
        "Both are usually flags of the launch. What depends on them (attention heads, experts) was not\n"
        "judged; `rlaunch check --model-path NAME` judges it.",
        "note",
    ),
)

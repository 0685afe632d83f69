"""Every reason that a status can give has a page: they are collected from the sources that give them."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from rlaunch.endings import AGENT, REASONS, name_of
from rlaunch.node import reasons
from rlaunch.settings import SETTINGS

ROOT = Path(__file__).parents[2]
SOURCES = {
    "core": sorted(ROOT.glob("core/rlaunch/*.py")),
    **{
        home.name: sorted(home.rglob("*.py"))
        for home in sorted(ROOT.glob("plugins/*/rlaunch_*"))
        if home.is_dir()
    },
}
_NAME = re.compile(r"[A-Za-z][A-Za-z-]*")
_SHELL = re.compile(
    r"""\b(?:fail|cut_off|finish\s+(?:failed|cut))\s+([a-z][a-z-]+)\s"""
    r"""|\b(?:reason|asked)="?(?:\$\{reason:-)?([a-z][a-z-]+)"""
    r"""|'ask\s+([a-z-]+)\s"""
)


class Collector(ast.NodeVisitor):
    """Gathers what stands where a reason stands: behind a `State.X`, or under the name of one."""

    def __init__(self, names: dict[str, str], *, scripts: bool) -> None:
        self.names = names
        self.scripts = scripts
        """Texts are looked at as parts of a batch script."""
        self.found: set[str] = set()

    def take(self, node: ast.expr | None) -> None:
        """Take every text that an expression may be; of an f-string what it begins with."""
        match node:
            case ast.Constant(value=str(text)):
                self.found.add(text)
            case ast.Name(id=name) if name in self.names:
                self.found.add(self.names[name])
            case ast.Attribute(attr=name) if name in self.names:
                self.found.add(self.names[name])
            case ast.IfExp(body=one, orelse=other):
                self.take(one)
                self.take(other)
            case ast.BoolOp(values=values):
                for value in values:
                    self.take(value)
            case ast.JoinedStr(values=[ast.Constant(value=str(text)), *_]):
                self.found.add(text)
            case ast.Call(func=ast.Attribute(value=value, attr="rstrip")):  # f"…".rstrip(": ")
                self.take(value)
            case ast.Call(func=ast.Name(id="str"), args=[value]):
                self.take(value)
            case ast.Set(elts=values) | ast.Tuple(elts=values):
                for value in values:
                    self.take(value)
            case _:
                pass

    def take_after_state(self, values: list[ast.expr]) -> None:
        """Take what follows a state."""
        for one, after in pairwise(values):
            match one:
                case ast.Attribute(value=ast.Name(id="State")) | ast.Name(id="state"):
                    self.take(after)
                case _:
                    pass

    def visit_Call(self, node: ast.Call) -> None:
        self.take_after_state(node.args)
        for keyword in node.keywords:
            if keyword.arg == "reason":
                self.take(keyword.value)
        if isinstance(node.func, ast.Name) and node.func.id == "Refusal":
            self.take(node.args[0])
        self.generic_visit(node)

    def visit_Compare(self, node: ast.Compare) -> None:
        if isinstance(node.left, ast.Name) and node.left.id == "cause":
            self.take(node.comparators[0])
        self.generic_visit(node)

    def visit_Return(self, node: ast.Return) -> None:
        if isinstance(node.value, ast.Call):  # f"preempted: …".rstrip(": ")
            self.take(node.value)
        self.generic_visit(node)

    def visit_Tuple(self, node: ast.Tuple) -> None:
        self.take_after_state(node.elts)
        self.generic_visit(node)

    def visit_Assign(self, node: ast.Assign) -> None:
        for target in node.targets:
            if isinstance(target, ast.Name) and target.id in ("reason", "cause"):
                self.take(node.value)
            if isinstance(target, ast.Name) and target.id == "CODES":  # reason -> exit code
                for key in node.value.keys if isinstance(node.value, ast.Dict) else ():
                    self.take(key)
        self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        if self.scripts and isinstance(node.value, str):
            self.found.update(word for hit in _SHELL.findall(node.value) for word in hit if word)


def constants(trees: list[ast.Module]) -> dict[str, str]:
    """Return the texts that modules give a name in capital letters."""
    found: dict[str, str] = {}
    for node in (node for tree in trees for node in tree.body if isinstance(node, ast.Assign)):
        pairs = [(node.targets[0], node.value)]
        if isinstance(node.targets[0], ast.Tuple) and isinstance(node.value, ast.Tuple):
            pairs = list(zip(node.targets[0].elts, node.value.elts, strict=True))
        for target, value in pairs:
            match target, value:
                case ast.Name(id=name), ast.Constant(value=str(text)) if name.isupper():
                    found[name] = text
                case _:
                    pass
    return found


def collect(owner: str) -> Iterator[str]:
    """Yield the names that one package gives as reasons; sentences explain themselves."""
    trees = [ast.parse(path.read_text(encoding="utf-8")) for path in SOURCES[owner]]
    collector = Collector(constants(trees), scripts="slurm" in owner)
    for tree in trees:
        collector.visit(tree)
    for text in sorted(collector.found):
        name, colon, _ = text.partition(":")
        if _NAME.fullmatch(name) or (colon and _NAME.fullmatch(name.replace(" ", ""))):
            yield name


KNOWN = {
    "core": {"not sent"},
    "rlaunch_local": {
        "stopped", "timeout", "no-outcome", "not-started", "supervisor-lost", "submitting", "retry",
        "head-lost", "worker-lost", "driver-exit",
    },
    "rlaunch_iris": {"kueue", "image", "preempted", "lost its node"},
    "rlaunch_slurm_jupiter": {
        "stopped", "time-limit", "job-failed", "out-of-memory", "requeued", "no-output-file", "step-killed",
        "step-failed", "sif-missing", "module-failed", "no-address", "tunnel-dead", "bad-task",
        "script-failed", "terminated", "no-outcome", "head-lost", "worker-lost",
    },
}  # fmt: skip
"""Some of what must be found, so that a collector that finds nothing is noticed."""
NOT_SHOWN = {
    "core": {"state"},  # what is missing of a diagnosis
    "rlaunch_slurm_jupiter": {"wall-limit"},  # in the script; the status says `time-limit`
}


@pytest.mark.parametrize("owner", sorted(SOURCES))
def test_every_reason_that_is_given_has_a_page(owner: str) -> None:
    """A new one without a page fails here: `rlaunch.scheduling` is where clusters' own words stand."""
    given = set(collect(owner)) - NOT_SHOWN.get(owner, set())
    assert KNOWN.get(owner, set()) <= given
    assert sorted(word for word in given if not name_of(word)) == []


def test_every_reason_of_the_node_agent_has_a_page() -> None:
    """And there is no page of one that it does not give."""
    named = {
        value for name, value in vars(reasons).items() if name.isupper() and isinstance(value, str)
    } - {reasons.SUCCEEDED, reasons.FAILED}
    assert named == set(AGENT)


def test_every_word_that_slurm_never_mends_has_a_page() -> None:
    """And so have the phases of the agents, which a status gives while all ranks are equally far."""
    states = pytest.importorskip("rlaunch_slurm_jupiter.states")
    assert {*states.NEVER, states.PUT_BACK} <= set(REASONS)
    entered = {
        word
        for path in ROOT.glob("core/rlaunch/node/*.py")
        for word in re.findall(r'\.enter\("([a-z]+)"', path.read_text(encoding="utf-8"))
    }
    assert "staging" in entered
    assert entered <= set(REASONS)


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("stopped", "stopped"),
        ("(head_lost)", "head-lost"),
        ("kueue: couldn't assign flavors", "kueue"),
        ("lost its node: reclaimed", "lost-its-node"),
        ("priority", "Priority"),
        ("DependencyNeverSatisfied: the job that it waits for", "DependencyNeverSatisfied"),
        ("QOSMaxGRESPerUser", "QOS-limit"),
        ("AssocGrpCpuLimit", "association-limit"),
        ("nobody knows", ""),
        ("", ""),
    ],
)
def test_a_reason_is_found_as_the_status_prints_it(text: str, name: str) -> None:
    """What follows a colon is the cluster's own word; families of SLURM's words have one page."""
    assert name_of(text) == name


def test_no_reason_hides_a_setting() -> None:
    """`rlaunch explain NAME` looks for a reason of exactly that name first."""
    assert not set(REASONS) & {name.replace("_", "-") for name in SETTINGS}


@pytest.mark.parametrize("name", sorted(REASONS))
def test_a_page_begins_with_a_sentence(name: str) -> None:
    """The first line is the summary that the list shows."""
    first = REASONS[name].partition("\n")[0]
    assert re.fullmatch(r"[A-Z].*\.", first)
    assert len(first) <= 100

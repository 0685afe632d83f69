"""Which kubeconfig is read: the setting's, `KUBECONFIG`, or the usual place."""

from __future__ import annotations

from pathlib import Path

import pytest

from rlaunch.errors import ClusterError
from rlaunch_iris import kube

from .conftest import Maker
from .kubernetes_api import Api
from .test_headroom import node
from .test_preflight import api as api  # noqa: PLC0414  # a fixture, which parameters shadow
from .test_preflight import check, plan_with


def test_which_kubeconfig(
    make: Maker, api: Api, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A named file wins over `KUBECONFIG`, that over the usual place; each must be the profile's cluster."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("KUBECONFIG", raising=False)
    plan = make.plan(make.run(kube_context="marin"))
    assert plan.run.profile["kubeconfig"] == "auto"
    usual = check(plan)["iris.kubeconfig"]
    assert "`~/.kube/coreweave-iris` cannot be used" in usual.message
    assert "`KUBECONFIG` is not set" in usual.message
    assert "`export KUBECONFIG=FILE`" in usual.hint
    monkeypatch.setenv("KUBECONFIG", "")
    assert check(plan)["iris.kubeconfig"] == usual
    monkeypatch.setenv("KUBECONFIG", f"{tmp_path}/gone:{api.kubeconfig}")
    assert check(plan) == {}
    api.nodes = [node("a")]
    assert f"(`KUBECONFIG`: `{tmp_path}/gone:" in check(plan)["iris.wrong-cluster"].message
    monkeypatch.setenv("KUBECONFIG", f"{tmp_path}/gone")
    assert f"`{tmp_path}/gone` cannot be used" in check(plan)["iris.kubeconfig"].message
    assert "(`KUBECONFIG`)" in check(plan)["iris.kubeconfig"].message
    assert "iris.wrong-cluster" in check(plan_with(make, api))
    (tmp_path / "home/.kube").mkdir(parents=True)
    (tmp_path / "home/.kube/coreweave-iris").write_bytes(api.kubeconfig.read_bytes())
    monkeypatch.delenv("KUBECONFIG")
    assert "the usual place" in check(plan)["iris.wrong-cluster"].message


@pytest.mark.parametrize("exported", ["context: other", "no file", "no yaml"])
def test_kubeconfig_of_another_cluster(
    make: Maker, api: Api, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, exported: str
) -> None:
    """Where `KUBECONFIG` does not have the profile's context, the usual place is read as before."""
    usual = tmp_path / "home/.kube/coreweave-iris"
    usual.parent.mkdir(parents=True)
    usual.write_bytes(api.kubeconfig.read_bytes())
    match exported:
        case "context: other":
            api.write_config("http://127.0.0.1:9", context="other")
        case "no file":
            api.kubeconfig.unlink()
        case "no yaml":
            api.kubeconfig.write_text("{")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("KUBECONFIG", str(api.kubeconfig))
    plan = make.plan(make.run(kube_context="marin"))
    assert check(plan) == {}
    named = make.plan(make.run(kube_context="marin", kubeconfig=str(api.kubeconfig)))
    assert "the setting `kubeconfig`" in check(named)["iris.kubeconfig"].message
    api.nodes = [node("a")]
    assert "the usual place; `KUBECONFIG` leads" in check(plan)["iris.wrong-cluster"].message
    usual.write_text("{")
    assert "(`KUBECONFIG`)" in check(plan)["iris.kubeconfig"].message


def test_no_kubeconfig_is_no_look() -> None:
    """A profile without a kubeconfig is not looked at; one with a missing file is an error."""
    assert kube.open_kube({"kubeconfig": "", "kube_context": ""}) is None
    with pytest.raises(ClusterError, match="there is no such file"):
        kube.open_kube({"kubeconfig": "/nowhere/kube", "kube_context": ""})

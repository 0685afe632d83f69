"""Which module is `iris`? Fake distributions on a path of their own, real imports."""

import importlib.metadata
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from rlaunch import discovery
from rlaunch.errors import PluginError

Install = Callable[..., None]


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    """Install fake distributions into a folder that comes first on the path."""
    monkeypatch.syspath_prepend(str(tmp_path))

    def install(distribution: str, points: str, **modules: str) -> None:
        metadata = (
            tmp_path / f"{distribution.replace('-', '_')}-1.0.dist-info"
        )  # as wheels are unpacked
        metadata.mkdir()
        (metadata / "METADATA").write_text(
            f"Metadata-Version: 2.1\nName: {distribution}\nVersion: 1.0\n"
        )
        (metadata / "entry_points.txt").write_text(points)
        for name, text in modules.items():
            (tmp_path / f"{name}.py").write_text(text)

    return install


def test_names_are_listed_without_importing_anything(install: Install):
    """Listing tells name, distribution and module; a plugin that would fail is not noticed yet."""
    install(
        "fake-a",
        "[rlaunch.clusters]\nzz-one = fake_a_mod\nzz-two = fake_a_mod\n",
        fake_a_mod="1 / 0",
    )
    names = discovery.names()
    assert names["zz-one"] == discovery.Claim("fake-a", "fake_a_mod")
    assert names["zz-two"] == names["zz-one"]
    assert "fake_a_mod" not in sys.modules


def test_our_reading_is_that_of_importlib_metadata(install: Install):
    """By hand or by the standard library, the same names come out, for every installed group."""
    install(
        "fake-b",
        "[console_scripts]\nx = y:z\n\n# a comment\n[rlaunch.clusters]\nzz-b=fake_b:thing [extra]\n\n"
        "[rlaunch.plugins]\nzz-p = fake_p\n",
    )
    for group in (discovery.CLUSTERS, discovery.PLUGINS):
        theirs = {
            (p.name, p.value.partition("[")[0].strip())
            for p in importlib.metadata.entry_points(group=group)
        }
        ours = {(n, c.module) for n, several in discovery.claims(group).items() for c in several}
        assert ours == theirs


def test_one_module_may_have_several_names(install: Install):
    """Every name of a plugin loads the same module."""
    install("fake-c", "[rlaunch.clusters]\nzz-c1 = fake_c\nzz-c2 = fake_c\n", fake_c="HERE = True")
    assert discovery.load("zz-c1") is discovery.load("zz-c2")
    assert discovery.load("zz-c1").HERE


def test_only_the_chosen_plugin_is_imported(install: Install):
    """Loading one name leaves its neighbours alone, broken or not."""
    install("fake-d", "[rlaunch.clusters]\nzz-d = fake_d\n", fake_d="")
    install("fake-e", "[rlaunch.clusters]\nzz-e = fake_e\n", fake_e="raise RuntimeError('loaded')")
    discovery.load("zz-d")
    assert "fake_e" not in sys.modules


def test_an_unknown_name_gets_a_suggestion(install: Install):
    """The error names what is installed and the nearest name."""
    install("fake-f", "[rlaunch.clusters]\nzz-jupiter = fake_f\n", fake_f="")
    with pytest.raises(PluginError) as refused:
        discovery.load("zz-jupter")
    (finding,) = refused.value.findings
    assert finding.code == "core.cluster-unknown"
    assert "did you mean `zz-jupiter`?" in finding.hint
    assert finding.place == "--cluster"


def test_a_broken_plugin_is_an_error_that_names_it(install: Install):
    """The exception of its import is told, with name and distribution; its own is the cause."""
    install(
        "fake-g", "[rlaunch.clusters]\nzz-g = fake_g\n", fake_g="raise OSError('no driver\\nmore')"
    )
    with pytest.raises(PluginError) as refused:
        discovery.load("zz-g")
    (finding,) = refused.value.findings
    assert finding.code == "core.plugin-broken"
    assert "`zz-g` of `fake-g`" in finding.message
    assert "OSError: no driver" in finding.message
    assert isinstance(refused.value.__cause__, OSError)


@pytest.mark.parametrize("text", ["import sys; sys.exit(0)", "assert 0", "raise BaseException"])
def test_a_plugin_that_exits_is_a_broken_plugin(install: Install, text: str):
    """`sys.exit` at its import neither ends the command nor looks like success; both groups."""
    install("fake-p", "[rlaunch.clusters]\nzz-p = fake_p\n", fake_p=text)
    install("fake-q", "[rlaunch.plugins]\nzz-q = fake_q\n", fake_q=text)
    with pytest.raises(PluginError, match=r"`zz-p` of `fake-p` does not import") as refused:
        discovery.load("zz-p")
    assert not isinstance(refused.value.__cause__, PluginError)
    (finding,) = [f for f in discovery.always()[1] if "zz-q" in f.message]
    assert finding.code == "core.plugin-broken"
    assert finding.message.rpartition("does not import: ")[2].startswith(
        ("SystemExit", "Assertion", "BaseExc")
    )
    assert {"zz-p", "zz-q"} <= {failure.name for failure in discovery.broken()}


def test_an_interrupt_during_an_import_is_the_users(install: Install):
    """Ctrl-C is not told as a broken plugin."""
    install("fake-r", "[rlaunch.clusters]\nzz-r = fake_r\n", fake_r="raise KeyboardInterrupt")
    with pytest.raises(KeyboardInterrupt):
        discovery.load("zz-r")


def test_what_a_plugin_prints_at_its_import_is_not_on_stdout(
    install: Install, capsys: pytest.CaptureFixture[str]
):
    """stdout is kept for the one document."""
    install("fake-s", "[rlaunch.clusters]\nzz-s = fake_s\n", fake_s="print('hello')")
    install("fake-t", "[rlaunch.plugins]\nzz-t = fake_t\n", fake_t="print('good day')")
    discovery.load("zz-s")
    discovery.always()
    out, err = capsys.readouterr()
    assert out == ""
    assert ("hello" in err, "good day" in err) == (True, True)


def test_a_module_that_is_gone_is_a_broken_plugin(install: Install):
    """An entry point whose module does not exist is told like any other failure."""
    install("fake-h", "[rlaunch.clusters]\nzz-h = fake_h_gone\n")
    with pytest.raises(PluginError, match="fake_h_gone"):
        discovery.load("zz-h")


def test_two_distributions_with_one_name_are_both_named(install: Install):
    """Neither is imported, and the error says which two they are."""
    install("fake-i", "[rlaunch.clusters]\nzz-i = fake_i\n", fake_i="1 / 0")
    install("fake-j", "[rlaunch.clusters]\nzz-i = fake_j\n", fake_j="1 / 0")
    with pytest.raises(PluginError) as refused:
        discovery.load("zz-i")
    (finding,) = refused.value.findings
    assert finding.code == "core.plugin-clash"
    assert "`fake-i`" in finding.message
    assert "`fake-j`" in finding.message
    assert not {"fake_i", "fake_j"} & sys.modules.keys()


def test_a_distribution_seen_twice_on_the_path_counts_once(tmp_path: Path):
    """The first on the path hides a later one of the same name, however it is spelled."""
    for folder, name, module in (("one", "fake_k", "first"), ("two", "Fake.K", "second")):
        metadata = tmp_path / folder / f"{name}-1.dist-info"
        metadata.mkdir(parents=True)
        (metadata / "entry_points.txt").write_text(f"[rlaunch.clusters]\nzz-k = {module}\n")
    path = [str(tmp_path / "one"), str(tmp_path / "two"), str(tmp_path / "missing")]
    assert discovery.claims(path=path) == {"zz-k": (discovery.Claim("fake-k", "first"),)}


def test_plugins_that_are_always_loaded_come_with_their_failures(install: Install):
    """One that does not import is a warning that names it; the others are there."""
    install("fake-l", "[rlaunch.plugins]\nzz-l = fake_l\n", fake_l="NAME = 'l'")
    install("fake-m", "[rlaunch.plugins]\nzz-m = fake_m\n", fake_m="import nothing_of_that_name")
    modules, failures = discovery.always()
    assert "fake_l" in {module.__name__ for module in modules}
    (finding,) = [f for f in failures if "zz-m" in f.message]
    assert (finding.level, finding.code) == ("warning", "core.plugin-broken")
    assert "nothing_of_that_name" in finding.message


def test_broken_plugins_are_data_for_the_doctor(install: Install):
    """Name, distribution, module and exception, and no exception of ours."""
    install("fake-n", "[rlaunch.clusters]\nzz-n = fake_n\n", fake_n="raise KeyError('x')")
    found = {failure.name: failure for failure in discovery.broken()}
    assert found["zz-n"] == discovery.Failure("zz-n", "fake-n", "fake_n", "KeyError: 'x'")


def test_a_plugin_that_was_replaced_is_found_at_once(install: Install, tmp_path: Path):
    """No cache answers for entry points that have changed since (stevedore's own is 128 s coarse)."""
    install("fake-o", "[rlaunch.clusters]\nzz-o = fake_o1\n", fake_o1="V = 1", fake_o2="V = 2")
    assert discovery.load("zz-o").V == 1
    (tmp_path / "fake_o-1.0.dist-info" / "entry_points.txt").write_text(
        "[rlaunch.clusters]\nzz-o = fake_o2\n"
    )
    assert discovery.load("zz-o").V == 2


def test_listing_loads_neither_stevedore_nor_metadata():
    """The names that completion shows cost no library."""
    code = (
        "import sys; from rlaunch import discovery; discovery.names(); "
        "print(*{'stevedore', 'importlib.metadata', 'pydantic'} & sys.modules.keys())"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""

"""Profiles: the shipped ones, one's own, and the schema that the docs publish."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from pydantic import ValidationError

import rlaunch_slurm_jupiter
from rlaunch.errors import RlaunchError
from rlaunch.layers import lay
from rlaunch.model import Command, Finding, Plan, Recipe, Run
from rlaunch.testing.kit import read_profile
from rlaunch_slurm_jupiter.checks import check
from rlaunch_slurm_jupiter.cluster import Slurm
from rlaunch_slurm_jupiter.profile import schema

ROOT = Path(__file__).resolve().parents[2]
SCHEMA = ROOT / "docs" / "how-to" / "slurm-profile.schema.json"


def test_the_published_schema_is_current(request: pytest.FixtureRequest) -> None:
    """`docs/how-to/slurm-profile.schema.json` is what the model says (`--update-golden` renews it)."""
    text = json.dumps(schema(), indent=1, ensure_ascii=False) + "\n"
    if request.config.getoption("update_golden"):
        SCHEMA.write_text(text, encoding="utf-8")
    assert SCHEMA.read_text(encoding="utf-8") == text


@pytest.mark.parametrize("name", rlaunch_slurm_jupiter.PROFILES)
def test_shipped_profiles_fit_the_schema(name: str) -> None:
    """Each shipped profile is valid by the published schema too."""
    profile = read_profile(rlaunch_slurm_jupiter.PROFILES[name])
    jsonschema.Draft202012Validator(schema()).validate(profile)


def test_the_example_of_the_docs_is_a_profile() -> None:
    """The profile that the how-to shows is valid as it stands."""
    import yaml

    page = (ROOT / "docs" / "how-to" / "slurm.md").read_text(encoding="utf-8")
    body = page.partition("```yaml\n")[2].partition("```")[0]
    assert Slurm.Profile.model_validate(yaml.safe_load(body)).name == "ours"


@pytest.mark.parametrize(
    "change",
    [{"partitions": "x"}, {"gpu_request": "gpus"}, {"tunnel": {"host": "x"}}, {"arch": "arm"}],
)
def test_a_misspelt_fact_is_refused(change: dict[str, Any]) -> None:
    """Unknown keys and words are errors, at every depth."""
    base = read_profile(rlaunch_slurm_jupiter.PROFILES["jupiter"])
    with pytest.raises(ValidationError):
        Slurm.Profile.model_validate({**base, **change})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"save_lead_s": 43200}, "`max_time_s` is 43200"),
        ({"kill_wait_s": 20}, "20 s after its SIGTERM SLURM kills, sooner than `grace_s`, 25 s, is over"),
        ({"grace_s": 31, "kill_wait_s": ...}, "sooner than `grace_s`, 31 s"),
        (
            {"time_by_nodes": [{"nodes": 8, "seconds": 9}, {"nodes": 4, "seconds": 99}]},
            "must ascend, and are 8, 4",
        ),
        ({"bad_nodes": [{"nodes": "n[1-", "reason": "x"}]}, "is no node list: brackets do not match"),
        ({"bad_nodes": [{"nodes": "n1 n2", "reason": "x"}]}, "is no node list: `n1 n2`"),
        ({"bad_nodes": [{"nodes": "", "reason": "x"}]}, "is no node list: ``"),
        ({"tunnel": {}}, "needs `login`"),
        ({"tunnel": {"wrapper": ["proxychains4"]}}, "needs `login`"),
        ({"tunnel": {"login": "x", "proxy": "10.0.0.1:1"}}, "both `login` and `proxy`"),
    ],
)  # fmt: skip
def test_facts_that_cannot_be_are_refused(change: dict[str, Any], message: str) -> None:
    """What would only show in a job is said by `clusters --check`, in plain words."""
    base = {**read_profile(rlaunch_slurm_jupiter.PROFILES["jupiter"]), **change}
    with pytest.raises(RlaunchError) as caught:
        lay(
            Slurm.Profile, {k: v for k, v in base.items() if v is not ...},
            origin="x.yaml", user={}, typed={}, flags={},
        )  # fmt: skip
    [finding] = caught.value.findings
    assert (finding.code, finding.place) == ("profile.invalid", "x.yaml")
    assert message in finding.message
    assert "alue error" not in finding.message


@pytest.mark.parametrize(
    ("tunnel", "path"),
    [
        ({"proxy": "10.0.0.1"}, "tunnel.proxy"),
        ({"proxy": "socks5://10.0.0.1:1"}, "tunnel.proxy"),
        ({"login": "x", "probe": "huggingface.co"}, "tunnel.probe"),
    ],
)
def test_a_door_has_a_port(tunnel: dict[str, str], path: str) -> None:
    """Addresses of the tunnel are `host:port`; without one every node would end with a traceback."""
    base = read_profile(rlaunch_slurm_jupiter.PROFILES["jupiter"])
    with pytest.raises(ValidationError) as caught:
        Slurm.Profile.model_validate({**base, "tunnel": tunnel})
    assert [".".join(map(str, e["loc"])) for e in caught.value.errors()] == [path]


def test_no_profile_switches_verification_off() -> None:
    """No shipped profile has a variable that would blind TLS, or a secret's value."""
    for path in rlaunch_slurm_jupiter.PROFILES.values():
        text = Path(path).read_text(encoding="utf-8")
        assert "PYTHONHTTPSVERIFY" not in text
        assert "SSL_NO_VERIFY" not in text


Codes = Callable[..., dict[str, Finding]]


@pytest.fixture
def codes(run_on: Callable[..., Run], plan_of: Callable[..., Plan]) -> Codes:
    """Ask the rules about a run on a profile: slug -> finding."""

    def ask(
        profile: str = "jupiter", *, command: Command | None = None, **settings: Any
    ) -> dict[str, Finding]:
        run = run_on(profile, **settings)
        found = check(run, plan_of(run, command))
        return {f.code.removeprefix("slurm_jupiter."): f for f in found}

    return ask


def test_a_good_run_has_nothing_said_about_it(codes: Codes) -> None:
    """The toy run on each shipped profile passes every rule."""
    for name in rlaunch_slurm_jupiter.PROFILES:
        assert codes(name) == {}


def test_too_long_a_wall_time_becomes_a_chain(codes: Codes) -> None:
    """A run longer than the limit is refused with the chain that would do."""
    found = codes(timeout_s=100_000)["wall-limit"]
    assert "1-03:46:40 is longer than 12:00:00, the limit for 2 node(s)" in found.message
    assert found.hint == "`--time-limit 12:00:00 --max-retries 2`"
    assert "wall-limit" in codes("frontier", timeout_s=7201)
    assert "wall-limit" not in codes("frontier", timeout_s=7201, nodes=92)


def test_a_typed_request_needs_a_type(codes: Codes) -> None:
    """`--gres=gpu::4` is never sent."""
    assert "gpu_type" in codes(gpu_request="gres-typed")["gpus"].message


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"run_dir": "/a\nb/{run}"}, "a newline"),
        ({"run_dir": "rel/{run}"}, "no `/`"),
        ({"run_dir": "/a:b/{run}", "sif": "/x.sif"}, "separate the parts of a bind"),
        ({"run_dir": "/a\\b/{run}"}, "a backslash"),
    ],
)
def test_paths_that_cannot_be_said(codes: Codes, settings: dict[str, Any], message: str) -> None:
    """A path that SLURM or Apptainer would read as something else is refused with the reason."""
    assert message in codes(**settings)["path"].message


def test_rays_sockets_must_fit(codes: Codes) -> None:
    """A long temporary directory is refused before Ray dies of it."""
    assert "long-path" in codes(temp_root="/scratch/with/a/very/long/directory/name")


def test_traps_of_the_site(codes: Codes) -> None:
    """A value that loses jobs at this site is told with the reason that was paid for."""
    found = codes(**{"env.NCCL_IB_TIMEOUT": "60"})["trap"]
    assert (found.level, "below 32" in found.message) == ("error", True)
    assert codes(account="jureap59")["trap"].level == "error"
    assert "trap" not in codes(**{"env.NCCL_IB_TIMEOUT": "31"})


def test_a_requeue_needs_a_warning_before_the_limit(codes: Codes) -> None:
    """Without the early signal a job at its limit would not come back: said before it is sent."""
    assert "requeue-lead" in codes(restart="requeue", max_retries=1, save_lead_s=0)
    assert "requeue-lead" not in codes(restart="requeue", max_retries=1)


@pytest.mark.parametrize(
    ("timeout_s", "level", "message"),
    [
        (120, "error", "120 s of a job of 00:02:00: it would be asked to end at its start"),
        (90, "error", "of a job of 00:02:00"),
        (180, "warning", "only 0 s are sure to be left"),
        (181, "", ""),
        (209, "", ""),
        (210, "", ""),
        (43200, "", ""),
    ],
)
def test_a_lead_must_leave_work(codes: Codes, timeout_s: int, level: str, message: str) -> None:
    """A job that is asked to save when it begins is refused; SLURM's minutes and its tick count."""
    found = codes(timeout_s=timeout_s, save_lead_s=120).get("save-lead")
    assert (found.level if found else "") == level
    if found:
        assert message in found.message
        assert found.hint


def test_a_lead_of_nearly_the_whole_job(codes: Codes) -> None:
    """The warning says what is sure to be left, and the hint the longest lead that is fine."""
    found = codes(timeout_s=180, save_lead_s=100)["save-lead"]
    assert (found.level, "only 20 s" in found.message) == ("warning", True)
    assert found.hint.endswith("at most 90")
    assert "save-lead" not in codes(timeout_s=180, save_lead_s=90)
    assert codes(timeout_s=60, save_lead_s=5)["save-lead"].hint.endswith("`--set save_lead_s=0`")
    assert "save-lead" not in codes(timeout_s=60, save_lead_s=0)


def test_a_wrapper_needs_its_library_in_the_image(codes: Codes) -> None:
    """An image that is not given the wrapper's library is said before a node is asked for."""
    found = codes(sif="/images/x.sif")["wrapper-library"]
    assert (found.level, found.place) == ("warning", "binds")
    assert "`ldconfig -p | grep proxychains`" in found.hint
    assert "wrapper-library" not in codes()
    assert "wrapper-library" not in codes(sif="/images/x.sif", tunnel={"login": "x"})
    bound = ["/usr/lib64/libproxychains4.so"]
    assert "wrapper-library" not in codes(sif="/images/x.sif", binds=bound)


OFFLINE = {"HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"}
GH200_ONLY = {"NCCL_P2P_DISABLE", "NCCL_NVLS_ENABLE", "NCCL_COLLNET_ENABLE"}


@pytest.mark.parametrize("name", sorted(rlaunch_slurm_jupiter.PROFILES))
def test_a_recipe_of_jupiter_leaves_its_workarounds_behind(
    name: str, run_on: Callable[..., Run], plan_of: Callable[..., Plan]
) -> None:
    """Where nodes reach the internet nothing is offline, and H100 nodes keep NVLink; JUPITER keeps all."""
    env = {**dict.fromkeys(OFFLINE, "1"), **dict.fromkeys(GH200_ONLY, "0")}
    body = {"entrypoint": "rlaunch.smoke", "extra_env": env}
    run = run_on(name, Recipe("toy.yaml", "0" * 64, body, {}))
    sent = set(plan_of(run, Command(("python3",))).env)
    assert bool(sent & OFFLINE) == (not run.profile["egress"])
    assert bool(sent & GH200_ONLY) == (name not in ("capella", "jureca"))


@pytest.mark.parametrize(
    "settings",
    [
        {"object_store": "lots"}, {"memory_reserve": "-3"}, {"min_disk": "much"}, {"memory": "lots"},
        {"max_retries": 99_999_999}, {"unset": ["not-valid"]}, {"unset": ["A B"]},
        {"partition": "booster\n"}, {"account": "a b"}, {"gpu_type": "h100\n--wrap=x"},
        {"bad_nodes": [{"nodes": "n[1-99999][1-99999]", "reason": "many"}]},
        {"bad_nodes": [{"nodes": "n" + "[1-9]" * 9, "reason": "many"}]},
        {"sbatch": ["--job-name=train"]}, {"sbatch": ["-J train"]}, {"sbatch": ["-N3"]},
        {"sbatch": ["--array=0-1"]}, {"sbatch": ["--job-na=x"]}, {"sbatch": ["--wrap=x"]},
        {"sbatch": ["--depend=after:1"]}, {"sbatch": ["--mail-type=END\n#SBATCH --wrap=x"]},
        {"sbatch": ["mail"]},
    ],
)  # fmt: skip
def test_facts_that_cannot_be_are_refused_at_once(settings: dict[str, Any]) -> None:
    """Sizes, names, options and node lists are read when the profile is, in little time and memory."""
    base = read_profile(rlaunch_slurm_jupiter.PROFILES["jupiter"])
    with pytest.raises(ValidationError):
        Slurm.Profile.model_validate({**base, **settings})


def test_other_options_are_the_sites_own() -> None:
    """What rlaunch does not say itself may be said."""
    options = [
        "--mail-type=END",
        "--time-min=10",
        "-C gpu&hbm80g",
        "--hint=nomultithread",
        "--hold",
    ]
    base = read_profile(rlaunch_slurm_jupiter.PROFILES["jupiter"])
    assert list(Slurm.Profile.model_validate({**base, "sbatch": options}).sbatch) == options


@pytest.mark.parametrize(
    ("run_dir", "said"),
    [
        ("/a\rb/{run}", "control character"),
        ('/a"b/{run}', 'a `"`'),
        ("/a/{nope}/{run}", "`{nope}`"),
    ],
)
def test_run_directories_that_slurm_would_show_otherwise(
    codes: Codes, run_dir: str, said: str
) -> None:
    """A run is found again by its directory, so one that SLURM's tools print otherwise is refused."""
    assert said in codes(run_dir=run_dir)["path"].message

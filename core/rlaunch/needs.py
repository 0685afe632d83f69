"""The secrets that a run cannot do without, read off its plan. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from rlaunch.codes import Code
from rlaunch.model import Finding, Plan

_SANDBOX = {"", "null", "daytona"}
"""Values of `harbor.environment_type` whose sandboxes are Daytona's; absent is the trainer's default."""


def argument(plan: Plan, key: str) -> str:
    """Return the last value that the trainer gets for a key, unquoted; empty where it gets none."""
    value = ""
    for word in plan.command.argv:
        name, equals, text = word.lstrip("+").partition("=")
        if equals and name == key:
            value = text.strip("'\"")
    return value


def needed(plan: Plan) -> Iterator[tuple[frozenset[str], str]]:
    """Yield (names of which one is enough, why) for every secret that the run needs."""
    profile = plan.run.profile
    for name in profile.get("required_secrets") or ():
        yield frozenset({name}), f"`{profile.get('name')}` needs it for every job"
    offline = plan.env.get("WANDB_MODE") in {"offline", "disabled"}
    if "wandb" in argument(plan, "trainer.logger") and not offline:
        yield frozenset({"WANDB_API_KEY"}), "the recipe logs to W&B"
    agentic = "terminal_bench" in str(plan.run.recipe.body.get("entrypoint") or "")
    if agentic and argument(plan, "terminal_bench_config.harbor.environment_type") in _SANDBOX:
        why = "every episode runs in a Daytona sandbox; without it each ends with reward 0"
        yield frozenset({"DAYTONA_API_KEY", "DAYTONA_JWT_TOKEN"}), why
    if argument(plan, "terminal_bench_config.trace_upload.enabled").lower() == "true":
        yield frozenset({"HF_TOKEN"}), "the recipe uploads traces to the Hugging Face hub"


def missing(plan: Plan, present: frozenset[str]) -> Iterator[Finding]:
    """Yield an error for each needed secret of which no name is at hand, or that is not forwarded."""
    for names, why in needed(plan):
        if not names & present:
            name = min(names)
            hint = f"put `{name}=…` into the secrets file (`--secrets-env FILE`), or export it"
            if not names & set(plan.secrets):
                hint = f"add `{name}` to the profile's `secrets`, and put it into the secrets file"
            yield Finding(
                "error",
                "core.secret-missing",
                f"the secret `{name}` is not at hand: {why}",
                f"secrets.{name}",
                f"{hint}; `--skip-preflight core.secret-missing` goes without",
            )


CODES = (
    Code(
        "core.secret-missing",
        "A secret that the run needs is not at hand.\n\n"
        "Runs without their sandbox's key looked healthy for hours: every episode failed and every reward\n"
        "was 0. Presence is looked at in preflight, never in a dry run.",
        "error",
        True,
    ),
)

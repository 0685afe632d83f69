"""Hypothesis strategies: texts that travel badly, environments, commands, and runs that fit a profile."""

from __future__ import annotations

from hypothesis import strategies as st

from rlaunch.model import Command, Run
from rlaunch.testing import kit

TRAPS = tuple(kit.WORDS)

texts = st.one_of(
    st.sampled_from(TRAPS),
    st.text(
        alphabet=st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=40
    ),
)
"""Any text that a process can get: no NUL, no lone surrogate."""

env_names = st.from_regex(r"KIT_[A-Z0-9_]{1,12}", fullmatch=True)

environments = st.dictionaries(env_names, texts, max_size=6)

labels = st.from_regex(r"[a-z0-9]([-a-z0-9]{0,40}[a-z0-9])?", fullmatch=True)
"""Run names: DNS labels."""

commands = st.builds(
    lambda words, stage, cwd, path: Command(
        ("/opt/python", *words), ("/opt/python", *stage) if stage else (), cwd, tuple(path)
    ),
    st.lists(texts, max_size=6),
    st.lists(texts, max_size=3),
    st.sampled_from(["", "/work dir"]),
    st.lists(st.sampled_from(["/a", "/b c"]), max_size=2, unique=True),
)


def runs(base: Run, *, most_nodes: int = 16) -> st.SearchStrategy[Run]:
    """Runs like `base` of any name, size, environment and secrets."""
    return st.builds(
        lambda name, tail, nodes, gpus, retries, limit, env, secrets: base._replace(
            id=f"{name}-{tail}",
            name=name,
            nodes=nodes,
            gpus_per_node=gpus,
            max_retries=retries,
            timeout_s=limit,
            env=env,
            secrets=tuple(sorted(secrets - env.keys())),
        ),
        labels,
        st.from_regex(r"[0-9a-f]{8}", fullmatch=True),
        st.integers(1, most_nodes),
        st.integers(0, 8),
        st.integers(0, 3),
        st.one_of(st.none(), st.integers(1, 10**6)),
        environments,
        st.frozensets(st.sampled_from(["KIT_TOKEN", "HF_TOKEN", "WANDB_API_KEY"])),
    )

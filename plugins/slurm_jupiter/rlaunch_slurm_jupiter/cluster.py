"""The SLURM cluster: strings the parts together."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property

from rlaunch import folders
from rlaunch.cluster import Clock, Cluster, LogQuery, PreflightQuery, Report
from rlaunch.errors import ClusterError
from rlaunch.model import Command, Finding, JobRef, LogLine, Observed, Plan, Run, State, Status
from rlaunch.shell import Shell
from rlaunch_slurm_jupiter import planning
from rlaunch_slurm_jupiter.profile import SlurmProfile
from rlaunch_slurm_jupiter.site import Site, site_of

SENDING_MIN = 10
"""Minutes; secrets younger than that may be those of a run that is being submitted."""


class Slurm(Cluster):
    """A SLURM cluster, from its login node or through ssh. A run is a chain of jobs in one directory.

    The native id has the job ids of all links, `101+102`; a single job's is its number.
    """

    Profile = SlurmProfile
    checks = (
        "source", "run-dir", "sif", "nodes", "running-runs", "staged", "checkpoint", "world-size",
        "test-only",
    )  # fmt: skip

    def __init__(self, profile: SlurmProfile, shell: Shell, clock: Clock) -> None:
        super().__init__(profile, shell, clock)
        self._forgotten: set[JobRef] = set()

    @cached_property
    def site(self) -> Site:
        """The machine that speaks to SLURM."""
        return site_of(self.shell, self.profile.host)

    def observe(self, run: Run) -> Observed:
        """Look which SLURM this is and where its home directory lies."""
        done = self.site.run(("sh", "-c", 'printf "%s\\n" "$HOME"; sinfo --version'), timeout=4.5)
        lines = done.out.splitlines()
        if done.code != 0 or len(lines) < 2 or not lines[1].startswith("slurm"):
            return Observed()
        facts = {"home": lines[0], "slurm": lines[1].removeprefix("slurm").strip(" -")}
        return Observed(self.clock.now(), f"sinfo on {self.profile.host or 'this machine'}", facts)

    def plan(self, run: Run, command: Command, observed: Observed) -> Plan:
        """Plan script, task, environment and chain; pure."""
        return planning.plan_run(run, command, observed)

    def preflight(self, query: PreflightQuery) -> Iterable[Finding]:
        """Ask SLURM and the shared file system whether this can work."""
        from rlaunch_slurm_jupiter.preflight import check

        return check(query, self.site, self.shell)

    def submit(self, plan: Plan, secrets: Mapping[str, str], report: Report) -> JobRef:
        """Write the run directory and call sbatch for every link."""
        from rlaunch_slurm_jupiter.submit import submit_plan

        return submit_plan(
            plan, secrets, report, shell=self.shell, site=self.site, clock=self.clock
        )

    def status(self, refs: Sequence[JobRef]) -> Mapping[JobRef, Status]:
        """Ask squeue for all of them at once, and sacct for those that it forgot."""
        from rlaunch_slurm_jupiter.status import status_of

        answers = status_of(self.site, refs, self._rendezvous, self.clock.now())
        self._forget_secrets(answers)
        return answers

    def _forget_secrets(self, answers: Mapping[JobRef, Status]) -> None:
        """Remove the secrets of runs that have ended without their script's doing: killed, or a lost node."""
        ended = {
            ref: s
            for ref, s in answers.items()
            if s.state.ended and ref.run_id and ref not in self._forgotten
        }
        self._forgotten |= ended.keys()
        known = [str(s.native["run_dir"]) for s in ended.values() if "run_dir" in s.native]
        if known:
            self.site.run(("rm", "-f", "--", *(f"{folder}/secrets.json" for folder in known)))
        absent = [ref for ref, s in ended.items() if s.state is State.ABSENT]
        if never := [folder for ref in absent if (folder := self._expected(ref.run_id))]:
            # their submit was interrupted, or it is going on just now
            files = (f"{folder}/secrets.json" for folder in never)
            self.site.run(("find", *files, "-mmin", f"+{SENDING_MIN}", "-delete"))

    def logs(self, query: LogQuery) -> Iterator[LogLine]:
        """Yield the lines of all ranks by time. Raises ClusterError for a run whose directory is unknown."""
        from rlaunch_slurm_jupiter.logs import read
        from rlaunch_slurm_jupiter.status import run_dir_of

        folder = run_dir_of(self.site, query.ref) or self._expected(query.ref.run_id)
        if not folder:
            raise ClusterError.of(
                "slurm_jupiter.no-run-dir", f"nobody knows where `{query.ref}` lies", place=str(query.ref),
                hint="`rlaunch logs RUN` works where the run was launched",
            )  # fmt: skip
        yield from read(self.site, folder, query, lambda: self._over(query.ref), self.clock.sleep)

    def stop(self, ref: JobRef) -> None:
        """Cancel the whole chain, the driver first, and wait until it is gone."""
        from rlaunch_slurm_jupiter.stop import stop_run

        profile = self.profile
        stop_run(
            self.site, self.clock, ref, grace_s=profile.grace_s, kill_wait_s=profile.kill_wait_s
        )

    def _over(self, ref: JobRef) -> bool:
        return self.status([ref])[ref].state.ended

    def _rendezvous(self, run: str, folder: str) -> str:
        """Return a run's rendezvous: in its directory, unless `--rendezvous-dir` placed it elsewhere."""
        template = str(self.profile.rendezvous_dir)
        if "{run_dir}" in template:
            return template.replace("{run_dir}", folder).replace("{run}", run)
        return f"{template.rstrip('/')}/{run}"

    def _expected(self, run: str) -> str | None:
        """Return where the profile puts a run, for one that SLURM has forgotten."""
        from rlaunch.draft import fill_words, user_at

        user = os.environ.get("USER") or os.environ.get("LOGNAME") or f"uid{os.getuid()}"
        known = {
            "run": run,
            "name": run.rpartition("-")[0],
            "home": folders.home(),
            "user": user_at(self.profile.host, user),
            "state": folders.state(),
        }
        text = fill_words(str(self.profile.run_dir), known)
        return text if run and text.startswith("/") and "{" not in text and run in text else None

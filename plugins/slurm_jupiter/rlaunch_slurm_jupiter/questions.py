"""SLURM's word on jobs, asked by commands on a site: by job id, or by name where no id was recorded."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from rlaunch.model import JobRef
from rlaunch_slurm_jupiter import queries
from rlaunch_slurm_jupiter.site import Site
from rlaunch_slurm_jupiter.states import Link
from rlaunch_slurm_jupiter.wording import last_words

LATE = 8
"""For at most so many jobs that ended just now the controller is asked once more, for their exit codes."""
_RUN_ID = re.compile(r"[a-z0-9][-a-z0-9]*-[0-9a-f]{8}\Z")


def jobs_of(ref: JobRef) -> tuple[str, ...]:
    """Return the job ids of a run, in the order of its chain: `101+102+103`."""
    parts = ref.native.split("+")
    return tuple(parts) if all(p.isdecimal() for p in parts) else ()


def name_of(ref: JobRef) -> str:
    """Return the name of a run's jobs, for one whose job ids nobody recorded: its run id.

    Empty for what no job can be called by: neither the id of a job nor of a run.
    """
    return ref.run_id or (ref.native if _RUN_ID.match(ref.native) else "")


class Unanswered(Exception):  # noqa: N818  # says what it is
    """SLURM could not be asked; the message says why."""


class Questions:
    """SLURM, asked by commands on a site."""

    def __init__(self, site: Site) -> None:
        self.site = site
        self.trouble = ""
        """Why the accounting could not be asked."""

    def jobs(self, refs: Sequence[JobRef]) -> dict[JobRef, list[Link] | None]:
        """Return the jobs of every run that SLURM knows, in the order of its chain. Raises Unanswered.

        A run without recorded job ids (its submit was interrupted, or its answer was lost) is looked up
        by name, all such runs at once. None stands for a run of which only the accounting could tell, and
        it gave no answer (`trouble`): the queue's word is enough for what is live, and for what it still has.
        """
        ids = {ref: jobs_of(ref) for ref in refs}
        wanted = dict.fromkeys(job for several in ids.values() for job in several)
        names = {ref: name for ref in refs if not ids[ref] and (name := name_of(ref))}
        seen = self.look(tuple(wanted)) if wanted else {}
        named: dict[str, list[Link]] = {}
        found = self.named(tuple(dict.fromkeys(names.values()))) if names else {}
        for job in sorted(found, key=int):
            named.setdefault(found[job].name, []).append(found[job])
        several = {
            ref: [seen[j] for j in own if j in seen] if own else named.get(names.get(ref, ""), [])
            for ref, own in ids.items()
        }
        if not self.trouble:
            return dict(several)
        return {ref: links if _suffice(links, ids[ref]) else None for ref, links in several.items()}

    def named(self, names: Sequence[str]) -> dict[str, Link]:
        """Return all jobs of these names: job id -> job. Raises Unanswered; see `trouble` too."""
        found = self._queue(queries.ask_named(names))
        kept = self._accounting(queries.ask_named_accounting(names)) or {}
        late = []
        for job in {**kept, **found}:
            if job in kept and (job not in found or kept[job].meaning.ended):
                found[job] = _complete(kept[job], found.get(job))
            elif found[job].meaning.ended:
                late.append(job)
        return self._late(found, late)

    def look(self, jobs: Sequence[str]) -> dict[str, Link]:
        """Return what is known of each job; one that is not there is left out. Raises Unanswered; see
        `trouble` too."""
        found = self._queue(queries.ask_queue(jobs))
        lost = [job for job in jobs if job not in found or found[job].meaning.ended]
        if not lost:
            return found
        kept = self._accounting(queries.ask_accounting(lost))
        if kept is None:  # this cluster keeps none: the controller's word is all there is
            return self._late(found, [job for job in lost if job in found])
        late = []
        for job in lost:
            if job in kept and (kept[job].meaning.ended or job not in found):
                found[job] = _complete(kept[job], found.get(job))
            elif job in found:
                late.append(job)
        return self._late(found, late)

    def _queue(self, question: Sequence[str]) -> dict[str, Link]:
        done = self.site.run(question)
        if done.code != 0:
            if queries.is_unknown_job(done.err):
                return {}
            raise Unanswered(f"squeue failed ({done.code}): {last_words(done)}")
        try:
            return queries.read_queue(done.out)
        except queries.NotAnswered as error:
            raise Unanswered(f"squeue: {error}") from None

    def _accounting(self, question: Sequence[str]) -> dict[str, Link] | None:
        done = self.site.run(question)
        if done.code != 0:
            if queries.is_no_accounting(done.err + done.out):
                return None
            self.trouble = f"sacct failed ({done.code}): {last_words(done)}"
            return {}
        try:
            return queries.read_accounting(done.out)
        except queries.NotAnswered as error:
            self.trouble = f"sacct: {error}"
            return {}

    def _late(self, found: dict[str, Link], jobs: Iterable[str]) -> dict[str, Link]:
        for job in list(jobs)[:LATE]:
            done = self.site.run(queries.ask_job(job))
            seen = queries.read_job(done.out) if done.code == 0 else None
            if seen is not None and seen.meaning.ended:
                found[job] = seen
        return found


def _complete(kept: Link, queued: Link | None) -> Link:
    """Fill what the accounting does not know yet (for 2 s after a short job's end) from the queue's word."""
    if queued is None:
        return kept
    names = ("start", "nodes", "name", "work_dir")
    return kept._replace(**{name: getattr(kept, name) or getattr(queued, name) for name in names})


def _suffice(links: Sequence[Link], ids: Sequence[str]) -> bool:
    """Tell whether the queue's word on a run is enough: something lives, or none of its jobs is forgotten."""
    return any(not link.meaning.ended for link in links) or 0 < len(ids) == len(links)

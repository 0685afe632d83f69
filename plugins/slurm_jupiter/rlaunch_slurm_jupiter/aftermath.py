r"""`after-task.sh`: what SLURM runs on a node after its task, for what a killed agent cannot do any more.

The attempt is in the path by which it is called (`attempts/N/after-task`), the rank in SLURM's variables.
Bash, since the job's Python may be inside an image. Where the agent ended by itself nothing is left to do.
"""

from __future__ import annotations

import shlex

_TEXT = r"""
set -u
umask 077
attempt="${0%/*}"
attempt="${attempt##*/}"
rank="${SLURM_PROCID:-}"
[[ "$attempt" =~ ^[0-9]+$ && "$rank" =~ ^[0-9]+$ ]] || exit 0
field() { sed -n 's/.*"'"$2"'": *"\{0,1\}\([A-Za-z0-9_-]*\).*/\1/p' "$1" 2>/dev/null | head -n 1; }
put() { # FILE: written aside, then renamed
  mkdir -p -- "${1%/*}" && cat >"$1.after" && mv -f -- "$1.after" "$1" || rm -f -- "$1.after"
}
record="$rendezvous/ranks/$attempt/$rank.json"
done_file="$rendezvous/ray_head.done"
if [[ "$(field "$record" phase)" != ended ]]; then
  now="$(date -u +%Y-%m-%dT%H:%M:%SZ)"
  reason=worker-lost
  detail="the task ended without a word of its agent: it was killed"
  if (( rank == 0 )); then reason=head-lost; fi
  if [[ ! -e "$record" ]]; then
    detail="no agent began: the image or its Python does not start, or it was killed"
    if (( rank == 0 )); then reason=step-failed; fi
  fi
  whose="\"run\":\"$run\",\"attempt\":$attempt"
  how="\"reason\":\"$reason\",\"exit_code\":null,\"signal\":null"
  if [[ -n "$(field "$record" reason)" ]]; then # it was ending for that when it was killed
    sed 's/"phase": *"[a-z]*"/"phase":"ended"/' "$record" | put "$record"
  else
    printf '{%s,"rank":%d,"node":"%s","pid":0,"phase":"ended","at":"%s","since":"%s",%s,"detail":"%s"}\n' \
      "$whose" "$rank" "${SLURMD_NODENAME:-$(uname -n)}" "$now" "$now" "$how" "$detail" | put "$record"
    told="$(field "$done_file" attempt)"
    if (( rank == 0 && ${told:-0} < attempt )) && [[ "$(field "$done_file" outcome)" != succeeded ]]; then
      printf '{%s,"outcome":"failed",%s,"detail":"rank 0: %s","code":67,"at":"%s"}\n' \
        "$whose" "$how" "$detail" "$now" | put "$done_file"
    fi
  fi
fi
rm -rf -- "$temp-$attempt-$rank" || true # of an agent that ended by itself it is gone
"""


def write_aftermath(run_id: str, rendezvous: str, temp: str) -> str:
    """Return the script; `temp` is what the directories of Ray's sessions begin with."""
    values = (("run", run_id), ("rendezvous", rendezvous), ("temp", temp))
    lines = [f"{name}={shlex.quote(value)}" for name, value in values]
    head = "# SLURM runs it on a node after its task, however that ended"
    return "\n".join(("#!/bin/bash", head, *lines)) + _TEXT

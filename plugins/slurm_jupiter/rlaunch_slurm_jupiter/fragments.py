r"""The parts of `job.sh` that are the same in every job. Text for bash 4.4 and later, shellcheck clean.

Every `$` here is the script's own. What differs between runs stands in variables above these parts.
Over 300 lines: it is one script, in its order.
"""

HEAD = r"""
attempt=0
asked=""
reason=""
over=""
broken=0
tunnel_pid=""
say() {
  printf '[rlaunch-slurm] job=%s link=%s attempt=%s %s\n' "${SLURM_JOB_ID:-0}" "$link/$links" "$attempt" "$*"
}
forget() { rm -f -- "$run_dir/secrets.json"; }
# The rest of the chain has nothing to do: cancel it instead of waiting for nodes to say so.
drop_chain() {
  if (( links > 1 )); then
    scancel --quiet --state=PENDING --user="$(id -un)" --name="$SLURM_JOB_NAME" || true
  fi
}
# What `rlaunch status` reads: the last attempt, and how it ended.
mark() { printf '%s\n' "$*" >"attempts/.last" && mv -f attempts/.last last; }
finish() { # HOW REASON CODE
  if ! { printf '%s %s %s\n' "$@" >"attempts/$attempt/end" && mark "$attempt" "$@"; }; then
    if [[ "$1" == failed ]]; then set -- failed not-written "$3"; fi
    rm -rf -- "attempts/$attempt/end" attempts/.last
    printf '%s %s\n' "$attempt" "$*" 1<>last || true # on a full disk there is room where something stands
  fi
}
# A list before the look: NFS remembers for a while that a file was not there.
stopped() { ls -- . >/dev/null 2>&1 || true; [[ -e stop ]]; }
leave() { # CODE: nothing follows
  over=yes
  forget
  drop_chain
  exit "$1"
}
# Whether every node still starts a task. Where SLURM has not noticed a lost node yet, a requeue of ours would
# wait for that, and then SLURM has forgotten the job's GPUs (seen with 22.05: "Invalid generic resource").
whole() {
  timeout -k 5 60 srun "${options[@]}" --gres=none true >/dev/null 2>&1
}
depart() { # CODE: no success; another attempt may follow
  over=yes
  if [[ "$asked" == stopped ]]; then
    trap '' TERM USR1
    forget
    scancel "$SLURM_JOB_ID" || true
    leave "$1"
  fi
  trap - TERM USR1
  if [[ -n "$requeue" && "$asked" != terminated ]] && (( attempt > 0 && attempt < attempts )); then
    if [[ "$reason" == *-lost ]] && ! whole; then
      say "waits: a node is lost, and SLURM puts the job back when it notices"
      trap : USR1 # the wall limit is near: this job would not come back after it
      sleep 1200 & # longer than any SlurmdTimeout; it ends with the job
      wait "$!" || kill "$!" || true
    fi
    say "is requeued"
    if scontrol requeue "$SLURM_JOB_ID"; then
      sleep 60
      exit "$1"
    fi
  fi
  # SLURM itself starts a job again after preemption or the loss of a node: it needs the secrets. Where
  # it does not, `rlaunch status` removes them.
  if [[ "$asked" == terminated || "$reason" == worker-lost ]]; then
    if [[ -n "$returns" ]]; then exit "$1"; fi
  fi
  if (( link >= links )); then forget; fi
  exit "$1"
}
fail() { # REASON CODE TEXT
  cd -- "$run_dir" || true # a line of the profile may have left it
  say "$1: $3"
  if (( attempt > 0 )); then finish failed "$1" "$2" || true; fi
  depart "$2"
}
cut_off() { # WHY CODE
  cd -- "$run_dir" || true
  asked="$1"
  if stopped; then asked=stopped; fi
  if (( attempt > 0 )); then finish cut "$asked" "$2" || true; fi
  say "was cut: $asked (code $2)"
  depart "$2"
}
# Until the step runs, SIGTERM ends this shell at once, whatever runs in its foreground; a trap of its
# own would wait for that. The early signal may wait: it comes a whole lead before the limit.
# shellcheck disable=SC2317 # called by the trap
last_words() {
  trap '' TERM USR1
  trap - ERR
  if [[ -n "$tunnel_pid" ]]; then kill -KILL "$tunnel_pid" 2>/dev/null || true; fi
  if [[ -n "$over" ]]; then return; fi
  if (( broken > 0 )); then fail script-failed "$broken" "a command of the batch script failed"; fi
  cut_off terminated 143
}
set -E
trap 'broken=$?' ERR
trap last_words EXIT
trap 'cut_off wall-limit 138' USR1
cd -- "$run_dir"
umask 077
ulimit -c 0
ulimit -n 65536 2>/dev/null || ulimit -n "$(ulimit -Hn)" || true
# Apptainer runs what these hold as shell text; plain variables pass as they are.
for name in "${!APPTAINERENV_@}" "${!SINGULARITYENV_@}"; do unset -v "$name"; done
export APPTAINER_NO_EVAL=1
mkdir -p attempts logs "${folders[@]}" || fail not-written 82 "the run directory cannot be written"
"""

DECIDE = r"""# --- is there anything left to do? ---
# JSON of one line each, written whole by the node agents.
field() { sed -n 's/.*"'"$2"'": *"\{0,1\}\([A-Za-z0-9_-]*\).*/\1/p' "$1" 2>/dev/null | head -n 1 || true; }
done_file="$rendezvous/ray_head.done"
if stopped; then
  say "stopped by request"
  asked=stopped
  depart 143
fi
if [[ "$(field "$done_file" outcome)" == succeeded ]]; then
  say "complete: the driver of an earlier attempt succeeded"
  leave 0
fi
last=0
while [[ -d "attempts/$((last + 1))" ]]; do last=$((last + 1)); done
ending() { cat "attempts/$1/end" 2>/dev/null || true; }
if (( last >= 2 )); then
  before="$(ending $((last - 1)))"
  now="$(ending "$last")"
  if [[ "$now" == failed* && "$now" == "$before" ]]; then
    say "stopped: the last two attempts ended the same way ($now), a third would too"
    leave "${now##* }"
  fi
fi
"""

CHECKPOINT = r"""step=0
if [[ -r "$marker" ]]; then
  step="$(tr -cd '0-9' <"$marker")"
  step="$((10#${step:-0}))"
fi
if (( max_steps > 0 && step >= max_steps )); then
  say "complete: the checkpoint is at step $step of $max_steps"
  leave 0
fi
"""

STARTS = r"""say "starts from step $step of ${max_steps}"
"""

STARTS_ANEW = r"""say "starts from step 0 of ${max_steps}: resume_mode is none"
"""

STARTS_ELSEWHERE = r"""if [[ -r "$marker" ]]; then
  say "starts from step $step of ${max_steps}, the checkpoint of this run"
else
  say "starts from $resume"
fi
"""

ATTEMPT = r"""# --- the attempt: whoever makes the directory has the number ---
attempt=$((last + 1))
until mkdir "attempts/$attempt" 2>/dev/null; do
  [[ -d "attempts/$attempt" ]] || { attempt=0; fail not-written 82 "the run directory cannot be written"; }
  attempt=$((attempt + 1))
done
mkdir -p "logs/$attempt"
ln -s ../../after-task.sh "attempts/$attempt/after-task"
mark "$attempt"
printf 'job=%s restart=%s link=%s nodes=%s\n' "$SLURM_JOB_ID" "${SLURM_RESTART_COUNT:-0}" "$link" \
  "$SLURM_JOB_NODELIST" >"attempts/$attempt/begin"
say "begins on $SLURM_JOB_NODELIST"
(( SLURM_JOB_NUM_NODES == SLURM_NTASKS )) ||
  fail wrong-shape 83 "$SLURM_JOB_NUM_NODES nodes for $SLURM_NTASKS tasks"
"""

BEFORE = r"""# lines of the profile: they may fail, but `exit` would leave without a word
# shellcheck disable=SC2317 # called by those lines
exit() {
  local code="${1:-$?}"
  if [[ -n "$over" ]] || (( BASH_SUBSHELL > 0 )); then builtin exit "$code"; fi
  unset -f exit
  (( code > 0 )) || code=88
  fail before-failed "$code" "a line of the profile (before) ended the job"
}
set +eu
trap - ERR"""

AFTER = r"""unset -f exit
trap 'broken=$?' ERR
set -eu
cd -- "$run_dir" # whichever they left us in"""

NETWORKS = r"""networks="$(ip -4 -o addr show 2>/dev/null | awk '{ print $2, $4 }')" || true
[[ -n "$networks" ]] || fail networks-unknown 84 "this node does not say what it is attached to (ip addr)"
"""

PROXY = r"""proxy_host="${proxy%:*}"
if [[ ! "$proxy_host" =~ ^[0-9.]+$ ]]; then # the wrapper reads numbers only
  proxy_host="$(getent ahostsv4 "$proxy_host" | awk 'NR == 1 { print $1 }')" || true
  [[ -n "$proxy_host" ]] || fail tunnel-failed 84 "the proxy's name has no address: ${proxy%:*}"
  proxy="$proxy_host:${proxy##*:}"
fi
"""

TUNNEL = r"""address=""
for wanted in "${interfaces[@]}"; do
  while read -r name network; do
    # shellcheck disable=SC2053 # a pattern
    if [[ -z "$address" && "$name" == $wanted ]]; then address="${network%/*}"; fi
  done <<<"$networks"
done
[[ -n "$address" ]] || address="$(hostname -i | awk '{ print $1 }')"
proxy="$address:$tunnel_port"
tunnel_log="attempts/$attempt/tunnel.log"
listens() { (exec 3<>"/dev/tcp/$address/$tunnel_port") 2>/dev/null; }
if listens; then fail tunnel-failed 84 "something else listens at $proxy"; fi
# A child, which ends with the job; deaf to SIGTERM, since a driver that saves may still need it.
(
  trap '' TERM
  exec ssh -N -o BatchMode=yes -o ExitOnForwardFailure=yes -o ServerAliveInterval=30 \
    -o ServerAliveCountMax=4 -o ConnectTimeout=20 -D "$proxy" "${tunnel[@]}"
) 2>"$tunnel_log" </dev/null >/dev/null &
tunnel_pid=$!
tunnel_until=$((SECONDS + 60))
until listens; do
  kill -0 "$tunnel_pid" 2>/dev/null || fail tunnel-failed 84 "$(tail -n 1 "$tunnel_log")"
  (( SECONDS < tunnel_until )) || fail tunnel-failed 84 "no connection within 60 s"
  sleep 0.2
done
say "tunnel at $proxy"
"""

TUNNEL_WRAPPER = r"""command -v "${wrapper[0]}" >/dev/null ||
  fail tunnel-failed 84 "there is no ${wrapper[0]}"
proxychains="$run_dir/attempts/$attempt/proxychains.conf"
netmask() { # BITS
  local bits=$(( (0xffffffff << (32 - $1)) & 0xffffffff ))
  printf '%d.%d.%d.%d' $((bits >> 24)) $((bits >> 16 & 255)) $((bits >> 8 & 255)) $((bits & 255))
}
{
  printf '%s\n' strict_chain quiet_mode 'tcp_read_time_out 15000' 'tcp_connect_time_out 8000'
  printf 'localnet %s\n' 127.0.0.0/255.0.0.0 10.0.0.0/255.0.0.0 172.16.0.0/255.240.0.0 \
    192.168.0.0/255.255.0.0 169.254.0.0/255.255.0.0 "${proxy%:*}/255.255.255.255" "${local[@]}"
  # the gang's own connections: what the node is attached to needs no way out
  while read -r _ network; do
    if [[ "$network" == */* ]]; then
      printf 'localnet %s/%s\n' "${network%/*}" "$(netmask "${network#*/}")"
    fi
  done <<<"$networks"
  printf '[ProxyList]\nsocks5 %s %s\n' "${proxy%:*}" "${proxy##*:}"
} >"$proxychains"
"""

RUN = r"""# SIGTERM (stop, scancel) and the early signal before the wall limit go to rank 0's agent first: it
# ends the driver, then tells the others. For the early one the driver has the whole lead to save.
again=0
# shellcheck disable=SC2317 # called by the traps
ask() { # WHY SIGNAL
  again=1
  [[ -n "$asked" ]] || asked="$1"
  say "asked to end: $1"
  local head
  head="$(cat "attempts/$attempt/head.pid" 2>/dev/null || true)"
  if [[ -n "$head" ]] && grep -aq rlaunch-node "/proc/$head/cmdline" 2>/dev/null; then
    kill -s "$2" "$head" || true
  else
    kill -TERM "$srun" || true
  fi
}
"${step[@]}" &
srun=$!
trap 'ask terminated TERM' TERM
trap 'ask wall-limit USR1' USR1
code=0
while :; do
  again=0
  code=0
  wait "$srun" || code=$?
  if (( again == 0 || code < 128 )); then break; fi
done
"""

END = r"""# --- how it ended ---
if stopped; then asked=stopped; fi
look() {
  local rank
  outcome="$(field "$done_file" outcome)"
  if [[ "$(field "$done_file" attempt)" == "$attempt" ]]; then reason="$(field "$done_file" reason)"; fi
  for rank in "$rendezvous/ranks/$attempt/"*.json; do # no outcome: a node that refused, or was left alone
    [[ -n "$reason" ]] || reason="$(field "$rank" reason)"
  done
}
for _ in 1 2 3 4 5; do # killed from outside: after-task.sh says so in a moment
  look
  if [[ -n "$reason$asked" ]] || (( code <= 128 )); then break; fi
  sleep 1
done
if [[ "$outcome" == succeeded ]]; then
  finish succeeded driver-exit 0
  say "succeeded"
  leave 0
fi
if (( code == 0 )); then
  code=85
  reason="${reason:-no-outcome}"
fi
if [[ -n "$asked" ]]; then cut_off "$asked" "$code"; fi
if (( code > 128 )); then reason="${reason:-step-killed}"; fi
reason="${reason:-step-failed}"
finish failed "$reason" "$code"
say "failed: $reason (code $code)"
depart "$code"
"""

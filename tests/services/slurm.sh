#!/usr/bin/env bash
# A SLURM cluster on this one machine, for tests: real daemons, pretended nodes and GPUs. Needs root.
#
#   slurm.sh up | down | wipe | env | nodecrash NODE | nodestart NODE | ctldown | ctlup | memory on|off
#
# Each node is a slurmd in a network and UTS namespace of its own (198.18.77.11 and up on a bridge), so that the
# same ports can be used on all of them, as on real nodes. GPUs are /dev/null under other names. Accounting is a
# private MariaDB and slurmdbd. `up` is idempotent; `down` ends only what it started, by pid files and by the
# configuration that the processes carry. `memory on` holds jobs to the memory they asked for, by cgroups: for jobs of
# one node, since the pretended nodes share the host's cgroups. It asks for nodes without jobs.
set -euo pipefail
unset SLURM_CONF SQUEUE_FORMAT SACCT_FORMAT
BASE=${RLAUNCH_SLURM_BASE:-/var/tmp/rlaunch-tests-$(id -u)/slurm} # munged runs as another user: it must get through every directory above
NODES=${RLAUNCH_SLURM_NODES:-3}
GPUS=4
CPUS=${RLAUNCH_SLURM_CPUS:-8}
PORT=${RLAUNCH_SLURM_PORT:-16840} # controller; +1 slurmdbd, +2 MariaDB, +10 and up the nodes
NET=198.18.77
OUTSIDE=198.18.78.1
BRIDGE=br-rlslurm
SPACE=rlslurm # namespaces are $SPACE-n1 …
ETC=$BASE/etc RUN=$BASE/run LOG=$BASE/log
export SLURM_CONF=$ETC/slurm.conf
PACKAGES="slurmctld slurmd slurm-client munge slurmdbd slurm-wlm-mysql-plugin mariadb-server-core mariadb-client-core iproute2 proxychains4"

die() { echo "slurm.sh: $*" >&2; exit 1; }
alive() { local pid; [[ -s $1 ]] && pid=$(<"$1") && kill -0 "$pid" 2>/dev/null; }
until_ok() { # SECONDS COMMAND…
  local left=$(($1 * 10)); shift
  until "$@" >/dev/null 2>&1; do ((left-- > 0)) || return 1; sleep 0.1; done
}
end() { # PIDFILE SIGNAL
  alive "$1" || { rm -f "$1"; return 0; }
  local pid; pid=$(<"$1")
  kill -s "${2:-TERM}" "$pid" 2>/dev/null || true
  until_ok 8 gone "$pid" || kill -s KILL "$pid" 2>/dev/null || true
  rm -f "$1"
}
gone() { ! kill -0 "$1" 2>/dev/null; }

install() {
  local missing=() package
  for package in $PACKAGES; do dpkg -s "$package" >/dev/null 2>&1 || missing+=("$package"); done
  ((${#missing[@]})) || return 0
  [[ $(id -u) == 0 ]] || die "root is needed to install ${missing[*]}"
  apt-get update -qq >"$LOG/apt.log" 2>&1 || true
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >>"$LOG/apt.log" 2>&1 ||
    die "apt-get failed, see $LOG/apt.log"
}

network() {
  ip link show "$BRIDGE" >/dev/null 2>&1 || {
    ip link add "$BRIDGE" type bridge
    ip addr add "$NET.1/24" dev "$BRIDGE"
    ip link set "$BRIDGE" up
  }
  ip addr replace "$OUTSIDE/32" dev "$BRIDGE" # an address that no node is attached to
  local i space
  for ((i = 1; i <= NODES; i++)); do
    space=$SPACE-n$i
    [[ -e /run/netns/$space ]] && continue
    ip netns add "$space"
    ip link add "rls$i" type veth peer name ib0 netns "$space"
    ip link set "rls$i" master "$BRIDGE" up
    ip -n "$space" link set lo up
    ip -n "$space" addr add "$NET.$((10 + i))/24" dev ib0
    ip -n "$space" link set ib0 up
    ip -n "$space" route add default via "$NET.1"
  done
}
names() { # the nodes' names must resolve, as they do on a cluster
  local kept i
  kept=$(grep -vF "# rlaunch-slurm $BASE" /etc/hosts || true)
  { printf '%s\n' "$kept"
    [[ ${1:-} == off ]] || for ((i = 1; i <= NODES; i++)); do echo "$NET.$((10 + i)) n$i # rlaunch-slurm $BASE"; done
  } >"$BASE/hosts"
  cat "$BASE/hosts" >/etc/hosts
}

configure() {
  mkdir -p "$ETC" "$RUN" "$LOG" "$BASE"/{state,dev,munge,db}
  chmod 755 "${BASE%/*}" "$BASE" "$ETC" "$RUN" "$LOG" "$BASE/munge"
  [[ -s $ETC/munge.key ]] || dd if=/dev/urandom of="$ETC/munge.key" bs=1 count=128 status=none
  chown munge:munge "$ETC/munge.key" "$BASE/munge"
  chmod 600 "$ETC/munge.key"
  local i; for ((i = 0; i < GPUS; i++)); do [[ -e $BASE/dev/gpu$i ]] || mknod "$BASE/dev/gpu$i" c 1 3; done
  cat >"$ETC/slurm.conf" <<C
ClusterName=rltest
SlurmctldHost=$(hostname -s)($NET.1)
SlurmUser=root
SlurmdUser=root
SlurmctldPort=$PORT
SlurmctldPidFile=$RUN/slurmctld.pid
SlurmctldLogFile=$LOG/slurmctld.log
SlurmdPidFile=$RUN/slurmd.%n.pid
SlurmdLogFile=$LOG/slurmd.%n.log
SlurmdSpoolDir=$BASE/spool/%n
SlurmdParameters=config_overrides
StateSaveLocation=$BASE/state
AuthType=auth/munge
AuthInfo=socket=$BASE/munge/munge.sock,cred_expire=5
CredType=cred/munge
MpiDefault=none
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/linux
JobAcctGatherFrequency=5
SwitchType=switch/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
GresTypes=gpu
DefMemPerNode=4000
SchedulerType=sched/backfill
SchedulerParameters=bf_interval=1,sched_interval=2,sched_min_interval=0,batch_sched_delay=0,max_rpc_cnt=0
PriorityType=priority/basic
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
JobRequeue=1
ReturnToService=2
SlurmctldTimeout=30
SlurmdTimeout=15
InactiveLimit=0
KillWait=15
CompleteWait=0
MinJobAge=${RLAUNCH_SLURM_MINJOBAGE:-300}
EnforcePartLimits=NO
MessageTimeout=20
TCPTimeout=5
AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost=127.0.0.1
AccountingStoragePort=$((PORT + 1))
AccountingStorageEnforce=associations,limits,qos
AccountingStoragePass=$BASE/munge/munge.sock
AccountingStorageTRES=gres/gpu
C
  local address; for ((i = 1; i <= NODES; i++)); do
    address=$NET.$((10 + i))
    echo "NodeName=n$i NodeHostName=n$i NodeAddr=$address Port=$((PORT + 9 + i)) CPUs=$CPUS Boards=1 SocketsPerBoard=1" \
      "CoresPerSocket=$CPUS ThreadsPerCore=1 RealMemory=16000 Gres=gpu:gh200:$GPUS Feature=gh200 State=UNKNOWN"
  done >>"$ETC/slurm.conf"
  cat >>"$ETC/slurm.conf" <<C
PartitionName=booster Nodes=ALL Default=YES MaxTime=24:00:00 DefaultTime=00:30:00 State=UP PriorityTier=10
PartitionName=small Nodes=ALL Default=NO MaxTime=02:00:00 MaxNodes=2 State=UP PriorityTier=10 PreemptMode=OFF
PartitionName=urgent Nodes=ALL Default=NO MaxTime=01:00:00 State=UP PriorityTier=100 PreemptMode=OFF
C
  for ((i = 1; i <= NODES; i++)); do
    echo "NodeName=n$i Name=gpu Type=gh200 File=$BASE/dev/gpu[0-$((GPUS - 1))]"
  done >"$ETC/gres.conf"
  printf 'CgroupAutomount=no\nCgroupPlugin=cgroup/v1\nCgroupMountpoint=/sys/fs/cgroup\n' >"$ETC/cgroup.conf"
  (umask 077 && cat >"$ETC/slurmdbd.conf" <<C
DbdHost=$(hostname -s)
DbdAddr=127.0.0.1
DbdPort=$((PORT + 1))
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket=$BASE/munge/munge.sock
PidFile=$RUN/slurmdbd.pid
LogFile=$LOG/slurmdbd.log
StorageType=accounting_storage/mysql
StorageHost=127.0.0.1
StoragePort=$((PORT + 2))
StorageUser=slurm
StoragePass=slurmtest
StorageLoc=slurm_acct_db
C
  )
  chmod 600 "$ETC/slurmdbd.conf"
}

start_munge() {
  alive "$RUN/munged.pid" && return 0
  rm -f "$BASE/munge/munge.sock"*
  : >"$LOG/munged.log"; chown munge:munge "$LOG/munged.log"
  runuser -u munge -- /usr/sbin/munged --force --num-threads=2 --key-file="$ETC/munge.key" \
    --socket="$BASE/munge/munge.sock" --pid-file="$BASE/munge/munged.pid" --log-file="$LOG/munged.log" \
    --seed-file="$BASE/munge/seed"
  until_ok 5 test -S "$BASE/munge/munge.sock" || die "munged, see $LOG/munged.log"
  cp "$BASE/munge/munged.pid" "$RUN/munged.pid"
}
start_accounting() {
  local client=(mariadb --no-defaults -uroot --socket="$RUN/mysql.sock")
  alive "$RUN/mariadbd.pid" || {
    [[ -d $BASE/db/mysql ]] || mariadb-install-db --no-defaults --user=root --datadir="$BASE/db" --skip-test-db \
      --auth-root-authentication-method=socket >"$LOG/mariadb-install.log" 2>&1 || die "mariadb-install-db"
    setsid mariadbd --no-defaults --user=root --datadir="$BASE/db" --socket="$RUN/mysql.sock" \
      --pid-file="$RUN/mariadbd.pid" --bind-address=127.0.0.1 --port=$((PORT + 2)) --innodb-buffer-pool-size=128M \
      --innodb-log-file-size=48M --innodb-lock-wait-timeout=900 --innodb-flush-log-at-trx-commit=2 \
      --performance-schema=OFF >"$LOG/mariadbd.log" 2>&1 </dev/null &
    until_ok 30 "${client[@]}" -e 'select 1' || die "mariadbd, see $LOG/mariadbd.log"
    "${client[@]}" -e "create database if not exists slurm_acct_db;
      create user if not exists 'slurm'@'127.0.0.1' identified by 'slurmtest';
      create user if not exists 'slurm'@'localhost' identified by 'slurmtest';
      grant all on slurm_acct_db.* to 'slurm'@'127.0.0.1', 'slurm'@'localhost';"
  }
  alive "$RUN/slurmdbd.pid" || {
    slurmdbd </dev/null >>"$LOG/slurmdbd.out" 2>&1
    until_ok 20 sacctmgr -n show cluster || die "slurmdbd, see $LOG/slurmdbd.log"
    sacctmgr -n show cluster format=cluster | grep -qw rltest || sacctmgr -i add cluster rltest >/dev/null
    sacctmgr -n show account format=account | grep -qw testacct ||
      sacctmgr -i add account testacct Description=test Organization=test >/dev/null
    local user; for user in root ${RLAUNCH_SLURM_USERS:-}; do
      sacctmgr -n show assoc where user="$user" account=testacct format=user | grep -qw "$user" ||
        sacctmgr -i add user "$user" Account=testacct >/dev/null
    done
  }
}
start_controller() {
  alive "$RUN/slurmctld.pid" && return 0
  slurmctld -f "$SLURM_CONF" </dev/null >>"$LOG/slurmctld.out" 2>&1
  until_ok 20 scontrol ping || die "slurmctld, see $LOG/slurmctld.log"
}
start_node() {
  alive "$RUN/slurmd.$1.pid" && return 0
  mkdir -p "$BASE/spool/$1"
  # nsenter, not `ip netns exec`: that one mounts /sys anew, and slurmd misses the cgroups
  # shellcheck disable=SC2016 # expanded by the inner sh
  nsenter --net="/run/netns/$SPACE-$1" unshare --uts -- sh -c 'hostname "$0"; exec "$@"' "$1" \
    slurmd -N "$1" -f "$SLURM_CONF" </dev/null >>"$LOG/slurmd.$1.out" 2>&1 || die "slurmd $1, see $LOG/slurmd.$1.log"
}
all_idle() { [[ $(sinfo -h -N -p booster -o '%T' | grep -cE '^(idle|mixed|allocated)$') == "$NODES" ]]; }

up() {
  mkdir -p "$LOG"
  install
  configure
  names
  network
  start_munge
  start_accounting
  start_controller
  local i; for ((i = 1; i <= NODES; i++)); do start_node "n$i"; done
  until_ok 30 all_idle || { sinfo -N -l; die "the nodes are not idle"; }
}
mine() { # PID [NODE]: does it carry this cluster's configuration (and run on that node)?
  local seen
  seen=$(tr '\0' '\n' 2>/dev/null <"/proc/$1/environ") || return 1
  grep -qxF "SLURM_CONF=$SLURM_CONF" <<<"$seen" || return 1
  [[ -z ${2:-} ]] || grep -qx "SLURMD_NODENAME=$2" <<<"$seen" || return 1
  grep -q '^SLURM_JOB_ID=' <<<"$seen" || tr '\0' ' ' 2>/dev/null <"/proc/$1/cmdline" | grep -q '^slurmstepd:'
}
leftovers() { # [NODE]: steps and tasks outlive slurmd on purpose
  local path
  for path in /proc/[0-9]*; do
    [[ ${path#/proc/} == "$$" ]] || ! mine "${path#/proc/}" "${1:-}" || kill -s KILL "${path#/proc/}" 2>/dev/null || true
  done
}
down() {
  local file i
  for file in "$RUN"/slurmd.*.pid "$RUN"/slurmctld.pid; do
    if alive "$file"; then kill "$(<"$file")" 2>/dev/null || true; fi
  done
  leftovers
  for file in "$RUN"/slurmd.*.pid "$RUN"/slurmctld.pid "$RUN"/slurmdbd.pid "$RUN"/mariadbd.pid "$RUN"/munged.pid; do
    [[ -e $file ]] && end "$file"
  done
  names off
  for ((i = 1; i <= 64; i++)); do [[ -e /run/netns/$SPACE-n$i ]] || break
    # a process that gave itself a title (Ray does) has lost its environment, not its network
    ip netns pids "$SPACE-n$i" | xargs -r kill -s KILL 2>/dev/null || true
    ip netns del "$SPACE-n$i"
  done
  ip link del "$BRIDGE" 2>/dev/null || true
}
memory() { # on|off: slurmd reads these when it starts, the controller only compares
  local plugin=none ram=no i
  if [[ $1 == on ]]; then plugin=cgroup ram=yes; fi
  [[ -d /sys/fs/cgroup/memory ]] || die "there is no memory controller of cgroups v1"
  sed -i "s|^TaskPlugin=.*|TaskPlugin=task/$plugin|" "$SLURM_CONF"
  sed -i '/^Constrain/d' "$ETC/cgroup.conf"
  echo "ConstrainRAMSpace=$ram" >>"$ETC/cgroup.conf"
  scontrol reconfigure
  for ((i = 1; i <= NODES; i++)); do
    end "$RUN/slurmd.n$i.pid"
    if [[ $1 == off ]]; then # slurmd leaves its cgroup behind
      find "/sys/fs/cgroup/memory/slurm_n$i" -depth -type d -exec rmdir {} \; 2>/dev/null || true
    fi
    start_node "n$i"
  done
  until_ok 30 all_idle || { sinfo -N -l; die "the nodes are not idle"; }
}
case "${1:-up}" in
  up) up ;;
  down) [[ ! -d $BASE ]] || down ;;
  wipe) [[ ! -d $BASE ]] || down; rm -rf "$BASE" ;;
  env) echo "$SLURM_CONF" ;;
  nodecrash) end "$RUN/slurmd.$2.pid" KILL; leftovers "$2" ;;
  nodestart) start_node "$2" ;;
  ctldown) end "$RUN/slurmctld.pid" ;;
  ctlup) start_controller; until_ok 60 all_idle || { sinfo -N -l; die "the nodes do not answer"; } ;; # later tests need them
  memory) memory "$2" ;;
  *) die "usage: slurm.sh up | down | wipe | env | nodecrash NODE | nodestart NODE | ctldown | ctlup | memory on|off" ;;
esac

#!/usr/bin/env bash
# A private sshd on loopback: own host key, own user key, own configuration; /etc/ssh and ~/.ssh stay as they are.
#
#   sshd.sh up DIR [NAME=VALUE…]    prints the ssh configuration to use, with a host `login`; variables for its sessions
#   sshd.sh down DIR
# RLAUNCH_SSHD_ADDRESS is another address of this machine to listen at.
set -euo pipefail
what=${1:?up or down} base=${2:?a directory}
shift 2
address=${RLAUNCH_SSHD_ADDRESS:-127.0.0.1}
alive() { [[ -s $base/sshd.pid ]] && kill -0 "$(<"$base/sshd.pid")" 2>/dev/null; }
free_port() { python3 -c 'import socket, sys; s = socket.socket(); s.bind((sys.argv[1], 0)); print(s.getsockname()[1])' "$address"; }
case $what in
  up)
    if [[ ! -x /usr/sbin/sshd ]]; then
      apt-get update -qq >/dev/null 2>&1 || true
      DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends openssh-server >/dev/null
    fi
    alive && { echo "$base/ssh_config"; exit 0; }
    mkdir -p "$base" /run/sshd
    chmod 755 "$base"
    [[ -s $base/host ]] || ssh-keygen -q -t ed25519 -N '' -f "$base/host"
    [[ -s $base/id ]] || ssh-keygen -q -t ed25519 -N '' -f "$base/id"
    cp "$base/id.pub" "$base/authorized"
    port=$(free_port)
    echo "[$address]:$port $(cut -d' ' -f1,2 "$base/host.pub")" >"$base/known_hosts"
    cat >"$base/sshd_config" <<C
Port $port
ListenAddress $address
HostKey $base/host
PidFile $base/sshd.pid
AuthorizedKeysFile $base/authorized
StrictModes no
UsePAM no
PasswordAuthentication no
KbdInteractiveAuthentication no
PermitRootLogin prohibit-password
Subsystem sftp internal-sftp
MaxStartups 100:30:200
C
    if (($#)); then echo "SetEnv $*" >>"$base/sshd_config"; fi
    cat >"$base/ssh_config" <<C
Host login
  HostName $address
  Port $port
  User $(id -un)
  IdentityFile $base/id
  IdentitiesOnly yes
  UserKnownHostsFile $base/known_hosts
  StrictHostKeyChecking yes
C
    /usr/sbin/sshd -f "$base/sshd_config" -E "$base/sshd.log"
    for _ in $(seq 50); do alive && break; sleep 0.1; done
    alive
    echo "$base/ssh_config"
    ;;
  down) ! alive || kill "$(<"$base/sshd.pid")"; rm -f "$base/sshd.pid" ;;
  *) echo "usage: sshd.sh up DIR [NAME=VALUE…] | down DIR" >&2; exit 2 ;;
esac

#!/usr/bin/env bash
# A real Apptainer and a small real SIF for tests, in a cache outside the checkout. Needs root and an apt mirror.
#
#   apptainer.sh up     installs both where they are missing; prints the program and the image, one a line
#   apptainer.sh wipe
#
# Debian 12 has no Apptainer: sid's package is unpacked into the cache, with trixie's libc beside it, since it needs
# one symbol of glibc 2.38. The system's own apt sources and libc stay as they are.
set -euo pipefail
BASE=${RLAUNCH_APPTAINER_BASE:-${XDG_CACHE_HOME:-$HOME/.cache}/rlaunch-tests/apptainer}
PREFIX=$BASE/prefix ROOT=$BASE/rootfs SIF=$BASE/base.sif LOG=$BASE/log
KEYRING=/usr/share/keyrings/debian-archive-keyring.gpg
INSIDE="bash coreutils sed grep findutils hostname libc6 libc-bin libcrypt1 libselinux1 libpcre2-8-0 libtinfo6
libncursesw6 libreadline8 libreadline8t64 libstdc++6 libgcc-s1 zlib1g libssl3 libssl3t64 libffi8 liblzma5 libbz2-1.0
libsqlite3-0 libexpat1 libuuid1 libacl1 libattr1 libgmp10 libzstd1"
program=$PREFIX/usr/bin/apptainer

die() { echo "apptainer.sh: $*" >&2; exit 1; }
mirror() {
  if [[ -n ${MIRROR:-} ]]; then echo "$MIRROR"; return; fi
  sed -n 's/^URIs: *//p' /etc/apt/sources.list.d/debian.sources 2>/dev/null | head -1
}
packages() {
  local missing=() package
  for package in "$@"; do dpkg -s "$package" >/dev/null 2>&1 || missing+=("$package"); done
  ((${#missing[@]})) || return 0
  apt-get update -qq >>"$LOG" 2>&1 || true
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >>"$LOG" 2>&1 ||
    die "apt-get failed, see $LOG"
}
program() {
  if command -v apptainer >/dev/null; then program=$(command -v apptainer); return; fi
  if [[ -x $program ]] && "$program" version >/dev/null 2>&1; then return; fi
  packages patchelf squashfs-tools uidmap squashfuse fuse-overlayfs libseccomp2 libsqlite3-0
  local apt=$BASE/apt
  rm -rf "$apt" "$PREFIX"
  mkdir -p "$apt"/{lists/partial,cache/archives/partial,parts,prefs} "$PREFIX"
  : >"$apt/status"
  printf 'deb [signed-by=%s] %s trixie main\ndeb [signed-by=%s] %s sid main\n' "$KEYRING" "$(mirror)" "$KEYRING" "$(mirror)" \
    >"$apt/sources.list"
  cat >"$apt/apt.conf" <<C
Dir::Etc::sourcelist "$apt/sources.list"; Dir::Etc::sourceparts "$apt/parts";
Dir::Etc::preferencesparts "$apt/prefs"; Dir::Etc::preferences "$apt/none";
Dir::State::lists "$apt/lists"; Dir::State::status "$apt/status"; Dir::Cache "$apt/cache";
APT::Sandbox::User "root"; Acquire::Languages "none";
C
  (
    export APT_CONFIG=$apt/apt.conf
    cd "$apt/cache"
    apt-get update -qq && apt-get download -qq apptainer/sid libc6/trixie
  ) >>"$LOG" 2>&1 || die "no Apptainer from $(mirror), see $LOG"
  dpkg-deb -x "$apt"/cache/apptainer_*.deb "$PREFIX"
  mkdir -p "$PREFIX"/{glibc,usr/etc,usr/var/lib/apptainer/mnt/session}
  dpkg-deb -x "$apt"/cache/libc6_*.deb "$PREFIX/glibc"
  cp -a "$PREFIX/etc/." "$PREFIX/usr/etc/"
  rm -rf "${PREFIX:?}/etc" "$apt"
  ln -sfn ../etc "$PREFIX/usr/lib/etc" # the program's prefix is usr, its starter's usr/lib
  ln -sfn ../var "$PREFIX/usr/lib/var"
  local lib=$PREFIX/glibc/usr/lib/x86_64-linux-gnu file
  [[ -d $lib ]] || lib=$PREFIX/glibc/lib/x86_64-linux-gnu
  for file in "$program" "$PREFIX/usr/lib/x86_64-linux-gnu/apptainer/bin/starter"; do
    patchelf --set-interpreter "$lib/ld-linux-x86-64.so.2" --force-rpath --set-rpath "$lib" "$file"
  done
  # root without CAP_SYS_RESOURCE cannot ask for every capability, which is the default
  sed -i 's/^root default capabilities = full/root default capabilities = file/' "$PREFIX/usr/etc/apptainer/apptainer.conf"
  python3 - "$PREFIX/usr/etc/apptainer/capability.json" <<'P'
import json, sys
names = """CHOWN DAC_OVERRIDE DAC_READ_SEARCH FOWNER FSETID KILL SETGID SETUID SETPCAP NET_BIND_SERVICE NET_ADMIN NET_RAW
IPC_LOCK SYS_CHROOT SYS_PTRACE SYS_ADMIN SYS_NICE MKNOD AUDIT_WRITE SETFCAP""".split()
json.dump({"users": {"root": [f"CAP_{name}" for name in names]}}, open(sys.argv[1], "w"))
P
  "$program" version >>"$LOG" 2>&1 || die "the unpacked Apptainer does not start"
}
image() { # Debian without an interpreter: the tests bind the one that runs them. Unpacked, never installed.
  [[ -s $SIF ]] && return 0
  local debs=$BASE/debs package known=()
  rm -rf "$ROOT" "$debs"
  mkdir -p "$ROOT"/{bin,sbin,lib,lib64,usr/bin,usr/sbin,usr/lib,usr/lib64,etc,proc,sys,dev,tmp,var/tmp,root,home,run} "$debs"
  for package in $INSIDE; do apt-cache show "$package" >/dev/null 2>&1 && known+=("$package"); done
  (cd "$debs" && apt-get download -qq "${known[@]}") >>"$LOG" 2>&1 || die "no packages for the image, see $LOG"
  for package in "$debs"/*.deb; do dpkg-deb -x "$package" "$ROOT"; done
  ln -sf bash "$ROOT/bin/sh"
  printf 'root:x:0:0:root:/root:/bin/bash\n' >"$ROOT/etc/passwd"
  printf 'root:x:0:\n' >"$ROOT/etc/group"
  printf 'hosts: files dns\n' >"$ROOT/etc/nsswitch.conf"
  : >"$ROOT/etc/resolv.conf"; : >"$ROOT/etc/hosts"; : >"$ROOT/etc/localtime"
  rm -rf "$ROOT"/usr/share/{doc,man,locale} "${ROOT:?}"/dev/*
  "$program" build --force --mksquashfs-args "-comp lz4" "$SIF.new" "$ROOT" >>"$LOG" 2>&1 || die "build failed, see $LOG"
  mv "$SIF.new" "$SIF"
  rm -rf "$ROOT" "$debs"
}
case "${1:-up}" in
  up)
    mkdir -p "$BASE"
    program
    image
    printf '%s\n' "$program" "$SIF"
    ;;
  wipe) rm -rf "$BASE" ;;
  *) die "usage: apptainer.sh up | wipe" ;;
esac

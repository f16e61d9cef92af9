#!/usr/bin/env bash
# Proves that a stranger's machine is enough: makes a minimal Debian 12 root outside the repository, clones the
# repository's HEAD into it and runs scripts/test.sh and scripts/demo.sh there, then says how long each took.
#
#   scripts/clean_root_test.sh [setup] [test] [demo]     test and demo when none is named
#
# Needs root, git and mmdebstrap (or debootstrap). Mirror, apt and pip settings are those of this machine; host names
# are not printed. CLEAN_ROOT_DIR chooses the parent directory of the root, CLEAN_ROOT_KEEP=1 keeps the root.
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

readonly release=bookworm
readonly minimal=(ca-certificates)  # what any machine with https has
commands=("$@")
[[ $# != 0 ]] || commands=(test demo)
for name in "${commands[@]}"; do
  [[ $name =~ ^(setup|test|demo)$ ]] || die "unknown argument $name; the choices are setup, test and demo"
done
[[ $(id -u) == 0 ]] || die "needs root"

parent=${CLEAN_ROOT_DIR:-${TMPDIR:-/tmp}}
root=$(mktemp -d "$parent/clean-root.XXXXXX")
result_dir=$PWD/out/clean_root
log=$result_dir/root.log
mkdir -p "$result_dir"

clean_up() {
  local point
  for point in dev proc sys; do
    if mountpoint -q "$root/$point"; then umount -l "$root/$point"; fi
  done
  if [[ ${CLEAN_ROOT_KEEP:-0} == 1 ]]; then
    say "kept: $root"
  elif ! grep -q " $root" /proc/mounts; then
    rm -rf --one-file-system "$root"
  fi
}
trap clean_up EXIT

# The sources of this machine that carry the release's main archive, in one-line or deb822 form.
release_sources() {
  grep -lsE "(^|[ /])$release([ -]|$)" /etc/apt/sources.list /etc/apt/sources.list.d/*.{list,sources} 2>/dev/null |
    while read -r file; do
      grep -qE '/debian(-security)?/?( |$)' "$file" && echo "$file"
    done || true
}

main_mirror() {
  local file
  for file in $(release_sources); do
    grep -hoE 'https?://[^ ]+/debian/?( |$)' "$file"
  done | head -n 1 | tr -d ' '
}

make_root() {
  local mirror
  mirror=$(main_mirror)
  [[ -n $mirror ]] || die "no apt source of $release on this machine"
  say "making a minimal Debian 12 root (log in $log)"
  if command -v mmdebstrap >/dev/null; then
    local -a sources
    mapfile -t sources < <(release_sources)
    mmdebstrap --quiet --variant=minbase --include="$(IFS=,; echo "${minimal[*]}")" \
      --aptopt='Acquire::Check-Valid-Until "false"' "$release" "$root" "${sources[@]}" >"$log" 2>&1
  elif command -v debootstrap >/dev/null; then
    debootstrap --variant=minbase --include="$(IFS=,; echo "${minimal[*]}")" "$release" "$root" "$mirror" >"$log" 2>&1
    install -m 644 -t "$root/etc/apt/sources.list.d" $(release_sources)
  else
    die "neither mmdebstrap nor debootstrap is installed"
  fi || die "making the root failed; see $log"
}

# Settings that say how this machine reaches its mirrors: resolver, certificates, apt and pip configuration.
copy_settings() {
  local file
  for file in /etc/resolv.conf /etc/hosts /etc/pip.conf; do
    if [[ -f $file ]]; then cp -L "$file" "$root$file"; fi
  done
  for file in /etc/apt/apt.conf.d/*; do
    if grep -qE 'Acquire|Proxy' "$file"; then cp "$file" "$root/etc/apt/apt.conf.d/"; fi
  done
  mkdir -p "$root/etc/ssl/certs"
  cp -L /etc/ssl/certs/ca-certificates.crt "$root/etc/ssl/certs/"
  env | grep -E '^(PIP_|https?_proxy=|HTTPS?_PROXY=|no_proxy=|NO_PROXY=)' | grep -v '^PIP_FIND_LINKS=' \
    >"$root/root/environment" || true
}

mount_kernel() {
  mount -t proc proc "$root/proc"
  mount --rbind /sys "$root/sys"
  mount --make-rslave "$root/sys"
  mount --rbind /dev "$root/dev"
  mount --make-rslave "$root/dev"
}

# run_in_root NAME: runs scripts/NAME.sh of the clone with nothing of this machine's environment but the settings.
run_in_root() {
  local name=$1 started=$SECONDS status=0
  local -a settings
  mapfile -t settings <"$root/root/environment"
  say "running scripts/$name.sh in the clean root"
  chroot "$root" env -i HOME=/root PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin LANG=C.UTF-8 \
    "${settings[@]}" bash "/root/rl/scripts/$name.sh" >"$result_dir/$name.log" 2>&1 || status=$?
  tail -n 20 "$result_dir/$name.log" |
    sed -E "s|://[^/ ]+|://...|g; s|host='[^']+'|host='...'|g; s|\[IP: [^]]+\]||g"
  echo "scripts/$name.sh: exit status $status after $((SECONDS - started)) s"
  return "$status"
}

make_root
copy_settings
git clone --quiet --no-hardlinks "file://$PWD" "$root/root/rl"
mount_kernel
failed=0
for name in "${commands[@]}"; do
  run_in_root "$name" || failed=1
done
exit "$failed"

#!/usr/bin/env bash
# Proves that a bare Debian 12 machine is enough: makes a minimal root outside the repository,
# clones the repository's HEAD into it, runs scripts/test.sh and scripts/demo.sh there, and prints
# how long each took. `hosts` installs the packages that scripts/release.sh --debian left in
# out/release, with the compilers of the other languages, and runs the examples of each language
# against them: the only files of librl in that root are the installed ones.
#
#   scripts/clean_root_test.sh [setup] [test] [demo] [hosts]     default: test demo
#
# CI=true is set for all of them, so a test that skips because the root lacks something is a
# failure.
#
# Needs root, git and mmdebstrap (or debootstrap). Uses this machine's mirror, apt and pip
# settings; does not print host names. CLEAN_ROOT_DIR chooses the parent directory of the root,
# CLEAN_ROOT_KEEP=1 keeps the root.
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

readonly release=bookworm
readonly minimal=(ca-certificates)  # what any machine with https has
readonly host_packages=(cargo gcc golang-go libc6-dev make pkg-config python3)
commands=("$@")
[[ $# != 0 ]] || commands=(test demo)
for name in "${commands[@]}"; do
  [[ $name =~ ^(setup|test|demo|hosts)$ ]] ||
    die "unknown argument $name; the choices are setup, test, demo and hosts"
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

# The apt sources of this machine that have the release's main archive, in one-line or deb822 form.
release_sources() {
  grep -lsE "(^|[ /])$release([ -]|$)" /etc/apt/sources.list \
    /etc/apt/sources.list.d/*.{list,sources} 2>/dev/null |
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
  say "creating a minimal Debian 12 root (log in $log)"
  if command -v mmdebstrap >/dev/null; then
    local -a sources
    mapfile -t sources < <(release_sources)
    mmdebstrap --quiet --variant=minbase --include="$(IFS=,; echo "${minimal[*]}")" \
      --aptopt='Acquire::Check-Valid-Until "false"' "$release" "$root" "${sources[@]}" >"$log" 2>&1
  elif command -v debootstrap >/dev/null; then
    debootstrap --variant=minbase --include="$(IFS=,; echo "${minimal[*]}")" \
      "$release" "$root" "$mirror" >"$log" 2>&1
    install -m 644 -t "$root/etc/apt/sources.list.d" $(release_sources)
  else
    die "neither mmdebstrap nor debootstrap is installed"
  fi || die "creating the root failed; see $log"
}

# Settings for reaching this machine's mirrors: resolver, certificates, apt and pip configuration.
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
  env | grep -E '^(PIP_|https?_proxy=|HTTPS?_PROXY=|no_proxy=|NO_PROXY=)' |
    grep -v '^PIP_FIND_LINKS=' >"$root/root/environment" || true
}

mount_kernel() {
  mount -t proc proc "$root/proc"
  mount --rbind /sys "$root/sys"
  mount --make-rslave "$root/sys"
  mount --rbind /dev "$root/dev"
  mount --make-rslave "$root/dev"
}

# in_root NAME COMMAND...: runs the command with only the settings from this machine's environment,
# and logs it.
in_root() {
  local name=$1 started=$SECONDS status=0
  local -a settings
  shift
  mapfile -t settings <"$root/root/environment"
  say "running $name in the clean root"
  chroot "$root" env -i HOME=/root LANG=C.UTF-8 DEBIAN_FRONTEND=noninteractive CI=true \
    PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
    "${settings[@]}" "$@" >"$result_dir/$name.log" 2>&1 || status=$?
  tail -n 20 "$result_dir/$name.log" |
    sed -E "s|://[^/ ]+|://...|g; s|host='[^']+'|host='...'|g; s|\[IP: [^]]+\]||g"
  echo "$name: exit status $status after $((SECONDS - started)) s"
  return "$status"
}

# Runs the packages' examples of every language; all must end with the same weights.
run_hosts() {
  local language digests failed=0
  mkdir "$root/root/packages"
  cp out/release/*.deb "$root/root/packages" ||
    die "no packages; run scripts/release.sh --debian first"
  in_root install bash -c "apt-get -q update &&
    apt-get -qy install --no-install-recommends /root/packages/*.deb ${host_packages[*]}" ||
    return 1
  mv "$root/root/rl" "$root/root/sources"
  for language in c go rust python; do
    in_root "$language" sh -c "sh \$(find /usr/share/doc -path '*/examples/run.sh') $language /usr \
      /root/sources/tests/fixtures/gguf/tiny_llama_half.gguf" || failed=1
  done
  digests=$(sed -n 's/^run.sh: .* have the digest //p' "$result_dir"/{c,go,rust,python}.log)
  [[ $(wc -l <<<"$digests") == 4 && $(sort -u <<<"$digests" | wc -l) == 1 ]] ||
    { echo "the digests of C, Go, Rust and Python differ or are missing: $digests"; failed=1; }
  return "$failed"
}

run_script() { in_root "$1" bash "/root/rl/scripts/$1.sh"; }

make_root
copy_settings
git clone --quiet --no-hardlinks "file://$PWD" "$root/root/rl"
mount_kernel
failed=0
for name in "${commands[@]}"; do
  if [[ $name == hosts ]]; then run_hosts || failed=1; else run_script "$name" || failed=1; fi
done
exit "$failed"

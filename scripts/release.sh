#!/usr/bin/env bash
# Builds in Release and packs what cmake --install installs:
# out/release/rl-VERSION-linux-MACHINE.tar.gz and its SHA-256; the path of the archive is the only
# line on stdout. It unpacks anywhere. File times are the time of the commit, or SOURCE_DATE_EPOCH.
# With --debian the packages librlN and librl-dev, librlN-gloo where libgloo-dev is found and
# librlN-cuda where nvcc is, are also built there; that needs dpkg-dev.
# An interface that breaks a rule of abi/POLICY.md is not packed, and of one that is not frozen this
# script says so: freeze it with tools/freeze_abi.py before its first release.
#
#   scripts/release.sh [--debian]
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

case ${1:-} in
  "" | --debian) ;;
  *) die "unknown argument $1; the only choice is --debian" ;;
esac

readonly out=out/release

scripts/setup.sh
python3 tests/abi/released.py check >&2 || [[ $? == 77 ]] || die "see abi/POLICY.md"
build_preset release rl rl_static
if grep -q '^RL_CUDART:' build/release/CMakeCache.txt; then build_preset release rl_cuda; fi
if grep -q '^RL_GLOO_LIBRARY:.*=/' build/release/CMakeCache.txt; then
  build_preset release rl_gloo
fi
: "${SOURCE_DATE_EPOCH:=$(git log -1 --format=%ct)}"
python3 tools/release_tarball.py build/release "$out" "$SOURCE_DATE_EPOCH"

[[ ${1:-} == --debian ]] || exit 0
# A separate build with Debian's directories.
work=$(mktemp -d "$PWD/$out/debian.XXXXXX")
trap 'rm -rf "$work"' EXIT
mkdir "$work/rl"
git archive HEAD | tar -x -C "$work/rl"
cp -r packaging/debian "$work/rl/debian"
say "building the packages (log in $out/debian.log)"
(cd "$work/rl" && dpkg-buildpackage -b -us -uc -d "-j$(jobs_of_machine)") >"$out/debian.log" 2>&1 ||
  { tail -n 30 "$out/debian.log" >&2; die "dpkg-buildpackage failed"; }
mv "$work"/*.deb "$out"
ls "$out"/*.deb

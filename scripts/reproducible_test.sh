#!/usr/bin/env bash
# Proves that builds are reproducible and contain no paths: clones the repository's HEAD into two
# directories with names of different length, builds librl.so and librl.a in each (one with the
# compiler cache if there is one, one without), and compares the files. Prints their digests; exit
# status 1 if they differ or name a directory of this machine.
#
#   scripts/reproducible_test.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

work=$(mktemp -d "${TMPDIR:-/tmp}/reproducible.XXXXXX")
trap 'rm -rf "$work"' EXIT

# build NAME CMAKE_ARGUMENT...: prints the digests of the library and the archive, without their
# paths.
build() {
  local tree=$work/$1
  shift
  git clone --quiet --no-hardlinks "file://$PWD" "$tree"
  if ! { cmake -S "$tree" -B "$tree/build" -G Ninja -DCMAKE_BUILD_TYPE=Release "$@" &&
         cmake --build "$tree/build" --parallel "$(jobs_of_machine)"; } >"$work/log" 2>&1; then
    tail -n 40 "$work/log" >&2
    die "the build of $tree failed"
  fi
  if grep -qaF "$work" "$tree"/build/src/abi/librl.so; then die "librl.so names $work"; fi
  (cd "$tree/build/src/abi" && sha256sum librl.so librl.a)
}

first=$(build one)
second=$(build a_directory_with_a_longer_name/two -DRL_CCACHE=OFF)
printf '%s\n' "$first"
[[ $first == "$second" ]] || die "the second checkout differs: $second"

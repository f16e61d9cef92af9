# Shared by the scripts of this folder: strict mode, the repository root as working directory, and
# one build function. Sourced, never run. Messages go to stderr; stdout belongs to each script's
# result.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

say() { printf '%s\n' "$*" >&2; }
die() { say "$(basename "$0"): $*"; exit 1; }

jobs_of_machine() { nproc; }

# build_preset PRESET [TARGET...]: configures when needed and builds; quiet unless something fails.
build_preset() {
  local preset=$1 log=build/$1.log
  local -a targets=()
  shift
  [[ $# == 0 ]] || targets=(--target "$@")
  mkdir -p build
  say "building build/$preset (log in $log)"
  if ! { cmake --preset "$preset" &&
         cmake --build --preset "$preset" --parallel "$(jobs_of_machine)" "${targets[@]}"; } \
       >"$log" 2>&1; then
    tail -n 60 "$log" >&2
    die "the $preset build failed; the whole log is $log"
  fi
}

#!/usr/bin/env bash
# Sets up, builds and runs the tests; the last line says how many test cases passed, failed and were
# skipped.
#
#   scripts/test.sh              the whole suite in Release (build/release)
#   scripts/test.sh --checked    the suite; then unit tests and the interface under ASan + UBSan
#                                (build/asan), and multithreaded tests under TSan (build/tsan)
#   scripts/test.sh --sanitize   unit tests, the interface and the examples under ASan + UBSan
#                                (build/asan); unit and multithreaded tests under TSan (build/tsan)
#   scripts/test.sh --long       the soak tests in Release
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

mode=${1:-suite}
case $mode in
  suite | --checked | --sanitize | --long) ;;
  *) die "unknown argument $mode; the choices are --checked, --sanitize and --long" ;;
esac
[[ $# -le 1 ]] || die "takes at most one argument"

# Tests on the real model are skipped, with a message, if it is neither cached nor downloadable.
offer_model() {
  if RL_SMOLLM2_GGUF=$(scripts/fetch_model.sh); then
    export RL_SMOLLM2_GGUF
  else
    unset RL_SMOLLM2_GGUF
    say "tests on SmolLM2-135M-Instruct will be skipped"
  fi
}

# run_tests PRESET CTEST_ARGUMENT...: runs ctest and keeps its result file for the summary.
results=()
run_tests() {
  local preset=$1 result=$PWD/build/$1/tests.xml
  shift
  rm -f "$result"
  ctest --preset "$preset" --parallel "$(jobs_of_machine)" --no-tests=error \
    --output-junit "$result" \
    --test-output-size-passed 16000000 --test-output-size-failed 16000000 "$@" || ctest_failed=1
  [[ -f $result ]] || die "ctest wrote no results for $preset"
  results+=("$result")
}
ctest_failed=0

run_suite() {
  build_preset release
  offer_model
  run_tests release --label-exclude long
}

# The argument is a regular expression for labels. Sanitizers run without the real model.
run_asan() {
  ASAN_OPTIONS=halt_on_error=1:detect_leaks=1:strict_string_checks=1 \
    UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1 run_tests asan --label-regex "$1"
}
run_tsan() {
  TSAN_OPTIONS=halt_on_error=1:second_deadlock_stack=1:suppressions=$PWD/tests/support/tsan.supp \
    run_tests tsan --label-regex "$1"
}

scripts/setup.sh
case $mode in
  suite)
    run_suite
    ;;
  --checked)
    run_suite
    unset RL_SMOLLM2_GGUF
    build_preset asan
    run_asan '^(unit|abi)$'
    build_preset tsan tests_threads
    run_tsan '^threads$'
    ;;
  --long)
    build_preset release
    offer_model
    RL_LONG=1 run_tests release --label-regex '^long$'
    ;;
  --sanitize)
    unset RL_SMOLLM2_GGUF
    build_preset asan
    build_preset tsan
    RL_FUZZ_ROUNDS=10000 run_asan '^(unit|abi|examples)$'
    run_tsan '^(unit|threads)$'
    ;;
esac
status=0
python3 tools/test_summary.py "${results[@]}" || status=1
exit $((status | ctest_failed))

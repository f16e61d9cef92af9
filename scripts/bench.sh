#!/usr/bin/env bash
# Measures speed and size on this machine: builds in Release, probes the machine before and after,
# runs the programs of bench/ and writes out/bench.json. Nothing else should run meanwhile.
# docs/benchmarks.md describes each metric.
#
#   scripts/bench.sh            all metrics, medians
#   scripts/bench.sh --quick    one repeat of one small case a program: proves that they run
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

case ${1:-} in
  "" | --quick) ;;
  *) die "unknown argument $1; the only choice is --quick" ;;
esac

readonly programs=build/release/bench
readonly out=out/bench
readonly largest_library=10000000  # bytes, stripped

scripts/setup.sh
build_preset release bench/all rl
model=$(scripts/fetch_model.sh)
mkdir -p "$out"

library=$(find build/release -name librl.so -print -quit)
[[ -n $library ]] || die "the build produced no librl.so"
strip -o "$out/librl.stripped.so" "$library"
printf '{"lib_stripped_bytes": {"value": %d, "unit": "bytes", "at_most": %d}}\n' \
  "$(stat -c %s "$out/librl.stripped.so")" "$largest_library" >"$out/library.json"

"$programs/rl_probe" >"$out/probe_before.json"
"$programs/decode_bench" --model "$model" --out "$out/decode.json" "$@"
"$programs/train_bench" --model "$model" --out "$out/train.json" "$@"
"$programs/async_bench" --model "$model" --out "$out/async.json" "$@"
"$programs/ranks_bench" --model "$model" --out "$out/ranks.json" "$@"
"$programs/rl_probe" >"$out/probe_after.json"
"$programs/host_bench" --model tests/fixtures/models/smollm2 --out "$out/host.json" "$@"
python3 tools/bench_report.py out/bench.json --probe "$out"/probe_{before,after}.json \
  --measured "$out"/{train,decode,async,ranks,host,library}.json --floors bench/floors.json

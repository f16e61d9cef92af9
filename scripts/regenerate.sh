#!/usr/bin/env bash
# Regenerates every generated file of the repository, each with the tool that its test runs. With
# --baseline the current interface and schemas also become the baseline that later ones are
# compared with (abi/baseline, abi/schemas/baseline): use it for additions; needs abigail-tools.
# Review the diff before committing.
#
#   scripts/regenerate.sh [--baseline]
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

case ${1:-} in
  "" | --baseline) ;;
  *) die "unknown argument $1; the only choice is --baseline" ;;
esac

python3 tools/gen_options.py
python3 tools/gen_metrics.py
python3 tests/abi/header.py write
python3 tools/gen_reference.py
python3 tools/gen_rust.py write
python3 tools/gen_go_constants.py
if [[ ${1:-} == --baseline ]]; then
  python3 tests/abi/baseline.py write
  python3 tests/abi/schemas.py write flatc
fi
git status --short >&2

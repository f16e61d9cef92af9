#!/usr/bin/env bash
# Writes every generated file of the repository anew, each by the tool that its test runs. With --baseline the interface
# and the schemas as they are also become what later ones are compared with (abi/baseline, abi/schemas/baseline): that
# is for additions, and needs abigail-tools. Look at the difference before committing it.
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

#!/usr/bin/env bash
# Builds the example programs of one language against an installed librl and runs them: sets up, builds and installs the
# library, moves the installed tree, and builds and runs there with a tiny model. Each program checks its own result.
#
#   scripts/examples.sh c | python        C by make and pkg-config
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

case ${1:-} in
  c) way=make ;;
  python) way=$1 ;;
  *) die "names one language: c or python" ;;
esac

scripts/setup.sh
build_preset release rl rl_static
python3 tests/package/consumers.py "$way" build/release . "out/examples/$1"

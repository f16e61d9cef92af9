#!/usr/bin/env bash
# Regenerates every generated file of the repository, each with the tool that its test runs. What is
# frozen in abi/released is never written: tools/freeze_abi.py adds a version there. Review the diff
# before committing.
#
#   scripts/regenerate.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

[[ $# == 0 ]] || die "unknown argument $1; there are no arguments"

python3 tools/gen_options.py
python3 tools/gen_metrics.py
python3 tests/abi/header.py write
python3 tools/gen_reference.py
python3 tools/gen_rust.py write
python3 tools/gen_go_constants.py
python3 tools/gen_python.py
python3 tools/check_readme.py --write
git status --short >&2

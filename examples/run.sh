#!/bin/sh
# Builds the example programs of a language against an installed librl and runs all of them on a
# model.
#
#   examples/run.sh c|go|python|rust PREFIX [MODEL]
#
# PREFIX is where librl was installed. Without MODEL, a GGUF file or a directory with a tokenizer, a
# tiny model of the tests is used. Everything is made in a directory that is removed at the end. The
# last line is the same for every language but for its name.
set -eu
usage="usage: examples/run.sh c|go|python|rust PREFIX [MODEL]"
language=${1:?$usage}
prefix=$(cd "${2:?$usage}" && pwd)
here=$(cd "$(dirname "$0")" && pwd)
model=${3:-$here/../tests/fixtures/gguf/tiny_llama_half.gguf}

description=$(find "$prefix" -name rl.pc | head -n 1)
if [ -z "$description" ]; then
  echo "run.sh: no rl.pc under $prefix" >&2
  exit 1
fi
PKG_CONFIG_PATH=$(dirname "$description")
export PKG_CONFIG_PATH
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT

case $language in
  c)
    make -s -C "$out" -f "$here/c/Makefile" VPATH="$here/c"
    programs=$out
    ;;
  go)
    # The module asks for nothing but Go itself: nothing is fetched.
    export GOPROXY=off GOFLAGS=-mod=mod
    export GOCACHE="${GOCACHE:-$out/cache}" GOPATH="${GOPATH:-$out/path}"
    libdir=$(pkg-config --variable=libdir rl)
    (cd "$here/go" &&
      CGO_LDFLAGS="-Wl,-rpath,$(cd "$libdir" && pwd)" go build -o "$out/bin/" ./cmd/...)
    programs=$out/bin
    ;;
  rust)
    # The manifest asks for nothing but std: no crate is fetched.
    CARGO_TARGET_DIR=$out cargo build -q --offline --locked --manifest-path "$here/rust/Cargo.toml"
    programs=$out/debug
    ;;
  python)
    RL_LIBRARY=$(find "$prefix" -name 'librl.so.*' | head -n 1)
    PYTHONPATH=$here/../bindings/python
    export RL_LIBRARY PYTHONPATH
    for name in 1_hello 2_generate 3_train_step 4_grpo 5_tools; do
      ln -s "$here/python/$name.py" "$out/$name"
    done
    programs=$out
    ;;
  *)
    echo "$usage" >&2
    exit 2
    ;;
esac

for a in 1 2 3 4 5 6 7 8; do
  echo "{\"prompt\": \"$a + 1?\", \"tag\": \"$((a + 1))\"}"
done >"$out/rows.jsonl"
"$programs/1_hello" engine.block_size
"$programs/2_generate" "$model" "2 + 3?"
"$programs/3_train_step" "$model"
"$programs/5_tools" "$model"
# No answer of the tiny model is right: it learns from the entropy bonus alone.
"$programs/4_grpo" --model "$model" --data "$out/rows.jsonl" --eval "$out/rows.jsonl" \
  --steps 2 --out "$out/run" \
  --set pipeline.prompts_per_step=2 --set pipeline.samples_per_prompt=4 \
  --set sampling.max_new_tokens=8 --set eval.max_new_tokens=4 --set algo.entropy_coef=0.01
digest=$(sed -n 's/.*"weight_digest": "\([0-9a-f]*\)".*/\1/p' "$out/run/summary.json")
echo "run.sh: all programs of $language succeeded;" \
  "the weights trained by 4_grpo have the digest $digest"

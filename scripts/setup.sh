#!/usr/bin/env bash
# Ensures that everything the build needs is installed. On Debian 12 missing packages are installed
# with apt-get; on other systems the missing tools and headers are listed and the exit status is 1.
# Does nothing if nothing is missing.
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

packages() { grep -v '^#' scripts/debian-packages.txt; }

is_debian_12() {
  [[ -r /etc/os-release ]] || return 1
  (. /etc/os-release && [[ ${ID:-} == debian && ${VERSION_ID:-} == 12 ]])
}

missing_packages() {
  local name
  for name in $(packages); do
    [[ $(dpkg-query -W -f '${db:Status-Status}' "$name" 2>/dev/null || true) == installed ]] ||
      echo "$name"
  done
}

install_packages() {
  local -a as_root=()
  if [[ $(id -u) != 0 ]]; then
    command -v sudo >/dev/null || die "not root and no sudo; install these packages: $*"
    as_root=(sudo)
  fi
  say "installing: $*"
  "${as_root[@]}" apt-get -q update >&2
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
    apt-get -q install -y --no-install-recommends "$@" >&2
}

compiles() {  # compiles HEADER: true when the C++ compiler finds it.
  printf '#include <%s>\n' "$1" | c++ -std=c++20 -fsyntax-only -x c++ - 2>/dev/null
}

# Lists every missing tool, header and Python module; installs nothing.
report_missing() {
  local -a missing=()
  local name
  for name in cmake ninja c++ flatc make pkg-config python3 unzip; do
    command -v "$name" >/dev/null || missing+=("program $name")
  done
  if command -v c++ >/dev/null; then
    for name in dnnl.h hwy/highway.h tbb/task_arena.h zstd.h utf8proc.h \
                flatbuffers/flatbuffers.h nlohmann/json.hpp gtest/gtest.h benchmark/benchmark.h; do
      compiles "$name" || missing+=("header $name")
    done
    printf '#define PCRE2_CODE_UNIT_WIDTH 8\n#include <pcre2.h>\n' |
      c++ -std=c++20 -fsyntax-only -x c++ - 2>/dev/null || missing+=("header pcre2.h")
    printf '#include <dnnl.h>\n#if DNNL_VERSION_MAJOR != 2\n#error\n#endif\n' |
      c++ -std=c++20 -fsyntax-only -x c++ - 2>/dev/null ||
      missing+=("oneDNN with the v2 API (2.6.3 or a later 2.x)")
  fi
  if command -v python3 >/dev/null; then
    for name in pip yaml; do
      python3 -c "import $name" 2>/dev/null || missing+=("Python module $name")
    done
  fi
  [[ ${#missing[@]} == 0 ]] && return 0
  say "this is not Debian 12, so nothing is installed; missing here:"
  printf '  %s\n' "${missing[@]}" >&2
  say "on Debian 12 the packages are listed in scripts/debian-packages.txt"
  return 1
}

if is_debian_12; then
  mapfile -t absent < <(missing_packages)
  if [[ ${#absent[@]} != 0 ]]; then install_packages "${absent[@]}"; fi
else
  report_missing
fi

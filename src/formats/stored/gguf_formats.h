// The element formats of GGUF tensors by their number in the file. One that cannot be read is known
// by name and size, so that the file's layout is checked and the error names it.
#pragma once
#include <cstdint>
#include <optional>
#include <string>

#include "formats/stored/stored_type.h"

namespace rl {

struct GgufFormat {
  uint32_t number;
  BlockLayout layout;
  std::optional<StoredType> type;  // empty: cannot be read

  constexpr GgufFormat(uint32_t in_file, StoredType readable)
      : number(in_file), layout(block_layout(readable)), type(readable) {}
  constexpr GgufFormat(uint32_t in_file, BlockLayout other) : number(in_file), layout(other) {}
};

const GgufFormat* find_gguf_format(uint32_t number);  // nullptr when there is none
std::string readable_gguf_formats();                  // "F32, F16, BF16, ..."

}  // namespace rl

// GGUF tensor formats by their number in the file. Unreadable formats are known by name and size,
// so that the file's layout can be checked and the error can name them.
#pragma once
#include <cstdint>
#include <optional>
#include <string>

#include "formats/stored/stored_type.h"

namespace rl {

struct GgufFormat {
  uint32_t number;
  BlockLayout layout;
  std::optional<StoredType> type;  // empty: not readable

  constexpr GgufFormat(uint32_t in_file, StoredType readable)
      : number(in_file), layout(block_layout(readable)), type(readable) {}
  constexpr GgufFormat(uint32_t in_file, BlockLayout other) : number(in_file), layout(other) {}
};

const GgufFormat* find_gguf_format(uint32_t number);  // nullptr if unknown
std::string readable_gguf_formats();                  // "F32, F16, BF16, ..."

}  // namespace rl

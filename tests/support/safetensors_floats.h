// The numbers of a safetensors file in fp32, in the order of the file.
#pragma once
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

namespace rl::testing {

inline std::vector<float> floats_of(const std::string& safetensors) {
  uint64_t header = 0;
  std::memcpy(&header, safetensors.data(), sizeof header);
  const size_t begin = sizeof header + static_cast<size_t>(header);
  std::vector<float> out((safetensors.size() - begin) / sizeof(float));
  std::memcpy(out.data(), safetensors.data() + begin, out.size() * sizeof(float));
  return out;
}

}  // namespace rl::testing

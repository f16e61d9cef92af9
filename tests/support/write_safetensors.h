// A .safetensors file of fp32 tensors for tests.
#pragma once
#include <cstdint>
#include <fstream>
#include <string>
#include <vector>

#include "core/error.h"
#include "core/function_ref.h"
#include "formats/model_config.h"

namespace rl::testing {

// Writes path; values(tensor) returns the tensor's elements, called in the order of the list.
inline void write_safetensors(const std::string& path, const std::vector<TensorInfo>& tensors,
                              FunctionRef<std::vector<float>(const TensorInfo&)> values) {
  std::string header = "{", data;
  for (const TensorInfo& t : tensors) {
    const size_t begin = data.size();
    const std::vector<float> v = values(t);
    data.append(reinterpret_cast<const char*>(v.data()), v.size() * sizeof(float));
    header += str(begin == 0 ? "" : ",", "\"", t.name,
                  "\":{\"dtype\":\"F32\",\"shape\":", shape_text(t.shape), ",\"data_offsets\":[",
                  begin, ",", data.size(), "]}");
  }
  header += "}";
  const uint64_t header_bytes = header.size();
  std::ofstream out(path, std::ios::binary);
  out.write(reinterpret_cast<const char*>(&header_bytes), sizeof header_bytes);
  out << header << data;
}

}  // namespace rl::testing

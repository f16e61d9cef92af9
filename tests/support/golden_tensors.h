// Reads golden .safetensors files in tests: every dtype the goldens use, widened to double. The
// input is trusted.
#pragma once
#include <cstdint>
#include <cstring>
#include <fstream>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <type_traits>
#include <vector>

#include "core/dtype.h"

namespace rl::testing {

struct GoldenTensor {
  std::vector<int64_t> shape;
  std::vector<double> values;
};

class GoldenTensors {
 public:
  explicit GoldenTensors(const std::string& path) {
    std::ifstream in(path, std::ios::binary);
    data_.assign(std::istreambuf_iterator<char>(in), {});
    uint64_t header_bytes = 0;
    std::memcpy(&header_bytes, data_.data(), 8);
    header_ = nlohmann::json::parse(data_.substr(8, header_bytes));
    start_ = 8 + header_bytes;
  }
  bool has(const std::string& name) const { return header_.contains(name); }
  GoldenTensor get(const std::string& name) const {
    const auto& info = header_.at(name);
    GoldenTensor t;
    t.shape = info.at("shape").get<std::vector<int64_t>>();
    const char* from = data_.data() + start_ + info.at("data_offsets")[0].get<uint64_t>();
    const uint64_t bytes =
        info.at("data_offsets")[1].get<uint64_t>() - info.at("data_offsets")[0].get<uint64_t>();
    const std::string dtype = info.at("dtype");
    if (dtype == "F32")
      widen<float>(from, bytes, t);
    else if (dtype == "F64")
      widen<double>(from, bytes, t);
    else if (dtype == "I32")
      widen<int32_t>(from, bytes, t);
    else if (dtype == "BF16")
      widen<bf16>(from, bytes, t);
    else
      throw std::runtime_error("golden dtype " + dtype);
    return t;
  }
  std::vector<int32_t> ids(const std::string& name) const {
    const GoldenTensor t = get(name);
    return {t.values.begin(), t.values.end()};
  }
  std::vector<std::string> names() const {
    std::vector<std::string> out;
    for (const auto& [name, info] : header_.items())
      if (name != "__metadata__") out.push_back(name);
    return out;
  }

 private:
  template <typename T>
  static double as_double(T v) {
    if constexpr (std::is_same_v<T, bf16>)
      return to_float(v);
    else
      return static_cast<double>(v);
  }
  template <typename T>
  static void widen(const char* from, uint64_t bytes, GoldenTensor& t) {
    std::vector<T> raw(bytes / sizeof(T));
    std::memcpy(raw.data(), from, bytes);
    for (const T v : raw) t.values.push_back(as_double(v));
  }
  std::string data_;
  nlohmann::json header_;
  uint64_t start_ = 0;
};

}  // namespace rl::testing

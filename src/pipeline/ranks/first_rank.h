// What the first of several ranks alone can find out, such as what is in a store: it looks, and all
// of them have what it found. An error of it is the error of all. The ranks make the calls
// together, at the same places of their loops or when their pipelines are made; one rank looks for
// itself.
#pragma once
#include <cstddef>
#include <cstring>
#include <string>
#include <type_traits>
#include <vector>

#include "core/function_ref.h"
#include "pipeline/ranks/shared_inputs.h"

namespace rl {

class FirstRank {
 public:
  FirstRank() = default;  // one rank
  explicit FirstRank(const SharedInputs& ranks) : ranks_(ranks) {}

  bool alone() const { return ranks_.alone(); }
  bool leads() const { return ranks_.leads(); }  // this is the first rank
  // find() is called on the first rank alone. What it throws is thrown on the others too, with the
  // same code, and names the rank.
  std::vector<std::byte> tell_bytes(FunctionRef<std::vector<std::byte>()> find) const;
  std::string tell_text(FunctionRef<std::string()> find) const;
  template <typename T>
  T tell(FunctionRef<T()> find) const {
    static_assert(std::is_trivially_copyable_v<T>);
    if (alone()) return find();
    T value{};
    const std::vector<std::byte> bytes = tell_bytes([&] {
      value = find();
      std::vector<std::byte> out(sizeof(T));
      std::memcpy(out.data(), &value, sizeof(T));
      return out;
    });
    require_size(bytes, sizeof(T));
    std::memcpy(&value, bytes.data(), sizeof(T));
    return value;
  }
  void run(FunctionRef<void()> work) const;
  // Whether one of the ranks says so.
  bool any(bool own) const { return alone() ? own : ranks_.any(own); }

 private:
  static void require_size(const std::vector<std::byte>& bytes, size_t size);

  const SharedInputs ranks_;
};

}  // namespace rl

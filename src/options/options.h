// The option registry. Every option of the library is one row of a table generated from
// abi/options.yml; an OptionSet holds one value per row. Setters check key, type and range
// immediately and never coerce or clamp; validate_all checks combinations by the table of
// option_rules.h. Not thread-safe: one owner.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "core/error.h"

namespace rl {

// Numbers are part of the ABI.
enum class OptionType : int32_t {
  kBool = 1,
  kI64 = 2,
  kU64 = 3,
  kF64 = 4,
  kString = 5,
  kEnum = 6,
  kDurationNs = 7,
  kBytes = 8,
  kStringList = 9,
  kI64List = 10,
};

// The latest moment at which a value may change.
enum class OptionWhen : int32_t { kCreate = 1, kBetweenSteps = 2, kAnyTime = 3 };

// Whose value an object must have.
enum class OptionParent : uint8_t { kNone, kRuntime, kModel };

struct OptionChoice {
  const char* name;
  const char* doc;
};

// One side of a range, in the type of the option. For list options it bounds the elements.
struct OptionBound {
  bool present = false;
  bool inclusive = true;
  int64_t i64 = 0;   // i64, duration_ns, i64_list
  uint64_t u64 = 0;  // u64, bytes
  double f64 = 0;    // f64
};

// A row of the table. Texts are static and never null.
struct OptionInfo {
  const char* key;
  OptionType type;
  const char* default_text;  // as set_text reads it
  OptionBound min;
  OptionBound max;
  bool power_of_two;
  bool not_empty;
  const OptionChoice* choices;
  size_t num_choices;
  const char* unit;
  const char* doc;
  const char* since;
  OptionWhen when;
  bool affects_determinism;
  bool needs_gpu;
  bool pipeline_only;              // refused if the host runs its own loop
  OptionParent same_as;            // objects made from it have its value
  const char* unsupported_reason;  // if not empty: only the default is accepted, for this reason
  const char* source;
};

size_t option_count();
// Rows in key order; kOutOfRange beyond the count.
const OptionInfo& option_at(size_t index);
// Null if no option has this key.
const OptionInfo* find_option(std::string_view key);
// Like find_option, but an unknown key is kUnknownOption with up to three nearest keys.
const OptionInfo& require_option(std::string_view key);
// Up to three valid keys near a wrong one, nearest first.
std::vector<std::string> nearest_options(std::string_view key);
// The same for any set of names.
std::vector<std::string> nearest_names(std::string_view wrong, std::vector<std::string> names);
// "integer 16..128, a power of two": what a setter accepts.
std::string option_expectation(const OptionInfo& info);
const char* option_type_name(OptionType type);

using OptionVariant = std::variant<bool, int64_t, uint64_t, double, std::string,
                                   std::vector<std::string>, std::vector<int64_t>>;

// A value of any type. If copying runs out of memory, GCC 12's variant destroys an object that it
// has not constructed; constructing in place avoids that.
class OptionValue : public OptionVariant {
 public:
  using OptionVariant::OptionVariant;
  OptionValue() = default;
  OptionValue(const OptionValue& other)
      : OptionVariant(std::visit([](const auto& v) { return in_place(v); }, other.base())) {}
  OptionValue(OptionValue&&) noexcept = default;
  OptionValue& operator=(const OptionValue& other) { return *this = OptionValue(other); }
  OptionValue& operator=(OptionValue&&) noexcept = default;
  const OptionVariant& base() const { return *this; }

 private:
  template <typename T>
  static OptionVariant in_place(const T& value) {
    return OptionVariant(std::in_place_type<T>, value);
  }
};

class OptionSet {
 public:
  OptionSet();  // all defaults

  // Integer options (i64, u64, duration_ns, bytes) accept either integer setter; there are no other
  // conversions.
  void set_bool(std::string_view key, bool value);
  void set_i64(std::string_view key, int64_t value);
  void set_u64(std::string_view key, uint64_t value);
  void set_f64(std::string_view key, double value);
  void set_string(std::string_view key, std::string_view value);  // string and enum options
  void set_string_list(std::string_view key, std::vector<std::string> values);
  void set_i64_list(std::string_view key, std::vector<int64_t> values);
  // The value as text, for command lines: true, 12, 3e-6, 30s, 2GiB, a\,b,c (list elements are
  // separated by commas; the escapes are \, \\ \n \t).
  void set_text(std::string_view key, std::string_view text);
  // "key=value".
  void set_assignment(std::string_view assignment);
  // A value in the representation of the option's own type.
  void set_value(std::string_view key, OptionValue value);
  // Applies all settings of a preset, or none; an unknown name is kNotFound with the nearest ones.
  void apply_preset(std::string_view name);

  bool get_bool(std::string_view key) const;
  int64_t get_i64(std::string_view key) const;  // kOutOfRange if a u64 does not fit
  uint64_t get_u64(std::string_view key) const;
  double get_f64(std::string_view key) const;
  const std::string& get_string(std::string_view key) const;
  const std::vector<std::string>& get_string_list(std::string_view key) const;
  const std::vector<int64_t>& get_i64_list(std::string_view key) const;
  std::string get_text(std::string_view key) const;
  const OptionValue& get_value(std::string_view key) const { return slot(key); }

  bool is_default(std::string_view key) const;
  void unset(std::string_view key);
  // Keys whose values differ, in key order.
  std::vector<std::string> diff(const OptionSet& other) const;
  // Lines "key=value" with the values of other where they differ: applied to this set they yield
  // other.
  std::string diff_text(const OptionSet& other) const;

  // Every violated combination as Error(kConflict) naming both keys; empty when valid.
  std::vector<Error> validate_all() const;
  // Throws the violations as one error.
  void validate() const;

  // Lines "key=value" in key order: all options, or only those that differ from their default.
  std::string dump(bool only_changed) const;
  // Digest of the options that a run's bits depend on.
  uint64_t identity() const;
  // The same without the layout of ranks, which a run that is resumed may change: parallel.* but
  // for parallel.reduction_parts, and comm.reduction_order.
  uint64_t identity_of_any_layout() const;

 private:
  uint64_t identity_with(bool layout) const;
  // A slot for writing.
  OptionValue& slot(std::string_view key, const OptionInfo** info);
  const OptionValue& slot(std::string_view key) const;
  std::vector<OptionValue> values_;  // one per table row
};

// kConflict for each option that must be the parent's and is not; made: as in "the runtime was made
// with".
std::vector<Error> parent_violations(const OptionSet& options, const OptionSet& of_parent,
                                     OptionParent parent, const char* made);

// kNotChangeable unless the option may change at this moment.
void require_changeable(const OptionInfo& info, OptionWhen moment);

}  // namespace rl

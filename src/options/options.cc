// Typed access to the values of an option set.
#include "options/options.h"

#include <limits>
#include <utility>

#include "core/hash.h"
#include "options/option_text.h"

namespace rl {
namespace {

const std::vector<OptionValue>& default_values() {
  static const std::vector<OptionValue>* const values = [] {
    auto* list = new std::vector<OptionValue>;
    for (size_t i = 0; i < option_count(); ++i) {
      list->push_back(parse_option(option_at(i), option_at(i).default_text));
    }
    return list;
  }();
  return *values;
}

size_t index_of(const OptionInfo& info) { return static_cast<size_t>(&info - option_table().rows); }

Error given_wrong_type(const OptionInfo& info, const char* given) {
  return Error(Code::kWrongType,
               str(info.key, " has type ", option_type_name(info.type), "; ", given, " was given"))
      .with_key(info.key)
      .with_expected(option_expectation(info));
}

// Replaces the old value only if the new one is valid. Normalises -0 to 0, so that equal sets have
// one text.
void store(OptionValue& target, const OptionInfo& info, OptionValue value) {
  check_option(info, value);
  if (double* const number = std::get_if<double>(&value); number != nullptr && *number == 0) {
    *number = 0;
  }
  target = std::move(value);
}

template <typename T>
const T& typed(std::string_view key, const OptionValue& value, const char* wanted) {
  if (const T* v = std::get_if<T>(&value)) return *v;
  const OptionInfo& info = require_option(key);
  throw Error(Code::kWrongType,
              str(info.key, " has type ", option_type_name(info.type), "; it was read as ", wanted))
      .with_key(info.key)
      .with_expected(option_expectation(info));
}

}  // namespace

OptionSet::OptionSet() : values_(default_values()) {}

OptionValue& OptionSet::slot(std::string_view key, const OptionInfo** info) {
  *info = &require_option(key);
  return values_[index_of(**info)];
}

const OptionValue& OptionSet::slot(std::string_view key) const {
  return values_[index_of(require_option(key))];
}

void OptionSet::set_bool(std::string_view key, bool value) {
  const OptionInfo* info;
  OptionValue& target = slot(key, &info);
  if (!std::holds_alternative<bool>(target)) throw given_wrong_type(*info, "a bool");
  store(target, *info, value);
}

void OptionSet::set_i64(std::string_view key, int64_t value) {
  const OptionInfo* info;
  OptionValue& target = slot(key, &info);
  if (std::holds_alternative<int64_t>(target)) return store(target, *info, value);
  if (!std::holds_alternative<uint64_t>(target)) throw given_wrong_type(*info, "an integer");
  if (value < 0) {
    throw Error(Code::kOutOfRange, str(info->key, " is ", value, ", expected at least 0"))
        .with_key(info->key)
        .with_expected(option_expectation(*info));
  }
  store(target, *info, static_cast<uint64_t>(value));
}

void OptionSet::set_u64(std::string_view key, uint64_t value) {
  const OptionInfo* info;
  OptionValue& target = slot(key, &info);
  if (std::holds_alternative<uint64_t>(target)) return store(target, *info, value);
  if (!std::holds_alternative<int64_t>(target)) throw given_wrong_type(*info, "an integer");
  if (!std::in_range<int64_t>(value)) {
    throw Error(Code::kOutOfRange, str(info->key, " is ", value, ", expected at most ",
                                       std::numeric_limits<int64_t>::max()))
        .with_key(info->key)
        .with_expected(option_expectation(*info));
  }
  store(target, *info, static_cast<int64_t>(value));
}

void OptionSet::set_f64(std::string_view key, double value) {
  const OptionInfo* info;
  OptionValue& target = slot(key, &info);
  if (!std::holds_alternative<double>(target)) throw given_wrong_type(*info, "a number");
  store(target, *info, value);
}

void OptionSet::set_string(std::string_view key, std::string_view value) {
  const OptionInfo* info;
  OptionValue& target = slot(key, &info);
  if (!std::holds_alternative<std::string>(target)) throw given_wrong_type(*info, "a string");
  store(target, *info, std::string(value));
}

void OptionSet::set_string_list(std::string_view key, std::vector<std::string> values) {
  const OptionInfo* info;
  OptionValue& target = slot(key, &info);
  if (!std::holds_alternative<std::vector<std::string>>(target)) {
    throw given_wrong_type(*info, "a list of strings");
  }
  store(target, *info, std::move(values));
}

void OptionSet::set_i64_list(std::string_view key, std::vector<int64_t> values) {
  const OptionInfo* info;
  OptionValue& target = slot(key, &info);
  if (!std::holds_alternative<std::vector<int64_t>>(target)) {
    throw given_wrong_type(*info, "a list of integers");
  }
  store(target, *info, std::move(values));
}

void OptionSet::set_text(std::string_view key, std::string_view text) {
  const OptionInfo* info;
  OptionValue& target = slot(key, &info);
  store(target, *info, parse_option(*info, text));
}

void OptionSet::set_assignment(std::string_view assignment) {
  const size_t equals = assignment.find('=');
  if (equals == std::string_view::npos) {
    throw Error(Code::kInvalidArgument,
                str("\"", assignment.substr(0, 200), "\" is not of the form key=value"));
  }
  set_text(assignment.substr(0, equals), assignment.substr(equals + 1));
}

void OptionSet::set_value(std::string_view key, OptionValue value) {
  const OptionInfo* info;
  OptionValue& target = slot(key, &info);
  if (value.index() != target.index()) throw given_wrong_type(*info, "a value of another type");
  store(target, *info, std::move(value));
}

bool OptionSet::get_bool(std::string_view key) const {
  return typed<bool>(key, slot(key), "a bool");
}

int64_t OptionSet::get_i64(std::string_view key) const {
  const OptionValue& value = slot(key);
  const uint64_t* const u = std::get_if<uint64_t>(&value);
  if (u == nullptr) return typed<int64_t>(key, value, "an integer");
  if (std::in_range<int64_t>(*u)) return static_cast<int64_t>(*u);
  throw Error(Code::kOutOfRange, str(key, " is ", *u, ", which is too large for a signed integer"))
      .with_key(std::string(key));
}

uint64_t OptionSet::get_u64(std::string_view key) const {
  const OptionValue& value = slot(key);
  const int64_t* const i = std::get_if<int64_t>(&value);
  if (i == nullptr) return typed<uint64_t>(key, value, "an integer");
  if (*i >= 0) return static_cast<uint64_t>(*i);
  throw Error(Code::kOutOfRange, str(key, " is ", *i, ", which is negative"))
      .with_key(std::string(key));
}

double OptionSet::get_f64(std::string_view key) const {
  return typed<double>(key, slot(key), "a number");
}
const std::string& OptionSet::get_string(std::string_view key) const {
  return typed<std::string>(key, slot(key), "a string");
}
const std::vector<std::string>& OptionSet::get_string_list(std::string_view key) const {
  return typed<std::vector<std::string>>(key, slot(key), "a list of strings");
}
const std::vector<int64_t>& OptionSet::get_i64_list(std::string_view key) const {
  return typed<std::vector<int64_t>>(key, slot(key), "a list of integers");
}
std::string OptionSet::get_text(std::string_view key) const { return format_option(slot(key)); }

bool OptionSet::is_default(std::string_view key) const {
  const size_t index = index_of(require_option(key));
  return values_[index] == default_values()[index];
}

void OptionSet::unset(std::string_view key) {
  const OptionInfo* info;
  OptionValue& target = slot(key, &info);
  target = default_values()[index_of(*info)];
}

std::vector<std::string> OptionSet::diff(const OptionSet& other) const {
  std::vector<std::string> keys;
  for (size_t i = 0; i < values_.size(); ++i) {
    if (values_[i] != other.values_[i]) keys.emplace_back(option_at(i).key);
  }
  return keys;
}

std::string OptionSet::diff_text(const OptionSet& other) const {
  std::string out;
  for (const std::string& key : diff(other)) out += str(key, "=", other.get_text(key), "\n");
  return out;
}

std::string OptionSet::dump(bool only_changed) const {
  std::string out;
  for (size_t i = 0; i < values_.size(); ++i) {
    if (only_changed && values_[i] == default_values()[i]) continue;
    out += str(option_at(i).key, "=", format_option(values_[i]), "\n");
  }
  return out;
}

namespace {

// The default of a newer option is what earlier versions did, so their runs keep their identity.
bool is_new(const OptionInfo& info) { return std::string_view(info.since) != "0.1.0"; }

}  // namespace

namespace {

// How ranks divide models and add up, which the steps of another run may do otherwise.
bool is_layout(std::string_view key) {
  if (key == "comm.reduction_order") return true;
  return key.starts_with("parallel.") && key != "parallel.reduction_parts";
}

}  // namespace

uint64_t OptionSet::identity() const { return identity_with(true); }

uint64_t OptionSet::identity_of_any_layout() const { return identity_with(false); }

uint64_t OptionSet::identity_with(bool layout) const {
  Digest64 digest;
  for (size_t i = 0; i < values_.size(); ++i) {
    const OptionInfo& info = option_at(i);
    if (!info.affects_determinism) continue;
    if (!layout && is_layout(info.key)) continue;
    if (is_new(info) && values_[i] == default_values()[i]) continue;
    digest.update(str(info.key, "=", format_option(values_[i]), "\n"));
  }
  return digest.value();
}

std::vector<Error> parent_violations(const OptionSet& options, const OptionSet& of_parent,
                                     OptionParent parent, const char* made) {
  std::vector<Error> out;
  for (size_t i = 0; i < option_count(); ++i) {
    const OptionInfo& info = option_at(i);
    if (info.same_as != parent) continue;
    const std::string theirs = options.get_text(info.key), mine = of_parent.get_text(info.key);
    if (mine == theirs) continue;
    out.push_back(
        Error(Code::kConflict, str(info.key, " is '", theirs, "' but ", made, " '", mine, "'"))
            .with_key(info.key)
            .with_expected(mine));
  }
  return out;
}

}  // namespace rl

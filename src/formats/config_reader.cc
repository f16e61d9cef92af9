// Type and range checks of single values.
#include "formats/config_reader.h"

#include <algorithm>

namespace rl {

ConfigReader::ConfigReader(const Json& object, const std::string& path, std::string pointer)
    : object_(object), path_(path), pointer_(std::move(pointer)) {
  if (!object.is_object())
    fail(Code::kWrongType, "", str("is ", object.type_name(), ", not an object"));
}

const ConfigReader::Json* ConfigReader::find(const char* key) const {
  const auto it = object_.find(key);
  return it == object_.end() || it->is_null() ? nullptr : &*it;
}

bool ConfigReader::has(const char* key) const { return object_.contains(key); }

const ConfigReader::Json& ConfigReader::require(const char* key) const {
  const Json* v = find(key);
  if (v == nullptr) fail(Code::kDataLoss, key, "is missing");
  return *v;
}

int64_t ConfigReader::integer(const char* key) const { return to_integer(key, require(key)); }

std::optional<int64_t> ConfigReader::optional_integer(const char* key) const {
  const Json* v = find(key);
  return v == nullptr ? std::nullopt : std::optional(to_integer(key, *v));
}

std::optional<double> ConfigReader::optional_number(const char* key) const {
  const Json* v = find(key);
  if (v == nullptr) return std::nullopt;
  if (!v->is_number()) fail(Code::kWrongType, key, str("is ", v->type_name(), ", not a number"));
  return v->get<double>();
}

double ConfigReader::number(const char* key) const {
  require(key);
  return *optional_number(key);
}

bool ConfigReader::boolean(const char* key, bool otherwise) const {
  const Json* v = find(key);
  if (v == nullptr) return otherwise;
  if (!v->is_boolean()) fail(Code::kWrongType, key, str("is ", v->type_name(), ", not a boolean"));
  return v->get<bool>();
}

std::optional<std::string> ConfigReader::optional_text(const char* key) const {
  const Json* v = find(key);
  if (v == nullptr) return std::nullopt;
  if (!v->is_string()) fail(Code::kWrongType, key, str("is ", v->type_name(), ", not a string"));
  return v->get<std::string>();
}

ConfigReader ConfigReader::object(const char* key) const {
  return {require(key), path_, where(key)};
}

int64_t ConfigReader::to_integer(const char* key, const Json& v) const {
  if (!v.is_number_integer())
    fail(Code::kWrongType, key, str("is ", v.type_name(), ", not an integer"));
  if (v.is_number_unsigned() && !std::in_range<int64_t>(v.get<uint64_t>())) {
    fail(Code::kOutOfRange, key, str("is ", v.get<uint64_t>(), ", above 2^63-1"));
  }
  return v.get<int64_t>();
}

void ConfigReader::unsupported(const char* key, const std::string& seen,
                               std::string expected) const {
  throw Error(Code::kUnsupported,
              str(path_, ": ", where(key), " is ", seen.substr(0, 200), "; supported: ", expected))
      .with_key(key)
      .with_expected(std::move(expected))
      .with_location(str(path_, " ", where(key)));
}

void ConfigReader::fail(Code code, const char* key, const std::string& what) const {
  throw Error(code, str(path_, ": ", where(key), " ", what))
      .with_key(key)
      .with_location(str(path_, " ", where(key)));
}

void ConfigReader::refuse_unless(bool supported, const char* key, const char* expected) const {
  if (supported) return;
  const Json* v = find(key);
  unsupported(key, v ? v->dump(-1, ' ', true, Json::error_handler_t::replace) : "null", expected);
}

void ConfigReader::refuse_true(std::initializer_list<const char*> keys) const {
  for (const char* key : keys) refuse_unless(!boolean(key, false), key, "false");
}

void ConfigReader::refuse_present(std::initializer_list<const char*> keys) const {
  for (const char* key : keys) refuse_unless(find(key) == nullptr, key, "null");
}

void ConfigReader::refuse_others(std::initializer_list<const char*> known) const {
  for (const auto& [key, value] : object_.items()) {
    const bool listed =
        std::any_of(known.begin(), known.end(), [&](const char* k) { return key == k; });
    if (!listed) refuse_unless(value.is_null(), key.c_str(), "null");
  }
}

std::string ConfigReader::where(const char* key) const {
  return *key == 0 && pointer_.empty() ? "/" : str(pointer_, "/", key);
}

}  // namespace rl

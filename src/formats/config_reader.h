// One object of a config.json, read key by key, each with its required type. Errors name the file
// and the JSON pointer. As in transformers, null means absent unless noted otherwise.
#pragma once
#include <cstdint>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>

#include "core/error.h"

namespace rl {

class ConfigReader {
 public:
  using Json = nlohmann::json;
  // object and path must outlive the reader.
  ConfigReader(const Json& object, const std::string& path, std::string pointer);

  const Json* find(const char* key) const;  // null if absent or null
  bool has(const char* key) const;          // true even if null
  const Json& require(const char* key) const;
  int64_t integer(const char* key) const;
  std::optional<int64_t> optional_integer(const char* key) const;
  std::optional<double> optional_number(const char* key) const;
  double number(const char* key) const;
  bool boolean(const char* key, bool otherwise) const;
  std::optional<std::string> optional_text(const char* key) const;
  ConfigReader object(const char* key) const;
  int64_t to_integer(const char* key, const Json& value) const;

  // Error(kUnsupported) for a key whose value this library does not implement.
  [[noreturn]] void unsupported(const char* key, const std::string& seen,
                                std::string expected) const;
  [[noreturn]] void fail(Code code, const char* key, const std::string& what) const;
  // Calls unsupported() with the value in the file, unless the condition holds.
  void refuse_unless(bool supported, const char* key, const char* expected) const;
  void refuse_true(std::initializer_list<const char*> keys) const;
  void refuse_present(std::initializer_list<const char*> keys) const;  // null counts as absent
  // Error(kUnsupported) if the object has a key that is not listed.
  void refuse_others(std::initializer_list<const char*> known) const;

 private:
  std::string where(const char* key) const;
  const Json& object_;
  const std::string& path_;
  std::string pointer_;
};

}  // namespace rl

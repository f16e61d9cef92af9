// Every function of rl.h as data: what its parameters are and how to call it with words. The rows
// are generated from the header and abi/functions.yml (calls.py), so no function can be left out.
#pragma once
#include <cstdint>
#include <string_view>
#include <vector>

#include "rl.h"

namespace abi_test {

// One argument. Which member holds it follows from Parameter::is.
union Word {
  void* pointer;
  void (*function)();
  uint64_t integer;
  double real;
};

enum class Is {
  kHandle,
  kOutHandle,
  kIn,   // text or an array
  kOut,  // a number, a text or an array of them
  kStructIn,
  kStructOut,
  kFunction,
  kUserData,
  kInteger,
  kReal,
  kError  // rl_error **err
};

struct Parameter {
  const char* name;
  const char* c_type;  // as in the header
  Is is;
  const char* type;  // handle type or struct behind it, else empty
  bool may_be_null;
  size_t bytes;        // of a struct, or of one element behind kOut
  size_t first_bytes;  // of a struct in the first release
};

struct Row {
  const char* name;
  const char* result;  // C type
  bool callback_safe;
  bool has_status;  // and rl_error **err
  std::vector<Parameter> parameters;
  uint64_t (*call)(const Word* arguments);  // the status, or another result as bits

  bool is_pointer(size_t i) const {
    const Is is = parameters[i].is;
    return is != Is::kInteger && is != Is::kReal;
  }
  bool ends_with(std::string_view end) const { return std::string_view(name).ends_with(end); }
  bool ends_a_handle() const { return ends_with("_destroy") || ends_with("_release"); }
};

inline const std::vector<Row>& rows() {
  static const std::vector<Row> all = {
#include "calls.inc"
  };
  return all;
}

}  // namespace abi_test

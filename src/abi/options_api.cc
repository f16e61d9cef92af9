// Option sets: single values. The whole set is in option_set_api.cc.
#include <utility>

#include "abi/arguments.h"
#include "abi/bytes.h"
#include "abi/guard.h"

using namespace rl;
using namespace rl::abi;

namespace {

// Runs set(OptionSet&, key) on the options behind a handle.
template <typename F>
rl_status change(rl_options* options, const char* key, size_t key_len, rl_error** err, F&& set) {
  return guarded(err, options, [&] {
    const auto box = use(options, "options");
    const std::string_view name = name_arg(key, key_len, "key");
    box->with([&](OptionSet& values) { set(values, name); });
  });
}

// The value as the host's struct has it.
void fill(rl_option_value& out, const OptionSet& set, std::string_view key) {
  out.type = static_cast<int32_t>(require_option(key).type);
  out.is_default = set.is_default(key) ? 1 : 0;
  const OptionValue& value = set.get_value(key);
  if (const auto* truth = std::get_if<bool>(&value)) {
    out.i64 = *truth ? 1 : 0;
    out.u64 = *truth ? 1 : 0;
  } else if (const auto* i = std::get_if<int64_t>(&value)) {
    out.i64 = *i;
    out.u64 = *i >= 0 ? static_cast<uint64_t>(*i) : 0;
  } else if (const auto* u = std::get_if<uint64_t>(&value)) {
    out.u64 = *u;
    out.i64 = std::in_range<int64_t>(*u) ? static_cast<int64_t>(*u) : 0;
  } else if (const auto* f = std::get_if<double>(&value)) {
    out.f64 = *f;
  } else if (const auto* texts = std::get_if<std::vector<std::string>>(&value)) {
    out.num_items = texts->size();
  } else if (const auto* numbers = std::get_if<std::vector<int64_t>>(&value)) {
    out.num_items = numbers->size();
  }
}

}  // namespace

extern "C" {

rl_status rl_options_set_bool(rl_options* options, const char* key, size_t key_len, uint32_t value,
                              rl_error** err) {
  return change(options, key, key_len, err, [&](OptionSet& set, std::string_view name) {
    set.set_bool(name, bool_arg(value, "value"));
  });
}

rl_status rl_options_set_i64(rl_options* options, const char* key, size_t key_len, int64_t value,
                             rl_error** err) {
  return change(options, key, key_len, err,
                [&](OptionSet& set, std::string_view name) { set.set_i64(name, value); });
}

rl_status rl_options_set_u64(rl_options* options, const char* key, size_t key_len, uint64_t value,
                             rl_error** err) {
  return change(options, key, key_len, err,
                [&](OptionSet& set, std::string_view name) { set.set_u64(name, value); });
}

rl_status rl_options_set_f64(rl_options* options, const char* key, size_t key_len, double value,
                             rl_error** err) {
  return change(options, key, key_len, err,
                [&](OptionSet& set, std::string_view name) { set.set_f64(name, value); });
}

rl_status rl_options_set_string(rl_options* options, const char* key, size_t key_len,
                                const char* value, size_t value_len, rl_error** err) {
  return change(options, key, key_len, err, [&](OptionSet& set, std::string_view name) {
    set.set_string(name, text_arg(value, value_len, "value"));
  });
}

rl_status rl_options_set_string_list(rl_options* options, const char* key, size_t key_len,
                                     const char* const* values, const size_t* lens, size_t count,
                                     rl_error** err) {
  return change(options, key, key_len, err, [&](OptionSet& set, std::string_view name) {
    check_array(values, count, sizeof(*values), "values");
    std::vector<std::string> list;
    for (size_t i = 0; i < count; ++i) list.emplace_back(text_at(values, lens, i, "values"));
    set.set_string_list(name, std::move(list));
  });
}

rl_status rl_options_set_i64_list(rl_options* options, const char* key, size_t key_len,
                                  const int64_t* values, size_t count, rl_error** err) {
  return change(options, key, key_len, err, [&](OptionSet& set, std::string_view name) {
    const auto list = array_arg(values, count, "values");
    set.set_i64_list(name, {list.begin(), list.end()});
  });
}

rl_status rl_options_set_text(rl_options* options, const char* key, size_t key_len,
                              const char* text, size_t text_len, rl_error** err) {
  return change(options, key, key_len, err, [&](OptionSet& set, std::string_view name) {
    set.set_text(name, text_arg(text, text_len, "text"));
  });
}

void rl_option_value_init(rl_option_value* value, size_t size) {
  init_struct(value, size, sizeof(*value));
}

rl_status rl_options_get(const rl_options* options, const char* key, size_t key_len,
                         rl_option_value* value, rl_bytes** text, rl_error** err) {
  clear_result(value);
  clear(text);
  return guarded(err, options, [&] {
    const auto box = use(options, "options");
    const std::string_view name = name_arg(key, key_len, "key");
    rl_option_value& out = result_struct(value, "value");
    rl_option_value found{};
    std::string written;
    box->with([&](const OptionSet& set) {
      fill(found, set, name);
      written = set.get_text(name);
    });
    if (text != nullptr) *text = make_bytes(std::move(written));
    found.struct_size = out.struct_size;
    out = found;
  });
}

rl_status rl_options_unset(rl_options* options, const char* key, size_t key_len, rl_error** err) {
  return change(options, key, key_len, err,
                [](OptionSet& set, std::string_view name) { set.unset(name); });
}

}  // extern "C"

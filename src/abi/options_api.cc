// Option sets: single values. The whole set is in option_set_api.cc.
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

// Writes get(OptionSet, key) to out.
template <typename T, typename F>
rl_status read(const rl_options* options, const char* key, size_t key_len, T* out, rl_error** err,
               F&& get) {
  clear(out);
  return guarded(err, options, [&] {
    const auto box = use(options, "options");
    const std::string_view name = name_arg(key, key_len, "key");
    require(out, "out");
    *out = box->with([&](OptionSet& values) -> T { return get(values, name); });
  });
}

// Element `index` of a list option.
template <typename List>
const auto& element(const List& list, size_t index) {
  check_index(index, list.size());
  return list[index];
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

rl_status rl_options_set_assignment(rl_options* options, const char* text, size_t text_len,
                                    rl_error** err) {
  return guarded(err, options, [&] {
    const auto box = use(options, "options");
    const std::string_view assignment = text_arg(text, text_len, "text");
    box->with([&](OptionSet& set) { set.set_assignment(assignment); });
  });
}

rl_status rl_options_get_bool(const rl_options* options, const char* key, size_t key_len,
                              uint32_t* out, rl_error** err) {
  return read(options, key, key_len, out, err,
              [](OptionSet& set, std::string_view name) { return set.get_bool(name) ? 1 : 0; });
}

rl_status rl_options_get_i64(const rl_options* options, const char* key, size_t key_len,
                             int64_t* out, rl_error** err) {
  return read(options, key, key_len, out, err,
              [](OptionSet& set, std::string_view name) { return set.get_i64(name); });
}

rl_status rl_options_get_u64(const rl_options* options, const char* key, size_t key_len,
                             uint64_t* out, rl_error** err) {
  return read(options, key, key_len, out, err,
              [](OptionSet& set, std::string_view name) { return set.get_u64(name); });
}

rl_status rl_options_get_f64(const rl_options* options, const char* key, size_t key_len,
                             double* out, rl_error** err) {
  return read(options, key, key_len, out, err,
              [](OptionSet& set, std::string_view name) { return set.get_f64(name); });
}

rl_status rl_options_get_string(const rl_options* options, const char* key, size_t key_len,
                                rl_bytes** out, rl_error** err) {
  return read(options, key, key_len, out, err, [](OptionSet& set, std::string_view name) {
    return make_bytes(set.get_string(name));
  });
}

rl_status rl_options_get_list_size(const rl_options* options, const char* key, size_t key_len,
                                   size_t* out, rl_error** err) {
  return read(options, key, key_len, out, err, [](OptionSet& set, std::string_view name) {
    const bool texts = require_option(name).type == OptionType::kStringList;
    return texts ? set.get_string_list(name).size() : set.get_i64_list(name).size();
  });
}

rl_status rl_options_get_list_string(const rl_options* options, const char* key, size_t key_len,
                                     size_t index, rl_bytes** out, rl_error** err) {
  return read(options, key, key_len, out, err, [&](OptionSet& set, std::string_view name) {
    return make_bytes(element(set.get_string_list(name), index));
  });
}

rl_status rl_options_get_list_i64(const rl_options* options, const char* key, size_t key_len,
                                  size_t index, int64_t* out, rl_error** err) {
  return read(options, key, key_len, out, err, [&](OptionSet& set, std::string_view name) {
    return element(set.get_i64_list(name), index);
  });
}

rl_status rl_options_get_text(const rl_options* options, const char* key, size_t key_len,
                              rl_bytes** out, rl_error** err) {
  return read(options, key, key_len, out, err,
              [](OptionSet& set, std::string_view name) { return make_bytes(set.get_text(name)); });
}

rl_status rl_options_is_default(const rl_options* options, const char* key, size_t key_len,
                                uint32_t* out, rl_error** err) {
  return read(options, key, key_len, out, err,
              [](OptionSet& set, std::string_view name) { return set.is_default(name) ? 1 : 0; });
}

rl_status rl_options_unset(rl_options* options, const char* key, size_t key_len, rl_error** err) {
  return change(options, key, key_len, err,
                [](OptionSet& set, std::string_view name) { set.unset(name); });
}

}  // extern "C"

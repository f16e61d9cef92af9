// Option sets as a whole: lifetime, comparison, documents, digests.
#include "abi/arguments.h"
#include "abi/bytes.h"
#include "abi/guard.h"
#include "options/options_flatbuffer.h"
#include "options/options_json.h"

using namespace rl;
using namespace rl::abi;

namespace {

rl_options* make_options(OptionSet set) {
  return issue<rl_options>(std::make_shared<OptionsBox>(std::move(set)));
}

// Writes get(a copy of the set) to out.
template <typename T, typename F>
rl_status query(const rl_options* options, T* out, rl_error** err, F&& get) {
  clear(out);
  return guarded(err, options, [&] {
    const auto box = use(options, "options");
    require(out, "out");
    *out = get(box->copy());
  });
}

// The same for a text of all options or only the changed ones.
template <typename F>
rl_status write(const rl_options* options, uint32_t only_changed, rl_bytes** out, rl_error** err,
                F&& text) {
  return query(options, out, err, [&](const OptionSet& set) {
    return make_bytes(text(set, bool_arg(only_changed, "only_changed")));
  });
}

// Changes the set behind a handle.
template <typename F>
rl_status change(rl_options* options, rl_error** err, F&& f) {
  return guarded(err, options, [&] { use(options, "options")->with(f); });
}

}  // namespace

extern "C" {

rl_status rl_options_create(rl_options** out, rl_error** err) {
  clear(out);
  return guarded(err, nullptr, [&] {
    require(out, "out");
    *out = make_options(OptionSet());
  });
}

rl_status rl_options_clone(const rl_options* options, rl_options** out, rl_error** err) {
  clear(out);
  return guarded(err, options, [&] {
    const auto box = use(options, "options");
    require(out, "out");
    *out = make_options(box->copy());
  });
}

void rl_options_destroy(rl_options* options) { destroy(options); }

rl_status rl_options_freeze(rl_options* options, rl_error** err) {
  return change(options, err, [](OptionSet& set) { set.freeze(); });
}

rl_status rl_options_is_frozen(const rl_options* options, uint32_t* out, rl_error** err) {
  clear(out);
  return guarded(err, options, [&] {
    const auto box = use(options, "options");
    require(out, "out");
    *out = box->with([](OptionSet& set) { return set.frozen() ? 1 : 0; });
  });
}

rl_status rl_options_apply_preset(rl_options* options, const char* name, size_t name_len,
                                  rl_error** err) {
  return change(options, err,
                [&](OptionSet& set) { set.apply_preset(name_arg(name, name_len, "name")); });
}

rl_status rl_options_validate(const rl_options* options, rl_error** err) {
  return guarded(err, options, [&] { use(options, "options")->copy().validate(); });
}

rl_status rl_options_dump(const rl_options* options, uint32_t only_changed, rl_bytes** out,
                          rl_error** err) {
  return write(options, only_changed, out, err,
               [](const OptionSet& set, bool changed) { return set.dump(changed); });
}

rl_status rl_options_diff(const rl_options* options, const rl_options* other, rl_bytes** out,
                          rl_error** err) {
  return query(options, out, err, [&](const OptionSet& set) {
    return make_bytes(set.diff_text(use(other, "other")->copy()));
  });
}

rl_status rl_options_export_json(const rl_options* options, uint32_t only_changed, rl_bytes** out,
                                 rl_error** err) {
  return write(options, only_changed, out, err, [](const OptionSet& set, bool changed) {
    return options_to_json(set, changed, RL_VERSION_TEXT);
  });
}

rl_status rl_options_export_flatbuffer(const rl_options* options, uint32_t only_changed,
                                       rl_bytes** out, rl_error** err) {
  return write(options, only_changed, out, err, [](const OptionSet& set, bool changed) {
    return options_to_flatbuffer(set, changed, RL_VERSION_TEXT);
  });
}

rl_status rl_options_import_json(rl_options* options, const char* text, size_t text_len,
                                 rl_error** err) {
  return change(options, err, [&](OptionSet& set) {
    set = options_from_json(text_arg(text, text_len, "text"), set);
  });
}

rl_status rl_options_import_flatbuffer(rl_options* options, const void* data, size_t size,
                                       rl_error** err) {
  return change(options, err, [&](OptionSet& set) {
    const auto bytes = array_arg(static_cast<const std::byte*>(data), size, "data");
    set = options_from_flatbuffer(bytes, set);
  });
}

rl_status rl_options_hash(const rl_options* options, uint64_t* out, rl_error** err) {
  return query(options, out, err, [](const OptionSet& set) { return set.hash(); });
}

rl_status rl_options_identity(const rl_options* options, uint64_t* out, rl_error** err) {
  return query(options, out, err, [](const OptionSet& set) { return set.identity(); });
}

}  // extern "C"

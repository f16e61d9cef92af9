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

std::string exported(const OptionSet& set, int32_t format, bool only_changed) {
  switch (format) {
    case RL_FORMAT_TEXT:
      return set.dump(only_changed);
    case RL_FORMAT_JSON:
      return options_to_json(set, only_changed, RL_VERSION_TEXT);
    case RL_FORMAT_FLATBUFFER:
      return options_to_flatbuffer(set, only_changed, RL_VERSION_TEXT);
    default:
      refuse("format", str("is ", format, ", expected RL_FORMAT_TEXT to RL_FORMAT_FLATBUFFER"));
  }
}

// The set with the values of a document.
OptionSet imported(const OptionSet& set, int32_t format, const void* data, size_t size) {
  switch (format) {
    case RL_FORMAT_TEXT:
      throw Error(Code::kUnsupported,
                  "parameter format is RL_FORMAT_TEXT, which is for people; a document is "
                  "RL_FORMAT_JSON or RL_FORMAT_FLATBUFFER")
          .with_key("format");
    case RL_FORMAT_JSON:
      return options_from_json(text_arg(static_cast<const char*>(data), size, "data"), set);
    case RL_FORMAT_FLATBUFFER:
      return options_from_flatbuffer(array_arg(static_cast<const std::byte*>(data), size, "data"),
                                     set);
    default:
      refuse("format", str("is ", format, ", expected RL_FORMAT_JSON or RL_FORMAT_FLATBUFFER"));
  }
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

rl_status rl_options_apply_preset(rl_options* options, const char* name, size_t name_len,
                                  rl_error** err) {
  return change(options, err,
                [&](OptionSet& set) { set.apply_preset(name_arg(name, name_len, "name")); });
}

rl_status rl_options_validate(const rl_options* options, rl_error** err) {
  return guarded(err, options, [&] { use(options, "options")->copy().validate(); });
}

rl_status rl_options_export(const rl_options* options, int32_t format, uint32_t only_changed,
                            rl_bytes** out, rl_error** err) {
  return query(options, out, err, [&](const OptionSet& set) {
    return make_bytes(exported(set, format, bool_arg(only_changed, "only_changed")));
  });
}

rl_status rl_options_import(rl_options* options, int32_t format, const void* data, size_t size,
                            rl_error** err) {
  return change(options, err, [&](OptionSet& set) { set = imported(set, format, data, size); });
}

rl_status rl_options_identity(const rl_options* options, uint64_t* out, rl_error** err) {
  return query(options, out, err, [](const OptionSet& set) { return set.identity(); });
}

}  // extern "C"

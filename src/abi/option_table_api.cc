// The option table and the presets.
#include "abi/arguments.h"
#include "abi/guard.h"
#include "options/option_rules.h"

using namespace rl;
using namespace rl::abi;

namespace {

uint64_t flags_of(const OptionInfo& row) {
  uint64_t flags = 0;
  if (row.min.present) flags |= RL_OPTION_HAS_MIN;
  if (row.min.present && !row.min.inclusive) flags |= RL_OPTION_MIN_OPEN;
  if (row.max.present) flags |= RL_OPTION_HAS_MAX;
  if (row.max.present && !row.max.inclusive) flags |= RL_OPTION_MAX_OPEN;
  if (row.power_of_two) flags |= RL_OPTION_POWER_OF_TWO;
  if (row.affects_determinism) flags |= RL_OPTION_DETERMINISM;
  if (row.needs_gpu) flags |= RL_OPTION_NEEDS_GPU;
  if (row.not_empty) flags |= RL_OPTION_NOT_EMPTY;
  return flags;
}

void fill(rl_option_info& info, const OptionInfo& row) {
  info.key = row.key;
  info.default_text = row.default_text;
  info.unit = row.unit;
  info.doc = row.doc;
  info.since = row.since;
  info.source = row.source;
  info.unsupported_reason = row.unsupported_reason;
  info.type = static_cast<int32_t>(row.type);
  info.when = static_cast<int32_t>(row.when);
  info.flags = flags_of(row);
  info.min_i64 = row.min.i64;
  info.max_i64 = row.max.i64;
  info.min_u64 = row.min.u64;
  info.max_u64 = row.max.u64;
  info.min_f64 = row.min.f64;
  info.max_f64 = row.max.f64;
  info.num_choices = row.num_choices;
}

}  // namespace

extern "C" {

void rl_option_info_init(rl_option_info* info, size_t size) {
  init_struct(info, size, sizeof(*info));
}

size_t rl_option_count(void) { return option_count(); }

rl_status rl_option_at(size_t index, rl_option_info* info, rl_error** err) {
  clear_result(info);
  return guarded(err, nullptr, [&] {
    rl_option_info& out = result_struct(info, "info");
    check_index(index, option_count());
    fill(out, option_at(index));
  });
}

rl_status rl_option_find(const char* key, size_t key_len, rl_option_info* info, rl_error** err) {
  clear_result(info);
  return guarded(err, nullptr, [&] {
    rl_option_info& out = result_struct(info, "info");
    fill(out, require_option(name_arg(key, key_len, "key")));
  });
}

rl_status rl_option_choice(const char* key, size_t key_len, size_t index, const char** name,
                           const char** doc, rl_error** err) {
  clear(name);
  clear(doc);
  return guarded(err, nullptr, [&] {
    require(name, "name");
    require(doc, "doc");
    const OptionInfo& row = require_option(name_arg(key, key_len, "key"));
    check_index(index, row.num_choices);
    *name = row.choices[index].name;
    *doc = row.choices[index].doc;
  });
}

size_t rl_preset_count(void) { return option_presets().count; }

rl_status rl_preset_at(size_t index, const char** name, const char** doc, rl_error** err) {
  clear(name);
  clear(doc);
  return guarded(err, nullptr, [&] {
    require(name, "name");
    require(doc, "doc");
    check_index(index, option_presets().count);
    const OptionPreset& preset = option_presets().rows[index];
    *name = preset.name;
    *doc = preset.doc;
  });
}

}  // extern "C"

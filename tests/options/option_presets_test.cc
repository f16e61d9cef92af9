// The table of presets: every one is a valid set of its own.
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "options/option_rules.h"
#include "options/options.h"
#include "support/expect_error.h"

namespace rl {
namespace {

TEST(OptionPresets, EveryOneIsAValidSetThatOverwritesItsKeysOnly) {
  const OptionPresets presets = option_presets();
  ASSERT_GT(presets.count, 0u);
  for (size_t i = 0; i < presets.count; ++i) {
    const OptionPreset& preset = presets.rows[i];
    SCOPED_TRACE(preset.name);
    EXPECT_NE(std::string(preset.doc), "");
    OptionSet set;
    set.set_f64("optimizer.lr", 0.5);
    set.apply_preset(preset.name);
    set.validate();
    std::set<std::string> named = {"optimizer.lr"};
    for (size_t s = 0; s < preset.num_settings; ++s) {
      const PresetSetting& setting = preset.settings[s];
      EXPECT_EQ(set.get_text(setting.key), setting.value);
      named.insert(setting.key);
    }
    for (const std::string& key : OptionSet().diff(set)) EXPECT_TRUE(named.count(key)) << key;
    EXPECT_GT(OptionSet().diff(set).size(), 1u);
  }
}

TEST(OptionPresets, WhatIsAtMostOnlyLowers) {
  const OptionPreset& preset = require_preset("low_memory");
  for (size_t s = 0; s < preset.num_settings; ++s) {
    const PresetSetting& setting = preset.settings[s];
    if (!setting.at_most) continue;
    SCOPED_TRACE(setting.key);
    OptionSet set;
    set.set_text(setting.key, setting.value);
    const int64_t limit = set.get_i64(setting.key);
    const auto applied = [&](int64_t before) {
      OptionSet changed;
      changed.set_i64(setting.key, before);
      changed.apply_preset("low_memory");
      return changed.get_i64(setting.key);
    };
    EXPECT_EQ(applied(limit + 1), limit);
    EXPECT_EQ(applied(limit), limit);
    if (limit > 1) {
      EXPECT_EQ(applied(limit - 1), limit - 1);
    }
  }
  OptionSet whole;
  whole.set_i64("trainer.logprob_chunk_tokens", 0);  // a micro-batch as one chunk
  whole.apply_preset("low_memory");
  EXPECT_EQ(whole.get_i64("trainer.logprob_chunk_tokens"), 64);
}

TEST(OptionPresets, AnUnknownNameSuggestsTheNearest) {
  OptionSet set;
  const Error error = expect_error(Code::kNotFound, [&] { set.apply_preset("low_memry"); });
  EXPECT_EQ(error.nearest, std::vector<std::string>{"low_memory"});
  EXPECT_TRUE(contains(error.message, "low_memory"));
  EXPECT_EQ(set.dump(true), "");
}

}  // namespace
}  // namespace rl

// Options, errors and library information through rl.h.
#include <cstring>

#include "abi/host.h"

namespace abi_test {
namespace {

struct Options {
  Options() { EXPECT_RL_OK(rl_options_create(&handle, &err)); }
  ~Options() { rl_options_destroy(handle); }
  rl_options* handle = nullptr;
};

std::string take(rl_bytes* bytes) {
  std::string text(static_cast<const char*>(rl_bytes_data(bytes)), rl_bytes_size(bytes));
  rl_bytes_release(bytes);
  return text;
}

TEST(AbiOptions, EveryOptionRoundTripsThroughText) {
  const Options a, b;
  for (size_t i = 0; i < rl_option_count(); ++i) {
    rl_option_info info;
    rl_option_info_init(&info, sizeof info);
    EXPECT_RL_OK(rl_option_at(i, &info, &err));
    SCOPED_TRACE(info.key);
    rl_bytes *first = nullptr, *second = nullptr;
    EXPECT_RL_OK(rl_options_get_text(a.handle, info.key, RL_NUL_TERMINATED, &first, &err));
    set(b.handle, info.key, static_cast<const char*>(rl_bytes_data(first)));
    EXPECT_RL_OK(rl_options_get_text(b.handle, info.key, RL_NUL_TERMINATED, &second, &err));
    EXPECT_EQ(take(first), take(second));
    uint32_t is_default = 0;
    EXPECT_RL_OK(rl_options_is_default(b.handle, info.key, RL_NUL_TERMINATED, &is_default, &err));
    EXPECT_EQ(is_default, 1u);
  }
  uint64_t x = 0, y = 1;
  EXPECT_RL_OK(rl_options_identity(a.handle, &x, &err));
  EXPECT_RL_OK(rl_options_identity(b.handle, &y, &err));
  EXPECT_EQ(x, y);
}

TEST(AbiOptions, TypedSettersReadBack) {
  const Options o;
  const char* const stops[] = {"a,b", "c"};
  const size_t lens[] = {3, 1};
  const int64_t ids[] = {7, 8};
  EXPECT_RL_OK(rl_options_set_bool(o.handle, "data.shuffle", RL_NUL_TERMINATED, 0, &err));
  EXPECT_RL_OK(rl_options_set_i64(o.handle, "runtime.threads", RL_NUL_TERMINATED, 3, &err));
  EXPECT_RL_OK(rl_options_set_u64(o.handle, "runtime.seed", RL_NUL_TERMINATED, 1u << 31, &err));
  EXPECT_RL_OK(rl_options_set_f64(o.handle, "optimizer.lr", RL_NUL_TERMINATED, 2e-5, &err));
  EXPECT_RL_OK(rl_options_set_string(o.handle, "model.path", RL_NUL_TERMINATED, "/a,b=c", 6, &err));
  EXPECT_RL_OK(rl_options_set_string_list(o.handle, "sampling.stop", RL_NUL_TERMINATED, stops, lens,
                                          2, &err));
  EXPECT_RL_OK(rl_options_set_i64_list(o.handle, "sampling.stop_token_ids", RL_NUL_TERMINATED, ids,
                                       2, &err));
  EXPECT_RL_OK(rl_options_set_assignment(o.handle, "engine.block_size=64", 20, &err));
  uint32_t shuffle = 1;
  int64_t threads = 0, block = 0;
  uint64_t seed = 0;
  double lr = 0;
  rl_bytes *path = nullptr, *dump = nullptr;
  EXPECT_RL_OK(rl_options_get_bool(o.handle, "data.shuffle", RL_NUL_TERMINATED, &shuffle, &err));
  EXPECT_RL_OK(rl_options_get_i64(o.handle, "runtime.threads", RL_NUL_TERMINATED, &threads, &err));
  EXPECT_RL_OK(rl_options_get_i64(o.handle, "engine.block_size", RL_NUL_TERMINATED, &block, &err));
  EXPECT_RL_OK(rl_options_get_u64(o.handle, "runtime.seed", RL_NUL_TERMINATED, &seed, &err));
  EXPECT_RL_OK(rl_options_get_f64(o.handle, "optimizer.lr", RL_NUL_TERMINATED, &lr, &err));
  EXPECT_RL_OK(rl_options_get_string(o.handle, "model.path", RL_NUL_TERMINATED, &path, &err));
  EXPECT_RL_OK(rl_options_dump(o.handle, 1, &dump, &err));
  EXPECT_EQ(shuffle, 0u);
  EXPECT_EQ(threads, 3);
  EXPECT_EQ(block, 64);
  EXPECT_EQ(seed, 1u << 31);
  EXPECT_EQ(lr, 2e-5);
  EXPECT_EQ(take(path), "/a,b=c");
  const std::string text = take(dump);
  EXPECT_NE(text.find("sampling.stop=a\\,b,c"), std::string::npos) << text;
  EXPECT_NE(text.find("sampling.stop_token_ids=7,8"), std::string::npos) << text;
  EXPECT_EQ(text.find("optimizer.beta1"), std::string::npos) << text;
}

TEST(AbiOptions, ListsReadBackElementByElement) {
  const Options o;
  set(o.handle, "sampling.stop", "a\\,b,c");
  set(o.handle, "sampling.stop_token_ids", "7,8,9");
  size_t size = 0;
  rl_bytes* text = nullptr;
  int64_t id = 0;
  const auto nul = RL_NUL_TERMINATED;
  EXPECT_RL_OK(rl_options_get_list_size(o.handle, "sampling.stop", nul, &size, &err));
  EXPECT_EQ(size, 2u);
  EXPECT_RL_OK(rl_options_get_list_string(o.handle, "sampling.stop", nul, 0, &text, &err));
  EXPECT_EQ(take(text), "a,b");
  EXPECT_RL_OK(rl_options_get_list_size(o.handle, "sampling.stop_token_ids", nul, &size, &err));
  EXPECT_EQ(size, 3u);
  EXPECT_RL_OK(rl_options_get_list_i64(o.handle, "sampling.stop_token_ids", nul, 2, &id, &err));
  EXPECT_EQ(id, 9);
  EXPECT_EQ(rl_options_get_list_i64(o.handle, "sampling.stop_token_ids", nul, 3, &id, nullptr),
            RL_OUT_OF_RANGE);
  EXPECT_EQ(id, 0);
  EXPECT_EQ(rl_options_get_list_i64(o.handle, "sampling.stop", nul, 0, &id, nullptr),
            RL_WRONG_TYPE);
  EXPECT_EQ(rl_options_get_list_size(o.handle, "optimizer.lr", nul, &size, nullptr), RL_WRONG_TYPE);
}

TEST(AbiOptions, DocumentsCarryASetAndRefuseAsAWhole) {
  const Options a, b, c;
  set(a.handle, "runtime.seed", "18446744073709551615");
  set(a.handle, "optimizer.lr", "1e-5");
  rl_bytes *json = nullptr, *binary = nullptr, *lines = nullptr;
  EXPECT_RL_OK(rl_options_export_json(a.handle, 1, &json, &err));
  EXPECT_RL_OK(rl_options_export_flatbuffer(a.handle, 0, &binary, &err));
  EXPECT_RL_OK(
      rl_options_import_flatbuffer(c.handle, rl_bytes_data(binary), rl_bytes_size(binary), &err));
  const std::string text = take(json);
  EXPECT_RL_OK(rl_options_import_json(b.handle, text.data(), text.size(), &err));
  uint64_t hashes[3] = {};
  EXPECT_RL_OK(rl_options_hash(a.handle, &hashes[0], &err));
  EXPECT_RL_OK(rl_options_hash(b.handle, &hashes[1], &err));
  EXPECT_RL_OK(rl_options_hash(c.handle, &hashes[2], &err));
  EXPECT_EQ(hashes[0], hashes[1]);
  EXPECT_EQ(hashes[0], hashes[2]);
  EXPECT_RL_OK(rl_options_diff(a.handle, b.handle, &lines, &err));
  EXPECT_EQ(take(lines), "");
  rl_bytes_release(binary);

  rl_error* err = nullptr;
  const char bad[] = R"({"options": {"optimizer.lr": 1, "optimizer.beta1": 1, "modl.path": ""}})";
  EXPECT_EQ(rl_options_import_json(b.handle, bad, RL_NUL_TERMINATED, &err), RL_INVALID_ARGUMENT);
  rl_error* const first = rl_error_part(err, 0);
  rl_error* const second = rl_error_part(err, 1);
  EXPECT_EQ(rl_error_part(err, 2), nullptr);
  EXPECT_EQ(rl_error_code(first), RL_OUT_OF_RANGE);
  EXPECT_EQ(text_of(first, RL_ERROR_LOCATION), "/options/optimizer.beta1");
  EXPECT_EQ(rl_error_code(second), RL_UNKNOWN_OPTION);
  EXPECT_STREQ(rl_error_nearest(second, 0), "model.path");
  EXPECT_EQ(rl_error_part(second, 0), nullptr);
  rl_error_release(second);
  rl_error_release(first);
  rl_error_release(err);
  EXPECT_RL_OK(rl_options_diff(b.handle, a.handle, &lines, &err));
  EXPECT_EQ(take(lines), "");
  EXPECT_EQ(rl_options_import_flatbuffer(b.handle, bad, sizeof bad, nullptr), RL_DATA_LOSS);
}

TEST(AbiOptions, AFrozenSetIsReadOnlyAndItsCloneIsNot) {
  const Options o;
  uint32_t frozen = 1;
  EXPECT_RL_OK(rl_options_is_frozen(o.handle, &frozen, &err));
  EXPECT_EQ(frozen, 0u);
  EXPECT_RL_OK(rl_options_freeze(o.handle, &err));
  EXPECT_RL_OK(rl_options_is_frozen(o.handle, &frozen, &err));
  EXPECT_EQ(frozen, 1u);
  rl_error* err = nullptr;
  EXPECT_EQ(rl_options_set_f64(o.handle, "optimizer.lr", RL_NUL_TERMINATED, 1, &err),
            RL_NOT_CHANGEABLE);
  EXPECT_EQ(text_of(err, RL_ERROR_KEY), "optimizer.lr");
  rl_error_release(err);
  const char json[] = R"({"options": {"optimizer.lr": 1}})";
  EXPECT_EQ(rl_options_import_json(o.handle, json, RL_NUL_TERMINATED, nullptr), RL_NOT_CHANGEABLE);
  EXPECT_EQ(rl_options_apply_preset(o.handle, "low_memory", RL_NUL_TERMINATED, nullptr),
            RL_NOT_CHANGEABLE);
  rl_options* copy = nullptr;
  EXPECT_RL_OK(rl_options_clone(o.handle, &copy, &err));
  set(copy, "optimizer.lr", "1");
  rl_options_destroy(copy);
}

TEST(AbiOptions, ConflictsNameBothOptionsAndComeTogether) {
  const Options o;
  set(o.handle, "algo.kl.coef", "0.1");
  rl_error* err = nullptr;
  EXPECT_EQ(rl_options_validate(o.handle, &err), RL_CONFLICT);
  EXPECT_EQ(text_of(err, RL_ERROR_KEY), "algo.kl.coef");
  EXPECT_EQ(text_of(err, RL_ERROR_OTHER_KEY), "algo.kl.where");
  rl_error_release(err);
  set(o.handle, "schedule.name", "linear");
  rl_runtime* runtime = nullptr;
  EXPECT_EQ(rl_runtime_create(RL_ABI_VERSION, o.handle, &runtime, &err), RL_CONFLICT);
  rl_error* const part = rl_error_part(err, 1);
  EXPECT_EQ(text_of(part, RL_ERROR_KEY), "schedule.name");
  EXPECT_EQ(text_of(part, RL_ERROR_OTHER_KEY), "schedule.total_steps");
  rl_error_release(part);
  rl_error_release(err);
}

TEST(AbiOptions, PresetsAreListedAndApplied) {
  ASSERT_GT(rl_preset_count(), 0u);
  for (size_t i = 0; i < rl_preset_count(); ++i) {
    const char *name = nullptr, *doc = nullptr, *key = nullptr, *value = nullptr;
    size_t count = 0;
    EXPECT_RL_OK(rl_preset_at(i, &name, &doc, &count, &err));
    SCOPED_TRACE(name);
    EXPECT_STRNE(doc, "");
    const Options o;
    EXPECT_RL_OK(rl_options_apply_preset(o.handle, name, RL_NUL_TERMINATED, &err));
    for (size_t s = 0; s < count; ++s) {
      EXPECT_RL_OK(rl_preset_setting(name, RL_NUL_TERMINATED, s, &key, &value, &err));
      rl_bytes* text = nullptr;
      EXPECT_RL_OK(rl_options_get_text(o.handle, key, RL_NUL_TERMINATED, &text, &err));
      EXPECT_EQ(take(text), value) << key;
    }
    EXPECT_EQ(rl_preset_setting(name, RL_NUL_TERMINATED, count, &key, &value, nullptr),
              RL_OUT_OF_RANGE);
    EXPECT_EQ(key, nullptr);
  }
  rl_error* err = nullptr;
  const Options o;
  EXPECT_EQ(rl_options_apply_preset(o.handle, "low-memory", RL_NUL_TERMINATED, &err), RL_NOT_FOUND);
  EXPECT_STREQ(rl_error_nearest(err, 0), "low_memory");
  rl_error_release(err);
}

TEST(AbiOptions, ClonesAreIndependentAndUnsetGoesBack) {
  const Options o;
  set(o.handle, "optimizer.lr", "0.5");
  rl_options* copy = nullptr;
  EXPECT_RL_OK(rl_options_clone(o.handle, &copy, &err));
  EXPECT_RL_OK(rl_options_unset(o.handle, "optimizer.lr", RL_NUL_TERMINATED, &err));
  double here = 0, there = 0;
  EXPECT_RL_OK(rl_options_get_f64(o.handle, "optimizer.lr", RL_NUL_TERMINATED, &here, &err));
  EXPECT_RL_OK(rl_options_get_f64(copy, "optimizer.lr", RL_NUL_TERMINATED, &there, &err));
  EXPECT_NE(here, 0.5);
  EXPECT_EQ(there, 0.5);
  rl_options_destroy(copy);
}

TEST(AbiOptions, BadTextIsRefusedWithItsParameter) {
  const Options o;
  rl_error* err = nullptr;
  EXPECT_EQ(rl_options_set_string(o.handle, "model.path", RL_NUL_TERMINATED, "a\xff", 2, &err),
            RL_INVALID_ARGUMENT);
  EXPECT_EQ(text_of(err, RL_ERROR_KEY), "value");
  EXPECT_NE(text_of(err, RL_ERROR_MESSAGE).find("byte 1"), std::string::npos);
  rl_error_release(err);
  EXPECT_EQ(rl_options_set_string(o.handle, "model\0path", 10, "a", 1, &err), RL_INVALID_ARGUMENT);
  EXPECT_EQ(text_of(err, RL_ERROR_KEY), "key");
  rl_error_release(err);
  EXPECT_EQ(rl_options_set_string(o.handle, "model.path", RL_NUL_TERMINATED, nullptr, 3, &err),
            RL_INVALID_ARGUMENT);
  rl_error_release(err);
  EXPECT_EQ(rl_options_set_bool(o.handle, "data.shuffle", RL_NUL_TERMINATED, 2, &err),
            RL_INVALID_ARGUMENT);
  EXPECT_EQ(text_of(err, RL_ERROR_KEY), "value");
  rl_error_release(err);
  for (const char* bad : {"\xc0\x80", "\xed\xa0\x80", "\xf4\x90\x80\x80", "\x80", "\xe2\x82"}) {
    EXPECT_EQ(rl_options_set_string(o.handle, "model.path", RL_NUL_TERMINATED, bad,
                                    RL_NUL_TERMINATED, nullptr),
              RL_INVALID_ARGUMENT);
  }
  set(o.handle, "model.path", "\xc3\xa4\xe2\x82\xac\xf0\x9f\x99\x82");
}

TEST(AbiErrors, CarryCodeKeyExpectationAndNearestNames) {
  const Options o;
  rl_error* err = nullptr;
  EXPECT_EQ(rl_options_set_i64(o.handle, "engine.block_size", RL_NUL_TERMINATED, 48, &err),
            RL_OUT_OF_RANGE);
  EXPECT_EQ(text_of(err, RL_ERROR_KEY), "engine.block_size");
  EXPECT_NE(text_of(err, RL_ERROR_EXPECTED), "");
  EXPECT_NE(text_of(err, RL_ERROR_SUMMARY).find("RL_OUT_OF_RANGE"), std::string::npos);
  EXPECT_EQ(text_of(err, 99), "");
  rl_error_release(err);
  EXPECT_EQ(rl_error_code(err), RL_STALE_HANDLE);
  EXPECT_EQ(rl_options_set_f64(o.handle, "optimiser.lr", RL_NUL_TERMINATED, 1, &err),
            RL_UNKNOWN_OPTION);
  EXPECT_STREQ(rl_error_nearest(err, 0), "optimizer.lr");
  EXPECT_EQ(rl_error_nearest(err, 3), nullptr);
  rl_error_release(err);
  EXPECT_EQ(rl_options_set_bool(o.handle, "optimizer.lr", RL_NUL_TERMINATED, 1, &err),
            RL_WRONG_TYPE);
  rl_error_release(err);
}

TEST(AbiErrors, ASuccessWritesNull) {
  const Options o;
  auto* err = reinterpret_cast<rl_error*>(1);
  EXPECT_EQ(rl_options_validate(o.handle, &err), RL_OK);
  EXPECT_EQ(err, nullptr);
}

TEST(AbiLibrary, FeaturesSayWhyNot) {
  size_t count = 0;
  for (; rl_feature_name(count) != nullptr; ++count) {
    uint32_t available = 2;
    const char* reason = nullptr;
    EXPECT_RL_OK(rl_feature(rl_feature_name(count), RL_NUL_TERMINATED, &available, &reason, &err));
    EXPECT_EQ(available == 1, *reason == '\0') << rl_feature_name(count);
  }
  EXPECT_GT(count, 3u);
  uint32_t available = 1;
  const char* reason = nullptr;
  EXPECT_RL_OK(rl_feature("cuda", 4, &available, &reason, &err));
  EXPECT_EQ(available, 0u);
  EXPECT_EQ(rl_feature("no such", 7, &available, &reason, nullptr), RL_NOT_FOUND);
  EXPECT_EQ(reason, nullptr);
}

TEST(AbiLibrary, NamesItsVersionAndBuild) {
  EXPECT_EQ(rl_abi_version(), RL_ABI_VERSION);
  EXPECT_STREQ(rl_status_name(RL_LATE), "RL_LATE");
  EXPECT_STREQ(rl_status_name(12345), "RL_UNKNOWN_CODE");
  rl_bytes* info = nullptr;
  EXPECT_RL_OK(rl_build_info(&info, &err));
  EXPECT_NE(take(info).find(std::string("version=") + rl_version_string()), std::string::npos);
}

TEST(AbiLibrary, BytesAreAlignedAndEndWithNul) {
  const Options o;
  set(o.handle, "model.path", "x");
  rl_bytes* bytes = nullptr;
  EXPECT_RL_OK(rl_options_get_text(o.handle, "model.path", RL_NUL_TERMINATED, &bytes, &err));
  const auto* const data = static_cast<const char*>(rl_bytes_data(bytes));
  EXPECT_EQ(reinterpret_cast<uintptr_t>(data) % alignof(std::max_align_t), 0u);
  EXPECT_EQ(rl_bytes_size(bytes), 1u);
  EXPECT_EQ(data[1], '\0');
  rl_bytes_release(bytes);
}

}  // namespace
}  // namespace abi_test

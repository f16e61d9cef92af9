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

std::string exported(const rl_options* options, int32_t format, uint32_t only_changed) {
  rl_bytes* bytes = nullptr;
  EXPECT_RL_OK(rl_options_export(options, format, only_changed, &bytes, &err));
  return take(bytes);
}

TEST(AbiOptions, EveryOptionRoundTripsThroughText) {
  const Options a, b;
  for (size_t i = 0; i < rl_option_count(); ++i) {
    rl_option_info info;
    rl_option_info_init(&info, sizeof info);
    EXPECT_RL_OK(rl_option_at(i, &info, &err));
    SCOPED_TRACE(info.key);
    const std::string text = get_text(a.handle, info.key);
    set(b.handle, info.key, text);
    EXPECT_EQ(get_text(b.handle, info.key), text);
    EXPECT_EQ(get(b.handle, info.key).is_default, 1u);
    EXPECT_EQ(get(b.handle, info.key).type, info.type);
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
  EXPECT_RL_OK(
      rl_options_set_u64(o.handle, "runtime.seed", RL_NUL_TERMINATED, UINT64_C(1) << 63, &err));
  EXPECT_RL_OK(rl_options_set_f64(o.handle, "optimizer.lr", RL_NUL_TERMINATED, 2e-5, &err));
  EXPECT_RL_OK(rl_options_set_string(o.handle, "model.path", RL_NUL_TERMINATED, "/a,b=c", 6, &err));
  EXPECT_RL_OK(rl_options_set_string_list(o.handle, "sampling.stop", RL_NUL_TERMINATED, stops, lens,
                                          2, &err));
  EXPECT_RL_OK(rl_options_set_i64_list(o.handle, "sampling.stop_token_ids", RL_NUL_TERMINATED, ids,
                                       2, &err));
  EXPECT_RL_OK(rl_options_set_text(o.handle, "engine.block_size=64", 17, "64", 2, &err));
  EXPECT_EQ(get(o.handle, "data.shuffle").type, RL_OPTION_BOOL);
  EXPECT_EQ(get(o.handle, "data.shuffle").i64, 0);
  EXPECT_EQ(get(o.handle, "data.shuffle").is_default, 0u);
  EXPECT_EQ(get(o.handle, "runtime.threads").i64, 3);
  EXPECT_EQ(get(o.handle, "runtime.threads").u64, 3u);
  EXPECT_EQ(get(o.handle, "engine.block_size").i64, 64);
  EXPECT_EQ(get(o.handle, "runtime.seed").u64, UINT64_C(1) << 63);
  EXPECT_EQ(get(o.handle, "runtime.seed").i64, 0) << "it does not fit";
  EXPECT_EQ(get(o.handle, "optimizer.lr").f64, 2e-5);
  EXPECT_EQ(get(o.handle, "sampling.stop").num_items, 2u);
  EXPECT_EQ(get(o.handle, "sampling.stop_token_ids").num_items, 2u);
  EXPECT_EQ(get(o.handle, "model.path").num_items, 0u);
  EXPECT_EQ(get_text(o.handle, "model.path"), "/a,b=c");
  const std::string text = exported(o.handle, RL_FORMAT_TEXT, 1);
  EXPECT_NE(text.find("sampling.stop=a\\,b,c"), std::string::npos) << text;
  EXPECT_NE(text.find("sampling.stop_token_ids=7,8"), std::string::npos) << text;
  EXPECT_EQ(text.find("optimizer.beta1"), std::string::npos) << text;
}

TEST(AbiOptions, AnEmptyListHasNoElements) {
  const Options o;
  const int64_t none = 0;
  EXPECT_RL_OK(rl_options_set_i64_list(o.handle, "sampling.stop_token_ids", RL_NUL_TERMINATED,
                                       &none, 0, &err));
  EXPECT_EQ(get(o.handle, "sampling.stop_token_ids").num_items, 0u);
  EXPECT_EQ(get_text(o.handle, "sampling.stop_token_ids"), "");
}

TEST(AbiOptions, DocumentsCarryASetAndRefuseAsAWhole) {
  const Options a, b, c;
  set(a.handle, "runtime.seed", "18446744073709551615");
  set(a.handle, "optimizer.lr", "1e-5");
  const std::string json = exported(a.handle, RL_FORMAT_JSON, 1);
  const std::string binary = exported(a.handle, RL_FORMAT_FLATBUFFER, 0);
  EXPECT_RL_OK(
      rl_options_import(c.handle, RL_FORMAT_FLATBUFFER, binary.data(), binary.size(), &err));
  EXPECT_RL_OK(rl_options_import(b.handle, RL_FORMAT_JSON, json.data(), json.size(), &err));
  const std::string text = exported(a.handle, RL_FORMAT_TEXT, 0);
  EXPECT_EQ(exported(b.handle, RL_FORMAT_TEXT, 0), text);
  EXPECT_EQ(exported(c.handle, RL_FORMAT_TEXT, 0), text);

  rl_error* err = nullptr;
  const char bad[] = R"({"options": {"optimizer.lr": 1, "optimizer.beta1": 1, "modl.path": ""}})";
  EXPECT_EQ(rl_options_import(b.handle, RL_FORMAT_JSON, bad, RL_NUL_TERMINATED, &err),
            RL_INVALID_ARGUMENT);
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
  EXPECT_EQ(exported(b.handle, RL_FORMAT_TEXT, 0), text);
  EXPECT_EQ(rl_options_import(b.handle, RL_FORMAT_FLATBUFFER, bad, sizeof bad, nullptr),
            RL_DATA_LOSS);
}

TEST(AbiOptions, FormatsThatAreNoneAreRefused) {
  const Options o;
  rl_bytes* out = nullptr;
  rl_error* err = nullptr;
  EXPECT_EQ(rl_options_export(o.handle, 4, 0, &out, &err), RL_INVALID_ARGUMENT);
  EXPECT_EQ(text_of(err, RL_ERROR_KEY), "format");
  rl_error_release(err);
  EXPECT_EQ(rl_options_import(o.handle, 0, "{}", 2, &err), RL_INVALID_ARGUMENT);
  EXPECT_EQ(text_of(err, RL_ERROR_KEY), "format");
  rl_error_release(err);
  EXPECT_EQ(rl_options_import(o.handle, RL_FORMAT_TEXT, "", 0, &err), RL_UNSUPPORTED);
  EXPECT_EQ(text_of(err, RL_ERROR_KEY), "format");
  rl_error_release(err);
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
  const char *name = nullptr, *doc = nullptr;
  for (size_t i = 0; i < rl_preset_count(); ++i) {
    EXPECT_RL_OK(rl_preset_at(i, &name, &doc, &err));
    SCOPED_TRACE(name);
    EXPECT_STRNE(doc, "");
    const Options o;
    EXPECT_RL_OK(rl_options_apply_preset(o.handle, name, RL_NUL_TERMINATED, &err));
    EXPECT_NE(exported(o.handle, RL_FORMAT_TEXT, 1), "") << "what the preset sets";
  }
  EXPECT_EQ(rl_preset_at(rl_preset_count(), &name, &doc, nullptr), RL_OUT_OF_RANGE);
  EXPECT_EQ(name, nullptr);
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
  EXPECT_NE(get(o.handle, "optimizer.lr").f64, 0.5);
  EXPECT_EQ(get(copy, "optimizer.lr").f64, 0.5);
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
  for (const char* name : {"sync", "async", "distributed"}) {
    EXPECT_RL_OK(rl_feature(name, RL_NUL_TERMINATED, &available, &reason, &err));
    EXPECT_EQ(available, 1u) << reason;
  }
  EXPECT_RL_OK(rl_feature("cuda", 4, &available, &reason, &err));
  EXPECT_EQ(available, 0u);
  // No plugin of GPUs lies beside the library of a build tree.
  EXPECT_NE(std::string(reason).find("librl_cuda.so.2 is not installed"), std::string::npos)
      << reason;
  EXPECT_RL_OK(rl_feature("gloo", 4, &available, &reason, &err));
  EXPECT_EQ(available, 0u);
  EXPECT_NE(std::string(reason).find("librl_gloo.so.2 is not installed (package librl2-gloo)"),
            std::string::npos)
      << reason;
  EXPECT_EQ(rl_feature("no such", 7, &available, &reason, nullptr), RL_NOT_FOUND);
  EXPECT_EQ(reason, nullptr);
}

TEST(AbiLibrary, SeesNoDeviceWithoutThePlugin) {
  size_t count = 1;
  EXPECT_RL_OK(rl_device_count(&count, &err));
  EXPECT_EQ(count, 0u);
  rl_device_info info;
  rl_device_info_init(&info, sizeof info);
  EXPECT_EQ(rl_device_get(0, &info, nullptr), RL_OUT_OF_RANGE);
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
  rl_option_value value;
  rl_option_value_init(&value, sizeof value);
  EXPECT_RL_OK(rl_options_get(o.handle, "model.path", RL_NUL_TERMINATED, &value, &bytes, &err));
  const auto* const data = static_cast<const char*>(rl_bytes_data(bytes));
  EXPECT_EQ(reinterpret_cast<uintptr_t>(data) % alignof(std::max_align_t), 0u);
  EXPECT_EQ(rl_bytes_size(bytes), 1u);
  EXPECT_EQ(data[1], '\0');
  rl_bytes_release(bytes);
}

}  // namespace
}  // namespace abi_test

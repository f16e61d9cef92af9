// The loader refuses what is no plugin of this build, and says what it found.
#include "device/plugin/plugin_loader.h"

#include <gtest/gtest.h>

#include <fstream>

#include "support/expect_error.h"
#include "support/temp_dir.h"

namespace rl {
namespace {

constexpr uint32_t kOpTableBytes = 80;  // of tests/device/other_plugin.cc

Error refusal(Code code, const std::string& path, uint32_t op_table_bytes = kOpTableBytes) {
  const Error error = expect_error(code, [&] { load_cuda_plugin(path, op_table_bytes); });
  EXPECT_TRUE(error.message.starts_with("cuda: unavailable, because " + path)) << error.message;
  EXPECT_EQ(error.key, "runtime.device");
  return error;
}

TEST(PluginLoader, AnAbsentFileNamesItsPackage) {
  const Error error = refusal(Code::kNotInBuild, "/no/folder/librl_cuda.so.2");
  EXPECT_TRUE(contains(error.message, "is not installed (package librl2-cuda)"));
}

TEST(PluginLoader, AFileThatIsNoLibraryHasTheLoadersCause) {
  const TempDir dir;
  std::ofstream(dir.file("librl_cuda.so.2")) << "no library";
  const Error error = refusal(Code::kNotInBuild, dir.file("librl_cuda.so.2"));
  EXPECT_TRUE(contains(error.message, "could not be opened: "));
}

TEST(PluginLoader, AnotherLibraryHasNoEntry) {
  const Error error = refusal(Code::kIncompatible, RL_NO_PLUGIN);
  EXPECT_TRUE(contains(error.message, "has no function rl_cuda_plugin"));
}

TEST(PluginLoader, AnotherVersionIsNamedWithItsCompiler) {
  const Error error = refusal(Code::kIncompatible, RL_OLD_PLUGIN);
  EXPECT_TRUE(contains(error.message, "is of version 0.0.1 by compiler "));
}

TEST(PluginLoader, AnotherOpTableIsAnotherBuild) {
  EXPECT_EQ(load_cuda_plugin(RL_SAME_PLUGIN, kOpTableBytes).identity.op_table_bytes, kOpTableBytes);
  const Error error = refusal(Code::kIncompatible, RL_SAME_PLUGIN, kOpTableBytes + 8);
  EXPECT_TRUE(contains(error.message, "is of another build of version "));
}

TEST(PluginLoader, AnErrorOfThePluginIsCaughtByItsType) {
  const CudaPlugin& plugin = load_cuda_plugin(RL_SAME_PLUGIN, kOpTableBytes);
  const Error error = expect_error(Code::kUnsupported, [&] { plugin.devices(); });
  EXPECT_EQ(error.message, "no devices here");
}

TEST(PluginLoader, LooksBesideTheProgram) {
  const Error error = expect_error(Code::kNotInBuild, [] { cuda_plugin(kOpTableBytes); });
  EXPECT_TRUE(contains(error.message, "/librl_cuda.so.2 is not installed"));
}

}  // namespace
}  // namespace rl

// zstd allocates for itself. Where the system refuses it memory, reader and writer of frames report
// it and do not crash.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <zstd.h>
#include <zstd_errors.h>

#include <string_view>

#include "core/error.h"
#include "data/frame.h"
#include "formats/memory_fs.h"
#include "support/expect_error.h"
#include "support/sample_groups.h"

namespace {

bool refuses = false;
const char* failing = "";  // the call that has no memory

template <typename Function>
Function* in_zstd(const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}

size_t no_memory() { return static_cast<size_t>(-ZSTD_error_memory_allocation); }

}  // namespace

// These stand before those of the shared library.
extern "C" ZSTD_CCtx* ZSTD_createCCtx() {
  return refuses ? nullptr : in_zstd<ZSTD_CCtx*()>("ZSTD_createCCtx")();
}
extern "C" ZSTD_DCtx* ZSTD_createDCtx() {
  return refuses ? nullptr : in_zstd<ZSTD_DCtx*()>("ZSTD_createDCtx")();
}
extern "C" size_t ZSTD_CCtx_setParameter(ZSTD_CCtx* context, ZSTD_cParameter parameter, int value) {
  const char* const name = "ZSTD_CCtx_setParameter";
  if (std::string_view(failing) == name) return no_memory();
  return in_zstd<decltype(ZSTD_CCtx_setParameter)>(name)(context, parameter, value);
}
extern "C" size_t ZSTD_compress2(ZSTD_CCtx* context, void* out, size_t out_size, const void* in,
                                 size_t in_size) {
  const char* const name = "ZSTD_compress2";
  if (std::string_view(failing) == name) return no_memory();
  return in_zstd<decltype(ZSTD_compress2)>(name)(context, out, out_size, in, in_size);
}

namespace rl::testing {
namespace {

TEST(ZstdMemory, AContextThatCannotBeMadeIsOutOfMemory) {
  test::MemoryFs fs;
  FrameText text(3);
  text.add("AAAA", "a document");
  fs.files["f"] = text.close();
  const auto input = fs.open("f");
  refuses = true;
  const Error reading = expect_error(Code::kOutOfMemory, [&] { FrameReader reader(*input); });
  const Error writing = expect_error(Code::kOutOfMemory, [] { FrameText writer(3); });
  refuses = false;
  EXPECT_TRUE(contains(reading.message, "zstd"));
  EXPECT_TRUE(contains(writing.message, "zstd"));
  FrameReader reader(*input);
  EXPECT_EQ(text_of(reader.next()->document), "a document");
}

TEST(ZstdMemory, AWriterNamesWhatFailed) {
  const std::string why = ZSTD_getErrorName(no_memory());
  failing = "ZSTD_CCtx_setParameter";
  const Error set_up = expect_error(Code::kOutOfMemory, [] { FrameText writer(3); });
  failing = "";
  EXPECT_EQ(set_up.message, "zstd cannot set up: " + why);
  FrameText writer(3);
  const std::string before = writer.text();
  failing = "ZSTD_compress2";
  const Error compress = expect_error(Code::kOutOfMemory, [&] { writer.add("AAAA", "text"); });
  failing = "";
  EXPECT_EQ(compress.message, "zstd cannot compress: " + why);
  EXPECT_EQ(writer.text(), before) << "nothing of the frame is written";
}

}  // namespace
}  // namespace rl::testing

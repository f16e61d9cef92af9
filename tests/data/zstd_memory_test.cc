// zstd allocates for itself. Where the system refuses it memory, reader and writer of frames report
// it and do not crash.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <zstd.h>

#include "core/error.h"
#include "data/frame.h"
#include "formats/memory_fs.h"
#include "support/expect_error.h"
#include "support/sample_groups.h"

namespace {

bool refuses = false;

template <typename Function>
Function* in_zstd(const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}

}  // namespace

// These stand before those of the shared library.
extern "C" ZSTD_CCtx* ZSTD_createCCtx() {
  return refuses ? nullptr : in_zstd<ZSTD_CCtx*()>("ZSTD_createCCtx")();
}
extern "C" ZSTD_DCtx* ZSTD_createDCtx() {
  return refuses ? nullptr : in_zstd<ZSTD_DCtx*()>("ZSTD_createDCtx")();
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

}  // namespace
}  // namespace rl::testing

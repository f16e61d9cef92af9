// The real file system, and atomic writes under every single fault.
#include "core/fs.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "support/expect_error.h"
#include "support/fault_fs.h"
#include "support/temp_dir.h"

namespace rl {
namespace {

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text));
}

std::string read_all(const std::string& path) { return read_text_file(real_fs(), path, 1 << 20); }

TEST(RealFs, WritesAppendsAndReadsBack) {
  const TempDir dir;
  const std::string path = dir.file("a.txt");
  auto file = real_fs().create(path);
  file->append(bytes_of("hello "));
  file->append(bytes_of("world"));
  file->sync();
  file->close();
  auto more = real_fs().append_to(path);
  more->append(bytes_of("!"));
  more->close();
  EXPECT_EQ(read_all(path), "hello world!");
  const auto input = real_fs().open(path);
  EXPECT_EQ(input->size(), 12u);
  EXPECT_EQ(input->path(), path);
  std::string part(5, ' ');
  input->read_at(6, std::as_writable_bytes(std::span(part)));
  EXPECT_EQ(part, "world");
  real_fs().create(path)->close();
  EXPECT_EQ(read_all(path), "");
}

TEST(RealFs, RangeBeyondTheEndIsDataLossNamingBoth) {
  const TempDir dir;
  write_file_atomically(real_fs(), dir.file("a"), "12345");
  const auto input = real_fs().open(dir.file("a"));
  std::vector<std::byte> out(3);
  const Error error = expect_error(Code::kDataLoss, [&] { input->read_at(3, out); });
  EXPECT_TRUE(contains(error.message, "3 bytes at offset 3"));
  EXPECT_TRUE(contains(error.message, "5 bytes"));
  expect_error(Code::kDataLoss, [&] { input->read_at(~uint64_t{0} - 1, out); });
  input->read_at(5, {});
}

TEST(RealFs, FileThatShrankIsDataLoss) {
  const TempDir dir;
  write_file_atomically(real_fs(), dir.file("a"), "1234567890");
  const auto input = real_fs().open(dir.file("a"));
  ASSERT_EQ(truncate(dir.file("a").c_str(), 4), 0);
  std::vector<std::byte> out(10);
  const Error error = expect_error(Code::kDataLoss, [&] { input->read_at(0, out); });
  EXPECT_TRUE(contains(error.message, "offset 4"));
}

TEST(RealFs, MissingFileIsNotFoundWithErrno) {
  const TempDir dir;
  const Error error = expect_error(Code::kNotFound, [&] { real_fs().open(dir.file("none")); });
  EXPECT_TRUE(contains(error.message, dir.file("none")));
  EXPECT_EQ(error.system_code, ENOENT);
  EXPECT_FALSE(real_fs().exists(dir.file("none")));
  expect_error(Code::kNotFound, [&] { real_fs().list(dir.file("none")); });
}

TEST(RealFs, OnlyRegularFilesAreOpened) {
  const TempDir dir;
  expect_error(Code::kIo, [&] { real_fs().open(dir.path()); });
  ASSERT_EQ(mkfifo(dir.file("fifo").c_str(), 0600), 0);
  const Error error = expect_error(Code::kIo, [&] { real_fs().open(dir.file("fifo")); });
  EXPECT_TRUE(contains(error.message, "not a regular file"));
  expect_error(Code::kIo, [&] { real_fs().create(dir.file("fifo")); });
  expect_error(Code::kIo, [&] { real_fs().create("/dev/null"); });
}

TEST(RealFs, DirectoriesAreListedSortedAndRemoved) {
  const TempDir dir;
  const std::string nested = dir.file("x/y/z");
  real_fs().make_directories(nested);
  real_fs().make_directories(nested);
  EXPECT_TRUE(real_fs().is_directory(nested));
  write_file_atomically(real_fs(), nested + "/b", "");
  write_file_atomically(real_fs(), nested + "/a", "");
  EXPECT_EQ(real_fs().list(nested), (std::vector<std::string>{"a", "b"}));
  expect_error(Code::kIo, [&] { real_fs().make_directories(nested + "/a/b"); });
  real_fs().remove_all(dir.file("x"));
  EXPECT_FALSE(real_fs().exists(dir.file("x")));
  real_fs().remove_all(dir.file("x"));
}

TEST(RealFs, UseAfterCloseIsAnError) {
  const TempDir dir;
  auto file = real_fs().create(dir.file("a"));
  file->close();
  expect_error(Code::kFailedPrecondition, [&] { file->append(bytes_of("x")); });
  expect_error(Code::kFailedPrecondition, [&] { file->sync(); });
  expect_error(Code::kFailedPrecondition, [&] { file->close(); });
}

TEST(RealFs, FailedRenameNamesBothPaths) {
  const TempDir dir;
  write_file_atomically(real_fs(), dir.file("a"), "");
  const Error error =
      expect_error(Code::kNotFound, [&] { real_fs().rename(dir.file("a"), dir.file("gone/b")); });
  EXPECT_TRUE(contains(error.message, dir.file("a")));
  EXPECT_TRUE(contains(error.message, dir.file("gone/b")));
}

TEST(RealFs, WriteBeyondTheFileSizeLimitIsReported) {
  const TempDir dir;
  rlimit before;
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto handler = signal(SIGXFSZ, SIG_IGN);
  rlimit small = before;
  small.rlim_cur = 4;
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  auto file = real_fs().create(dir.file("a"));
  const Error error = expect_error(Code::kIo, [&] { file->append(bytes_of("123456")); });
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
  signal(SIGXFSZ, handler);
  EXPECT_EQ(error.system_code, EFBIG);
  EXPECT_TRUE(contains(error.message, dir.file("a")));
}

TEST(ReadTextFile, RefusesMoreThanTheCap) {
  const TempDir dir;
  write_file_atomically(real_fs(), dir.file("a"), "123456");
  EXPECT_EQ(read_text_file(real_fs(), dir.file("a"), 6), "123456");
  const Error error =
      expect_error(Code::kResourceExhausted, [&] { read_text_file(real_fs(), dir.file("a"), 5); });
  EXPECT_TRUE(contains(error.message, "6 bytes"));
}

TEST(WriteFileAtomically, AnySingleFaultLeavesOldOrWholeNewContent) {
  const TempDir dir;
  const std::string path = dir.file("state");
  FaultFs fs;
  fs.arm({});
  write_file_atomically(fs, path, "probe");
  const int64_t operations = fs.operations();
  ASSERT_EQ(operations, 6);  // create, append, sync, close, rename, sync of the directory
  for (const bool for_ever : {false, true}) {
    for (int64_t at = 1; at <= operations; ++at) {
      fs.arm({});
      write_file_atomically(fs, path, "old");
      fs.arm({.at = at, .system_code = ENOSPC, .for_ever = for_ever, .partial_bytes = 2});
      const Error error =
          expect_error(Code::kIo, [&] { write_file_atomically(fs, path, "brand new"); });
      EXPECT_EQ(error.system_code, ENOSPC);
      EXPECT_TRUE(contains(error.message, dir.path()));
      EXPECT_EQ(read_all(path), at < operations ? "old" : "brand new") << "fault at " << at;
      if (!for_ever) {
        EXPECT_EQ(real_fs().list(dir.path()), std::vector<std::string>{"state"});
      }
    }
  }
}

TEST(WriteFileAtomically, ReplacesALeftoverTemporary) {
  const TempDir dir;
  write_file_atomically(real_fs(), dir.file("a.tmp"), "leftover that is long");
  write_file_atomically(real_fs(), dir.file("a"), "new");
  EXPECT_EQ(read_all(dir.file("a")), "new");
  EXPECT_FALSE(real_fs().exists(dir.file("a.tmp")));
}

}  // namespace
}  // namespace rl

// Hostile input: every truncation and seeded mutations of small valid files either load or give an
// Error with a location, and the memory held at the worst moment stays in proportion to the file.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <new>

#include "formats/gguf/gguf.h"
#include "formats/memory_fs.h"
#include "formats/open/open_weight_source.h"
#include "formats/safetensors/safetensors.h"
#include "formats/tiny_files.h"
#include "support/mutate.h"

#ifndef RL_SANITIZED
namespace {
std::atomic<size_t> live_bytes{0}, peak_bytes{0};
constexpr size_t kPrefix = 16;  // holds the size, keeps the alignment of malloc

void raise(std::atomic<size_t>& a, size_t v) {
  size_t seen = a.load();
  while (seen < v && !a.compare_exchange_weak(seen, v)) {
  }
}
}  // namespace

void* operator new(size_t n) {
  auto* p = n > SIZE_MAX - kPrefix ? nullptr : static_cast<std::byte*>(std::malloc(n + kPrefix));
  if (p == nullptr) throw std::bad_alloc();
  *reinterpret_cast<size_t*>(p) = n;
  raise(peak_bytes, live_bytes += n);
  return p + kPrefix;
}
void operator delete(void* p) noexcept {
  if (p == nullptr) return;
  std::byte* start = static_cast<std::byte*>(p) - kPrefix;
  live_bytes -= *reinterpret_cast<size_t*>(start);
  std::free(start);
}
void operator delete(void* p, size_t) noexcept { operator delete(p); }
#endif

namespace rl {
namespace {

// Measures the memory between its construction and peak(); under sanitizers nothing is measured.
class Meter {
 public:
#ifdef RL_SANITIZED
  uint64_t peak() const { return 0; }
#else
  Meter() : start_(live_bytes) { peak_bytes = start_; }
  uint64_t peak() const { return peak_bytes - start_; }

 private:
  size_t start_;
#endif
};

struct Outcome {
  int64_t loaded = 0;
  int64_t refused = 0;
};

// Opens the path of fs, reads what it offers, and checks the promise of the file comment.
void try_open(test::MemoryFs& fs, const std::string& path, uint64_t file_bytes, Outcome& outcome) {
  const Meter meter;
  try {
    const auto source = open_weight_source(fs, path);
    for (size_t i = 0; i < source->tensors().size(); ++i) {
      std::vector<float> row(static_cast<size_t>(source->tensors()[i].cols()));
      source->read(static_cast<int64_t>(i), source->tensors()[i].rows() - 1, row);
    }
    ++outcome.loaded;
    source->tokenizer_parts();
    source->chat_templates();
  } catch (const Error& e) {
    ++outcome.refused;
    EXPECT_FALSE(e.location.empty()) << e.message;
    EXPECT_FALSE(e.message.empty());
    EXPECT_NE(e.code, Code::kInternal) << e.message;
  }
  // The bound for every reader: four times its input and 16 MiB.
  EXPECT_LE(meter.peak(), 4 * file_bytes + (uint64_t{16} << 20));
}

void print_skip() {
#ifdef RL_SANITIZED
  std::cout << "skipped under sanitizers: the bound on memory, because they replace operator new\n";
#endif
}

struct Target {
  std::string open;  // what is opened
  std::string file;  // what is corrupted
};

void fuzz(test::MemoryFs fs, const Target& target) {
  print_skip();
  const std::string good = fs.files[target.file];
  Outcome intact, cut, mutated;
  try_open(fs, target.open, good.size(), intact);
  ASSERT_EQ(intact.loaded, 1);
  ASSERT_EQ(intact.refused, 0);
  for (size_t n = 0; n < good.size(); ++n) {
    fs.files[target.file] = good.substr(0, n);
    try_open(fs, target.open, n, cut);
  }
  EXPECT_GT(cut.refused, static_cast<int64_t>(good.size()) - 64);  // only padding may be cut off
  const int rounds = test::fuzz_rounds(1000);
  for (int seed = 0; seed < rounds; ++seed) {
    SCOPED_TRACE(seed);
    fs.files[target.file] = test::mutate(good, static_cast<uint64_t>(seed));
    try_open(fs, target.open, fs.files[target.file].size(), mutated);
    if (::testing::Test::HasFailure()) return;
  }
  std::cout << good.size() << " truncations and " << rounds
            << " mutations: " << cut.loaded + mutated.loaded << " loaded, "
            << cut.refused + mutated.refused << " refused\n";
}

test::MemoryFs tiny_directory() {
  test::MemoryFs fs;
  fs.files["m/config.json"] = test::kTinyConfig;
  fs.files["m/model.safetensors"] = test::tiny_safetensors();
  return fs;
}

TEST(LoaderFuzz, SafetensorsLoadsOrNamesTheFault) {
  fuzz(tiny_directory(), {"m", "m/model.safetensors"});
}

TEST(LoaderFuzz, ConfigLoadsOrNamesTheFault) { fuzz(tiny_directory(), {"m", "m/config.json"}); }

TEST(LoaderFuzz, GgufLoadsOrNamesTheFault) {
  test::MemoryFs fs;
  fs.files["m.gguf"] = test::tiny_gguf();
  fuzz(fs, {"m.gguf", "m.gguf"});
}

TEST(LoaderFuzz, GgufOfKFormatsLoadsOrNamesTheFault) {
  test::MemoryFs fs;
  fs.files["m.gguf"] = test::tiny_k_gguf();
  fuzz(fs, {"m.gguf", "m.gguf"});
}

// Mutations spread over data bytes hardly touch a header; these stay inside it.
TEST(LoaderFuzz, HeadersLoadOrNameTheFault) {
  test::MemoryFs fs = tiny_directory();
  const std::string gguf = test::tiny_k_gguf();
  const std::string tensors = fs.files["m/model.safetensors"];
  uint64_t length = 0;
  std::memcpy(&length, tensors.data(), 8);
  const size_t gguf_header = gguf.find("output_norm.weight") + 50;
  Outcome a, b;
  const int rounds = test::fuzz_rounds(1000);
  for (int seed = 0; seed < rounds; ++seed) {
    SCOPED_TRACE(seed);
    const std::string header = test::mutate(tensors.substr(8, length), static_cast<uint64_t>(seed));
    fs.files["m/model.safetensors"] =
        test::bytes_of(uint64_t{header.size()}) + header + tensors.substr(8 + length);
    try_open(fs, "m", fs.files["m/model.safetensors"].size(), a);
    fs.files["m.gguf"] = test::mutate(gguf.substr(0, gguf_header), static_cast<uint64_t>(seed)) +
                         gguf.substr(gguf_header);
    try_open(fs, "m.gguf", fs.files["m.gguf"].size(), b);
    if (::testing::Test::HasFailure()) return;
  }
  EXPECT_GT(a.refused, rounds / 2);
  EXPECT_GT(b.refused, rounds / 2);
}

// Headers whose parsed form could be far larger than their text.
TEST(LoaderFuzz, MemoryStaysInProportionToAHostileHeader) {
  print_skip();
  constexpr size_t kBytes = size_t{8} << 20;
  const auto repeated = [](const std::string& start, const std::string& part,
                           const std::string& end) {
    std::string out = start;
    while (out.size() + part.size() + end.size() < kBytes) out += part;
    return out + end;
  };
  std::string many = "{";
  for (int i = 0; many.size() < kBytes; ++i) {
    many += str(i == 0 ? "" : ",", "\"", i,
                "\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]}");
  }
  test::MemoryFs fs = tiny_directory();
  Outcome outcome;
  for (const std::string& header :
       {repeated("{\"a\":", "[", "]}"), repeated("{\"a\":{\"shape\":[", "0,", "0]}}"),
        repeated("{\"__metadata__\":{\"", "a", "\":\"b\"}}"), many + "}"}) {
    fs.files["m/model.safetensors"] = test::safetensors_file(header, 0);
    try_open(fs, "m", header.size(), outcome);
  }
  fs.files["m.gguf"] = "GGUF" + test::bytes_of(uint32_t{3}) + test::bytes_of(uint64_t{1'000'000}) +
                       test::bytes_of(uint64_t{65'536}) + std::string(kBytes, '\0');
  try_open(fs, "m.gguf", kBytes, outcome);
  EXPECT_EQ(outcome.refused, 5);
}

}  // namespace
}  // namespace rl

// Hostile buffer files: mutations of a file, and mutations of the documents inside frames, which
// are resealed so that zstd's checksum does not catch them. Each either loads with only valid
// values, or is an Error with a location.
#pragma once
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "buffer/buffer_file.h"
#include "core/error.h"
#include "formats/memory_fs.h"
#include "support/mutate.h"
#include "support/sample_groups.h"

namespace rl::testing {

class BufferMutation {
 public:
  int loaded = 0, refused = 0;

  // Whatever loads obeys the rules: it can be written again.
  void try_load(const std::string& file, uint64_t seed) {
    fs_.files["f"] = file;
    try {
      BufferFileReader reader(fs_, "f");
      while (const auto group = reader.next()) EXPECT_FALSE(encode_group(*group).empty()) << seed;
      ++loaded;
    } catch (const Error& e) {
      ++refused;
      EXPECT_TRUE(e.code == Code::kDataLoss || e.code == Code::kIncompatible)
          << seed << ": " << code_name(e.code) << " " << e.message;
      EXPECT_FALSE(e.location.empty()) << seed << ": " << e.message;
    }
  }

  void mutate_file(const std::string& good, int rounds) {
    for (int round = 0; round < rounds; ++round) {
      const auto seed = static_cast<uint64_t>(round);
      try_load(test::mutate(good, seed), seed);
    }
  }

  // Mutates one document of the file per round.
  void mutate_documents(const std::string& good, int rounds) {
    const std::vector<Document> documents = documents_of(good);
    for (int round = 0; round < rounds; ++round) {
      const auto seed = static_cast<uint64_t>(round);
      FrameText file(1);
      for (size_t i = 0; i < documents.size(); ++i) {
        const Document& d = documents[i];
        file.add(d.kind, i == seed % documents.size() ? test::mutate(d.bytes, seed) : d.bytes);
      }
      try_load(file.close(), seed);
    }
  }

 private:
  struct Document {
    std::string kind, bytes;
  };
  std::vector<Document> documents_of(const std::string& file) {
    fs_.files["f"] = file;
    const auto input = fs_.open("f");
    FrameReader reader(*input);
    std::vector<Document> out;
    while (const auto frame = reader.next()) {
      out.push_back({std::string(frame->kind_text()), text_of(frame->document)});
    }
    return out;
  }
  test::MemoryFs fs_;
};

}  // namespace rl::testing

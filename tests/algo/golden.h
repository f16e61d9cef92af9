// Reading of the golden JSON files of tests/fixtures: padded [rows][T] batches are flattened to the
// packed tokens that librl works on, in row order, only where response_mask is 1. All inputs are
// multiples of 1/1024, exact in fp32.
#pragma once
#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace rl::golden {

using Json = nlohmann::json;

inline Json load(const std::string& name) {
  std::ifstream in(std::string(RL_FIXTURES) + "/" + name);
  EXPECT_TRUE(in.good()) << name;
  return Json::parse(in);
}

// A number, or one of the words that stand for a non-finite one.
inline double number(const Json& v) {
  return v.is_string() ? std::stod(v.get<std::string>()) : v.get<double>();
}

inline std::vector<double> numbers(const Json& list) {
  std::vector<double> out;
  for (const Json& v : list) out.push_back(number(v));
  return out;
}

inline std::vector<float> floats(const std::vector<double>& v) { return {v.begin(), v.end()}; }

// Rows [first, last) of a padded batch.
struct Rows {
  const Json& batch;
  size_t first = 0;
  size_t last = 0;

  explicit Rows(const Json& b) : batch(b), last(b["response_mask"].size()) {}
  Rows(const Json& b, size_t begin, size_t end) : batch(b), first(begin), last(end) {}

  bool in_loss(size_t row, size_t t) const { return number(batch["response_mask"][row][t]) == 1; }
  std::vector<int32_t> lengths() const {
    std::vector<int32_t> out;
    for (size_t i = first; i < last; ++i) {
      out.push_back(0);
      for (const Json& m : batch["response_mask"][i]) out.back() += number(m) == 1;
    }
    return out;
  }
  // The tokens of a [rows][T] tensor that carry a loss.
  std::vector<double> packed(const Json& tensor) const {
    std::vector<double> out;
    for (size_t i = first; i < last; ++i) {
      for (size_t t = 0; t < tensor[i].size(); ++t) {
        if (in_loss(i, t)) out.push_back(number(tensor[i][t]));
      }
    }
    return out;
  }
  // One value per row, repeated over the row's tokens.
  std::vector<double> spread(const std::vector<double>& per_row) const {
    std::vector<double> out;
    const std::vector<int32_t> n = lengths();
    for (size_t i = 0; i < n.size(); ++i) out.insert(out.end(), n[i], per_row[first + i]);
    return out;
  }
};

inline double count(const std::vector<int32_t>& lengths) {
  double n = 0;
  for (const int32_t v : lengths) n += v;
  return n;
}

inline double count_non_empty(const std::vector<int32_t>& lengths) {
  double n = 0;
  for (const int32_t v : lengths) n += v > 0;
  return n;
}

// All positions of a padded batch as packed responses, with response_mask as the mask: holes and
// padding are masked tokens alike.
struct Padded {
  std::vector<int32_t> lengths;
  std::vector<uint8_t> mask;

  explicit Padded(const Json& batch) {
    for (const Json& row : batch["response_mask"]) {
      lengths.push_back(static_cast<int32_t>(row.size()));
      for (const Json& m : row) mask.push_back(number(m) == 1);
    }
  }
  // The entries of v that carry a loss.
  std::vector<double> inside(const std::vector<double>& v) const {
    std::vector<double> out;
    for (size_t i = 0; i < v.size(); ++i) {
      if (mask[i] != 0) out.push_back(v[i]);
    }
    return out;
  }
};

inline std::vector<double> flat(const Json& tensor) {
  std::vector<double> out;
  for (const Json& row : tensor) {
    for (const Json& v : row) out.push_back(number(v));
  }
  return out;
}

// The account of a golden file: every case passes, fails, or is left out for a reason.
class Tally {
 public:
  Tally(std::string file, size_t total) : file_(std::move(file)), total_(total) {}
  Tally(const Tally&) = delete;
  Tally& operator=(const Tally&) = delete;
  ~Tally() {
    size_t left_out = 0;
    std::string reasons;
    for (const auto& [reason, n] : left_out_) {
      left_out += n;
      reasons += "\n    left out: " + std::to_string(n) + " " + reason;
    }
    std::printf("golden %s: %zu cases, %zu passed, %zu left out%s\n", file_.c_str(), total_,
                passed_, left_out, reasons.c_str());
    EXPECT_EQ(passed_ + left_out, total_) << file_;
  }
  // Counts a case by whether it added a failure since the last one.
  void done() {
    const auto failures = num_failures();
    passed_ += failures == failures_;
    failures_ = failures;
  }
  void leave_out(const std::string& reason) { ++left_out_[reason]; }

 private:
  static int num_failures() {
    return ::testing::UnitTest::GetInstance()->current_test_info()->result()->total_part_count();
  }

  std::string file_;
  size_t total_;
  size_t passed_ = 0;
  int failures_ = 0;
  std::map<std::string, size_t> left_out_;
};

// |d| <= tolerance * (1 + |x|), the form of the tolerances of the golden data.
inline void expect_close(double seen, double expected, double tolerance, const std::string& what) {
  EXPECT_NEAR(seen, expected, tolerance * (1 + std::abs(expected))) << what;
}

inline void expect_close(const std::vector<double>& seen, const std::vector<double>& expected,
                         double tolerance, const std::string& what) {
  ASSERT_EQ(seen.size(), expected.size()) << what;
  for (size_t i = 0; i < seen.size(); ++i) {
    expect_close(seen[i], expected[i], tolerance, what + " [" + std::to_string(i) + "]");
  }
}

}  // namespace rl::golden

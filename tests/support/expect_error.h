// Runs a callable that must throw rl::Error and returns the error, so that a test can check its
// fields.
#pragma once
#include <gtest/gtest.h>

#include "core/error.h"

namespace rl {

template <typename F>
Error expect_error(Code code, F&& call) {
  try {
    call();
  } catch (const Error& error) {
    EXPECT_EQ(error.code, code) << code_name(error.code) << ": " << error.message;
    return error;
  }
  ADD_FAILURE() << "nothing was thrown; expected " << code_name(code);
  return Error(Code::kOk, "nothing was thrown");
}

// Whether text contains part; on failure both are printed.
inline ::testing::AssertionResult contains(const std::string& text, const std::string& part) {
  if (text.find(part) != std::string::npos) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure() << "\"" << text << "\" does not hold \"" << part << "\"";
}

}  // namespace rl

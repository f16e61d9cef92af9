// Arguments with which each function of rl.h does its work on a Host, so that a test can spoil one
// of them and know what the answer is about. A function is covered by the rules for kinds of
// parameters or by lines of the tables in valid_arguments.cc; a test fails for one that is not.
#pragma once
#include <string>
#include <vector>

#include "abi/calls.h"
#include "abi/host.h"

namespace abi_test {

// What a function answers to its valid arguments.
rl_status valid_status(const Row& row);

// The kind of handle that a parameter is or, for a struct, has: "rl_batch" of an rl_step; "" for
// none.
std::string handle_kind(const Parameter& p);

class Arguments {
 public:
  // Results hold garbage until the call.
  Arguments(const Row& row, const Host& host);
  ~Arguments() { rl_error_release(error_); }
  Arguments(const Arguments&) = delete;

  uint64_t call() { return row_.call(words_.data()); }
  rl_status status() { return static_cast<rl_status>(call()); }
  rl_error* error() const { return error_; }
  // How the error names what is wrong: "KEY: MESSAGE".
  std::string complaint() const;

  // Also the handle in a struct (handle_kind).
  void set_handle(size_t i, void* handle);
  void set_pointer(size_t i, void* pointer) { words_[i].pointer = pointer; }
  void* pointer(size_t i) const { return words_[i].pointer; }
  // An array that may be NULL then has no entries.
  void set_null(size_t i);

  // Whether every result but `except` is zero, as it must be after a failure.
  bool results_are_clear(size_t except) const;
  // The handles that the call made end here; not on a dead or forked library.
  void release_results();

 private:
  static constexpr size_t kMaxParameters = 12, kMaxResultBytes = 1024;
  static constexpr size_t kGarbage = 0x5a;

  void set(size_t i, const Host& host);
  void set_array(size_t i);
  void set_function(size_t i);
  void set_struct(size_t i, const Host& host);

  const Row& row_;
  std::vector<Word> words_;
  rl_error* error_ = nullptr;
  const char* texts_[kMaxParameters] = {};
  alignas(16) unsigned char results_[kMaxParameters][kMaxResultBytes];
};

}  // namespace abi_test

// Reports every violation, not only the first: checks add their errors here and the owner throws
// once.
#pragma once
#include <utility>
#include <vector>

#include "core/error.h"

namespace rl {

// A single error unchanged; several as one error that quotes all in its message and holds them as
// parts. Its code is theirs if they agree, else kInvalidArgument.
Error joined_error(std::vector<Error> errors);

class Violations {
 public:
  void add(Error error) { errors_.push_back(std::move(error)); }
  void add(std::vector<Error> errors) {
    for (Error& error : errors) add(std::move(error));
  }
  // Runs check and keeps what it throws; a joined error is split into its parts.
  template <typename Check>
  void collect(Check&& check) {
    try {
      check();
    } catch (const Error& error) {
      if (error.parts.empty()) {
        add(error);
      } else {
        add(error.parts);
      }
    }
  }
  bool empty() const { return errors_.empty(); }
  const std::vector<Error>& errors() const { return errors_; }
  void throw_any() {
    if (!errors_.empty()) throw joined_error(std::move(errors_));
  }

 private:
  std::vector<Error> errors_;
};

}  // namespace rl

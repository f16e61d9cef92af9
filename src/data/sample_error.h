// An error about one of several samples. Callers that know the place of the sample among them can
// name it, also if the samples were put into another order meanwhile.
#pragma once
#include <cstdint>
#include <string>
#include <utility>

#include "core/error.h"
#include "data/sample.h"

namespace rl {

struct SampleError : Error {
  // The text follows the sample in the message: "sample 7" + ": ids holds 9, expected 0..8".
  SampleError(Code error_code, const Sample& s, std::string what)
      : Error(error_code, str("sample ", s.id, what)),
        sample(&s),
        id(s.id),
        ordinal(s.ordinal),
        slot(s.slot),
        text(std::move(what)) {}

  const Sample* sample;  // to compare; a copy that was made for a step has ended by now
  uint64_t id, ordinal;
  uint32_t slot;
  std::string text;
  std::string field;  // of the sample; empty if the error is not about one
};

}  // namespace rl

// The message of several errors is their count, then each message in the order of the checks.
#include "core/violations.h"

#include <algorithm>

namespace rl {

Error joined_error(std::vector<Error> errors) {
  RL_CHECK(!errors.empty());
  if (errors.size() == 1) return std::move(errors.front());
  const Code code = errors.front().code;
  const auto same = [&](const Error& error) { return error.code == code; };
  const bool agree = std::all_of(errors.begin(), errors.end(), same);
  std::string all = str(errors.size(), agree && code == Code::kConflict ? " options conflict"
                                                                        : " values are refused");
  for (const Error& error : errors) all += str("; ", error.message);
  Error joined(agree ? code : Code::kInvalidArgument, std::move(all));
  joined.key = errors.front().key;
  joined.other_key = errors.front().other_key;
  joined.parts = std::move(errors);
  return joined;
}

}  // namespace rl

// The rows of a head chunk as the functions of the head take them.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "train/batch/micro_batch.h"

namespace rl {

// Replaces the arrays by those of the rows; their ids are the tokens that the rows predict.
void set_head_rows(std::span<const WantedRow> wanted, std::vector<int32_t>& rows,
                   std::vector<int32_t>& ids, std::vector<float>& inv_temperature);

}  // namespace rl

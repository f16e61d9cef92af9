// One loop for every pass, so that all of them hand the head the same.
#include "train/passes/head_rows.h"

namespace rl {

void set_head_rows(std::span<const WantedRow> wanted, std::vector<int32_t>& rows,
                   std::vector<int32_t>& ids, std::vector<float>& inv_temperature) {
  rows.clear();
  ids.clear();
  inv_temperature.clear();
  for (const WantedRow& w : wanted) {
    rows.push_back(w.row);
    ids.push_back(w.id);
    inv_temperature.push_back(w.inv_temperature);
  }
}

}  // namespace rl

#include "buffer/store_producer.h"

#include <utility>
#include <vector>

#include "buffer/batch_bytes.h"
#include "buffer/store_consumer.h"

namespace rl {

void deliver_groups(ExperienceBuffer& buffer, ExperienceStore& store) {
  for (;;) {
    std::vector<SamplePtr> group = buffer.take(1);
    if (group.empty()) return;
    try {
      store.put(key_of(group), encode_samples(group));
    } catch (...) {
      buffer.put_all(std::move(group));
      throw;
    }
  }
}

}  // namespace rl

// Events of a queue, for the tests of queues.
#pragma once
#include <poll.h>

#include "abi/host.h"

namespace abi_test {

inline rl_event_view view_of(const rl_event* event) {
  rl_event_view view;
  rl_event_view_init(&view, sizeof view);
  EXPECT_RL_OK(rl_event_get_view(event, &view, &err));
  return view;
}

inline bool readable(const rl_event_queue* queue) {
  pollfd entry = {rl_event_queue_fd(queue), POLLIN, 0};
  return poll(&entry, 1, 0) == 1;
}

}  // namespace abi_test

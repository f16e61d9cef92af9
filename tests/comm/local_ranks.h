// Ranks of tests over local transports.
#pragma once
#include "comm/local/local_transport.h"
#include "comm/rank_threads.h"

namespace rl {

inline TransportOf local_backend(int size) {
  auto transports =
      std::make_shared<std::vector<std::shared_ptr<Transport>>>(make_local_transports(size));
  return [transports](int rank) { return std::move((*transports)[static_cast<size_t>(rank)]); };
}

// A transport that copies messages, as those between processes do.
class CopyingTransport final : public Transport {
 public:
  explicit CopyingTransport(std::shared_ptr<Transport> base) : base_(std::move(base)) {}
  int rank() const override { return base_->rank(); }
  int size() const override { return base_->size(); }
  void exchange(const Exchange& exchange) override { base_->exchange(exchange); }
  void check() override { base_->check(); }
  void fail(const std::string& why) override { base_->fail(why); }

 private:
  std::shared_ptr<Transport> base_;
};

inline TransportOf copying_backend(int size) {
  return [local = local_backend(size)](int rank) {
    return std::make_shared<CopyingTransport>(local(rank));
  };
}

inline std::vector<std::exception_ptr> try_local_ranks(int size, const RankBody& body) {
  return try_ranks(local_backend, size, body);
}
inline void run_local_ranks(int size, const RankBody& body) {
  run_ranks(local_backend, size, body);
}
inline void run_local_groups(int size, const std::function<void(comm::Group&)>& body,
                             GroupOptions options = {kLongNs}) {
  run_groups(local_backend, size, body, options);
}

}  // namespace rl

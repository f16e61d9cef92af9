// Where ranks of several processes find one another: each publishes a card, a short text that says
// how to reach it, and reads those of the others. It is needed until all have met.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "core/fs.h"

namespace rl {

class Rendezvous {
 public:
  virtual ~Rendezvous() = default;
  // Replaces what an earlier run left there. False if the place was not reached by the deadline.
  virtual bool publish(int rank, const std::string& card, int64_t deadline_ns) = 0;
  // Nothing if the rank has not published yet. It may be one of an earlier run, which is replaced
  // later: a reader that cannot reach the rank looks again.
  virtual std::optional<std::string> find(int rank, int64_t deadline_ns) = 0;
  // All have met.
  virtual void withdraw(int rank) = 0;
  // The address of this machine on the way to the others; empty if this place cannot tell.
  virtual std::string own_address(int64_t deadline_ns) = 0;
};

// A directory that all ranks share, with a file for each. Error(kNotFound) if there is none.
std::unique_ptr<Rendezvous> file_rendezvous(FileSystem& files, std::string directory);

// Functions of the host, which are called on one thread at a time.
struct RendezvousCalls {
  std::function<void(int rank, const std::string& card)> publish;
  std::function<std::optional<std::string>(int rank)> find;
};
std::unique_ptr<Rendezvous> host_rendezvous(RendezvousCalls calls);

// A store that rank 0 holds at "HOST:PORT" and the others ask. Error(kInvalidArgument) for another
// text, Error(kIo) if rank 0 cannot listen there.
std::unique_ptr<Rendezvous> tcp_rendezvous(const std::string& where, int rank, int size);

}  // namespace rl

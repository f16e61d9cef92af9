#include "pipeline/ranks/join_ranks.h"

#include <string_view>

#include "comm/plugin/gloo_loader.h"
#include "comm/rendezvous/rendezvous.h"
#include "core/error.h"
#include "pipeline/config/runtime_options.h"

namespace rl {
namespace {

constexpr const char* kKey = "comm.rendezvous";
constexpr std::string_view kFile = "file:", kTcp = "tcp:";

std::unique_ptr<Rendezvous> rendezvous_of(const Settings& settings, FileSystem& files) {
  const std::string& place = settings.comm.rendezvous;
  if (place.starts_with(kFile)) return file_rendezvous(files, place.substr(kFile.size()));
  if (place.starts_with(kTcp)) {
    return gloo_plugin().tcp_rendezvous(
        place.substr(kTcp.size()), static_cast<int>(settings.comm.rank), rank_count_of(settings));
  }
  throw Error(Code::kInvalidArgument, str(kKey, " is '", place, "'"))
      .with_expected("file:DIRECTORY or tcp:HOST:PORT");
}

}  // namespace

bool makes_own_runtimes(const Settings& settings) {
  return rank_count_of(settings) > 1 && settings.comm.backend != CommBackend::kLocal;
}

void check_host_ranks(const Settings& settings, const Transport* given, int size) {
  const bool wanted = settings.comm.backend == CommBackend::kHost;
  if (wanted == (given != nullptr) && (given == nullptr || given->size() == size)) return;
  const char* const service = "host.transport";
  if (given == nullptr) {
    throw Error(Code::kFailedPrecondition, str("comm.backend is host, but ", service, " is NULL"))
        .with_key("comm.backend")
        .with_other_key(service);
  }
  if (!wanted) {
    throw Error(Code::kConflict,
                str("the host provides ", service, ", but comm.backend is not host"))
        .with_key("comm.backend")
        .with_other_key(service);
  }
  throw Error(Code::kInvalidArgument,
              str(service, ".num_ranks is ", given->size(), ", but the run has ", size, " ranks"))
      .with_key(service)
      .with_other_key(rank_axis_of(settings))
      .with_expected(str(size));
}

std::shared_ptr<Transport> join_ranks(const Settings& settings, FileSystem& files) {
  try {
    const std::unique_ptr<Rendezvous> rendezvous = rendezvous_of(settings, files);
    const int64_t timeout = settings.comm.timeout_ns;
    return gloo_plugin().transport(
        {static_cast<int>(settings.comm.rank), rank_count_of(settings), timeout, timeout, {}},
        *rendezvous);
  } catch (const RankError&) {
    throw;
  } catch (Error& error) {
    error.message = str("rank ", settings.comm.rank, " of ", rank_count_of(settings),
                        " cannot join the others: ", error.message);
    if (error.key.empty()) error.key = kKey;
    throw;
  }
}

}  // namespace rl

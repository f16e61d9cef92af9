// Runtimes, the services that a host gives them, and their log.
#include "abi/arguments.h"
#include "abi/guard.h"
#include "abi/host/host_files.h"
#include "abi/host/host_memory.h"
#include "abi/host/host_ranks.h"
#include "abi/host/host_service.h"
#include "abi/user_data.h"

using namespace rl;
using namespace rl::abi;

namespace {

class HostLog final : public LogSink {
 public:
  HostLog(rl_log_fn fn, UserData user) : fn_(fn), user_(std::move(user)) {}
  void write(const LogRecord& given) override {
    const std::string component(given.component), message(given.message);
    std::vector<std::string> texts;
    std::vector<const char*> names, values;
    std::vector<int32_t> kinds;
    for (const LogField& field : given.fields) {
      names.push_back(field.name());
      texts.push_back(field.text());
      kinds.push_back(field.is_number() ? RL_FIELD_NUMBER : RL_FIELD_TEXT);
    }
    for (const std::string& text : texts) values.push_back(text.c_str());
    rl_log_record record{};
    record.struct_size = sizeof(record);
    record.level = static_cast<int32_t>(given.level);
    record.time_ns = given.time_ns;
    record.unix_ns = given.unix_ns;
    record.component = component.c_str();
    record.component_len = component.size();
    record.message = message.c_str();
    record.message_len = message.size();
    record.num_fields = names.size();
    record.field_names = names.data();
    record.field_values = values.data();
    record.field_kinds = kinds.data();
    const CallbackScope scope;
    fn_(user_.data(), &record);
  }

 private:
  rl_log_fn fn_;
  UserData user_;
};

// Times of spans are added to the time of day.
constexpr int64_t kLatestNs = int64_t{1} << 62;

// Before 1.0 each minor version is an interface of its own; from 1.0 on a library serves the minor
// versions before it too.
bool serves(uint32_t major, uint32_t minor) {
  if (major != RL_ABI_MAJOR) return false;
  return RL_ABI_MAJOR == 0 ? minor == RL_ABI_MINOR : minor <= RL_ABI_MINOR;
}

void check_header(uint32_t header_abi) {
  const uint32_t major = header_abi >> 16, minor = header_abi & 0xffff;
  if (serves(major, minor)) return;
  throw Error(Code::kIncompatible,
              str("parameter header_abi: the program was compiled for interface ", major, ".",
                  minor, ", the library offers ", RL_ABI_MAJOR, ".", RL_ABI_MINOR,
                  "; is an old librl.so found first?"))
      .with_key("header_abi");
}

// The services that a host gives to a runtime. Its user_data is taken before anything can fail.
class Services {
 public:
  explicit Services(const rl_host* host) noexcept
      : host_(host),
        files_(user_data_of(member(&rl_host::files))),
        memory_(user_data_of(member(&rl_host::allocator))),
        ranks_(user_data_of(member(&rl_host::transport))) {}

  RuntimeSeams seams() {
    RuntimeSeams out;
    if (host_ == nullptr) return out;
    const rl_host host = input_struct(host_, "host");
    out.host_files = host_files(host.files, std::move(files_));
    out.host_memory = host_memory(host.allocator, std::move(memory_));
    out.host_ranks = host_ranks(host.transport, std::move(ranks_));
    return out;
  }

 private:
  // A member of the host's struct, null if it has none.
  template <typename T>
  const T* member(const T* rl_host::*field) const noexcept {
    if (host_ == nullptr || !is_struct_size(host_->struct_size, kFirstSize<rl_host>))
      return nullptr;
    return host_->*field;
  }

  const rl_host* host_;
  UserData files_, memory_, ranks_;
};

rl_status create_runtime(uint32_t header_abi, const rl_options* options, const rl_host* host,
                         rl_runtime** out, rl_error** err) {
  Services services(host);
  clear(out);
  return guarded(err, nullptr, [&] {
    check_header(header_abi);
    const OptionSet set = options_or(options, OptionSet());
    RuntimeSeams seams = services.seams();
    require(out, "out");
    *out = issue<rl_runtime>(std::make_shared<Runtime>(set, std::move(seams)));
  });
}

}  // namespace

extern "C" {

void rl_log_record_init(rl_log_record* record, size_t size) {
  init_struct(record, size, sizeof(*record));
}
void rl_clock_init(rl_clock* clock, size_t size) { init_struct(clock, size, sizeof(*clock)); }
void rl_span_init(rl_span* span, size_t size) {
  if (!init_struct(span, size, sizeof(*span))) return;
  span->lane_len = span->name_len = span->arg_name_len = RL_NUL_TERMINATED;
}
void rl_files_init(rl_files* files, size_t size) {
  if (init_struct(files, size, sizeof(*files))) files->prefix_len = RL_NUL_TERMINATED;
}
void rl_allocator_init(rl_allocator* allocator, size_t size) {
  init_struct(allocator, size, sizeof(*allocator));
}
void rl_exchange_init(rl_exchange* exchange, size_t size) {
  init_struct(exchange, size, sizeof(*exchange));
}
void rl_transport_init(rl_transport* transport, size_t size) {
  init_struct(transport, size, sizeof(*transport));
}
void rl_host_init(rl_host* host, size_t size) { init_struct(host, size, sizeof(*host)); }

rl_status rl_runtime_create(uint32_t header_abi, const rl_options* options, rl_runtime** out,
                            rl_error** err) {
  return create_runtime(header_abi, options, nullptr, out, err);
}

rl_status rl_runtime_create_hosted(uint32_t header_abi, const rl_options* options,
                                   const rl_host* host, rl_runtime** out, rl_error** err) {
  return create_runtime(header_abi, options, host, out, err);
}

rl_status rl_runtime_create_rank(const rl_runtime* runtime, uint32_t rank, rl_runtime** out,
                                 rl_error** err) {
  clear(out);
  return guarded(err, runtime, [&] {
    const auto source = use(runtime, "runtime");
    require(out, "out");
    if (rank > INT32_MAX) refuse("rank", str("is ", rank));
    *out = issue<rl_runtime>(source->make_rank(static_cast<int>(rank)));
  });
}

void rl_runtime_destroy(rl_runtime* runtime) { destroy(runtime); }

rl_status rl_runtime_set_log(rl_runtime* runtime, rl_log_fn fn, void* user_data,
                             rl_destroy_fn destroy, rl_error** err) {
  UserData user(user_data, destroy);
  return guarded(err, runtime, [&] {
    const auto target = use(runtime, "runtime");
    std::shared_ptr<LogSink> sink;
    if (fn != nullptr) sink = std::make_shared<HostLog>(fn, std::move(user));
    target->logger().set_sink(std::move(sink));
  });
}

void rl_runtime_info_init(rl_runtime_info* info, size_t size) {
  init_struct(info, size, sizeof(*info));
}

rl_status rl_runtime_get_info(const rl_runtime* runtime, rl_runtime_info* info, rl_error** err) {
  clear_result(info);
  return guarded(err, runtime, [&] {
    const auto source = use(runtime, "runtime");
    rl_runtime_info& out = result_struct(info, "info");
    out.threads = source->num_threads();
    out.reserved_bytes = source->ledger().bytes();
    out.rank = source->ranks().rank();
    out.num_ranks = source->ranks().size();
  });
}

rl_status rl_buffer_set_runtime(rl_buffer* buffer, const rl_runtime* runtime, rl_error** err) {
  return guarded(err, buffer, [&] {
    const auto target = use(buffer, "buffer");
    target->set_runtime(runtime != nullptr ? use(runtime, "runtime") : nullptr);
  });
}

rl_status rl_runtime_get_clock(const rl_runtime* runtime, rl_clock* clock, rl_error** err) {
  clear_result(clock);
  return guarded_callback_safe(err, runtime, [&] {
    const auto source = use(runtime, "runtime");
    rl_clock& out = result_struct(clock, "clock");
    const ClockReading now = read_both(source->clock());
    out.steady_ns = now.steady_ns;
    out.unix_ns = now.unix_ns;
  });
}

rl_status rl_runtime_trace_span(rl_runtime* runtime, const rl_span* span, rl_error** err) {
  return guarded_callback_safe(err, runtime, [&] {
    const auto target = use(runtime, "runtime");
    const rl_span given = input_struct(span, "span");
    const Tracer::HostSpan made = {
        name_arg(given.lane, given.lane_len, "span.lane"),
        name_arg(given.name, given.name_len, "span.name"),
        given.start_ns,
        given.end_ns,
        name_arg(given.arg_name, field_len(given.arg_name, given.arg_name_len), "span.arg_name"),
        given.arg_value};
    if (made.lane.empty()) refuse("span.lane", "is empty");
    if (made.name.empty()) refuse("span.name", "is empty");
    if (made.start_ns < 0) refuse("span.start_ns", str("is ", made.start_ns));
    if (made.end_ns < made.start_ns || made.end_ns > kLatestNs) {
      refuse("span.end_ns", str("is ", made.end_ns, ", expected ", made.start_ns, "..", kLatestNs));
    }
    target->tracer().host_span(made);
  });
}

}  // extern "C"

// Events, their views, and the queue they wait in.
#include "abi/arguments.h"
#include "abi/guard.h"
#include "abi/samples.h"

using namespace rl;
using namespace rl::abi;

namespace {

const MetricList* metrics_of(const Event& event) {
  if (const auto* step = dynamic_cast<const StepEvent*>(&event)) return &step->metrics;
  if (const auto* eval = dynamic_cast<const EvalEvent*>(&event)) return &eval->metrics;
  if (const auto* stats = dynamic_cast<const EngineStatsEvent*>(&event)) return &stats->metrics;
  return nullptr;
}

void set_text(rl_event_view& view, const std::string& text) {
  view.text = text.c_str();
  view.text_len = text.size();
}

void set_left_out(rl_event_view& view, const LimitedEvent& event) {
  view.count = event.num_left_out;
}

void fill_kind(rl_event_view& view, const StepEvent& event) {
  set_left_out(view, event);
  view.step = event.step;
  view.version = event.version;
}

void fill_kind(rl_event_view& view, const EvalEvent& event) {
  view.step = event.step;
  view.version = event.version;
  view.value = event.mean_reward;
  view.count = static_cast<uint64_t>(event.num_scored);
}

void fill_kind(rl_event_view& view, const CheckpointEvent& event) {
  set_left_out(view, event);
  view.step = event.step;
  set_text(view, event.path);
}

void fill_kind(rl_event_view& view, const CheckpointFailedEvent& event) {
  view.step = event.step;
  set_text(view, event.message);
}

void fill_kind(rl_event_view& view, const PublishedEvent& event) {
  set_left_out(view, event);
  view.step = event.step;
  view.version = event.version;
}

void fill_kind(rl_event_view& view, const GroupsEvent& event) {
  view.count = static_cast<uint64_t>(event.count);
}

void fill_kind(rl_event_view& view, const GroupDroppedEvent& event) {
  set_left_out(view, event);
  view.reason = static_cast<int32_t>(event.reason);
  view.purpose = static_cast<int32_t>(event.purpose);
  view.ordinal = event.ordinal;
  view.data_row = event.data_row;
  set_text(view, event.message);
}

void fill_kind(rl_event_view& view, const EngineStatsEvent& event) {
  view.step = event.step;
  view.version = event.version;
  view.count = static_cast<uint64_t>(event.engine);
}

void set_group(rl_event_view& view, const Sample& sample) {
  view.ordinal = sample.ordinal;
  view.purpose = static_cast<int32_t>(sample.purpose);
  view.data_row = sample.data_row;
}

void fill_kind(rl_event_view& view, const ScoreEvent& event) { set_group(view, *event.sample); }

void fill_kind(rl_event_view& view, const TurnEvent& event) {
  set_group(view, *event.sample);
  view.count = static_cast<uint64_t>(event.turn);
  set_text(view, event.turn_text);
}

void fill_kind(rl_event_view& view, const GroupEvent& event) {
  set_group(view, *event.samples.front().sample);
  view.count = event.samples.size();
}

void fill_kind(rl_event_view& view, const FinishedEvent& event) { set_group(view, *event.sample); }

void fill_kind(rl_event_view& view, const TokensEvent& event) {
  set_group(view, *event.sample);
  set_text(view, event.text);
}

void fill_kind(rl_event_view& view, const EngineFailedEvent& event) {
  set_text(view, event.message);
}

template <typename Kind>
bool fill_if(rl_event_view& view, const Event& event) {
  const auto* const typed = dynamic_cast<const Kind*>(&event);
  if (typed != nullptr) fill_kind(view, *typed);
  return typed != nullptr;
}

void fill(rl_event_view& view, const Event& event) {
  view.kind = event.kind();
  view.data_row = -1;
  view.text = "";
  const MetricList* const metrics = metrics_of(event);
  view.num_metrics = metrics != nullptr ? metrics->size() : 0;
  const bool known =
      fill_if<ScoreEvent>(view, event) || fill_if<TurnEvent>(view, event) ||
      fill_if<GroupEvent>(view, event) || fill_if<StepEvent>(view, event) ||
      fill_if<EvalEvent>(view, event) || fill_if<CheckpointEvent>(view, event) ||
      fill_if<GroupDroppedEvent>(view, event) || fill_if<EngineStatsEvent>(view, event) ||
      fill_if<FinishedEvent>(view, event) || fill_if<TokensEvent>(view, event) ||
      fill_if<EngineFailedEvent>(view, event) || fill_if<GroupsEvent>(view, event) ||
      fill_if<PublishedEvent>(view, event) || fill_if<CheckpointFailedEvent>(view, event);
  RL_CHECK(known);
  view.source = event.source;
}

void fill(rl_sample_view& view, const EventSample& of) {
  fill_sample(view, *of.sample);
  view.prompt_text = of.prompt_text.c_str();
  view.prompt_text_len = of.prompt_text.size();
  view.text = of.text.c_str();
  view.text_len = of.text.size();
}

}  // namespace

extern "C" {

void rl_sample_view_init(rl_sample_view* view, size_t size) {
  if (!init_struct(view, size, kFirstSize<rl_sample_view>)) return;
  view->data_row = -1;
  view->temperature = 1;
  view->tag_len = RL_NUL_TERMINATED;
}

void rl_event_view_init(rl_event_view* view, size_t size) {
  init_struct(view, size, kFirstSize<rl_event_view>);
}

int32_t rl_event_kind(const rl_event* event) {
  const auto source = use_if_live(event);
  return source != nullptr ? source->kind() : 0;
}

rl_status rl_event_get_view(const rl_event* event, rl_event_view* view, rl_error** err) {
  clear_result(view);
  return guarded_callback_safe(err, event, [&] {
    const auto source = use(event, "event");
    write_result(view, "view", [&](rl_event_view& out) { fill(out, *source); });
  });
}

rl_status rl_event_sample(const rl_event* event, size_t index, rl_sample_view* view,
                          rl_error** err) {
  clear_result(view);
  return guarded_callback_safe(err, event, [&] {
    const auto source = use(event, "event");
    write_result(view, "view",
                 [&](rl_sample_view& out) { fill(out, event_sample(*source, index)); });
  });
}

rl_status rl_event_metric(const rl_event* event, size_t index, const char** name, double* value,
                          rl_error** err) {
  clear(name);
  clear(value);
  return guarded_callback_safe(err, event, [&] {
    const auto source = use(event, "event");
    require(name, "name");
    require(value, "value");
    const MetricList* const metrics = metrics_of(*source);
    check_index(index, metrics != nullptr ? metrics->size() : 0);
    *name = metrics->at(index).name.c_str();
    *value = metrics->at(index).value;
  });
}

rl_status rl_event_metric_named(const rl_event* event, const char* name, size_t name_len,
                                double* value, rl_error** err) {
  clear(value);
  return guarded_callback_safe(err, event, [&] {
    const auto source = use(event, "event");
    const std::string_view wanted = name_arg(name, name_len, "name");
    require(value, "value");
    const MetricList* const metrics = metrics_of(*source);
    const auto found = metrics != nullptr ? metrics->get(wanted) : std::nullopt;
    if (!found) {
      throw Error(Code::kNotFound, str("parameter name: the event has no metric \"", wanted, "\""))
          .with_key("name");
    }
    *value = *found;
  });
}

void rl_event_release(rl_event* event) { drop(event); }

rl_status rl_event_queue_create(rl_event_queue** out, rl_error** err) {
  clear(out);
  return guarded(err, nullptr, [&] {
    require(out, "out");
    *out = issue<rl_event_queue>(std::make_shared<EventQueue>());
  });
}

rl_status rl_event_queue_next(rl_event_queue* queue, int64_t timeout_ns, rl_event** out,
                              rl_error** err) {
  clear(out);
  return guarded(err, queue, [&] {
    const auto source = use(queue, "queue");
    require(out, "out");
    Reserved<rl_event> place;
    EventQueue::Popped popped = source->pop(timeout_ns);
    if (popped.status == Code::kOk) *out = place.fill(std::move(popped.event));
    return static_cast<rl_status>(popped.status);
  });
}

rl_status rl_event_queue_interrupt(rl_event_queue* queue, rl_error** err) {
  return guarded(err, queue, [&] { use(queue, "queue")->interrupt(); });
}

int32_t rl_event_queue_fd(const rl_event_queue* queue) {
  const auto source = use_if_live(queue);
  return source != nullptr ? source->fd() : -1;
}

size_t rl_event_queue_size(const rl_event_queue* queue) {
  const auto source = use_if_live(queue);
  return source != nullptr ? source->size() : 0;
}

void rl_event_queue_release(rl_event_queue* queue) { drop(queue); }

}  // extern "C"

// The host's side of a pipeline: every call is short, except next, stop and checkpoint, which wait
// no longer than their timeouts.
#include "pipeline/loop/pipeline.h"

#include <algorithm>
#include <system_error>

#include "core/error.h"
#include "core/signals.h"
#include "core/violations.h"
#include "pipeline/config/algo_options.h"
#include "pipeline/config/runtime_options.h"
#include "pipeline/loop/pipeline_impl.h"
#include "pipeline/plan/planner.h"
#include "pipeline/session/run_rules.h"

namespace rl {

Pipeline::Pipeline(std::shared_ptr<LoadedModel> model, const Settings& settings,
                   std::shared_ptr<ExperienceStore> store)
    : impl_(std::make_shared<Impl>(std::move(model), settings, std::move(store))) {}

// The failure comes before the stop, which ranks that divide a model would agree to.
Pipeline::~Pipeline() {
  const bool running = impl_->control.running(impl_->control.lock());
  if (running) impl_->rollout.batches().fail("its pipeline was destroyed");
  stop(0);
  if (impl_->thread.joinable()) impl_->thread.join();
}

// The previous function is destroyed with the parameter, after unlocking: it may call back.
void Pipeline::set_custom_advantage(CustomAdvantage advantage) {
  const std::lock_guard start(impl_->start_mutex);
  const Control::Lock lock = impl_->control.lock();
  impl_->control.refuse_second_start(lock);
  impl_->require_training("reads no advantages");
  impl_->phases.update().swap_custom_advantage(advantage);
}

void Pipeline::set_custom_loss(CustomLoss loss) {
  const std::lock_guard start(impl_->start_mutex);
  const Control::Lock lock = impl_->control.lock();
  impl_->control.refuse_second_start(lock);
  impl_->require_training("has no loss");
  impl_->phases.update().swap_custom_loss(loss);
}

// A stop ends the wait.
std::unique_ptr<ComputeLease> Pipeline::Impl::wait_to_compute() {
  try {
    return std::make_unique<ComputeLease>(runtime, "a pipeline", ComputeSharing::kAlone, nullptr,
                                          ComputeWait{.given_up = &stopped});
  } catch (const Error& e) {
    if (e.code == Code::kCancelled) control.refuse_second_start(control.lock());
    throw;
  }
}

void Pipeline::start() {
  Impl& p = *impl_;
  const std::lock_guard starting(p.starting);
  {
    const std::lock_guard start(p.start_mutex);
    p.control.refuse_second_start(p.control.lock());
    p.require_custom_algorithms();
  }
  auto run_lease = std::make_unique<LoadedModel::RunLease>(*p.model, "a pipeline");
  auto compute = p.wait_to_compute();
  const std::lock_guard start(p.start_mutex);
  p.require_custom_algorithms();  // the host may have removed them meanwhile
  p.model->prepare_compute(LoadedModel::Weights::kTrained);
  // The host may have set weights meanwhile.
  if (p.phases.trains()) p.phases.update().begin_run(p.settings);
  std::shared_ptr<TraceRecorder> recorder = p.files.timeline().make();
  const Control::Lock lock = p.control.lock();
  p.control.refuse_second_start(lock);  // it may have been stopped in the meantime
  p.files.timeline().begin(std::move(recorder), p.plan.num_engines, lock);
  p.progress.version = p.model->version();  // the host may have set weights meanwhile
  p.leases = std::make_unique<Impl::Leases>(std::move(compute), std::move(run_lease));
  const auto give_back = [&] {
    p.leases.reset();
    p.files.timeline().cancel(lock);
  };
  try {
    const ScopedSignalMask mask;
    p.thread = std::thread([impl = impl_.get()] {
      impl->runtime.cpus().bind_this_thread();
      impl->run();
    });
  } catch (const std::bad_alloc&) {
    give_back();
    throw;
  } catch (const std::system_error& e) {
    give_back();
    throw Error(Code::kResourceExhausted, str("cannot start a thread: ", e.what()))
        .with_system_code(e.code().value());
  }
  p.control.set_started(lock);
}

EventQueue::Popped Pipeline::next(int64_t timeout_ns) {
  EventQueue::Popped popped = event_queue()->pop(timeout_ns);
  if (popped.status != Code::kDone) return popped;
  if (const auto cause = failure(); cause != nullptr) throw Error(*cause);
  return popped;
}

void Pipeline::interrupt() { event_queue()->interrupt(); }
int Pipeline::event_fd() const { return event_queue()->fd(); }
const std::shared_ptr<EventQueue>& Pipeline::event_queue() const { return impl_->control.queue(); }

void Pipeline::score(const Score& score) {
  if (score.failure) return fail(score.sample_id, *score.failure);
  impl_->scoring.score(score);
}

namespace {

// Runs call(i) for each of `count` entries of an array and reports its code. Then throws the error
// of the one that was refused, or of several an error that has theirs as parts.
void try_all(size_t count, const char* array, FunctionRef<void(size_t)> call,
             FunctionRef<void(size_t, Code)> report) {
  std::vector<Error> refused;
  for (size_t i = 0; i < count; ++i) {
    try {
      call(i);
      report(i, Code::kOk);
    } catch (Error& e) {
      report(i, e.code);
      refused.push_back(std::move(e));
      refused.back().key = str(array, "[", i, "]");
    }
  }
  if (refused.size() == 1) throw std::move(refused.front());
  if (refused.empty()) return;
  Error all(refused.front().code, str(refused.size(), " of ", count, " ", array,
                                      " were refused; the first: ", refused.front().message));
  all.key = refused.front().key;
  all.cause = std::make_shared<Error>(refused.front());
  all.parts = std::move(refused);
  throw all;
}

}  // namespace

void Pipeline::score_many(std::span<const Score> scores, FunctionRef<void(size_t, Code)> report) {
  try_all(
      scores.size(), "scores", [&](size_t i) { score(scores[i]); }, report);
}

void Pipeline::reply_many(std::span<const Reply> replies, FunctionRef<void(size_t, Code)> report) {
  try_all(
      replies.size(), "replies", [&](size_t i) { impl_->scoring.reply(replies[i]); }, report);
}

void Pipeline::fail(uint64_t sample_id, std::string_view reason) {
  impl_->scoring.fail(sample_id, reason);
}

bool Pipeline::feed_line(std::string_view json, int64_t timeout_ns) {
  return impl_->prompts.feed_line(json, timeout_ns);
}

bool Pipeline::feed_ids(std::vector<int32_t> ids, std::string tag, int64_t timeout_ns) {
  return impl_->prompts.feed_ids(std::move(ids), std::move(tag), timeout_ns);
}

void Pipeline::end_feed() { impl_->prompts.end_feed(); }
void Pipeline::pause() { impl_->control.pause(); }
void Pipeline::unpause() { impl_->control.unpause(); }

// A start that waits is refused as one after the stop.
bool Pipeline::stop(int64_t timeout_ns) {
  const bool ended = impl_->control.stop(timeout_ns);
  impl_->stopped = true;
  impl_->runtime.compute_queue().note_given_up();
  return ended;
}

std::string Pipeline::checkpoint(int64_t timeout_ns) {
  Impl& p = *impl_;
  p.require_first_rank("writes checkpoints", true);
  p.require_whole_states();
  std::unique_lock start(p.start_mutex, std::defer_lock);  // locked only for a direct write
  Control::Lock lock = p.control.lock();
  if (p.settings.checkpoint.dir.empty()) {
    throw Error(Code::kFailedPrecondition,
                "checkpoint.dir is empty, so no checkpoint can be written")
        .with_key("checkpoint.dir");
  }
  while (!start.owns_lock()) {
    if (p.control.running(lock)) {
      p.require_no_partners();
      if (p.control.await_checkpoint(lock, timeout_ns)) return p.checkpoints.last(lock);
    }
    lock.unlock();
    start.lock();
    lock.lock();
    if (p.control.running(lock)) start.unlock();  // it was started in the meantime
  }
  if (p.control.failure(lock) != nullptr) {
    throw Error(Code::kFailedPrecondition, "the pipeline failed, so its state cannot be saved")
        .with_cause(*p.control.failure(lock));
  }
  lock.unlock();
  return p.checkpoints.write(p.phases.update(), p.progress.boundary);
}

void Pipeline::save_critic(const std::string& dir, Dtype dtype, bool replace_existing) const {
  impl_->require_training("has no critic");
  impl_->phases.update().save_critic(dir, dtype, replace_existing);
}

void Pipeline::request_eval() {
  Impl& p = *impl_;
  p.require_first_rank("evaluates");
  if (!p.prompts.has_eval()) {
    throw Error(Code::kFailedPrecondition, "eval.path is empty, so there is nothing to evaluate")
        .with_key("eval.path");
  }
  p.control.request_eval();
}

OptionSet Pipeline::options() const {
  const Control::Lock lock = impl_->control.lock();
  return impl_->control.latest(lock).set;
}

void Pipeline::set_options(const Settings& settings) {
  Impl& p = *impl_;
  if (p.control.replays()) {
    throw Error(Code::kFailedPrecondition, "a replay has the options of its record")
        .with_key("pipeline.replay_path");
  }
  // What shaped runtime and model is fixed at creation, so it needs no check here.
  Violations violations;
  violations.add(settings.set.validate_all());
  const Device& device = p.runtime.compute().device();
  violations.add(plan_violations(settings, p.model->config(), PlanUse::kPipeline, device));
  violations.add(run_violations(settings, *p.model));
  const Control::Lock lock = p.control.lock();
  for (const std::string& key : p.settings.set.diff(settings.set)) {
    violations.collect([&] { require_changeable(require_option(key), OptionWhen::kBetweenSteps); });
  }
  if (p.runtime.ranks().size() > 1 && p.control.running(lock)) {
    violations.add(Error(Code::kUnsupported,
                         "the options of a run of several ranks cannot change while it runs: the "
                         "ranks would change them before different steps")
                       .with_key(rank_axis_of(settings)));
  }
  violations.throw_any();
  const Planner planner(settings, p.model->config(), PlanUse::kPipeline, p.runtime.num_threads(),
                        device);
  if (planner.has_engine() && planner.min_blocks() > p.plan.engine.num_blocks) {
    throw Error(Code::kResourceExhausted,
                str("with these options a group may need ", planner.min_blocks(),
                    " KV blocks, but the plan has ", p.plan.engine.num_blocks))
        .with_key("sampling.max_new_tokens");
  }
  p.control.stage(settings_of_rank(settings, p.runtime.ranks().rank()), lock);
  p.runtime.logger().set_level(settings.runtime.log_level);
  p.control.notify(lock);
}

PipelineStatus Pipeline::status() const {
  const Impl& p = *impl_;
  const Control::Lock lock = p.control.lock();
  PipelineStatus s;
  s.state = p.control.state(lock);
  s.step = p.progress.boundary.step;
  s.version = p.progress.version;
  s.unscored = p.scoring.unscored(lock);
  s.unreplied = p.scoring.unreplied(lock);
  s.ledger = p.scoring.ledger(lock);
  s.feed_size = p.prompts.feed_size(lock);
  s.feed_capacity = p.prompts.feed_capacity();
  return s;
}

std::shared_ptr<const Error> Pipeline::failure() const {
  const Control::Lock lock = impl_->control.lock();
  return impl_->control.failure(lock);
}

const MemoryPlan& Pipeline::plan() const { return impl_->plan; }
LoadedModel& Pipeline::model() { return *impl_->model; }
std::string Pipeline::resumed_from() const { return impl_->checkpoints.resumed_from(); }

}  // namespace rl

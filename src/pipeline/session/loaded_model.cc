// Opens header, plan, weights and tokenizer in this order, so that nothing large is reserved for a
// model that does not fit.
#include "pipeline/session/loaded_model.h"

#include "core/deadline.h"
#include "core/error.h"
#include "core/hash.h"
#include "core/violations.h"
#include "formats/open/open_weight_source.h"
#include "pipeline/config/algo_options.h"
#include "pipeline/config/run_options.h"
#include "pipeline/config/runtime_options.h"
#include "pipeline/plan/planner.h"
#include "pipeline/ranks/shared_inputs.h"
#include "pipeline/session/model_forward.h"
#include "pipeline/session/run_rules.h"
#include "text/chat_request.h"

namespace rl {
namespace {

ModelOptions model_options(Runtime& runtime, const Settings& settings, const MemoryPlan& plan,
                           PlanUse use, const ModelConfig& config) {
  ModelOptions m;
  m.tensor = runtime.tensor_ranks();
  m.split = tensor_split_from(settings, m.tensor.rank());
  m.stages = runtime.stage_ranks();
  m.cut = stage_cut_from(settings);
  m.max_positions = plan.max_model_len;
  const KvFormat kv = kv_format_of(settings, plan.compute);
  m.block_size = kv.block_size;
  m.kv_dtype = kv.dtype;
  m.compute_copies = settings.model.compute_copies;
  if (has_rollout_weights(settings, use)) m.rollout_bucket_bytes = settings.sync.bucket_bytes;
  m.master_ranks = runtime.master_ranks();
  m.masters =
      master_cut_from(settings, with_stage(with_split(config, m.split), m.cut, m.stages.rank()),
                      trainable_from(settings), m.master_ranks.rank());
  return m;
}

// The model's header, if options and model pass all checks.
std::unique_ptr<WeightSource> checked_source(Runtime& runtime, const Settings& settings,
                                             PlanUse use) {
  Violations violations;
  violations.add(settings.set.validate_all());
  violations.collect([&] { runtime.require_same(settings.set); });
  std::unique_ptr<WeightSource> source;
  violations.collect([&] {
    const std::string& path = settings.model.path;
    if (path.empty()) {
      throw Error(Code::kFailedPrecondition, "model.path is empty: no model to open")
          .with_key("model.path");
    }
    source = open_weight_source(runtime.fs(), path, trained_head(settings));
  });
  if (source != nullptr) {
    violations.add(plan_violations(settings, source->config(), use, runtime.compute().device()));
  }
  violations.throw_any();
  return source;
}

}  // namespace

std::shared_ptr<LoadedModel> LoadedModel::open(std::shared_ptr<Runtime> runtime,
                                               const Settings& settings, PlanUse use) {
  const std::string& path = settings.model.path;
  const auto source = checked_source(*runtime, settings, use);
  const PlanModels models =
      plan_models(settings, source->config(), runtime->fs(), use, runtime->stage_ranks().rank());
  MemoryPlan plan =
      plan_memory(settings, models, use, runtime->num_threads(), runtime->compute().device());
  const ComputeLease lease(*runtime, "loading a model");
  std::shared_ptr<LoadedModel> loaded(new LoadedModel(settings));
  loaded->runtime_ = runtime;  // a copy: if loading fails, the lease outlives the model
  loaded->path_ = path;
  loaded->use_ = use;
  loaded->plan_ = std::move(plan);
  loaded->load_tokenizer(*source);
  with_knobs(loaded->plan_, [&] {
    loaded->model_ = std::make_unique<Model>(
        *source, loaded->runtime_->compute(),
        model_options(*runtime, settings, loaded->plan_, use, source->config()));
    if (use != PlanUse::kForward) return;
    loaded->forward_ = std::make_unique<ModelForward>(*loaded->model_, settings, loaded->plan_);
  });
  const int64_t parameters = loaded->model_->layout().num_parameters();
  const char* const dtype = dtype_name(loaded->model_->compute_dtype());
  loaded->runtime_->logger().log(
      LogLevel::kInfo, "model", {{"path", path}, {"parameters", parameters}, {"dtype", dtype}},
      "loaded ", path, ", ", parameters, " parameters, ", dtype, " compute");
  return loaded;
}

void LoadedModel::require_use(PlanUse part) const {
  const bool both = use_ == PlanUse::kParts || use_ == PlanUse::kPipeline;
  if (use_ == part || (both && part != PlanUse::kPipeline)) return;
  const char *what = "a pipeline", *uses = "RL_USE_PIPELINE";
  if (part == PlanUse::kGenerate) {
    what = "an engine";
    uses = "RL_USE_GENERATE, RL_USE_PARTS or RL_USE_PIPELINE";
  } else if (part == PlanUse::kTrain) {
    what = "a trainer";
    uses = "RL_USE_TRAIN, RL_USE_PARTS or RL_USE_PIPELINE";
  }
  throw Error(Code::kFailedPrecondition,
              str("the model has no place for ", what, ": it was opened for another use"))
      .with_key("use")
      .with_expected(uses);
}

LoadedModel::LoadedModel(const Settings& settings) : settings_(settings) {}
LoadedModel::~LoadedModel() = default;

TensorPtr LoadedModel::forward(const ForwardRequest& request) {
  if (forward_ == nullptr) {
    throw Error(Code::kFailedPrecondition,
                "the model has no working memory for forwards: it was opened for another use")
        .with_key("use")
        .with_expected("RL_USE_FORWARD");
  }
  const std::lock_guard lock(forward_mutex_);
  const ComputeLease compute(*runtime_, "a forward");
  prepare_compute(Weights::kTrained);
  return forward_->compute(request);
}

MemoryPlan LoadedModel::plan_session(const Settings& settings, PlanUse part) const {
  check_for_use(*this, settings, part);
  const PlanUse use = use_ == PlanUse::kParts ? use_ : part;
  const int stage = model_->stage_ranks().rank();
  return plan_memory(settings, plan_models(settings, config(), runtime_->fs(), use, stage), use,
                     runtime_->num_threads(), runtime_->compute().device());
}

// A template chosen by an option must be valid; one that came with the model need not be, as long
// as it is not used.
void LoadedModel::load_chat_templates() {
  const std::string& own = settings_.model.chat_template_path;
  std::vector<ChatTemplateText>& texts = save_options_.chat_templates;
  if (!own.empty()) {
    texts = {{"default", read_text_file(runtime_->fs(), own, JinjaLimits().max_template_bytes)}};
  }
  chat_templates_ = ChatTemplates(texts, own.empty() ? path_ : own);
  if (!own.empty()) chat_templates_.check();
}

void LoadedModel::load_tokenizer(const WeightSource& source) {
  save_options_ = save_options_for(runtime_->fs(), source, Dtype::kF32);
  load_chat_templates();
  if (auto parts = source.tokenizer_parts()) {
    tokenizer_ = Tokenizer::from_parts(std::move(*parts));
  } else if (!source.tokenizer_json_path().empty()) {
    tokenizer_ = Tokenizer::from_directory(runtime_->fs(), path_);
  }
  if (!tokenizer_) return;
  special_token_texts_ = special_token_texts(*tokenizer_);
  if (const auto end = find_turn_end(chat_templates_, *tokenizer_)) chat_stop_ids_ = {*end};
  if (tokenizer_->vocab_size() <= source.config().vocab) return;
  throw Error(Code::kIncompatible,
              str("the tokenizer of ", path_, " has ids up to ", tokenizer_->vocab_size() - 1,
                  " but the model's vocabulary ends at ", source.config().vocab - 1))
      .with_location(path_);
}

const Tokenizer& LoadedModel::tokenizer() const {
  if (tokenizer_) return *tokenizer_;
  throw Error(Code::kFailedPrecondition,
              str("the model ", path_, " has no tokenizer, so only token ids can be used"));
}

EncodeResult LoadedModel::encode(std::string_view text, EncodeOptions options) const {
  return tokenizer().encode(text, options);
}

std::string LoadedModel::decode(std::span<const int32_t> ids, bool skip_special) const {
  return tokenizer().decode(ids, skip_special);
}

std::string LoadedModel::decode_sampled(std::span<const int32_t> ids, bool skip_special) const {
  const Tokenizer& t = tokenizer();
  std::string text;
  size_t begin = 0;
  for (size_t i = 0; i < ids.size(); ++i) {
    if (t.has_token(ids[i])) continue;
    text += t.decode(ids.subspan(begin, i - begin), skip_special);
    text += "\xEF\xBF\xBD";
    begin = i + 1;
  }
  return text + t.decode(ids.subspan(begin), skip_special);
}

MarkedText LoadedModel::render_chat(const ChatRequest& request, bool add_generation_prompt) const {
  return chat_templates_.render(request, special_token_texts_, add_generation_prompt);
}

EncodeResult LoadedModel::encode_chat(const ChatRequest& request,
                                      bool add_generation_prompt) const {
  const Tokenizer& t = tokenizer();
  return rl::encode_chat(t, render_chat(request, add_generation_prompt));
}

void LoadedModel::wait_until_trained(std::unique_lock<std::mutex>& lock, int64_t wait_ns) const {
  const auto trained = [&] { return !writing_; };
  if (wait_until_ready(use_changed_, lock, wait_ns, trained)) return;
  throw Error(Code::kBusy, "the weights are being trained");
}

// The weights cannot change during its lifetime.
class LoadedModel::ReadLease {
 public:
  explicit ReadLease(const LoadedModel& model) : model_(model) {
    std::unique_lock lock(model.use_mutex_);
    model.wait_until_trained(lock, model.runtime_->busy_timeout_ns());
    ++model.readers_;
  }
  ~ReadLease() {
    const std::lock_guard lock(model_.use_mutex_);
    --model_.readers_;
    model_.use_changed_.notify_all();
  }
  ReadLease(const ReadLease&) = delete;
  ReadLease& operator=(const ReadLease&) = delete;

 private:
  const LoadedModel& model_;
};

uint64_t LoadedModel::weight_digest() const {
  const ReadLease lease(*this);
  return model_->weight_digest();
}

ModelIdentity LoadedModel::identity() const {
  const ReadLease lease(*this);
  const ModelConfig& c = config();
  return {.family = family_name(c.family),
          .compute_dtype = dtype_name(model_->compute_dtype()),
          .vocab = c.vocab,
          .hidden = c.hidden,
          .layers = c.layers,
          .weight_version = model_->trained_version(),
          .weight_digest = model_->weight_digest()};
}

void LoadedModel::with_steady_weights(FunctionRef<void()> read) const {
  const ReadLease lease(*this);
  read();
}

// The pieces of a model meet as its ranks compute, which the loop of a run does on a thread of its
// own.
void LoadedModel::require_no_loop() const {
  const std::lock_guard lock(use_mutex_);
  const ParallelSettings& parallel = runtime_->settings().parallel;
  const bool in_parts = parallel.tensor * parallel.pipeline > 1;
  if (run_ == nullptr || (!in_parts && !model_->master_cut().divides())) return;
  throw Error(Code::kBusy, str("the model is in use by ", run_,
                               ", and the ranks that divide it save it together"))
      .with_key(in_parts ? partner_axis_of(runtime_->settings()) : "parallel.zero_stage");
}

void LoadedModel::save(const std::string& dir, Dtype dtype, bool replace_existing) const {
  save_other(*model_, dir, dtype, replace_existing);
}

void LoadedModel::save_other(const Model& other, const std::string& dir, Dtype dtype,
                             bool replace_existing) const {
  const ReadLease lease(*this);
  require_no_loop();
  SaveOptions options = save_options_;
  options.dtype = dtype;
  options.replace_existing = replace_existing;
  other.save(runtime_->fs(), dir, options);
}

LoadedModel::UseLease::UseLease(LoadedModel& model)
    : UseLease(model, model.runtime().busy_timeout_ns()) {}

LoadedModel::UseLease::UseLease(LoadedModel& model, int64_t wait_ns) : model_(model) {
  std::unique_lock lock(model.use_mutex_);
  if (model.run_ == nullptr && !model.published_apart()) model.wait_until_trained(lock, wait_ns);
  if (model.run_ != nullptr) throw Error(Code::kBusy, str("the model is in use by ", model.run_));
  model.require_whole_locked(Weights::kPublished);
  ++model.users_;
}

LoadedModel::UseLease::~UseLease() {
  const std::lock_guard lock(model_.use_mutex_);
  --model_.users_;
}

void LoadedModel::prepare_compute(Weights which) {
  require_whole(which);
  model_->restore_packed();
}

void LoadedModel::note_failed_step(const FailedStep& step) noexcept {
  const std::lock_guard lock(use_mutex_);
  failed_step_ = step;
}

bool LoadedModel::half_trained() const {
  const std::lock_guard lock(use_mutex_);
  return half_trained_locked();
}

bool LoadedModel::half_trained_locked() const {
  return failed_step_ && failed_step_->release == model_->published().release();
}

void LoadedModel::require_whole(Weights which) const {
  const std::lock_guard lock(use_mutex_);
  require_whole_locked(which);
}

void LoadedModel::require_whole_locked(Weights which) const {
  if (!half_trained_locked() || (which == Weights::kPublished && published_apart())) return;
  const std::string what = failed_step_->planned == 0
                               ? std::string("setting its weights failed half-way")
                               : str("a training step failed after ", failed_step_->applied, " of ",
                                     failed_step_->planned, " optimizer steps");
  throw Error(Code::kFailedPrecondition,
              str("the model is half-trained: ", what,
                  ", and its weights have no version; publish them or load a checkpoint"))
      .with_expected(
          "rl_trainer_publish, rl_trainer_load, or a pipeline that resumes from a checkpoint");
}

std::optional<uint64_t> LoadedModel::publish_packed(FunctionRef<uint64_t()> store) {
  std::unique_lock lock(use_mutex_);
  wait_until_trained(lock, 0);
  if (half_trained_locked()) return std::nullopt;
  return store();
}

bool LoadedModel::await_trained(int64_t wait_ns) const {
  std::unique_lock lock(use_mutex_);
  return wait_until_ready(use_changed_, lock, wait_ns, [&] { return !writing_; });
}

void LoadedModel::drop_packed(bool caller_counts) {
  const std::lock_guard lock(use_mutex_);
  if (run_ != nullptr) throw Error(Code::kBusy, str("the model is in use by ", run_));
  if (writing_) throw Error(Code::kBusy, "the weights are being trained");
  const int64_t others = users_ - (caller_counts ? 1 : 0);
  if (others > 0) {
    throw Error(Code::kBusy, str(others, " other engines have requests on the weights"));
  }
  model_->drop_packed();
}

LoadedModel::RunLease::RunLease(LoadedModel& model, const char* what) : model_(model) {
  const std::lock_guard lock(model.use_mutex_);
  if (model.run_ != nullptr) {
    throw Error(Code::kBusy, str("the model is in use by ", model.run_));
  }
  if (model.users_ > 0) {
    throw Error(Code::kBusy, str(model.users_, " engines have requests on the model"));
  }
  model.run_ = what;
}

LoadedModel::RunLease::~RunLease() {
  const std::lock_guard lock(model_.use_mutex_);
  model_.run_ = nullptr;
}

LoadedModel::WriteLease::WriteLease(LoadedModel& model, int64_t wait_ns) : model_(model) {
  const auto require_unused = [&] {
    if (model.users_ > 0 && !model.published_apart()) {
      throw Error(Code::kBusy, str("the weights cannot change while ", model.users_,
                                   " engines have requests on them and model.compute_copies is 1"))
          .with_key("model.compute_copies")
          .with_expected("2, or engines without requests");
    }
    model.model_->require_repackable();
  };
  std::unique_lock lock(model.use_mutex_);
  require_unused();
  const auto free = [&] { return model.readers_ == 0 && !model.writing_; };
  if (!wait_until_ready(model.use_changed_, lock, wait_ns, free)) {
    if (model.writing_) throw Error(Code::kBusy, "the weights are being trained");
    throw Error(Code::kBusy, str("the weights cannot change: ", model.readers_,
                                 " saves or digests are still reading them"));
  }
  require_unused();  // an engine may have got requests during the wait
  model.writing_ = true;
}

LoadedModel::WriteLease::~WriteLease() {
  const std::lock_guard lock(model_.use_mutex_);
  model_.writing_ = false;
  model_.use_changed_.notify_all();
}

void require_same_model(const LoadedModel& model, const Settings& settings) {
  const OptionSet &opened = model.options(), &options = settings.set;
  Violations violations;
  violations.add(
      parent_violations(options, opened, OptionParent::kModel, "the model was opened with"));
  const char* objective = "algo.objective";
  const bool scores = trained_head(settings) == ModelHead::kScalar;
  if (scores != model.config().scalar_head) {
    violations.add(
        Error(Code::kConflict, str(objective, " is ", options.get_text(objective),
                                   " but the model was opened with ", opened.get_text(objective),
                                   scores ? ", without a scalar head" : ", with a scalar head"))
            .with_key(objective)
            .with_expected(opened.get_text(objective)));
  }
  violations.throw_any();
}

void check_for_use(const LoadedModel& model, const Settings& settings, PlanUse use) {
  Violations violations;
  violations.add(settings.set.validate_all());
  violations.collect([&] { model.runtime().require_same(settings.set); });
  violations.collect([&] { require_same_model(model, settings); });
  violations.add(
      plan_violations(settings, model.config(), use, model.runtime().compute().device()));
  if (use == PlanUse::kPipeline) violations.add(run_violations(settings, model));
  if (use == PlanUse::kGenerate) violations.add(session_violations(settings.set, "an engine"));
  if (use == PlanUse::kTrain) violations.add(session_violations(settings.set, "a trainer"));
  violations.throw_any();
}

void require_room(const Runtime& runtime, const std::string& what, uint64_t bytes,
                  uint64_t baseline_bytes) {
  const uint64_t budget = runtime.usable_budget();
  const bool apart = runtime.compute().has_own_memory();
  uint64_t held = apart ? 0 : baseline_bytes;
  for (const ArenaLedger::Entry& e : runtime.ledger().entries()) {
    if (apart ? e.space == MemorySpace::kDevice : e.name != kHostWorkspace) held += e.bytes;
  }
  if (budget == 0 || (held <= budget && bytes <= budget - held)) return;
  throw Error(Code::kResourceExhausted, str(what, " needs ", bytes, " bytes in addition to the ",
                                            held, " in use, but ", budget_text(runtime.settings())))
      .with_key("runtime.memory_budget_bytes")
      .with_expected(
          str("at least ", held + bytes + runtime.settings().runtime.memory_margin_bytes));
}

}  // namespace rl

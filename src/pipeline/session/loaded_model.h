// A model as the host holds it: weights, tokenizer and chat format, shared by reference among
// engines, trainers and a pipeline. Invariants: its memory was planned against the budget before
// anything was allocated; what engines read changes only while none has requests in flight, unless
// there is a second compute copy.
#pragma once
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/function_ref.h"
#include "core/tensor.h"
#include "data/sample_document.h"
#include "model/model.h"
#include "pipeline/plan/plan.h"
#include "pipeline/session/runtime.h"
#include "text/chat_template.h"
#include "text/tokenizer.h"

namespace rl {

class ModelForward;
struct ForwardRequest;

class LoadedModel {
 public:
  // Opens model.path. The plan for `use` is checked first, so that a budget too small is refused
  // before the weights are read.
  static std::shared_ptr<LoadedModel> open(std::shared_ptr<Runtime> runtime,
                                           const Settings& settings, PlanUse use);

  ~LoadedModel();
  LoadedModel(const LoadedModel&) = delete;

  Runtime& runtime() const { return *runtime_; }
  const std::shared_ptr<Runtime>& shared_runtime() const { return runtime_; }
  const OptionSet& options() const { return settings_.set; }  // as given to open
  Model& model() { return *model_; }
  const Model& model() const { return *model_; }
  const ModelConfig& config() const { return model_->whole_config(); }
  const std::string& path() const { return path_; }
  const MemoryPlan& plan() const { return plan_; }  // for the use it was opened for
  // kFailedPrecondition naming the uses that allow it, unless the model was opened for one of them:
  // an engine (kGenerate), a trainer (kTrain) or a pipeline of the host.
  void require_use(PlanUse part) const;
  // The plan of an engine (kGenerate) or a trainer (kTrain) on this model; if it was opened for
  // both, the plan of both. All problems with the options are reported as one error.
  MemoryPlan plan_session(const Settings& settings, PlanUse part) const;

  bool has_tokenizer() const { return tokenizer_.has_value(); }
  // kFailedPrecondition naming the model if it came without one.
  const Tokenizer& tokenizer() const;
  EncodeResult encode(std::string_view text, EncodeOptions options) const;
  std::string decode(std::span<const int32_t> ids, bool skip_special) const;
  // The same with U+FFFD for an id without a token: a model may sample any row of its embedding,
  // and a tokenizer may have fewer ids.
  std::string decode_sampled(std::span<const int32_t> ids, bool skip_special) const;
  // kFailedPrecondition without a chat template; see ChatTemplates::render for the others.
  MarkedText render_chat(const ChatRequest& request, bool add_generation_prompt) const;
  EncodeResult encode_chat(const ChatRequest& request, bool add_generation_prompt) const;
  // Ids that end an assistant turn of the chat format, in addition to the model's own end ids.
  const std::vector<int32_t>& chat_stop_ids() const { return chat_stop_ids_; }

  uint64_t version() const { return model_->version(); }
  // Engines read their own compute copy: training does not change it, and publishing is a store.
  bool published_apart() const { return model_->num_compute_copies() > 1; }
  // Of engine steps and training steps: they compute in turn if they read different copies.
  ComputeSharing compute_sharing() const {
    return published_apart() ? ComputeSharing::kInTurn : ComputeSharing::kAlone;
  }
  uint64_t weight_digest() const;
  ModelIdentity identity() const;  // of the current weights; kBusy while they are being trained
  // Writes a Hugging Face directory in the given dtype, which appears by one rename. kBusy while
  // the weights are being trained.
  void save(const std::string& dir, Dtype dtype, bool replace_existing) const;
  // What save() writes apart from weights.
  const SaveOptions& save_options() const { return save_options_; }
  // The same for another model that is trained together with this one, with this one's tokenizer.
  void save_other(const Model& other, const std::string& dir, Dtype dtype,
                  bool replace_existing) const;

  // Computes in the working memory of a model that was opened for forwards; kFailedPrecondition for
  // another one. Calls of several threads wait for each other.
  TensorPtr forward(const ForwardRequest& request);

  // Calls read while the weights cannot change; kBusy while they are being trained.
  void with_steady_weights(FunctionRef<void()> read) const;

  // Held by an engine while it has requests: with one compute copy their keys and values pin the
  // published version, with two an engine pins a version for one step at a time (Model::pin). kBusy
  // while the weights that it would read change, after runtime.busy_timeout_ns, or a pipeline holds
  // the model.
  class UseLease {
   public:
    explicit UseLease(LoadedModel& model);
    // Waits no longer than that for weights in training.
    UseLease(LoadedModel& model, int64_t wait_ns);
    ~UseLease();
    UseLease(const UseLease&) = delete;
    UseLease& operator=(const UseLease&) = delete;

   private:
    LoadedModel& model_;
  };

  // Releases the memory of the packed weights to the system until something computes: kBusy while
  // a pipeline holds the model, or engines other than the caller have requests.
  void drop_packed(bool caller_counts);
  // Which weights a computation reads: those that engines read, or those trained since.
  enum class Weights : uint8_t { kPublished, kTrained };
  // Called before anything computes with the weights, under the ComputeLease: restores what
  // drop_packed() released. Throws the errors of require_whole().
  void prepare_compute(Weights which);

  // After a training step that failed between its optimizer steps the model is half-trained: its
  // masters changed, and no version names them. Publishing them or loading a checkpoint ends that;
  // until then any computation on them is Error(kFailedPrecondition). With two compute copies the
  // published weights are intact.
  struct FailedStep {
    uint64_t release = 0;              // of the weights it began with
    int64_t applied = 0, planned = 0;  // optimizer steps; planned 0: weights were being set
  };
  void note_failed_step(const FailedStep& step) noexcept;
  bool half_trained() const;
  void require_whole(Weights which) const;
  // Runs store, which publishes other packed weights; kBusy if weights are being trained.
  // Returns nothing, and does not run store, if the model is half-trained.
  std::optional<uint64_t> publish_packed(FunctionRef<uint64_t()> store);
  // Whether nobody trains the weights any more within that time.
  bool await_trained(int64_t wait_ns) const;

  // Exclusive use of the model by one run: kBusy while engines have requests or another run holds
  // it.
  class RunLease {
   public:
    RunLease(LoadedModel& model, const char* what);
    ~RunLease();
    RunLease(const RunLease&) = delete;
    RunLease& operator=(const RunLease&) = delete;

   private:
    LoadedModel& model_;
  };

  // Held around every change of the weights: kBusy naming the number of engines with requests on
  // the copy that changes, or its version if a reader has pinned it. Waits for a running save or
  // digest, or another change; kBusy if that takes longer than wait_ns.
  class WriteLease {
   public:
    explicit WriteLease(LoadedModel& model, int64_t wait_ns);
    ~WriteLease();
    WriteLease(const WriteLease&) = delete;
    WriteLease& operator=(const WriteLease&) = delete;

   private:
    LoadedModel& model_;
  };

 private:
  explicit LoadedModel(const Settings& settings);
  class ReadLease;
  void load_tokenizer(const WeightSource& source);
  void load_chat_templates();
  bool half_trained_locked() const;
  void require_whole_locked(Weights which) const;
  // kBusy while the loop of a run uses the pieces of a divided model.
  void require_no_loop() const;
  // Returns once nobody trains the weights; kBusy if that takes longer.
  void wait_until_trained(std::unique_lock<std::mutex>& lock, int64_t wait_ns) const;

  std::shared_ptr<Runtime> runtime_;
  Settings settings_;
  std::string path_;
  PlanUse use_ = PlanUse::kModel;
  MemoryPlan plan_;
  std::unique_ptr<Model> model_;
  std::optional<Tokenizer> tokenizer_;
  ChatTemplates chat_templates_;
  SpecialTokenTexts special_token_texts_;
  std::vector<int32_t> chat_stop_ids_;
  SaveOptions save_options_;  // tokenizer and template, unchanged
  mutable std::mutex use_mutex_;
  mutable std::condition_variable use_changed_;
  int64_t users_ = 0;            // engines with requests
  mutable int64_t readers_ = 0;  // saves and digests under way
  bool writing_ = false;
  // In effect while the weights it began with are still published.
  std::optional<FailedStep> failed_step_;
  const char* run_ = nullptr;  // holds the model exclusively
  std::mutex forward_mutex_;
  std::unique_ptr<ModelForward> forward_;  // null unless the model was opened for forwards
};

// kConflict, naming each key, if options that shaped the loaded model differ.
void require_same_model(const LoadedModel& model, const Settings& settings);
// All problems with options for an object on this model, as one error: combinations, differences
// from runtime and model, sizes that the model does not allow, and for a pipeline what a step
// would refuse.
void check_for_use(const LoadedModel& model, const Settings& settings, PlanUse use);

// Refuses arenas of this many bytes, naming both numbers, if they do not fit next to those in use.
void require_room(const Runtime& runtime, const std::string& what, uint64_t bytes,
                  uint64_t baseline_bytes);

}  // namespace rl

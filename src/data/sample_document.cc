// Encoding forces default values into the document: leaving out a field that equals its default
// would lose the sign of a zero.
#include "data/sample_document.h"

#include <schemas/buffer_generated.h>
#include <schemas/samples_generated.h>

#include <cmath>
#include <cstring>

#include "core/checked.h"
#include "data/frame.h"

namespace rl {
namespace {

static_assert(static_cast<int>(fb::Purpose::MAX) == static_cast<int>(Purpose::kEval));
static_assert(static_cast<int>(fb::FinishReason::MAX) == static_cast<int>(FinishReason::kAborted));

constexpr int64_t kMaxSize = int64_t{1} << 40;  // limit of every number in an info

// How a violated rule is reported.
struct Blame {
  Code code;
  std::string place;  // prefix of the message; empty for the caller's groups

  [[noreturn]] void fail(const std::string& what) const {
    throw Error(code, place.empty() ? what : str(place, ": ", what)).with_location(place);
  }
  [[noreturn]] void fail(const Sample& s, const char* field, const std::string& what) const {
    throw Error(code, str(place, place.empty() ? "" : ": ", sample_name(s), ": ", field, " ", what))
        .with_key(field)
        .with_location(place);
  }
};

template <typename T>
void check_length(const Sample& s, const char* field, const std::vector<T>& values,
                  const Blame& blame) {
  if (values.size() == static_cast<size_t>(s.generated())) return;
  blame.fail(s, field,
             str("has ", values.size(), " entries for ", s.generated(), " generated tokens"));
}

template <typename T>
void check_finite(const Sample& s, const char* field, const std::vector<T>& values,
                  const Blame& blame) {
  for (size_t i = 0; i < values.size(); ++i) {
    if (!std::isfinite(values[i])) blame.fail(s, field, str("holds ", values[i], " at index ", i));
  }
}

void check_top(const Sample& s, const Blame& blame) {
  const size_t entries = static_cast<size_t>(s.generated()) * s.num_top;
  const auto check = [&](const char* field, size_t size) {
    if (size == entries) return;
    blame.fail(
        s, field,
        str("has ", size, " entries for ", s.generated(), " generated tokens of ", s.num_top));
  };
  check("top_ids", s.top_ids.size());
  check("top_logprobs", s.top_logprobs.size());
  for (size_t i = 0; i < entries; ++i) {
    if (s.top_ids[i] < -1) blame.fail(s, "top_ids", str("holds ", s.top_ids[i], " at index ", i));
  }
  check_finite(s, "top_logprobs", s.top_logprobs, blame);
}

void check_bits(const Sample& s, const char* field, const std::vector<uint8_t>& values,
                const Blame& blame) {
  for (size_t i = 0; i < values.size(); ++i) {
    if (values[i] > 1) blame.fail(s, field, str("holds ", +values[i], " at index ", i));
  }
}

void check_tokens(const Sample& s, const Blame& blame) {
  if (s.prompt_tokens < 1 || s.generated() < 0) {
    blame.fail(s, "prompt_tokens", str("is ", s.prompt_tokens, " of ", s.ids.size(), " ids"));
  }
  for (size_t i = 0; i < s.ids.size(); ++i) {
    if (s.ids[i] < 0) blame.fail(s, "ids", str("holds ", s.ids[i], " at index ", i));
  }
  if (!s.logprobs.empty() || !s.logprobs_sampled.empty()) {
    check_length(s, "logprobs", s.logprobs, blame);
    check_length(s, "logprobs_sampled", s.logprobs_sampled, blame);
  }
  check_length(s, "versions", s.versions, blame);
  check_length(s, "loss_mask", s.loss_mask, blame);
  check_finite(s, "logprobs", s.logprobs, blame);
  check_finite(s, "logprobs_sampled", s.logprobs_sampled, blame);
  check_bits(s, "loss_mask", s.loss_mask, blame);
  if (!s.mixed_kv.empty()) check_length(s, "mixed_kv", s.mixed_kv, blame);
  check_bits(s, "mixed_kv", s.mixed_kv, blame);
  if (!s.token_rewards.empty()) check_length(s, "token_rewards", s.token_rewards, blame);
  check_finite(s, "token_rewards", s.token_rewards, blame);
  check_top(s, blame);
}

void check_scalars(const Sample& s, const Blame& blame) {
  if (s.purpose > Purpose::kEval) {
    blame.fail(s, "purpose", str("is ", static_cast<int>(s.purpose), ", which is not a purpose"));
  }
  if (s.finish > FinishReason::kAborted) {
    blame.fail(s, "finish",
               str("is ", static_cast<int>(s.finish), ", which is not a finish reason"));
  }
  if (!(s.temperature > 0) || !std::isfinite(s.temperature)) {
    blame.fail(s, "temperature", str("is ", s.temperature, ", expected a finite value above 0"));
  }
  if (!std::isfinite(s.reward)) blame.fail(s, "reward", str("is ", s.reward));
  check_finite(s, "reward_parts", s.reward_parts, blame);
  if (!s.scored && s.reward != 0) {
    blame.fail(s, "reward", str("is ", s.reward, ", but the sample is not scored"));
  }
  if (s.data_row < -1) blame.fail(s, "data_row", str("is ", s.data_row));
  const std::pair<const char*, int64_t> times[] = {{"submitted_ns", s.submitted_ns},
                                                   {"admitted_ns", s.admitted_ns},
                                                   {"first_token_ns", s.first_token_ns},
                                                   {"finished_ns", s.finished_ns}};
  for (const auto& [field, value] : times) {
    if (value < 0) blame.fail(s, field, str("is ", value));
  }
}

void check_size(uint64_t ordinal, size_t samples, const Blame& blame) {
  if (samples >= 1 && samples <= kMaxGroupSamples) return;
  blame.fail(str("the group of ordinal ", ordinal, " has ", samples, " samples, expected 1..",
                 kMaxGroupSamples));
}

void check_sample(const Sample& s, const Blame& blame) {
  check_tokens(s, blame);
  check_scalars(s, blame);
}

void check_group(const Group& group, const Blame& blame) {
  check_size(group.ordinal, group.samples.size(), blame);
  int64_t last_slot = -1;
  for (size_t i = 0; i < group.samples.size(); ++i) {
    if (group.samples[i] == nullptr) {
      blame.fail(str("sample ", i, " of the group of ordinal ", group.ordinal, " is null"));
    }
    const Sample& s = *group.samples[i];
    if (s.ordinal != group.ordinal) {
      blame.fail(s, "ordinal", str("differs from that of the group, ", group.ordinal));
    }
    if (s.slot <= last_slot) blame.fail(s, "slot", str("comes after slot ", last_slot));
    last_slot = s.slot;
    check_sample(s, blame);
  }
}

// An upper bound: vectors with their lengths and padding, plus each table's own fields.
uint64_t document_bound(const Group& group) {
  constexpr uint64_t kTable = 512, kPerId = 4, kPerGenerated = 4 + 4 + 8 + 1 + 1, kPerTop = 4 + 4;
  CheckedU64 sum(kTable);
  for (const SamplePtr& s : group.samples) {
    sum = sum + CheckedU64(kTable + s->tag.size()) +
          CheckedU64(s->ids.size()) * CheckedU64(kPerId + kPerGenerated) +
          CheckedU64(s->top_ids.size()) * CheckedU64(kPerTop) +
          CheckedU64(s->reward_parts.size() + s->token_rewards.size()) * CheckedU64(sizeof(double));
  }
  return sum.get();
}

flatbuffers::Offset<fb::Sample> add(flatbuffers::FlatBufferBuilder& to, const Sample& s) {
  const auto ids = to.CreateVector(s.ids);
  const auto logprobs = to.CreateVector(s.logprobs);
  const auto sampled = to.CreateVector(s.logprobs_sampled);
  const auto versions = to.CreateVector(s.versions);
  const auto mask = to.CreateVector(s.loss_mask);
  const auto tag = to.CreateVector(reinterpret_cast<const uint8_t*>(s.tag.data()), s.tag.size());
  flatbuffers::Offset<flatbuffers::Vector<int32_t>> top_ids;
  flatbuffers::Offset<flatbuffers::Vector<float>> top_logprobs;
  if (s.num_top > 0) {
    top_ids = to.CreateVector(s.top_ids);
    top_logprobs = to.CreateVector(s.top_logprobs);
  }
  flatbuffers::Offset<flatbuffers::Vector<uint8_t>> mixed_kv;
  if (!s.mixed_kv.empty()) mixed_kv = to.CreateVector(s.mixed_kv);
  flatbuffers::Offset<flatbuffers::Vector<double>> reward_parts;
  if (!s.reward_parts.empty()) reward_parts = to.CreateVector(s.reward_parts);
  flatbuffers::Offset<flatbuffers::Vector<double>> token_rewards;
  if (!s.token_rewards.empty()) token_rewards = to.CreateVector(s.token_rewards);
  fb::SampleBuilder out(to);
  out.add_id(s.id);
  out.add_slot(s.slot);
  out.add_attempt(s.attempt);
  out.add_data_row(s.data_row);
  out.add_purpose(static_cast<fb::Purpose>(s.purpose));
  out.add_finish(static_cast<fb::FinishReason>(s.finish));
  out.add_scored(s.scored);
  out.add_prompt_tokens(static_cast<uint32_t>(s.prompt_tokens));
  out.add_temperature(s.temperature);
  out.add_reward(s.reward);
  out.add_submitted_ns(s.submitted_ns);
  out.add_first_token_ns(s.first_token_ns);
  out.add_finished_ns(s.finished_ns);
  out.add_tag(tag);
  out.add_ids(ids);
  out.add_logprobs(logprobs);
  out.add_logprobs_sampled(sampled);
  out.add_versions(versions);
  out.add_loss_mask(mask);
  out.add_num_top(s.num_top);
  out.add_top_ids(top_ids);
  out.add_top_logprobs(top_logprobs);
  out.add_num_aborts(s.num_aborts);
  out.add_mixed_kv(mixed_kv);
  out.add_admitted_ns(s.admitted_ns);
  out.add_preemptions(s.preemptions);
  out.add_reward_parts(reward_parts);
  out.add_token_rewards(token_rewards);
  return out.Finish();
}

std::vector<std::byte> bytes_of(const flatbuffers::FlatBufferBuilder& builder) {
  const auto* data = reinterpret_cast<const std::byte*>(builder.GetBufferPointer());
  return {data, data + builder.GetSize()};
}

// The root of a document, after FlatBuffers' verifier has passed it.
template <typename Root>
const Root& verified(std::span<const std::byte> document, std::string_view kind,
                     const Blame& blame) {
  constexpr flatbuffers::uoffset_t kMaxDepth = 8, kMaxTables = kMaxGroupSamples + 8;
  RL_CHECK(reinterpret_cast<uintptr_t>(document.data()) % 8 == 0);
  if (document.size() > kMaxDocumentBytes) {
    blame.fail(
        str("a document of ", document.size(), " bytes exceeds the limit of ", kMaxDocumentBytes));
  }
  const auto* data = reinterpret_cast<const uint8_t*>(document.data());
  flatbuffers::Verifier verifier(data, document.size(), kMaxDepth, kMaxTables);
  if (!verifier.VerifyBuffer<Root>(std::string(kind).c_str())) {
    blame.fail(
        str("the document of ", document.size(), " bytes is not a valid ", kind, " FlatBuffer"));
  }
  return *flatbuffers::GetRoot<Root>(data);
}

// Vectors of a document may share bytes. Copying more bytes than the document has is refused, so
// that a small document cannot cause large allocations.
class Budget {
 public:
  Budget(uint64_t bytes, const Blame& blame) : left_(bytes), blame_(blame) {}

  template <typename T>
  std::vector<T> copy(const flatbuffers::Vector<T>* from) {
    if (from == nullptr) return {};
    take(from->size() * sizeof(T));
    std::vector<T> out(from->size());
    if (!out.empty()) std::memcpy(out.data(), from->data(), out.size() * sizeof(T));
    return out;
  }
  std::string copy_text(const flatbuffers::Vector<uint8_t>* from) {
    if (from == nullptr) return {};
    take(from->size());
    return {reinterpret_cast<const char*>(from->data()), from->size()};
  }

 private:
  void take(uint64_t bytes) {
    if (bytes > left_) blame_.fail("the vectors of the document overlap");
    left_ -= bytes;
  }
  uint64_t left_;
  const Blame& blame_;
};

int32_t prompt_tokens_of(const fb::Sample& from, const Sample& s, const Blame& blame) {
  if (from.prompt_tokens() <= s.ids.size()) return static_cast<int32_t>(from.prompt_tokens());
  blame.fail(s, "prompt_tokens", str("is ", from.prompt_tokens(), " of ", s.ids.size(), " ids"));
}

SamplePtr sample_from(const fb::Sample& from, uint64_t ordinal, Budget& budget,
                      const Blame& blame) {
  auto s = std::make_shared<Sample>();
  s->id = from.id();
  s->ordinal = ordinal;
  s->slot = from.slot();
  s->attempt = from.attempt();
  s->data_row = from.data_row();
  s->purpose = static_cast<Purpose>(from.purpose());
  s->finish = static_cast<FinishReason>(from.finish());
  s->scored = from.scored();
  s->temperature = from.temperature();
  s->reward = from.reward();
  s->submitted_ns = from.submitted_ns();
  s->first_token_ns = from.first_token_ns();
  s->finished_ns = from.finished_ns();
  s->tag = budget.copy_text(from.tag());
  s->ids = budget.copy(from.ids());
  s->logprobs = budget.copy(from.logprobs());
  s->logprobs_sampled = budget.copy(from.logprobs_sampled());
  s->versions = budget.copy(from.versions());
  s->loss_mask = budget.copy(from.loss_mask());
  s->num_top = from.num_top();
  s->top_ids = budget.copy(from.top_ids());
  s->top_logprobs = budget.copy(from.top_logprobs());
  s->num_aborts = from.num_aborts();
  s->mixed_kv = budget.copy(from.mixed_kv());
  s->admitted_ns = from.admitted_ns();
  s->preemptions = from.preemptions();
  s->reward_parts = budget.copy(from.reward_parts());
  s->token_rewards = budget.copy(from.token_rewards());
  s->prompt_tokens = prompt_tokens_of(from, *s, blame);
  return s;
}

void check_info(const BufferInfo& info, const Blame& blame) {
  const auto check = [&](const char* field, int64_t value, int64_t most) {
    if (value >= 0 && value <= most) return;
    blame.fail(str(field, " is ", value, ", expected 0..", most));
  };
  check("group_size", info.group_size, static_cast<int64_t>(kMaxGroupSamples));
  check("max_tokens", info.max_tokens, kMaxSize);
  if (!info.model) return;
  check("model.vocab", info.model->vocab, kMaxSize);
  check("model.hidden", info.model->hidden, kMaxSize);
  check("model.layers", info.model->layers, kMaxSize);
}

}  // namespace

void require_storable(const Sample& sample) { check_sample(sample, {Code::kInvalidArgument, ""}); }

std::vector<std::byte> encode_group(const Group& group) {
  check_group(group, {Code::kInvalidArgument, ""});
  const uint64_t bound = document_bound(group);
  if (bound > kMaxDocumentBytes) {
    throw Error(Code::kResourceExhausted,
                str("the group of ordinal ", group.ordinal, " takes up to ", bound,
                    " bytes, but a document has at most ", kMaxDocumentBytes));
  }
  flatbuffers::FlatBufferBuilder builder(bound);
  builder.ForceDefaults(true);
  std::vector<flatbuffers::Offset<fb::Sample>> samples;
  for (const SamplePtr& s : group.samples) samples.push_back(add(builder, *s));
  fb::FinishGroupBuffer(builder,
                        fb::CreateGroup(builder, group.ordinal, builder.CreateVector(samples)));
  return bytes_of(builder);
}

Group decode_group(std::span<const std::byte> document, const std::string& place) {
  const Blame blame{Code::kDataLoss, place};
  const auto& from = verified<fb::Group>(document, kGroupKind, blame);
  check_size(from.ordinal(), from.samples()->size(), blame);
  Group group{from.ordinal(), {}};
  Budget budget(document.size(), blame);
  for (const fb::Sample* sample : *from.samples()) {
    group.samples.push_back(sample_from(*sample, group.ordinal, budget, blame));
  }
  check_group(group, blame);
  return group;
}

std::vector<std::byte> encode_buffer_info(const BufferInfo& info) {
  check_info(info, {Code::kInvalidArgument, ""});
  flatbuffers::FlatBufferBuilder builder;
  builder.ForceDefaults(true);
  flatbuffers::Offset<fb::ModelIdentity> model;
  if (info.model) {
    const ModelIdentity& m = *info.model;
    model = fb::CreateModelIdentity(builder, builder.CreateString(m.family),
                                    builder.CreateString(m.compute_dtype), m.vocab, m.hidden,
                                    m.layers, m.weight_version, m.weight_digest);
  }
  const auto options = builder.CreateString(info.options);
  fb::FinishBufferInfoBuffer(
      builder, fb::CreateBufferInfo(builder, info.step, info.group_size, info.options_identity,
                                    options, info.max_tokens, model));
  return bytes_of(builder);
}

BufferInfo decode_buffer_info(std::span<const std::byte> document, const std::string& place) {
  const Blame blame{Code::kDataLoss, place};
  const auto& from = verified<fb::BufferInfo>(document, kBufferInfoKind, blame);
  BufferInfo info;
  info.step = from.step();
  info.group_size = from.group_size();
  info.options_identity = from.options_identity();
  info.max_tokens = from.max_tokens();
  if (from.options() != nullptr) info.options = from.options()->str();
  if (from.model() != nullptr) {
    const fb::ModelIdentity& m = *from.model();
    info.model =
        ModelIdentity{m.family()->str(), m.compute_dtype()->str(), m.vocab(),        m.hidden(),
                      m.layers(),        m.weight_version(),       m.weight_digest()};
  }
  check_info(info, blame);
  return info;
}

}  // namespace rl

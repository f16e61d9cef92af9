// Batches: made of a host's samples, of other batches and of bytes; read, scored and ended.
#include <cmath>

#include "abi/arguments.h"
#include "abi/bytes.h"
#include "abi/guard.h"
#include "abi/model_parts.h"
#include "abi/samples.h"
#include "data/sample_document.h"

using namespace rl;
using namespace rl::abi;

namespace {

SamplePtr storable_sample(const rl_sample_view& view) {
  SamplePtr sample = sample_from(view);
  if (!std::isfinite(sample->reward)) {
    throw Error(Code::kNonFinite, str("parameter sample.reward is ", sample->reward))
        .with_key("sample.reward");
  }
  require_storable(*sample);
  return sample;
}

// Entry i of the host's samples; an error names "samples[i].field".
SamplePtr sample_at(const rl_sample_view& view, size_t i) {
  constexpr std::string_view kPrefix = "sample.";
  try {
    return storable_sample(view);
  } catch (Error& error) {
    if (error.key.starts_with(kPrefix)) error.key.erase(0, kPrefix.size());
    error.key = str("samples[", i, "].", error.key);
    error.message = str("samples[", i, "]: ", error.message);
    throw;
  }
}

struct Selection {
  std::vector<SamplePtr> samples;
  std::vector<SampleRewards> rewards;
};

// Appends what part i says.
void append_part(Selection& to, const rl_batch_part& part, size_t i) {
  const std::string name = str("parts[", i, "].");
  const auto from = use(part.batch, (name + "batch").c_str());
  const auto indices = array_arg(part.indices, part.num_indices, (name + "indices").c_str());
  std::vector<SampleRewards> rewards = from->rewards();
  if (part.indices == nullptr) {
    to.samples.insert(to.samples.end(), from->samples.begin(), from->samples.end());
    std::ranges::move(rewards, std::back_inserter(to.rewards));
    return;
  }
  for (size_t k = 0; k < indices.size(); ++k) {
    const size_t index = indices[k];
    if (index >= from->samples.size()) {
      throw Error(Code::kOutOfRange, str("parameter ", name, "indices[", k, "] is ", index,
                                         ", but its batch has ", from->samples.size(), " samples"))
          .with_key(name + "indices");
    }
    to.samples.push_back(from->samples[index]);
    to.rewards.push_back(rewards[index]);
  }
}

// The reward and the parts that entry i of an array gives a sample.
SampleRewards rewards_from(const rl_score& score, size_t i, const Sample& sample) {
  const auto field = [&](const char* name) { return str("scores[", i, "].", name); };
  if (score.sample_id != 0 && score.sample_id != sample.id) {
    refuse(field("sample_id").c_str(),
           str("is ", score.sample_id, ", but the sample is ", sample.id));
  }
  if (score.failure != nullptr) {
    refuse(field("failure").c_str(), "is given, but a batch cannot drop a sample");
  }
  if (!std::isfinite(score.reward)) {
    throw Error(Code::kNonFinite, str("parameter ", field("reward"), " is ", score.reward))
        .with_key(field("reward"));
  }
  return {true, score.reward,
          reward_parts_arg(score.parts, score.num_parts, field("parts").c_str()),
          token_rewards_arg(score.token_rewards, score.num_token_rewards, sample,
                            field("token_rewards").c_str())};
}

}  // namespace

extern "C" {

rl_status rl_batch_create(const rl_sample_view* samples, size_t num_samples, rl_batch** out,
                          rl_error** err) {
  clear(out);
  return guarded(err, nullptr, [&] {
    const std::vector<rl_sample_view> views = input_structs(samples, num_samples, "samples");
    std::vector<SamplePtr> made;
    for (size_t i = 0; i < views.size(); ++i) made.push_back(sample_at(views[i], i));
    require(out, "out");
    *out = make_batch(std::move(made));
  });
}

void rl_batch_part_init(rl_batch_part* part, size_t size) {
  init_struct(part, size, kFirstSize<rl_batch_part>);
}

rl_status rl_batch_select(const rl_batch_part* parts, size_t num_parts, rl_batch** out,
                          rl_error** err) {
  clear(out);
  return guarded(err, nullptr, [&] {
    const std::vector<rl_batch_part> given = input_structs(parts, num_parts, "parts");
    Selection selection;
    for (size_t i = 0; i < given.size(); ++i) append_part(selection, given[i], i);
    require(out, "out");
    const auto box = std::make_shared<BatchBox>(std::move(selection.samples));
    box->set_rewards(0, std::move(selection.rewards));
    *out = issue<rl_batch>(box);
  });
}

rl_status rl_batch_export(const rl_batch* batch, rl_bytes** out, rl_error** err) {
  clear(out);
  return guarded(err, batch, [&] {
    const auto box = use(batch, "batch");
    require(out, "out");
    *out = make_bytes(BufferSession::to_bytes(scored_copies(*box)));
  });
}

rl_status rl_batch_import(const void* data, size_t size, rl_batch** out, rl_error** err) {
  clear(out);
  return guarded(err, nullptr, [&] {
    const auto bytes = array_arg(static_cast<const std::byte*>(data), size, "data");
    require(data, "data");
    require(out, "out");
    *out = make_batch(BufferSession::from_bytes(bytes, "data"));
  });
}

size_t rl_batch_count(const rl_batch* batch) {
  const auto box = use_if_live(batch);
  return box != nullptr ? box->samples.size() : 0;
}

rl_status rl_batch_sample(const rl_batch* batch, size_t index, rl_sample_view* view,
                          rl_error** err) {
  clear_result(view);
  return guarded(err, batch, [&] {
    const auto box = use(batch, "batch");
    write_result(view, "view", [&](rl_sample_view& out) {
      check_index(index, box->samples.size());
      fill_sample(out, *box->samples[index]);
      box->with_rewards(index, [&](const SampleRewards& now) { fill_rewards(out, now); });
    });
  });
}

rl_status rl_batch_score(rl_batch* batch, size_t first, const rl_score* scores, size_t count,
                         rl_error** err) {
  return guarded(err, batch, [&] {
    const auto box = use(batch, "batch");
    const std::vector<rl_score> given = input_structs(scores, count, "scores");
    const size_t samples = box->samples.size();
    if (first > samples || count > samples - first) {
      throw Error(Code::kOutOfRange, str("parameter first is ", first, " for ", count,
                                         " scores, but the batch has ", samples, " samples"))
          .with_key("first");
    }
    std::vector<SampleRewards> made;
    for (size_t i = 0; i < count; ++i) {
      made.push_back(rewards_from(given[i], i, *box->samples[first + i]));
    }
    box->set_rewards(first, std::move(made));
  });
}

void rl_batch_release(rl_batch* batch) { drop(batch); }

}  // extern "C"

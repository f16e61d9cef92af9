// What errors call the thing that is wrong: the parameter or the field of a struct of rl.h with its
// place in a batch, or an option that exists. No key is a word of the library's own.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "abi/host.h"

namespace abi_test {
namespace {

struct Refusal {
  std::string key, message;
};

// The error of a call that has to fail.
template <typename Call>
Refusal refused(rl_status expected, Call&& call) {
  rl_error* err = nullptr;
  EXPECT_EQ(call(&err), expected) << text_of(err, RL_ERROR_SUMMARY);
  Refusal out{text_of(err, RL_ERROR_KEY), text_of(err, RL_ERROR_MESSAGE)};
  rl_error_release(err);
  return out;
}

// Samples with ids that the vocabulary of 256 has, of ordinals that fall: training reorders them.
class AbiErrorKeys : public ::testing::Test {
 protected:
  ~AbiErrorKeys() override { rl_batch_release(batch_); }
  void make_batch(size_t spoilt, int32_t id, size_t num_ids = 6, float temperature = 1) {
    constexpr size_t kSamples = 4;
    std::vector<rl_sample_view> views(kSamples);
    std::vector<std::vector<int32_t>> ids(kSamples);
    for (size_t i = 0; i < kSamples; ++i) {
      ids[i].assign(i == spoilt ? num_ids : 6, 5);
      if (i == spoilt) ids[i][4] = id;
      rl_sample_view_init(&views[i], sizeof views[i]);
      views[i].sample_id = 700 + i;
      views[i].ordinal = (kSamples - i - 1) / 2;
      views[i].slot = i % 2;
      views[i].ids = ids[i].data();
      views[i].num_ids = ids[i].size();
      views[i].num_prompt = 3;
      views[i].temperature = i == spoilt ? temperature : 1;
      views[i].scored = 1;
      views[i].reward = static_cast<double>(i % 2);
    }
    rl_batch_release(batch_);
    EXPECT_RL_OK(rl_batch_create(views.data(), views.size(), &batch_, &err));
  }
  rl_status step(rl_error** err) const {
    rl_step step;
    rl_step_init(&step, sizeof step);
    step.batch = batch_;
    rl_event* event = nullptr;
    return rl_trainer_step(host_.trainer, &step, &event, err);
  }
  rl_status backward(rl_error** err) const {
    rl_step step;
    rl_step_init(&step, sizeof step);
    step.batch = batch_;
    return rl_trainer_backward(host_.trainer, &step, err);
  }
  rl_status forward(const std::vector<int32_t>& ids, rl_error** err) const {
    rl_forward input;
    rl_forward_init(&input, sizeof input);
    if (ids.empty()) {
      input.batch = batch_;
    } else {
      input.ids = ids.data();
      input.num_ids = ids.size();
      input.num_prompt = 1;
    }
    rl_tensor* tensor = nullptr;
    return rl_trainer_forward(host_.trainer, &input, &tensor, err);
  }

  const Host host_;
  rl_batch* batch_ = nullptr;
};

TEST_F(AbiErrorKeys, ASampleIsNamedByItsPlaceInTheBatchAndItsId) {
  make_batch(2, 256);
  const char* const text = "step.batch[2], sample 702: ids holds 256 at index 4, expected 0..255";
  const auto expect_text = [&](const Refusal& seen) {
    EXPECT_EQ(seen.key, "step.batch[2].ids");
    EXPECT_EQ(seen.message, text);
  };
  expect_text(refused(RL_OUT_OF_RANGE, [&](rl_error** err) { return step(err); }));
  expect_text(refused(RL_OUT_OF_RANGE, [&](rl_error** err) { return backward(err); }));
  const Refusal seen = refused(RL_OUT_OF_RANGE, [&](rl_error** err) { return forward({}, err); });
  EXPECT_EQ(seen.key, "forward.batch[2].ids");
  EXPECT_EQ(seen.message,
            "forward.batch[2], sample 702: ids holds 256 at index 4, expected 0..255");
  make_batch(1, 5, 6, 1e-40f);
  EXPECT_EQ(refused(RL_OUT_OF_RANGE, [&](rl_error** err) { return step(err); }).key,
            "step.batch[1].temperature");
}

TEST_F(AbiErrorKeys, ASequenceThatIsTooLongNamesTheOptionThatLimitsIt) {
  make_batch(3, 5, 66);
  const Refusal of_step = refused(RL_OUT_OF_RANGE, [&](rl_error** err) { return step(err); });
  EXPECT_EQ(of_step.key, "engine.max_model_len");
  EXPECT_EQ(of_step.message,
            "step.batch[3], sample 703 has 66 tokens, but engine.max_model_len allows 64");
  const std::vector<int32_t> ids(66, 5);
  const Refusal of_ids =
      refused(RL_OUT_OF_RANGE, [&](rl_error** err) { return forward(ids, err); });
  EXPECT_EQ(of_ids.key, "engine.max_model_len");
  EXPECT_EQ(of_ids.message,
            "the sequence of forward.ids has 66 tokens, but engine.max_model_len allows 64");
}

TEST_F(AbiErrorKeys, ASequenceOfIdsHasNoSampleId) {
  const Refusal seen = refused(RL_OUT_OF_RANGE, [&](rl_error** err) {
    return forward({1, 2, -1}, err);
  });
  EXPECT_EQ(seen.key, "forward.ids");
  EXPECT_EQ(seen.message, "parameter forward.ids holds -1 at index 2, expected 0..255");
}

TEST_F(AbiErrorKeys, AnUnscoredSampleIsNamedByItsPlace) {
  static const int32_t ids[] = {1, 2, 3, 4};
  rl_sample_view view;
  rl_sample_view_init(&view, sizeof view);
  view.sample_id = 31;
  view.ids = ids;
  view.num_ids = 4;
  view.num_prompt = 3;
  EXPECT_RL_OK(rl_batch_create(&view, 1, &batch_, &err));
  const Refusal seen = refused(RL_FAILED_PRECONDITION, [&](rl_error** err) { return step(err); });
  EXPECT_EQ(seen.key, "step.batch[0].scored");
  EXPECT_EQ(seen.message, "step.batch[0], sample 31 of the batch is not scored");
}

// That of the host has three tokens.
TEST_F(AbiErrorKeys, AConversationNamesItsOwnStructs) {
  const auto append = [&](const std::vector<int32_t>& ids, rl_error** err) {
    const rl_content added = content_of(ids.data(), ids.size());
    return rl_conversation_append(host_.conversation, &added, err);
  };
  EXPECT_EQ(refused(RL_OUT_OF_RANGE, [&](rl_error** err) { return append({256}, err); }).key,
            "content.ids");
  rl_conversation* none = nullptr;
  const int32_t wild[] = {-1};
  const rl_content prompt = content_of(wild, 1);
  EXPECT_EQ(refused(RL_OUT_OF_RANGE,
                    [&](rl_error** err) {
                      return rl_conversation_create(host_.engine, &prompt, &none, err);
                    })
                .key,
            "prompt.ids");
  rl_turn turn;
  rl_turn_init(&turn, sizeof turn);
  turn.priority = 1;
  const auto generate = [&](rl_error** err) {
    return rl_conversation_generate(host_.conversation, &turn, err);
  };
  const Refusal priority = refused(RL_CONFLICT, generate);
  EXPECT_EQ(priority.key, "turn.priority");
  EXPECT_EQ(priority.message,
            "turn.priority is 1 but engine.scheduling_policy is fcfs, which has none");
  turn.priority = 0;
  EXPECT_RL_OK(append(std::vector<int32_t>(58, 5), &err));
  const Refusal length = refused(RL_OUT_OF_RANGE, generate);
  EXPECT_EQ(length.key, "sampling.max_new_tokens");
  EXPECT_EQ(length.message,
            "a sequence of 61 tokens and sampling.max_new_tokens 4 together exceed "
            "engine.max_model_len 64");
}

TEST_F(AbiErrorKeys, AReservedFieldIsZero) {
  const auto expect_key = [&](const char* key, auto&& call) {
    const Refusal seen = refused(RL_INVALID_ARGUMENT, call);
    EXPECT_EQ(seen.key, key);
    EXPECT_EQ(seen.message, std::string("parameter ") + key + " is not 0");
  };
  rl_forward sequence;
  rl_forward_init(&sequence, sizeof sequence);
  const int32_t ids[] = {1, 2};
  sequence.ids = ids;
  sequence.num_ids = 2;
  sequence.num_prompt = 1;
  rl_tensor* tensor = nullptr;
  const auto trainer_forward = [&](rl_error** err) {
    return rl_trainer_forward(host_.trainer, &sequence, &tensor, err);
  };
  const auto model_forward = [&](rl_error** err) {
    return rl_model_forward(host_.model, &sequence, &tensor, err);
  };
  sequence.reserved = -1;
  expect_key("forward.reserved", trainer_forward);
  expect_key("forward.reserved", model_forward);
  sequence.reserved = 0;
  sequence.reserved2 = 1;
  expect_key("forward.reserved2", trainer_forward);
  expect_key("forward.reserved2", model_forward);

  rl_reply replies[2];
  for (rl_reply& reply : replies) rl_reply_init(&reply, sizeof reply);
  replies[1].reserved = 1;
  expect_key("replies[1].reserved", [&](rl_error** err) {
    return rl_pipeline_reply(host_.pipeline, replies, 2, nullptr, err);
  });
  rl_algo_packing packing;
  rl_algo_packing_init(&packing, sizeof packing);
  packing.reserved = 1;
  const int32_t length = 1;
  int32_t bin = 0;
  uint64_t count = 0;
  expect_key("packing.reserved", [&](rl_error** err) {
    return rl_algo_pack(nullptr, &length, 1, &packing, &bin, 1, &count, err);
  });
  rl_request request;
  rl_request_init(&request, sizeof request);
  request.prompt = ids;
  request.num_prompt = 2;
  request.reserved = 1;
  uint64_t first_id = 0;
  expect_key("request.reserved", [&](rl_error** err) {
    return rl_engine_submit(host_.engine, &request, &first_id, err);
  });
  rl_drop drop;
  rl_drop_init(&drop, sizeof drop);
  drop.reserved = 1;
  expect_key("drop.reserved",
             [&](rl_error** err) { return rl_buffer_drop(host_.buffer, &drop, &count, err); });
}

// Nothing of such an array is read.
TEST_F(AbiErrorKeys, ASampleHasNoMoreIdsThanAnInt32Counts) {
  const int32_t ids[] = {1, 2};
  rl_sample_view view;
  rl_sample_view_init(&view, sizeof view);
  view.ids = ids;
  view.num_prompt = 1;
  for (const size_t beyond : {0, 1}) {
    view.num_ids = (size_t{1} << 31) + beyond;
    const Refusal seen = refused(
        RL_OUT_OF_RANGE, [&](rl_error** err) { return rl_buffer_put(host_.buffer, &view, err); });
    EXPECT_EQ(seen.key, "sample.num_ids");
  }
}

TEST_F(AbiErrorKeys, AStepHasSamples) {
  EXPECT_RL_OK(rl_batch_create(nullptr, 0, &batch_, &err));
  EXPECT_EQ(refused(RL_INVALID_ARGUMENT, [&](rl_error** err) { return step(err); }).key,
            "step.batch");
  EXPECT_RL_OK(backward(&err));  // a part of a batch may be empty
}

}  // namespace
}  // namespace abi_test

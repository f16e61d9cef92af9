// Texts in structs: without a length they end with NUL, and NULL is no text. A length of 0 by
// default would drop the text of a host that forgot it.
#include <gtest/gtest.h>

#include <string>

#include "abi/host.h"

namespace abi_test {
namespace {

constexpr size_t kNul = RL_NUL_TERMINATED;

TEST(AbiTextLengths, AreThoseOfTextsThatEndWithNulAtFirst) {
  rl_sample_view sample;
  rl_sample_view_init(&sample, sizeof sample);
  EXPECT_EQ(sample.tag_len, kNul);
  rl_score score;
  rl_score_init(&score, sizeof score);
  EXPECT_EQ(score.failure_len, kNul);
  rl_reply reply;
  rl_reply_init(&reply, sizeof reply);
  EXPECT_EQ(reply.text_len, kNul);
  rl_feed_row row;
  rl_feed_row_init(&row, sizeof row);
  EXPECT_EQ(row.json_len, kNul);
  EXPECT_EQ(row.tag_len, kNul);
  rl_request request;
  rl_request_init(&request, sizeof request);
  EXPECT_EQ(request.tag_len, kNul);
  rl_content content;
  rl_content_init(&content, sizeof content);
  EXPECT_EQ(content.tag_len, kNul);
  rl_checkpoint checkpoint;
  rl_checkpoint_init(&checkpoint, sizeof checkpoint);
  EXPECT_EQ(checkpoint.dir_len, kNul);
  EXPECT_EQ(checkpoint.state_len, kNul);
  rl_weight weight;
  rl_weight_init(&weight, sizeof weight);
  EXPECT_EQ(weight.name_len, kNul);
  rl_files files;
  rl_files_init(&files, sizeof files);
  EXPECT_EQ(files.prefix_len, kNul);
  rl_span span;
  rl_span_init(&span, sizeof span);
  EXPECT_EQ(span.lane_len, kNul);
  EXPECT_EQ(span.name_len, kNul);
  EXPECT_EQ(span.arg_name_len, kNul);
}

// The tag of a batch of one sample that was made with this tag.
std::string tag_of(const char* tag, size_t len, rl_status expected = RL_OK) {
  static const int32_t ids[] = {1, 2, 3};
  rl_sample_view view;
  rl_sample_view_init(&view, sizeof view);
  view.ids = ids;
  view.num_ids = 3;
  view.num_prompt = 2;
  view.tag = tag;
  view.tag_len = len;
  rl_batch* batch = nullptr;
  EXPECT_EQ(rl_batch_create(&view, 1, &batch, nullptr), expected);
  if (expected != RL_OK) return "";
  EXPECT_RL_OK(rl_batch_sample(batch, 0, &view, &err));
  std::string out(view.tag, view.tag_len);
  rl_batch_release(batch);
  return out;
}

TEST(AbiTextLengths, NullIsNoText) {
  EXPECT_EQ(tag_of("row 7", kNul), "row 7");
  EXPECT_EQ(tag_of("row 7", 3), "row");
  EXPECT_EQ(tag_of("row 7", 0), "");
  EXPECT_EQ(tag_of(nullptr, kNul), "");
  EXPECT_EQ(tag_of(nullptr, 0), "");
  tag_of(nullptr, 3, RL_INVALID_ARGUMENT);
}

TEST(AbiTextLengths, ARequestKeepsATagWithoutALength) {
  const Host host;
  static const int32_t prompt[] = {1, 2, 3};
  rl_request request;
  rl_request_init(&request, sizeof request);
  request.prompt = prompt;
  request.num_prompt = 3;
  request.tag = "row 7";
  uint64_t id = 0;
  EXPECT_RL_OK(rl_engine_submit(host.engine, &request, &id, &err));
  EXPECT_RL_OK(rl_engine_run(host.engine, &err));
  rl_batch* batch = nullptr;
  EXPECT_RL_OK(rl_engine_take(host.engine, &batch, &err));
  rl_sample_view view;
  rl_sample_view_init(&view, sizeof view);
  EXPECT_RL_OK(rl_batch_sample(batch, 0, &view, &err));
  EXPECT_STREQ(view.tag, "row 7");
  rl_batch_release(batch);
}

TEST(AbiTextLengths, ATextThatIsNeededMayNotBeNull) {
  const Host host;
  rl_weight weight;
  rl_weight_init(&weight, sizeof weight);
  weight.tensor = host.tensor;
  uint64_t version = 0;
  rl_error* err = nullptr;
  EXPECT_EQ(rl_model_set_weights(host.model, &weight, 1, nullptr, 0, &version, &err),
            RL_INVALID_ARGUMENT);
  EXPECT_EQ(text_of(err, RL_ERROR_KEY), "weights[0].name");
  rl_error_release(err);
  rl_span span;
  rl_span_init(&span, sizeof span);
  span.name = "work";
  EXPECT_EQ(rl_runtime_trace_span(host.runtime, &span, &err), RL_INVALID_ARGUMENT);
  EXPECT_EQ(text_of(err, RL_ERROR_KEY), "span.lane");
  rl_error_release(err);
}

}  // namespace
}  // namespace abi_test

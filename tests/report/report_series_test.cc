// Reading files of a run that are whole, torn, resumed or broken; numbers and axes of the report.
#include "report/report_series.h"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>

#include "profile/kept_response.h"
#include "report/html_text.h"
#include "report/report_numbers.h"
#include "report/report_responses.h"
#include "support/expect_error.h"
#include "support/temp_dir.h"

namespace rl {
namespace {

std::string line(int step, double reward) {
  return str("{\"training/global_step\":", step, ",\"r\":", reward, "}\n");
}

class Series : public ::testing::Test {
 protected:
  StepTable read(const std::string& text) {
    std::ofstream(dir_.file("m.jsonl"), std::ios::binary) << text;
    return read_step_table(real_fs(), dir_.file("m.jsonl"), notes_);
  }
  std::string only_note() const {
    const auto all = notes_.sentences();
    EXPECT_EQ(all.size(), 1u);
    return all.empty() ? "" : all.front();
  }
  TempDir dir_;
  ReadNotes notes_;
};

TEST_F(Series, ColumnsHaveAValueOrAGapForEachStep) {
  const StepTable t = read(
      "{\"training/global_step\":1,\"a\":1.5,\"b\":null}\n{\"training/global_step\":3,\"c\":2}\n");
  EXPECT_EQ(t.steps, (std::vector<uint64_t>{1, 3}));
  ASSERT_NE(t.find("a"), nullptr);
  EXPECT_EQ(t.find("a")->at(0), 1.5);
  EXPECT_TRUE(std::isnan(t.find("a")->at(1)));
  EXPECT_TRUE(std::isnan(t.find("c")->at(0)));
  EXPECT_EQ(t.find("b"), nullptr) << "a column without any value is none";
  EXPECT_TRUE(notes_.sentences().empty());
}

TEST_F(Series, AMissingFileIsNamedAndHasNoSteps) {
  EXPECT_TRUE(read_step_table(real_fs(), dir_.file("none.jsonl"), notes_).steps.empty());
  EXPECT_TRUE(contains(only_note(), "none.jsonl could not be read"));
  EXPECT_FALSE(contains(only_note(), dir_.path())) << "no directory of the machine is named";
}

TEST_F(Series, ATornLastLineIsLeftOutAndNamed) {
  EXPECT_EQ(read(line(1, 0.5) + "{\"training/global_step\":2,\"r\":").steps.size(), 1u);
  EXPECT_TRUE(contains(only_note(), "line 2 is incomplete"));
}

TEST_F(Series, ABrokenLineCostsNoOther) {
  EXPECT_EQ(read(line(1, 0.5) + "{]\n[1]\n{\"r\":1}\n" + line(2, 1)).steps.size(), 2u);
  ASSERT_EQ(notes_.sentences().size(), 3u);
  EXPECT_TRUE(contains(notes_.sentences()[0], "line 2"));
}

TEST_F(Series, NotesAreBounded) {
  std::string text;
  for (int i = 0; i < 1000; ++i) text += "broken\n";
  read(text);
  EXPECT_EQ(notes_.sentences().size(), 21u);
  EXPECT_EQ(notes_.sentences().back(), "and 980 more like these");
}

TEST_F(Series, ALineOfAResumedRunReplacesTheSteps) {
  const StepTable t = read(line(1, 1) + line(2, 2) + line(3, 3) + line(2, 5) + line(3, 6));
  EXPECT_EQ(t.steps, (std::vector<uint64_t>{1, 2, 3}));
  EXPECT_EQ(*t.find("r"), (std::vector<double>{1, 5, 6}));
  EXPECT_TRUE(contains(only_note(), "2 lines were replaced"));
}

TEST_F(Series, WhatIsNoNumberIsNamedOnce) {
  const StepTable t = read("{\"training/global_step\":1,\"x\":\"text\",\"y\":1e200,\"z\":{}}\n");
  EXPECT_EQ(t.find("x"), nullptr);
  EXPECT_EQ(t.find("y"), nullptr);
  ASSERT_EQ(notes_.sentences().size(), 3u);
  EXPECT_TRUE(contains(notes_.sentences()[0], "\"x\" is not a number in 1 lines"));
}

TEST(Bins, KeepTheSmallestAndLargestValue) {
  std::vector<uint64_t> steps;
  std::vector<double> values;
  for (uint64_t i = 1; i <= 5000; ++i) {
    steps.push_back(i);
    values.push_back(i == 777 ? -40 : i == 4001 ? 90 : 1);
  }
  const auto points = bin_steps(steps, values, 120);
  ASSERT_LE(points.size(), 120u);
  EXPECT_EQ(points.front().first, 1);
  EXPECT_EQ(points.back().last, 5000);
  double low = 0, high = 0;
  for (const PlotPoint& p : points) {
    low = std::min(low, p.low);
    high = std::max(high, p.high);
    EXPECT_LE(p.low, p.mean);
    EXPECT_LE(p.mean, p.high);
  }
  EXPECT_EQ(low, -40);
  EXPECT_EQ(high, 90);
}

TEST(Bins, AGapStaysAGap) {
  const double none = std::nan("");
  const auto points = bin_steps({1, 2, 3, 4}, {1, none, none, none}, 2);
  ASSERT_EQ(points.size(), 2u);
  EXPECT_EQ(points[0].mean, 1);
  EXPECT_TRUE(std::isnan(points[1].mean));
}

TEST(Numbers, ArePrintedForPeople) {
  EXPECT_EQ(format_number(0), "0");
  EXPECT_EQ(format_number(0.78125), "0.7812");
  EXPECT_EQ(format_number(1e-5), "1e-5");
  EXPECT_EQ(format_number(1.25e-17), "1.25e-17");
  EXPECT_EQ(format_number(999.99), "1,000");
  EXPECT_EQ(format_number(-1234567), "-1,234,567");
  EXPECT_EQ(format_number(std::nan("")), "no value");
  EXPECT_EQ(format_bytes(3087027200u), "2.88 GiB");
  EXPECT_EQ(format_bytes(100), "100 B");
  EXPECT_EQ(format_seconds(0.3145), "0.315 s");
  EXPECT_EQ(format_seconds(181.4), "3 min 1 s");
  EXPECT_EQ(format_seconds(7500), "2 h 5 min");
}

TEST(Numbers, EveryRangeHasAnAxisThatHoldsIt) {
  for (const auto& [low, high] : std::vector<std::pair<double, double>>{{0, 0},
                                                                        {0, 1},
                                                                        {5, 5},
                                                                        {-3, -3},
                                                                        {1, 1 + 1e-16},
                                                                        {-1e99, 1e99},
                                                                        {1e-300, 2e-300},
                                                                        {0.29, 0.81},
                                                                        {100, 101},
                                                                        {-7, 12},
                                                                        {1e-5, 1e-5}}) {
    const ChartAxis a = value_axis(low, high, 4);
    EXPECT_LT(a.low, a.high);
    EXPECT_GE(a.at(low), -1e-9) << low << " " << high;
    EXPECT_LE(a.at(high), 1 + 1e-9) << low << " " << high;
    EXPECT_GE(a.ticks.size(), 2u) << low << " " << high;
    EXPECT_LE(a.ticks.size(), 8u) << low << " " << high;
  }
}

TEST(EscapeHtml, LeavesNothingThatIsMarkup) {
  EXPECT_EQ(escape_html("<b a=\"x\" c='y'>&amp;</b>"),
            "&lt;b a=&quot;x&quot; c=&#39;y&#39;&gt;&amp;amp;&lt;/b&gt;");
}

TEST(EscapeHtml, ShowsControlsAndReplacesBrokenBytes) {
  EXPECT_EQ(escape_html(std::string("a\0\x1b\x7f\tb\n", 7)),
            "a\xE2\x90\x80\xE2\x90\x9B\xE2\x90\xA1\tb\n");
  EXPECT_EQ(escape_html("\xC3"), "\xEF\xBF\xBD");
  EXPECT_EQ(escape_html("\xC0\xBCscript"), "\xEF\xBF\xBD\xEF\xBF\xBDscript") << "an overlong <";
  EXPECT_EQ(escape_html("\xC2\x85"), "\xEF\xBF\xBD") << "a control of the upper half";
  EXPECT_EQ(escape_html("\xEF\xBF\xBE"), "\xEF\xBF\xBD") << "no character of XML";
  EXPECT_EQ(escape_html("\xE2\x82\xAC \xF0\x9F\x90\xA2"), "\xE2\x82\xAC \xF0\x9F\x90\xA2");
}

KeptResponse response(ResponseKind kind, uint64_t step, int64_t row, double reward) {
  KeptResponse a;
  a.kind = kind;
  a.step = step;
  a.data_row = row;
  a.reward = reward;
  a.finish = "stop_token";
  a.prompt = str("p", row);
  a.response = str("a", row, " at ", step);
  return a;
}

TEST(KeptResponse, OneLineBringsItBack) {
  KeptResponse a = response(ResponseKind::kWorst, 7, 3, -0.5);
  a.tag = "tag \"\n";
  a.num_tokens = 12;
  const auto b = parse_kept_response(render_kept_response(a));
  ASSERT_TRUE(b.has_value());
  EXPECT_EQ(b->kind, a.kind);
  EXPECT_EQ(b->step, 7u);
  EXPECT_EQ(b->data_row, 3);
  EXPECT_EQ(b->reward, -0.5);
  EXPECT_EQ(b->num_tokens, 12);
  EXPECT_EQ(b->tag, a.tag);
  EXPECT_EQ(b->prompt, a.prompt);
  EXPECT_EQ(b->response, a.response);
  EXPECT_FALSE(b->cut);
}

TEST(KeptResponse, ALineIsBoundedAndSaysThatItWasCut) {
  KeptResponse a = response(ResponseKind::kEval, 1, 1, 0);
  for (int i = 0; i < 100000; ++i) a.response += "\xE2\x82\xAC";
  const std::string line = render_kept_response(a);
  EXPECT_LT(line.size(), 3 * kMaxKeptText);
  const auto b = parse_kept_response(line);
  ASSERT_TRUE(b.has_value());
  EXPECT_TRUE(b->cut);
  EXPECT_FALSE(contains(b->response, "\xEF\xBF\xBD")) << "a character was cut in two";
}

TEST(KeptResponse, BytesThatAreNoTextAreReplaced) {
  KeptResponse a = response(ResponseKind::kEval, 1, 1, 0);
  a.response = "x\xFFy";
  const auto b = parse_kept_response(render_kept_response(a));
  ASSERT_TRUE(b.has_value());
  EXPECT_EQ(b->response, "x\xEF\xBF\xBDy");
}

TEST(KeptResponse, AnythingElseIsNone) {
  for (const char* text :
       {"", "{}", "[]", "null", "{\"kind\":1}", "{\"training/global_step\":-1}"}) {
    EXPECT_FALSE(parse_kept_response(text).has_value()) << text;
  }
  std::string line = render_kept_response(response(ResponseKind::kBest, 1, 1, 1));
  EXPECT_FALSE(parse_kept_response(line.substr(0, line.size() - 1)).has_value());
  line.replace(line.find("best"), 4, "most");
  EXPECT_FALSE(parse_kept_response(line).has_value());
}

class Responses : public ::testing::Test {
 protected:
  void add(const KeptResponse& a) { text_ += render_kept_response(a) + "\n"; }
  ResponseDigest read() {
    std::ofstream(dir_.file("s.jsonl"), std::ios::binary) << text_;
    return read_responses(real_fs(), dir_.file("s.jsonl"), notes_);
  }
  TempDir dir_;
  ReadNotes notes_;
  std::string text_;
};

TEST_F(Responses, TheLastEvaluationIsComparedWithTheFirst) {
  for (int64_t row = 0; row < 4; ++row) add(response(ResponseKind::kEval, 0, row, row == 3));
  for (int64_t row = 0; row < 4; ++row) add(response(ResponseKind::kEval, 5, row, 9));
  for (int64_t row = 0; row < 4; ++row) {
    KeptResponse a = response(ResponseKind::kEval, 10, row, row == 0);
    if (row == 2) a.response = "a2 at 0";
    add(a);
  }
  const ResponseDigest d = read();
  EXPECT_EQ(d.num_evals, 3u);
  EXPECT_EQ(d.first_step, 0u);
  EXPECT_EQ(d.last_step, 10u);
  EXPECT_EQ(d.num_compared, 4u);
  EXPECT_EQ(d.num_better, 1u);
  EXPECT_EQ(d.num_worse, 1u);
  EXPECT_EQ(d.num_reworded, 1u) << "row 1; row 2 answers alike";
  ASSERT_EQ(d.better.size(), 1u);
  EXPECT_EQ(d.better[0].first.response, "a0 at 0");
  EXPECT_EQ(d.better[0].last.response, "a0 at 10");
}

TEST_F(Responses, TwoEvaluationsAtOneStepAreTwo) {
  for (int i = 0; i < 2; ++i) add(response(ResponseKind::kEval, 4, 0, i));
  EXPECT_EQ(read().num_better, 1u);
}

TEST_F(Responses, TheBestOfTrainingAreOfDifferentPromptsAndTheLatest) {
  for (uint64_t step = 1; step <= 50; ++step) {
    add(response(ResponseKind::kBest, step, static_cast<int64_t>(step % 5), 1));
    add(response(ResponseKind::kWorst, step, static_cast<int64_t>(step % 5), step == 20 ? -1 : 0));
  }
  const ResponseDigest d = read();
  ASSERT_EQ(d.best.size(), 3u);
  EXPECT_EQ(d.best[0].step, 50u);
  EXPECT_EQ(d.best[1].step, 49u);
  ASSERT_EQ(d.worst.size(), 3u);
  EXPECT_EQ(d.worst[0].step, 20u);
}

TEST_F(Responses, ALineThatIsNoAnswerIsNamed) {
  text_ = "{\"kind\":\"eval\"}\n";
  EXPECT_EQ(read().num_evals, 0u);
  ASSERT_EQ(notes_.sentences().size(), 1u);
  EXPECT_TRUE(contains(notes_.sentences()[0], "s.jsonl: line 1 is not a kept response"));
}

}  // namespace
}  // namespace rl

// The page itself: well-formed, complete in itself, and deaf to what texts from outside would like
// it to do.
#include "report/report.h"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "profile/kept_response.h"
#include "profile/metrics_writer.h"
#include "support/expect_error.h"
#include "support/temp_dir.h"
#include "support/xml_check.h"

namespace rl {
namespace {

class Report : public ::testing::Test {
 protected:
  Report() {
    in_.title = "model";
    in_.facts = {{"Seed", "7"}};
    in_.memory = {{"weights", 100, 100}, {"phase workspace", 50, 0}};
  }
  std::string write(const char* name, const std::string& text) {
    std::ofstream(dir_.file(name), std::ios::binary) << text;
    return dir_.file(name);
  }
  void steps(int count) {
    std::string text, evals;
    for (int i = 1; i <= count; ++i) {
      MetricList m;
      m.set(kStepMetric, i);
      for (const char* name :
           {"critic/rewards/mean", "response_length/mean", "response_length/clip_ratio",
            "response_length/max", "actor/entropy", "actor/ppo_kl", "actor/kl", "actor/grad_norm",
            "actor/lr", "actor/loss", "perf/rollout_tokens_per_s", "perf/train_tokens_per_s",
            "timing_s/gen", "timing_s/train_forward", "timing_s/train_backward", "timing_s/step"}) {
        m.set(name, i % 7 == 3 ? std::nan("") : 1.0 + 0.1 * (i % 5));
      }
      text += m.to_json() + "\n";
    }
    for (int i = 0; i < 3; ++i) {
      evals += str("{\"training/global_step\":", i, ",\"eval/rewards/mean\":0.", i, "}\n");
    }
    in_.metrics_path = write("metrics.jsonl", text);
    in_.eval_path = write("evals.jsonl", evals);
  }
  void trace() {
    recorder_.lane_name(0, "pipeline");
    recorder_.span({"pipeline.step", 0, 0, 1000, "step", 4});
    recorder_.span({"engine.decode", 1, 10, 400, nullptr, 0});
    recorder_.span({"train.backward", 3, 410, 990, nullptr, 0});
    in_.trace = digest_of(recorder_);
  }
  // The page, checked as every page has to be.
  XmlPage page() {
    text_ = render_report(in_, real_fs());
    XmlPage page(text_);
    EXPECT_EQ(page.problem(), "");
    check_closed(page);
    for (const char* word : {"nan", "inf", "-0 "}) EXPECT_FALSE(in_attributes(page, word)) << word;
    return page;
  }
  static bool in_attributes(const XmlPage& page, const std::string& word) {
    for (const XmlElement& e : page.elements()) {
      if (e.name == "meta" || e.name == "th" || e.name == "i" || e.name == "tr") continue;
      for (const auto& [key, value] : e.attributes) {
        if (key != "class" && key != "aria-labelledby" && key != "text-anchor" &&
            value.find(word) != std::string::npos) {
          return true;
        }
      }
    }
    return false;
  }
  // Only what the page is made of, and nothing that loads or runs.
  static void check_closed(const XmlPage& page) {
    const std::set<std::string> names = {
        "html",    "head", "meta",    "title",    "style",      "body",   "main",  "header",
        "section", "h1",   "h2",      "h3",       "h4",         "p",      "dl",    "div",
        "dt",      "dd",   "small",   "figure",   "figcaption", "svg",    "desc",  "text",
        "line",    "g",    "rect",    "polyline", "polygon",    "circle", "ul",    "li",
        "i",       "b",    "details", "summary",  "table",      "thead",  "tbody", "tr",
        "th",      "td",   "article", "pre",      "footer"};
    std::set<std::string> ids;
    for (const XmlElement& e : page.elements()) {
      EXPECT_TRUE(names.contains(e.name)) << e.name;
      for (const auto& [key, value] : e.attributes) {
        EXPECT_FALSE(key.starts_with("on") || key == "href" || key == "src" || key == "style")
            << e.name << " " << key;
        EXPECT_FALSE(contains(value, "url(")) << value;
        EXPECT_TRUE(key != "id" || ids.insert(value).second) << value << " is there twice";
      }
    }
  }
  const TempDir dir_;
  ReportInputs in_;
  TraceRecorder recorder_;
  std::string text_;
};

TEST_F(Report, HasAPlotForEachPartAndLoadsNothing) {
  steps(40);
  trace();
  const XmlPage p = page();
  size_t plots = 0;
  for (const XmlElement& e : p.elements())
    plots += e.attributes.contains("role") && e.name == "svg";
  EXPECT_EQ(plots, 14u);
  EXPECT_FALSE(contains(text_, "://"));
  EXPECT_FALSE(contains(text_, "@import"));
  EXPECT_FALSE(contains(text_, "<script"));
  EXPECT_TRUE(contains(text_, "content=\"width=device-width, initial-scale=1\""));
  EXPECT_TRUE(contains(text_, "prefers-color-scheme: dark"));
  EXPECT_TRUE(contains(text_, "default-src 'none'"));
  EXPECT_FALSE(contains(text_, dir_.path()));
}

TEST_F(Report, EveryPlotHasTitleDescriptionUnitAndTable) {
  steps(12);
  const XmlPage p = page();
  std::set<std::string> ids;
  for (const XmlElement& e : p.elements()) {
    if (e.attributes.contains("id")) ids.insert(e.attributes.at("id"));
  }
  size_t figures = 0;
  for (const XmlElement& e : p.elements()) {
    if (e.name != "figure") continue;
    ++figures;
    EXPECT_TRUE(ids.contains(e.attributes.at("id") + "-t"));
    EXPECT_TRUE(ids.contains(e.attributes.at("id") + "-d"));
  }
  EXPECT_EQ(p.count("details"), figures + 1) << "one table each, and that of all metrics";
  for (const char* unit : {"tokens/s", "nats", "seconds", "share", "reward"}) {
    EXPECT_TRUE(contains(text_, str("<text class=\"unit\" x=\"0\" y=\"10\">", unit)));
  }
}

TEST_F(Report, IsAPageWithoutAnyStepOrFile) {
  const XmlPage p = page();
  EXPECT_TRUE(contains(p.shown(), "No step has been recorded."));
  EXPECT_TRUE(contains(p.shown(), "set metrics.jsonl to record them"));
  in_.metrics_path = write("metrics.jsonl", "");
  EXPECT_TRUE(contains(page().shown(), "No step has been recorded."));
}

TEST_F(Report, OneStepIsDrawnAsADot) {
  steps(1);
  const XmlPage p = page();
  EXPECT_GE(p.count("circle"), 8u);
  EXPECT_TRUE(contains(p.shown(), "One step is recorded"));
}

TEST_F(Report, ThousandsOfStepsAreBinnedAndSaySo) {
  steps(5000);
  const XmlPage p = page();
  EXPECT_TRUE(contains(p.shown(), "Each point is the mean of up to 42 steps; bands range"));
  EXPECT_GE(p.count("polygon"), 8u) << "bands";
  EXPECT_LT(text_.size(), size_t{1} << 20);
}

TEST_F(Report, EqualInputsGiveEqualBytes) {
  steps(9);
  page();
  const std::string first = text_;
  page();
  EXPECT_EQ(text_, first);
}

TEST_F(Report, NamesWhatItCouldNotRead) {
  in_.metrics_path = write("metrics.jsonl", "{\"training/global_step\":1,\"x\":\"a\"}\nbroken\n{");
  in_.eval_path = dir_.file("gone.jsonl");
  const XmlPage p = page();
  for (const char* part : {"\"x\" is not a number", "line 2 is not a JSON object",
                           "line 3 is incomplete", "gone.jsonl could not be read"}) {
    EXPECT_TRUE(contains(p.shown(), part));
  }
}

// Texts that would break out of an element, an attribute, a comment, a style or the encoding.
const char* const kHostile[] = {
    "</pre><script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "\"><svg onload=alert(1)>",
    "' onmouseover='alert(1)",
    "--><iframe src=javascript:alert(1)>",
    "]]><b>",
    "</style><style>*{background:url(//evil)}",
    "&lt;script&gt;&#60;script&#62;",
    "</title></head><body onload=alert(1)>",
    "\xC0\xBCscript\xC0\xBE",
    "\xFF\xFE<\xE2\x80",
    "+ADw-script+AD4-",
    "\x1b[31m\x01\x02",
};

TEST_F(Report, NoTextFromOutsideBecomesMarkup) {
  for (const std::string text : kHostile) {
    KeptResponse a;
    a.prompt = a.response = a.tag = a.finish = text;
    std::string lines;
    for (const uint64_t step : {0, 5}) {
      a.step = step;
      a.reward = static_cast<double>(step);
      for (const ResponseKind kind :
           {ResponseKind::kEval, ResponseKind::kBest, ResponseKind::kWorst}) {
        a.kind = kind;
        lines += render_kept_response(a) + "\n";
      }
    }
    in_.responses_path = write("samples.jsonl", lines);
    in_.title = text;
    in_.facts = {{text, text}};
    in_.options = {{text, text}};
    in_.memory = {{text, 1, 2}};
    in_.trace = {};
    in_.trace.spans = {{text, 1, 2, 3}};
    in_.trace.timeline = {1, 10, {{text, {{text, 0, 5, 5, 1}}}}};
    const std::string name =
        nlohmann::json(text).dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
    in_.metrics_path = write("m<b>.jsonl", str("{\"training/global_step\":1,", name, ":1}\n",
                                               "{\"training/global_step\":2,", name, ":\"x\"}\n<"));
    page();
  }
}

TEST_F(Report, ATextIsShownToTheLetter) {
  KeptResponse a;
  a.kind = ResponseKind::kBest;
  a.response = "if (a < b && c > \"d\") '5' \xE2\x82\xAC";
  in_.responses_path = write("samples.jsonl", render_kept_response(a) + "\n");
  EXPECT_TRUE(contains(page().shown(), a.response));
}

TEST(StepTimeline, IsTheStepOfMedianLengthWithItsWorkJoined) {
  TraceRecorder r;
  r.lane_name(1, "engine");
  for (int i = 0; i < 3; ++i) {
    const int64_t begin = 10'000 * i, length = 1'000 * (i + 1);
    r.span({"pipeline.step", 0, begin, begin + length, "step", i + 1});
    for (int k = 0; k < 5; ++k) {
      r.span({"engine.decode", 1, begin + 100 * k, begin + 100 * k + 99, nullptr, 0});
    }
    r.span({"engine.prefill", 1, begin + 600, begin + 700, nullptr, 0});
  }
  const StepTimeline t = r.typical_step();
  EXPECT_EQ(t.step, 2);
  EXPECT_EQ(t.length_ns, 2000);
  ASSERT_EQ(t.lanes.size(), 1u);
  EXPECT_EQ(t.lanes[0].name, "engine");
  ASSERT_EQ(t.lanes[0].work.size(), 2u);
  EXPECT_EQ(t.lanes[0].work[0].count, 5);
  EXPECT_EQ(t.lanes[0].work[0].end_ns, 499);
  EXPECT_EQ(t.lanes[0].work[0].busy_ns, 495);
}

TEST(StepTimeline, NoStepIsNoLane) {
  TraceRecorder r;
  r.span({"engine.decode", 1, 0, 10, nullptr, 0});
  r.span({"pipeline.step", kFirstHostLane, 0, 20, nullptr, 0});  // as the host calls its own work
  EXPECT_TRUE(r.typical_step().lanes.empty());
}

}  // namespace
}  // namespace rl

// docs/architecture.md names the functions of one step in order: its table must equal a recorded
// trace.
#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "run_rig.h"

namespace rl::testing {
namespace {

struct DocumentedSpan {
  std::string span, function, file;
};

// The text between the index-th pair of backquotes of a line.
std::string quoted(const std::string& line, int index) {
  size_t at = 0;
  for (int i = 0; i < 2 * index; ++i) at = line.find('`', at) + 1;
  const size_t start = line.find('`', at) + 1;
  return line.substr(start, line.find('`', start) - start);
}

std::vector<DocumentedSpan> documented_spans() {
  std::ifstream in(std::string(RL_SOURCE_DIR) + "/docs/architecture.md");
  std::vector<DocumentedSpan> out;
  bool inside = false;
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with("## ")) inside = line == "## The functions of one step, in order";
    if (inside && line.starts_with("| `"))
      out.push_back({quoted(line, 0), quoted(line, 1), quoted(line, 2)});
  }
  return out;
}

// Names of the trace's spans by first begin; the lanes of samples show no functions.
std::vector<std::string> recorded_spans(const std::string& path) {
  std::ifstream in(path);
  const auto trace = nlohmann::json::parse(in);
  std::vector<std::pair<double, std::string>> begins;
  for (const auto& e : trace.at("traceEvents"))
    if (e.at("ph") == "X" && e.at("tid") < kFirstSampleLane)
      begins.emplace_back(e.at("ts").get<double>(), e.at("name").get<std::string>());
  std::ranges::stable_sort(begins, {}, &std::pair<double, std::string>::first);
  std::vector<std::string> names;
  for (const auto& [ts, name] : begins)
    if (std::ranges::find(names, name) == names.end()) names.push_back(name);
  return names;
}

TEST(Architecture, ListsTheFunctionsOfOneStepInTheirOrder) {
  const TempDir dir;
  OptionSet options = tiny_options(dir);
  options.set_assignment("pipeline.total_steps=1");
  options.set_assignment("profiler.timeline.enable=true");
  options.set_string("profiler.timeline.dir", dir.file("trace"));
  {
    Rig rig(options);
    rig.start_and_serve();
  }
  const std::vector<DocumentedSpan> documented = documented_spans();
  std::vector<std::string> names;
  for (const DocumentedSpan& d : documented) names.push_back(d.span);
  EXPECT_EQ(names, recorded_spans(dir.file("trace/trace.json")));
  for (const DocumentedSpan& d : documented) {
    std::ifstream in(std::string(RL_SOURCE_DIR) + "/" + d.file);
    std::stringstream text;
    text << in.rdbuf();
    EXPECT_NE(text.str().find(d.function + "("), std::string::npos)
        << d.function << " is not in " << d.file;
  }
}

}  // namespace
}  // namespace rl::testing

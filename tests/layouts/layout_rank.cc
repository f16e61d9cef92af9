// The ranks of a layout as processes, or as threads of one process, for layouts.sh:
//
//   layout_rank list RANKS                           the layouts of so many ranks, a line each
//   layout_rank threads WORK LAYOUT                  all ranks, and before them one rank
//   layout_rank process WORK LAYOUT RANK RENDEZVOUS  a rank over gloo, once threads have run
//
// They compute on the CPU, or small runs on the device that RL_LAYOUT_DEVICE names in the
// environment, as runtime.device does.
//
// WORK/input has model and prompts, WORK/one the checkpoint of one rank. What each kind of ranks
// has generated and saved is in WORK/threads and WORK/processes: text or text.RANK, and the
// checkpoints saved and again.
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <string_view>

#include "layout_table.h"
#include "layout_work.h"
#include "train/checkpoint/checkpoint.h"

namespace rl::testing {
namespace {

namespace files = std::filesystem;

const LayoutRow& row_of(const std::string& layout) {
  for (const LayoutRow& row : kLayouts) {
    if (layout == row.layout) return row;
  }
  throw std::invalid_argument("no layout '" + layout + "'");
}

LayoutPaths paths_in(const std::string& work, const std::string& kind) {
  const std::string own = work + "/" + kind;
  files::create_directories(own);
  return {own + "/saved", own + "/again", checkpoint_path(work + "/one", kSteps)};
}

void list(int64_t ranks) {
  for (const LayoutRow& row : kLayouts) {
    if (Layout(row.layout).ranks() == ranks) std::cout << row.layout << "\n";
  }
}

const char* device_name() { return std::getenv("RL_LAYOUT_DEVICE"); }

Layout layout_of(const LayoutRow& row) {
  return Layout(str(row.layout, device_name() != nullptr ? kSmallRun : ""));
}

void set_device(OptionSet& options) {
  if (device_name() != nullptr) options.set_text("runtime.device", device_name());
}

void on_device(const OptionSet& given, const std::function<void(std::shared_ptr<Runtime>)>& body) {
  OptionSet options = given;
  set_device(options);
  on_local_ranks(options, body);
}

void run_threads(const std::string& work, const LayoutRow& row) {
  const TempDir dir;
  const Layout layout = layout_of(row);
  const auto save_one = [&](LayoutRank& rank) {
    for (int i = 0; i < kSteps; ++i) rank.step(row.logprob_bound);
    rank.save(work + "/one");
    return std::string();
  };
  on_layout(dir, one_rank_of(layout), save_one, on_device);
  const LayoutPaths paths = paths_in(work, "threads");
  const auto train = [&](LayoutRank& rank) {
    return train_and_save(rank, paths, row.logprob_bound);
  };
  std::ofstream(work + "/threads/text") << on_layout(dir, layout, train, on_device);
  files::copy(dir.path(), work + "/input", files::copy_options::recursive);
}

// Options that name files have those that all processes share.
OptionSet of_process(const std::string& work, const Layout& layout, const std::string& rank,
                     const std::string& rendezvous) {
  const TempDir dir;
  OptionSet options = options_of(dir, layout);
  for (const char* const key : {"model.path", "data.path"}) {
    const std::string path = options.get_string(key);
    if (path.starts_with(dir.path()))
      options.set_string(key, work + "/input" + path.substr(dir.path().size()));
  }
  set_device(options);
  options.set_text("runtime.threads", "1");
  options.set_text("comm.backend", "gloo");
  options.set_text("comm.rank", rank);
  options.set_string("comm.rendezvous", rendezvous);
  return options;
}

void run_process(const std::string& work, const LayoutRow& row, const std::string& rank,
                 const std::string& rendezvous) {
  LayoutRank own(std::make_shared<Runtime>(of_process(work, layout_of(row), rank, rendezvous)));
  const LayoutPaths paths = paths_in(work, "processes");
  std::ofstream(work + "/processes/text." + rank) << train_and_save(own, paths, row.logprob_bound);
}

void run(const std::vector<std::string>& words) {
  const auto is = [&](std::string_view mode, size_t count) {
    return words.size() == count && words[0] == mode;
  };
  if (is("list", 2)) return list(std::stoll(words[1]));
  if (is("threads", 3)) return run_threads(words[1], row_of(words[2]));
  if (is("process", 5)) return run_process(words[1], row_of(words[2]), words[3], words[4]);
  throw std::invalid_argument(
      "usage: list RANKS | threads WORK LAYOUT | "
      "process WORK LAYOUT RANK RENDEZVOUS");
}

}  // namespace
}  // namespace rl::testing

// Expectations outside of a test print what fails, and count as its own.
int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  try {
    rl::testing::run({argv + 1, argv + argc});
  } catch (const std::exception& e) {
    std::cerr << e.what() << "\n";
    return 1;
  }
  return ::testing::UnitTest::GetInstance()->ad_hoc_test_result().Failed() ? 1 : 0;
}

// Trainers on ranks that divide the rows of micro-batches, each on a thread of its own.
#pragma once
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "../comm/local_ranks.h"
#include "train/train_rig.h"

namespace rl::testing {

struct ContextLayout {
  ContextRule rule;
  int groups = 1;  // that have a part of the samples each

  int ranks() const { return static_cast<int>(rule.ranks) * groups; }
};

inline std::string name_of(const ContextLayout& layout) {
  return str(layout.rule.ranks, " context ranks", layout.rule.zigzag ? " zigzag" : "", ", kind ",
             static_cast<int>(layout.rule.kind), ", ", layout.groups, " groups");
}

// The groups of one rank.
class RankGroups {
 public:
  RankGroups(const ContextLayout& layout, const std::shared_ptr<Transport>& transport)
      : transport_(*transport),
        context_(transport, mesh_of(layout, transport->rank()), Axis::kContext, {kLongNs}),
        all_(transport, {kLongNs}) {}
  void join(RigOptions& rig) {
    if (all_.size() > 1) rig.ranks = DataRanks(all_, transport_);
    if (all_.size() > 1) rig.master_ranks = MasterRanks(all_);
    if (context_.size() > 1) rig.context = ContextRanks(context_);
  }
  comm::Group& context() { return context_; }

 private:
  static Mesh mesh_of(const ContextLayout& layout, int rank) {
    return {{.context = static_cast<int>(layout.rule.ranks), .data = layout.groups},
            layout.ranks(),
            rank};
  }
  Transport& transport_;
  comm::Group context_, all_;
};

// Calls work on the rig of every rank; options are those of one rank that has all rows.
inline void on_ranks(const ContextLayout& layout, const RigOptions& given, TrainerOptions options,
                     const std::function<void(TrainRig&, int rank)>& work) {
  options.context = layout.rule;
  if (options.optimizer.zero.stage > 0) options.optimizer.zero.ranks = layout.ranks();
  run_local_ranks(layout.ranks(), [&](std::shared_ptr<Transport> transport) {
    RankGroups groups(layout, transport);
    RigOptions rig_options = given;
    groups.join(rig_options);
    TrainRig rig(rig_options, options);
    work(rig, transport->rank());
  });
}

// Groups of samples to one prompt each; the lengths of prompt and responses up to these.
struct GroupLengths {
  int groups, samples;
  unsigned prompt, response;
};
inline std::vector<Sample> group_samples(const GroupLengths& g, int64_t vocab, unsigned seed) {
  std::mt19937 rng(seed);
  const auto some = [&](unsigned most) {
    std::vector<int32_t> ids(1 + rng() % most);
    for (int32_t& id : ids) id = static_cast<int32_t>(rng() % static_cast<unsigned>(vocab));
    return ids;
  };
  std::vector<Sample> out;
  for (int i = 0; i < g.groups; ++i) {
    const std::vector<int32_t> prompt = some(g.prompt);
    for (int slot = 0; slot < g.samples; ++slot) {
      std::vector<int32_t> ids = prompt;
      for (const int32_t id : some(g.response)) ids.push_back(id);
      out.push_back(make_sample(std::move(ids), static_cast<int32_t>(prompt.size()),
                                static_cast<uint64_t>(i), static_cast<uint32_t>(slot)));
    }
  }
  return out;
}

}  // namespace rl::testing

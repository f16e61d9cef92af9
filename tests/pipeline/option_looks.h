// What a host can see of options: texts of a run, of an engine or a trainer of its own, of a plan,
// and the files that are left.
#pragma once
#include <chrono>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <random>
#include <set>
#include <thread>

#include "buffer/store_book.h"
#include "host_batch.h"
#include "late_scorer.h"
#include "pipeline/config/run_options.h"
#include "pipeline/schedule/schedule_file.h"
#include "pipeline/session/buffer_session.h"
#include "pipeline/session/engine_session.h"
#include "pipeline/update/trainer_session.h"
#include "run_rig.h"

namespace rl::testing {

namespace files = std::filesystem;

inline std::string text_of(const Sample& s) {
  std::string out =
      str(s.purpose == Purpose::kEval ? "eval " : "train ", s.ordinal, ".", s.slot, ":");
  for (const int32_t id : s.ids) out += str(" ", id);
  for (const uint8_t mixed : s.mixed_kv) out += mixed != 0 ? " mixed" : " pure";
  return out + "\n";
}

// What lies in a directory, and how many lines a log has.
inline std::string files_in(const std::string& root) {
  std::set<std::string> lines;
  for (const auto& entry : files::recursive_directory_iterator(root)) {
    int64_t count = 0;
    std::ifstream in(entry.path());
    const bool log = entry.path().extension() == ".jsonl";
    for (std::string line; log && std::getline(in, line);) ++count;
    lines.insert(str(files::relative(entry.path(), root).string(), " ", count, "\n"));
  }
  std::string out;
  for (const std::string& line : lines) out += line;
  return out;
}

inline void score(Pipeline& p, const SamplePtr& s, const OptionSet& o) {
  std::vector<double> parts;
  for (size_t k = 0; k < o.get_string_list("algo.gdpo_weights").size(); ++k) {
    parts.push_back(k == 0 ? low_id_reward(*s) : static_cast<double>(s->slot));
  }
  p.score(s->id, low_id_reward(*s), parts);
}

// All that a host sees of a run but times.
inline std::string run_once(const OptionSet& o) {
  Rig rig(o);
  rig.on_score = [&](Pipeline& p, const SamplePtr& s) { score(p, s, o); };
  const RunLog log = rig.start_and_serve();
  std::string out = log.fingerprint();
  std::set<std::string> samples;  // the order of their ends is no promise
  for (const SamplePtr& s : log.samples) samples.insert(text_of(*s));
  for (const std::string& s : samples) out += s;
  for (const auto& e : log.evals) out += str("eval ", e->step, " ", e->num_scored, "\n");
  for (const auto& d : log.dropped) out += str("dropped ", d->ordinal, "\n");
  return out + str(log.intervals.empty() ? "" : "intervals ", rig.model().weight_digest(), "\n");
}

// The second of two runs of one directory.
inline std::string run_again(const OptionSet& o) {
  OptionSet first = o;
  first.unset("checkpoint.resume");
  { Rig(first).start_and_serve(); }
  OptionSet longer = o;
  longer.set_i64("pipeline.total_steps", o.get_i64("pipeline.total_steps") + 1);
  return run_once(longer);
}

// How many samples ran in each forward of a run whose responses have different lengths.
inline std::string most_running(const OptionSet& o) {
  OptionSet uneven = o;
  for (const char* text :
       {"engine.stats_interval_ns=1ns", "sampling.ignore_eos=false",
        "sampling.stop_token_ids=7,12,26,38,55,61,74,88,97,112,126,131,147,162,173,186",
        "pipeline.total_steps=1"}) {
    uneven.set_assignment(text);
  }
  std::string out;
  for (const auto& e : Rig(uneven).start_and_serve().intervals) {
    out += str(e->metrics.get("perf/engine/running").value(), " ");
  }
  return out;
}

// The most samples that waited for a slow scorer at once.
inline std::string held_lanes(const OptionSet& o) {
  OptionSet one = o;
  one.set_i64("pipeline.total_steps", 1);
  Rig rig(one);
  int64_t most = 0;
  rig.on_score = [&](Pipeline& p, const SamplePtr& s) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    most = std::max(most, p.status().unscored);
    p.score(s->id, low_id_reward(*s));
  };
  rig.start_and_serve();
  return str("at most ", most);
}

// How many prompts were ready before they were drawn, long after they could be.
inline std::string prefetched(const OptionSet& o) {
  OptionSet slow = o;
  slow.set_i64("pipeline.total_steps", 4);
  Rig rig(slow);
  rig.on_score = [](Pipeline& p, const SamplePtr& s) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    p.score(s->id, low_id_reward(*s));
  };
  std::string out;
  for (const double n : rig.start_and_serve().series("pipeline/prompts_prefetched")) {
    out += str(n, " ");
  }
  return out;
}

// With pipeline.replay_path it is of a run that was recorded there.
inline std::string repeat_run(const OptionSet& o) {
  OptionSet first = o;
  first.unset("pipeline.replay_path");
  first.set_string("pipeline.record_path", o.get_string("pipeline.replay_path"));
  if (!o.is_default("pipeline.replay_path")) Rig(first).start_and_serve();
  return run_once(o);
}

// Which options of pipeline.* the report of a run shows, for what the host alone reads.
inline std::string reported_options(const OptionSet& o) {
  const TempDir dir;
  Rig rig(o);
  rig.pipeline().write_report(dir.file("report.html"), nullptr, {});
  std::ifstream in(dir.file("report.html"));
  const std::string page(std::istreambuf_iterator<char>(in), {});
  std::string out;
  for (const char* key : {"pipeline.placement"}) {
    if (page.find(key) != std::string::npos) out += str(key, "\n");
  }
  return out;
}

inline std::string plan_text(const OptionSet& o) {
  return render_plan(plan_memory(o, real_fs(), PlanUse::kPipeline));
}

inline std::string train_plan_text(const OptionSet& o) {
  return render_plan(plan_memory(o, real_fs(), PlanUse::kTrain));
}

// A processor that cannot compute in the type says so when it plans.
inline std::string plan_of_dtype(const OptionSet& o) {
  try {
    return plan_text(o);
  } catch (const Error& e) {
    return str("no ", o.get_text("model.dtype"));
  }
}

inline std::shared_ptr<LoadedModel> open(const OptionSet& o, PlanUse use) {
  return LoadedModel::open(std::make_shared<Runtime>(o), o, use);
}

// What a call hears that would compute beside another.
inline std::string compute_twice(const OptionSet& o) {
  Runtime runtime(o);
  const ComputeLease first(runtime, "the first");
  try {
    const ComputeLease second(runtime, "the second");
  } catch (const Error& e) {
    return e.message;
  }
  return "";
}

inline Request request_of(const OptionSet& o, std::vector<int32_t> prompt, int64_t samples,
                          int64_t tokens) {
  Request r = request_from(o);
  r.prompt = std::move(prompt);
  r.num_samples = samples;
  r.max_new_tokens = tokens;
  return r;
}

// Who may step an engine, and the kinds of events that its sample sends.
inline std::string stepped(const OptionSet& o) {
  const auto queue = std::make_shared<EventQueue>();
  EngineSession engine(open(o, PlanUse::kGenerate), for_session(o));
  engine.set_queue(queue, 1);
  engine.submit(request_of(o, {1, 2, 3}, 1, 8));
  std::string out;
  try {
    engine.step();
  } catch (const Error& e) {
    out = e.key;
  }
  engine.run();
  while (queue->size() > 0) out += str(" ", queue->pop(0).event->kind());
  return out;
}

// Groups of prompts of many lengths, and last of all a sample that goes on: what each step does,
// and the samples in the order of their ends.
inline std::string generate(const OptionSet& o) {
  EngineSession engine(open(o, PlanUse::kGenerate), for_session(o));
  engine.submit(request_of(o, {1, 2}, 1, 2));
  engine.run();
  Request more = request_of(o, {}, 1, 2);
  more.resume = engine.take_finished().front();
  for (const int32_t length : {20, 3, 17, 20, 9, 16}) {
    std::vector<int32_t> prompt;
    for (int32_t i = 0; i < length; ++i) prompt.push_back((length + 7 * i) % 256);
    engine.submit(request_of(o, prompt, 3, 12));
  }
  engine.submit(more);
  std::string out;
  for (bool goes_on = true; goes_on;) {
    goes_on = engine.step() == EngineStep::kComputed;
    const EngineStats s = engine.stats();
    out += str(s.running, " ", s.waiting, " ", s.blocks_in_use, " of ", s.blocks_total, " ",
               s.prefill_tokens, " ", s.decode_tokens, " ", s.preemptions, " ", s.swapped_blocks,
               " ", s.cached_tokens, "\n");
  }
  for (const SamplePtr& s : engine.take_finished()) out += text_of(*s);
  return out;
}

// How many requests an interrupt spares once their samples were aborted before.
inline std::string interrupt_twice(const OptionSet& o) {
  EngineSession engine(open(o, PlanUse::kGenerate), for_session(o));
  engine.submit(request_of(o, {1, 2}, 1, 8));
  engine.step();
  const int64_t fresh = engine.abort_unspared();
  Request more = request_of(o, {}, 1, 4);
  more.resume = engine.take_finished().front();
  engine.submit(more);
  engine.step();
  return str(fresh, " ", engine.abort_unspared());
}

// Of a run that generates while it trains: whether a sample has tokens of several versions, whether
// all sampled tokens carry loss, and whether groups were cancelled.
inline std::string crossings(const OptionSet& o) {
  Rig rig(o);
  rig.on_score = score_unless_late;
  const RunLog log = rig.start_and_serve();
  bool crossed = false, masked = false, cancelled = false;
  for (const SamplePtr& s : log.samples) {
    crossed = crossed || std::set(s->versions.begin(), s->versions.end()).size() > 1;
  }
  for (const MetricList& m : log.steps) {
    const double tokens = m.get("training/samples").value() * m.get("response_length/mean").value();
    masked = masked || m.get("training/loss_tokens").value() < tokens;
  }
  for (const auto& d : log.dropped) cancelled = cancelled || d->reason == DropReason::kCancelled;
  return str("crossed ", crossed, " masked ", masked, " cancelled ", cancelled);
}

// Whether a forward of the engine lies between a batch and its publication.
inline std::string generates_meanwhile(const OptionSet& o) {
  const TempDir dir;
  OptionSet recorded = o;
  recorded.set_string("pipeline.record_path", dir.file("schedule"));
  Rig(recorded).start_and_serve();
  ScheduleReader reader(real_fs(), dir.file("schedule"));
  bool training = false, found = false;
  for (; reader.peek() != nullptr; reader.take()) {
    const ScheduledKind kind = reader.peek()->kind;
    if (kind == ScheduledKind::kBatch) training = true;
    if (kind == ScheduledKind::kPublish) training = false;
    found = found || (training && kind == ScheduledKind::kForward);
  }
  return str("meanwhile ", found);
}

// A training step and a publication while samples are generated.
inline std::string publish_midway(const OptionSet& o) {
  const auto model = open(o, PlanUse::kTrain);
  EngineSession engine(model, for_session(o));
  TrainerSession trainer(model, for_session(o));
  const std::vector<SamplePtr> batch = host_batch(trainer);
  engine.submit(request_of(o, {1, 2, 3}, 2, 12));
  for (int i = 0; i < 6; ++i) engine.step();
  trainer.step(batch);
  trainer.publish();
  engine.run();
  std::string out;
  for (const SamplePtr& s : engine.take_finished()) out += text_of(*s);
  return out;
}

// Two steps on two groups of four and a sample without companions.
inline std::string train(const OptionSet& o) {
  const auto model = open(o, PlanUse::kTrain);
  TrainerSession trainer(model, for_session(o));
  std::vector<SamplePtr> batch = host_batch(trainer);
  batch.push_back(std::make_shared<Sample>(*batch.back()));
  batch.back()->ordinal = 2;
  batch.back()->slot = 0;
  batch.back()->loss_mask = {1, 0, 1};
  std::string out;
  for (int i = 0; i < 2; ++i) out += trainer.step(batch).without_times().to_json() + "\n";
  return out + str(model->weight_digest());
}

// A step on samples of which one has another bit in a log-prob.
inline std::string train_spoiled(const OptionSet& o) {
  const auto model = open(o, PlanUse::kTrain);
  TrainerSession trainer(model, for_session(o));
  const std::vector<SamplePtr> batch = host_batch(trainer);
  batch[0]->logprobs[0] = std::nextafter(batch[0]->logprobs[0], -100.0f);
  return trainer.step(batch).without_times().to_json() + str(model->weight_digest());
}

// Four groups of four, responses of 1 to 16 tokens.
inline std::string train_lengths(const OptionSet& o) {
  const auto model = open(o, PlanUse::kTrain);
  TrainerSession trainer(model, for_session(o));
  std::vector<SamplePtr> batch;
  for (int32_t i = 0; i < 16; ++i) {
    auto s = std::make_shared<Sample>();
    s->id = static_cast<uint64_t>(i) + 1;
    s->ordinal = static_cast<uint64_t>(i / 4);
    s->slot = static_cast<uint32_t>(i % 4);
    s->ids = {10 + i / 4, 20 + i / 4};
    for (int32_t t = 0; t <= i; ++t) s->ids.push_back((31 * i + 7 * t) % 256);
    s->prompt_tokens = 2;
    s->logprobs = trainer.logprobs(s->ids, 2, 1.0f);
    s->versions.assign(s->logprobs.size(), 0);
    s->loss_mask.assign(s->logprobs.size(), 1);
    s->reward = i % 3;
    s->scored = true;
    batch.push_back(std::move(s));
  }
  return trainer.step(batch).without_times().to_json() + str(model->weight_digest());
}

inline std::string first_id(const OptionSet& o) {
  EngineSession engine(open(o, PlanUse::kGenerate), for_session(o));
  return str(engine.submit(request_of(o, {1, 2}, 1, 2)));
}

// Puts groups 0 .. count - 1 of one token each; group g is of version g.
inline void put_groups(BufferSession& buffer, uint64_t count, int64_t size) {
  for (uint64_t ordinal = 0; ordinal < count; ++ordinal) {
    for (int64_t slot = 0; slot < size; ++slot) {
      auto s = std::make_shared<Sample>();
      s->ordinal = ordinal;
      s->slot = static_cast<uint32_t>(slot);
      s->ids = {1, 2};
      s->prompt_tokens = 1;
      s->versions = {ordinal};
      s->loss_mask = {1};
      s->scored = true;
      buffer.put(s);
    }
  }
}

// The ordinal of the group that a buffer of three gives first, for weights of version 9, and how
// many samples are stale then.
inline std::string take_one_group(const OptionSet& o) {
  const int64_t size = attempts_per_prompt(o);
  BufferSession buffer(o, 3 * size);
  put_groups(buffer, 3, size);
  const std::vector<SamplePtr> taken = buffer.take({.max_groups = 1, .version = 9});
  return str(taken.front()->ordinal, " ", buffer.counts().stale);
}

// The number of files of each unit below a directory.
inline std::string units_of(const std::string& dir) {
  std::string units;
  if (!real_fs().is_directory(dir)) return units;
  for (const std::string& unit : real_fs().list(dir)) {
    units += str(" ", unit, ": ", real_fs().list(str(dir, "/", unit)).size());
  }
  return units;
}

// Where two groups are: the number of samples of the buffer, and the files of it.
inline std::string put_two_groups(const OptionSet& o) {
  const int64_t size = attempts_per_prompt(o);
  BufferSession buffer(o, 2 * size);
  put_groups(buffer, 2, size);
  const std::string &store = o.get_string("buffer.store_path"),
                    &spill = o.get_string("buffer.spill_path");
  return str(buffer.counts().held, store.empty() ? "" : units_of(store + "/ready"),
             spill.empty() ? "" : units_of(spill));
}

// How long the store is another one's, once this buffer takes from it.
inline std::string begin_to_take(const OptionSet& o) {
  BufferSession buffer(o, 16);
  buffer.resume(0);
  const std::string path = o.get_string("buffer.store_path") + "/book";
  return str(StoreBook::decode(read_text_file(real_fs(), path, 1 << 20), path).lease.ns);
}

// Kilobytes of a file of one long sample, which repeats stretches of its own.
inline std::string save_buffer_file(const OptionSet& o) {
  BufferSession buffer(o, 16);
  auto s = std::make_shared<Sample>();
  std::mt19937 rng(7);
  s->ids = {1, 2};
  while (s->ids.size() < 20002) {
    const uint32_t stretch = rng() % 97;
    for (uint32_t t = 0; t < 20; ++t) s->ids.push_back(static_cast<int32_t>(stretch * t * t % 251));
  }
  const size_t generated = s->ids.size() - 2;
  s->prompt_tokens = 2;
  for (size_t t = 0; t < generated; ++t)
    s->logprobs.push_back(-static_cast<float>(rng() % 4096) / 512);
  s->logprobs_sampled = s->logprobs;
  s->versions.assign(generated, 0);
  s->loss_mask.assign(generated, 1);
  s->scored = true;
  buffer.put(s);
  const TempDir dir;
  buffer.save(dir.file("b"), nullptr, false);
  return str(files::file_size(dir.file("b")) / 1024);
}

}  // namespace rl::testing

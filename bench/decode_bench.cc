// The rollout engine: time from opening the model to the first token, prefill, and decode at
// several batch sizes. Decode is timed over steps in which all sequences run: after the last
// prompt is prefilled, before the first one ends. Then the speedup from shared prompts: groups
// with the prefix cache and shared reads against the same groups without.
#include <cstdio>
#include <exception>

#include "bench/bench_model.h"
#include "bench/report.h"
#include "rollout/engine.h"

namespace rl::bench {
namespace {

struct DecodeCase {
  const char* name;
  int64_t sequences, prompt_tokens, new_tokens;
};

// An engine with room for all sequences of a case at the same time.
class BenchEngine {
 public:
  BenchEngine(const BenchModel& bench, int64_t sequences, int64_t max_len,
              bool prefix_caching = false) {
    const Model& model = *bench.model;
    EngineOptions options;
    options.max_num_seqs = sequences;
    options.max_num_batched_tokens = std::max<int64_t>(1024, sequences);
    options.max_model_len = max_len;
    options.prefix_caching = prefix_caching;
    const int64_t blocks_each = (max_len + model.block_size() - 1) / model.block_size() + 1;
    options.num_blocks = sequences * blocks_each;
    const KvShape kv = model.kv_shape();
    pool_arena_ = Arena("bench kv", options.num_blocks * kv.block_bytes());
    workspace_ = Arena("bench engine", engine_workspace_bytes(model, options));
    engine_ =
        std::make_unique<Engine>(model, options, KvPool{kv, pool_arena_.data(), options.num_blocks},
                                 workspace_.data(), nullptr, nullptr);
  }
  Engine* operator->() { return engine_.get(); }

  void submit(std::vector<int32_t> prompt, int64_t new_tokens, uint64_t id, int64_t samples = 1) {
    Request request;
    request.prompt = std::move(prompt);
    request.max_new_tokens = new_tokens;
    request.ignore_eos = true;
    request.bare = true;
    request.ordinal = id;
    request.num_samples = samples;
    request.first_sample_id = id * static_cast<uint64_t>(samples);
    engine_->submit(request);
  }

 private:
  Arena pool_arena_, workspace_;
  std::unique_ptr<Engine> engine_;
};

void submit_all(BenchEngine& engine, const DecodeCase& c, int64_t vocab) {
  for (int64_t s = 0; s < c.sequences; ++s)
    engine.submit(spread_ids(c.prompt_tokens, vocab, s + 1), c.new_tokens, s);
}

void finish(BenchEngine& engine, const DecodeCase& c) {
  while (engine->step()) {
  }
  const std::vector<SamplePtr> samples = engine->take_finished();
  if (static_cast<int64_t>(samples.size()) != c.sequences)
    throw std::runtime_error("the engine lost samples");
  for (const SamplePtr& s : samples) {
    if (s->generated() != c.new_tokens)
      throw std::runtime_error("a sample ended before its last token");
  }
}

// Prefills all prompts of a case, then runs some more steps, which create kernels and touch
// memory.
void start_decoding(BenchEngine& engine, const DecodeCase& c, int64_t vocab) {
  constexpr int64_t kWarmSteps = 4;
  const int64_t prompt_rows = engine->stats().prefill_tokens + c.sequences * c.prompt_tokens;
  submit_all(engine, c, vocab);
  while (engine->stats().prefill_tokens < prompt_rows) engine->step();
  for (int64_t i = 0; i < kWarmSteps; ++i) engine->step();
}

// One run; each repeat is some of its steps, at their context.
void run_decode(const DecodeCase& c, const BenchArgs& args, const BenchModel& bench,
                Report& report) {
  if (!args.only.empty() && args.only != c.name) return;
  const ModelConfig& config = bench.model->config();
  BenchEngine engine(bench, c.sequences, c.prompt_tokens + c.new_tokens);
  start_decoding(engine, c, config.vocab);
  // No sequence has more tokens than there were steps, and none may end while decode is timed.
  const int64_t done = engine->stats().forwards, steps = (c.new_tokens - 1 - done) / args.repeats;
  if (steps * args.repeats < c.new_tokens / 2)
    throw std::runtime_error("too few steps run the whole batch");
  for (int repeat = 0; repeat < args.repeats; ++repeat) {
    const int64_t first = c.prompt_tokens + done + repeat * steps;
    const double context = static_cast<double>(first) + static_cast<double>(steps) / 2;
    const Work work = decode_work(config, c.sequences, context, bench.item_bytes());
    report.repeat(c.name, work, [&](MeteredTime& time) {
      for (int64_t i = 0; i < steps; ++i) time.add([&] { engine->step(); });
      return static_cast<double>(steps * c.sequences);
    });
  }
  if (engine->stats().running != c.sequences)
    throw std::runtime_error("not every step ran the whole batch");
  finish(engine, c);
}

void run_prefill(const DecodeCase& c, const BenchArgs& args, const BenchModel& bench,
                 Report& report) {
  if (!args.only.empty() && args.only != c.name) return;
  const ModelConfig& config = bench.model->config();
  BenchEngine engine(bench, c.sequences, c.prompt_tokens + c.new_tokens);
  submit_all(engine, c, config.vocab);
  finish(engine, c);  // creates kernels and touches memory
  for (int repeat = 0; repeat < args.repeats; ++repeat) {
    report.repeat(c.name, prefill_work(config, c.sequences, c.prompt_tokens),
                  [&](MeteredTime& time) {
                    submit_all(engine, c, config.vocab);
                    while (!engine->idle()) time.add([&] { engine->step(); });
                    finish(engine, c);
                    return static_cast<double>(c.sequences * c.prompt_tokens);
                  });
  }
}

struct GroupCase {
  const char* name;
  int64_t groups, group_size, prompt_tokens, new_tokens;
};

// Seconds for all groups, from the first submission to the last sample. Every repeat has its own
// prompts, so that none hits another's in the cache.
double group_seconds(BenchEngine& engine, const GroupCase& c, int64_t vocab, int repeat) {
  const Stopwatch watch;
  for (int64_t g = 0; g < c.groups; ++g) {
    const auto seed = static_cast<uint64_t>((repeat + 2) * c.groups + g);
    engine.submit(spread_ids(c.prompt_tokens, vocab, seed), c.new_tokens, g, c.group_size);
  }
  finish(engine, {c.name, c.groups * c.group_size, c.prompt_tokens, c.new_tokens});
  return watch.seconds();
}

// The two variants alternate, so that a change of the machine's speed affects both.
void run_group_case(const GroupCase& c, double goal, const BenchArgs& args, const BenchModel& bench,
                    Report& report) {
  if (!args.only.empty() && args.only != c.name) return;
  const int64_t vocab = bench.model->config().vocab;
  const int64_t sequences = c.groups * c.group_size, longest = c.prompt_tokens + c.new_tokens;
  BenchEngine shared(bench, sequences, longest, true), apart(bench, sequences, longest, false);
  std::vector<double> gains;
  for (int repeat = -1; repeat < args.repeats;
       ++repeat) {  // the first one makes kernels and touches memory
    const double without = group_seconds(apart, c, vocab, repeat),
                 with = group_seconds(shared, c, vocab, repeat);
    if (repeat >= 0) gains.push_back(without / with);
  }
  report.add(c.name, median(gains), "times", goal, Goal::kAtLeast);
}

// The fraction of a decode step that is neither the forward nor the head.
void run_share_case(const DecodeCase& c, double goal, const BenchArgs& args,
                    const BenchModel& bench, Report& report) {
  if (!args.only.empty() && args.only != c.name) return;
  BenchEngine engine(bench, c.sequences, c.prompt_tokens + c.new_tokens);
  start_decoding(engine, c, bench.model->config().vocab);
  const EngineStats before = engine->stats();
  while (engine->step() && engine->stats().running == c.sequences) {
  }
  const EngineStats after = engine->stats();
  finish(engine, c);
  const auto model = static_cast<double>(after.model_ns - before.model_ns);
  const auto whole = static_cast<double>(after.decode_ns - before.decode_ns);
  report.add(c.name, 1 - model / whole, "of a step", goal, Goal::kAtMost);
}

// From opening the model to the first token, before the process has warmed up the libraries.
double first_token_seconds(const std::string& path) {
  const Stopwatch watch;
  BenchModel bench(path);
  const std::vector<int32_t> prompt = bench.tokenizer
                                          ? bench.tokenizer->encode("The capital of France is").ids
                                          : spread_ids(5, bench.model->config().vocab, 1);
  const int64_t tokens = static_cast<int64_t>(prompt.size());
  BenchEngine engine(bench, 1, tokens + 1);
  engine.submit(prompt, 1, 0);
  finish(engine, {"first_token_s", 1, tokens, 1});
  return watch.seconds();
}

// A hypervisor takes free memory back from a virtual machine, and returning it takes seconds that
// are not the library's.
void claim_memory() { const Arena claimed("claimed", uint64_t{2} << 30); }

void run(const BenchArgs& args) {
  if (!args.quick) claim_memory();
  const double first_token = first_token_seconds(args.model);
  Report report(args.quick);
  report.add("first_token_s", first_token, "s", 1.0, Goal::kAtMost);
  const BenchModel bench(args.model);
  if (args.quick) {
    run_decode({"decode_quick", 2, 16, 16}, args, bench, report);
    run_group_case({"group_quick", 2, 2, 40, 4}, 0, args, bench, report);
    run_share_case({"share_quick", 2, 16, 16}, 1, args, bench, report);
  } else {
    run_decode({"decode_b1", 1, 64, 128}, args, bench, report);
    run_prefill({"prefill_8x512", 8, 512, 1}, args, bench, report);
    run_decode({"decode_b16", 16, 64, 128}, args, bench, report);
    run_decode({"decode_b64", 64, 64, 128}, args, bench, report);
    run_decode({"decode_b64_c512", 64, 448, 128}, args, bench, report);
    run_share_case({"sched_share_b64", 64, 64, 128}, 0.05, args, bench, report);
    run_group_case({"decode_group8_gain", 8, 8, 256, 64}, 1.5, args, bench, report);
  }
  report.write(args.out);
}

}  // namespace
}  // namespace rl::bench

int main(int argc, char** argv) {
  try {
    rl::bench::run(rl::bench::parse_args(argc, argv));
    return 0;
  } catch (const std::exception& e) {
    std::fprintf(stderr, "decode_bench: %s\n", e.what());
    return 1;
  }
}

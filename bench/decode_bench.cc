// The rollout engine: time from opening the model to the first token, prefill, and decode at several batch sizes.
// Decode is timed over the steps in which all sequences run: after the last prompt is in, before the first one ends.
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

// An engine with room for all sequences of a case at once.
class BenchEngine {
 public:
  BenchEngine(const BenchModel& bench, int64_t sequences, int64_t max_len) {
    const Model& model = *bench.model;
    EngineOptions options;
    options.max_num_seqs = sequences;
    options.max_num_batched_tokens = std::max<int64_t>(1024, sequences);
    options.max_model_len = max_len;
    options.prefix_caching = false;  // every repeat has the same prompts
    const int64_t blocks_each = (max_len + model.block_size() - 1) / model.block_size() + 1;
    options.num_blocks = sequences * blocks_each;
    const KvShape kv = model.kv_shape();
    pool_arena_ = Arena("bench kv", options.num_blocks * kv.block_bytes());
    workspace_ = Arena("bench engine", engine_workspace_bytes(model, options));
    engine_ = std::make_unique<Engine>(model, options, KvPool{kv, pool_arena_.data(), options.num_blocks},
                                       workspace_.data(), nullptr, nullptr);
  }
  Engine* operator->() { return engine_.get(); }

  void submit(std::vector<int32_t> prompt, int64_t new_tokens, uint64_t id) {
    Request request;
    request.prompt = std::move(prompt);
    request.max_new_tokens = new_tokens;
    request.ignore_eos = true;
    request.bare = true;
    request.ordinal = id;
    request.first_sample_id = id;
    engine_->submit(request);
  }

 private:
  Arena pool_arena_, workspace_;
  std::unique_ptr<Engine> engine_;
};

void submit_all(BenchEngine& engine, const DecodeCase& c, int64_t vocab) {
  for (int64_t s = 0; s < c.sequences; ++s) engine.submit(spread_ids(c.prompt_tokens, vocab, s + 1), c.new_tokens, s);
}

void finish(BenchEngine& engine, const DecodeCase& c) {
  while (engine->step()) {}
  const std::vector<SamplePtr> samples = engine->take_finished();
  if (static_cast<int64_t>(samples.size()) != c.sequences) throw std::runtime_error("the engine lost samples");
  for (const SamplePtr& s : samples) {
    if (s->generated() != c.new_tokens) throw std::runtime_error("a sample ended before its last token");
  }
}

double decode_rate(BenchEngine& engine, const DecodeCase& c, int64_t vocab) {
  submit_all(engine, c, vocab);
  const int64_t prompt_rows = engine->stats().prefill_tokens + c.sequences * c.prompt_tokens;
  while (engine->stats().prefill_tokens < prompt_rows) engine->step();
  const int64_t before = engine->stats().decode_tokens;
  const Stopwatch watch;
  double seconds = 0;
  int64_t tokens = 0;
  while (engine->step() && engine->stats().running == c.sequences) {
    seconds = watch.seconds();
    tokens = engine->stats().decode_tokens - before;
  }
  finish(engine, c);
  if (tokens < c.sequences * c.new_tokens / 2) throw std::runtime_error("too few steps ran the whole batch");
  return static_cast<double>(tokens) / seconds;
}

double prefill_rate(BenchEngine& engine, const DecodeCase& c, int64_t vocab) {
  submit_all(engine, c, vocab);
  const Stopwatch watch;
  finish(engine, c);
  return static_cast<double>(c.sequences * c.prompt_tokens) / watch.seconds();
}

void run_case(const DecodeCase& c, const BenchArgs& args, const BenchModel& bench, Report& report) {
  if (!args.only.empty() && args.only != c.name) return;
  const ModelConfig& config = bench.model->config();
  const bool prefill = c.new_tokens == 1;
  BenchEngine engine(bench, c.sequences, c.prompt_tokens + c.new_tokens);
  std::vector<double> rates;
  for (int repeat = -1; repeat < args.repeats; ++repeat) {  // the first one makes kernels and touches memory
    const double rate = prefill ? prefill_rate(engine, c, config.vocab) : decode_rate(engine, c, config.vocab);
    if (repeat >= 0) rates.push_back(rate);
  }
  const double context = static_cast<double>(c.prompt_tokens) + static_cast<double>(c.new_tokens) / 2;
  report.add({c.name, median(rates), "tokens/s",
              prefill ? prefill_work(config, c.sequences, c.prompt_tokens)
                      : decode_work(config, c.sequences, context, bench.item_bytes())});
}

// Open to first token, before anything else of this process warmed the libraries.
double first_token_seconds(const std::string& path) {
  const Stopwatch watch;
  BenchModel bench(path);
  const std::vector<int32_t> prompt = bench.tokenizer ? bench.tokenizer->encode("The capital of France is").ids
                                                      : spread_ids(5, bench.model->config().vocab, 1);
  const int64_t tokens = static_cast<int64_t>(prompt.size());
  BenchEngine engine(bench, 1, tokens + 1);
  engine.submit(prompt, 1, 0);
  finish(engine, {"first_token_s", 1, tokens, 1});
  return watch.seconds();
}

void run(const BenchArgs& args) {
  const double first_token = first_token_seconds(args.model);
  Report report(args.quick);
  report.add({"first_token_s", first_token, "s", {}, 1.0});
  const BenchModel bench(args.model);
  if (args.quick) {
    run_case({"decode_quick", 2, 16, 16}, args, bench, report);
  } else {
    run_case({"decode_b1", 1, 64, 128}, args, bench, report);
    run_case({"prefill_8x512", 8, 512, 1}, args, bench, report);
    run_case({"decode_b16", 16, 64, 128}, args, bench, report);
    run_case({"decode_b64", 64, 64, 128}, args, bench, report);
    run_case({"decode_b64_c512", 64, 448, 128}, args, bench, report);
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

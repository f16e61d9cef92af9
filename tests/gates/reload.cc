// Opens librl.so, uses it and closes it, many times: every round leaves what the first one left.
// The library stays mapped (-z nodelete), so what it and its dependencies keep is kept once.
//
// usage: gate_reload LIBRARY MODEL DIRECTORY
#include <cstdio>

#include "gates/gate_scenarios.h"
#include "gates/meter.h"

namespace {

constexpr int kRounds = 100, kWarmUp = 10;

// Returns a digest of what a round computed.
uint64_t run_scenarios(const char* library, const gates::Place& place) {
  void* const handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) throw std::runtime_error(dlerror());
  const gates::Api api = gates::loaded_api(handle);
  const uint64_t digest = gates::run_hello(api, place) ^ gates::run_generate(api, place);
  dlclose(handle);
  return digest;
}

int run(const char* library, const gates::Place& place, int rounds) {
  gates::prepare(place);
  uint64_t first = 0;
  gates::Meter warm;
  for (int round = 0; round < rounds; ++round) {
    const uint64_t digest = run_scenarios(library, place);
    if (round == 0) first = digest;
    if (digest != first) return std::printf("round %d computed something else\n", round), 1;
    if (round == kWarmUp) warm = gates::measure();
  }
  const gates::Meter end = gates::measure();
  std::printf("after %d rounds: %s\nafter %d rounds: %s\n", kWarmUp, text_of(warm).c_str(), rounds,
              text_of(end).c_str());
  const std::string grown = growth(warm, end);
  std::printf("%s", grown.c_str());
  return grown.empty() ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 4) return 2;
  return gates::reported([&] { return run(argv[1], {argv[2], argv[3]}, kRounds); });
}

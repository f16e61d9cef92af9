// Two copies of librl.so in one process, working at the same time: each function is found in its
// own copy, results equal those of one copy alone, and no state is shared. Both are in the
// program's namespace: in another one (dlmopen) glibc 2.36 crashes when TBB opens its allocator
// with RTLD_GLOBAL.
//
// usage: gate_two_copies LIBRARY MODEL DIRECTORY
#include <algorithm>
#include <filesystem>
#include <thread>
#include <vector>

#include "gates/gate_scenarios.h"

namespace {

int problems = 0;

void expect(bool condition, const std::string& text) {
  if (condition) return;
  std::printf("%s\n", text.c_str());
  ++problems;
}

struct Copy {
  std::string file;
  gates::Place place;
  gates::Api api;
};

Copy load(const std::string& file, const gates::Place& place) {
  gates::prepare(place);
  void* const handle = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) throw std::runtime_error(dlerror());
  return {file, place, gates::loaded_api(handle)};
}

void expect_own_functions(const Copy& copy) {
  const auto check = [&copy](const char* name, const void* function) {
    Dl_info info{};
    const bool found =
        dladdr(function, &info) != 0 && std::filesystem::equivalent(info.dli_fname, copy.file);
    expect(found, copy.file + ": " + name + " is in " + (info.dli_fname ? info.dli_fname : "?"));
  };
#define RL_FUNCTION(name) check(#name, reinterpret_cast<const void*>(copy.api.name));
#include "names.inc"
#undef RL_FUNCTION
}

uint64_t reserved(const gates::Api& rl, const rl_runtime* runtime) {
  rl_runtime_info info;
  rl.rl_runtime_info_init(&info, sizeof info);
  rl.rl_runtime_get_info(runtime, &info, nullptr);
  return info.reserved_bytes;
}

// The arenas of a model are only in the ledger of its own copy.
void expect_own_ledger(const Copy& busy, const Copy& idle) {
  const gates::Api &a = busy.api, &b = idle.api;
  rl_options* options = nullptr;
  rl_runtime *first = nullptr, *second = nullptr;
  rl_model* model = nullptr;
  a.rl_options_create(&options, nullptr);
  a.rl_options_set_text(options, "model.path", RL_NUL_TERMINATED, busy.place.model.c_str(),
                        RL_NUL_TERMINATED, nullptr);
  a.rl_options_set_i64(options, "sampling.max_new_tokens", RL_NUL_TERMINATED, 4, nullptr);
  a.rl_runtime_create(RL_ABI_VERSION, options, &first, nullptr);
  b.rl_runtime_create(RL_ABI_VERSION, nullptr, &second, nullptr);
  const uint64_t own = reserved(a, first), other = reserved(b, second);
  a.rl_model_open(first, options, RL_USE_GENERATE, &model, nullptr);
  expect(reserved(a, first) > own, busy.file + " does not count the arenas of a model");
  expect(reserved(b, second) == other, idle.file + " counts the arenas of another copy");
  b.rl_runtime_destroy(second);
  a.rl_model_destroy(model);
  a.rl_runtime_destroy(first);
  a.rl_options_destroy(options);
}

void play_at_once(const std::vector<Copy>& copies) {
  for (const gates::Scenario& scenario : gates::scenarios()) {
    std::vector<uint64_t> digests(copies.size() + 1);
    const auto run = [&](size_t i) {
      const Copy& copy = copies[std::min(i, copies.size() - 1)];
      std::filesystem::remove_all(copy.place.dir + "/checkpoints");
      if (gates::reported([&] { return digests[i] = scenario.run(copy.api, copy.place), 0; }) !=
          0) {
        expect(false, copy.file + " failed in " + scenario.name);
      }
    };
    std::vector<std::thread> threads;
    for (size_t i = 0; i < copies.size(); ++i) threads.emplace_back(run, i);
    for (std::thread& thread : threads) thread.join();
    run(copies.size());  // alone
    const bool equal = std::equal(digests.begin() + 1, digests.end(), digests.begin());
    expect(equal, std::string(scenario.name) + ": copies computed different results");
  }
}

int run(const std::string& library, const std::string& model, const std::string& dir) {
  std::filesystem::create_directories(dir);
  const std::string second = dir + "/librl_second.so";
  std::filesystem::copy_file(library, second, std::filesystem::copy_options::overwrite_existing);
  const std::vector<Copy> copies = {load(library, {model, dir + "/first"}),
                                    load(second, {model, dir + "/second"})};
  for (const Copy& copy : copies) expect_own_functions(copy);
  expect_own_ledger(copies[0], copies[1]);
  expect_own_ledger(copies[1], copies[0]);
  play_at_once(copies);
  std::printf("%zu copies, %d problems\n", copies.size(), problems);
  return problems == 0 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  return gates::reported([&] { return run(argv[1], argv[2], argv[3]); });
}

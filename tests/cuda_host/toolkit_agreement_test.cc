// The emulation's headers say what the toolkit's say: numbers, types and signatures.
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <regex>
#include <set>
#include <string>

#include "cuda_host/toolkit_facts.h"

namespace rl::emulated {
namespace {

TEST(Toolkit, HasTheSameNumbersTypesAndSignatures) {
#ifdef RL_TOOLKIT_HEADERS
  const Facts ours = facts_of_emulation(), theirs = facts_of_toolkit();
  EXPECT_GT(ours.size(), 200u);
  for (const auto& [name, fact] : ours) EXPECT_EQ(fact, theirs.at(name)) << name;
#else
  GTEST_SKIP() << "external: no CUDA toolkit is installed whose headers could be compared";
#endif
}

// Every function that the emulation's headers declare is among the facts.
TEST(Toolkit, EveryFunctionOfTheHeadersIsCompared) {
  const Facts facts = facts_of_emulation();
  int functions = 0;
  for (const char* header : {"cuda_runtime_api.h", "cublasLt.h", "cuda.h"}) {
    std::ifstream file(std::string(RL_SOURCE_DIR) + "/tests/cuda_host/include/" + header);
    const std::string text((std::istreambuf_iterator<char>(file)), {});
    const std::regex declaration("\\b(cuda[A-Z]\\w+|cublasLt[A-Z]\\w+|cu[A-Z]\\w+)\\(");
    for (auto match = std::sregex_iterator(text.begin(), text.end(), declaration);
         match != std::sregex_iterator(); ++match, ++functions)
      EXPECT_EQ(facts.count((*match)[1]), 1u) << (*match)[1];
  }
  EXPECT_GT(functions, 60);
}

}  // namespace
}  // namespace rl::emulated

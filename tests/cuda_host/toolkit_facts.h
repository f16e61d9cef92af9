// Numbers, types and signatures of the runtime and of cuBLASLt as a header has them.
// toolkit_facts.cc is compiled twice: with the emulation's headers, and with the toolkit's where
// there is one.
#pragma once
#include <map>
#include <string>

namespace rl::emulated {

using Facts = std::map<std::string, std::string>;
Facts facts_of_emulation();
Facts facts_of_toolkit();  // only where a toolkit is installed

}  // namespace rl::emulated

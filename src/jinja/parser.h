// Parses a chat template into its syntax tree. The language is Jinja as used by templates of
// language models; an unsupported construct is Error(kUnsupported) naming it with line and column,
// broken syntax is Error(kDataLoss), an exceeded limit Error(kResourceExhausted).
#pragma once
#include <memory>
#include <string>
#include <string_view>

#include "jinja/ast.h"

namespace rl::jinja {

// name identifies the template in errors.
std::shared_ptr<const Program> parse(std::string_view text, const std::string& name,
                                     const JinjaLimits& limits = {});

}  // namespace rl::jinja

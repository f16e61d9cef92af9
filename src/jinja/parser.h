// Reads a chat template into its syntax tree. The language is Jinja's as templates of language
// models use it; a construct outside of it is Error(kUnsupported) that names it with line and
// column, broken syntax is Error(kDataLoss), a passed limit Error(kResourceExhausted).
#pragma once
#include <memory>
#include <string>
#include <string_view>

#include "jinja/ast.h"

namespace rl::jinja {

// name is what errors call the template.
std::shared_ptr<const Program> parse(std::string_view text, const std::string& name,
                                     const JinjaLimits& limits = {});

}  // namespace rl::jinja

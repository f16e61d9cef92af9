// Escapes text for HTML. Invariant: the output has no character that could end an element, an
// attribute or a comment, is UTF-8, and is well-formed XML as well as HTML, whatever the input.
#pragma once
#include <string>
#include <string_view>

namespace rl {

// Escapes & < > " '; bytes that are not UTF-8 and characters that XML does not allow become U+FFFD,
// control characters other than tab and line end their pictures from U+2400.
std::string escape_html(std::string_view text);

}  // namespace rl

// Text on its way into HTML. Invariant: what comes out has no character that could end an element,
// an attribute or a comment, is UTF-8, and is as well-formed XML as it is HTML, whatever came in.
#pragma once
#include <string>
#include <string_view>

namespace rl {

// Escapes & < > " '; bytes that are no UTF-8 become U+FFFD, control characters but tab and line end
// their pictures of U+2400, and characters that XML has not U+FFFD.
std::string escape_html(std::string_view text);

}  // namespace rl

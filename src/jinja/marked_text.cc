// Marks are stored only once there is a byte of input; most template text has none.
#include "jinja/marked_text.h"

#include "core/error.h"

namespace rl {

MarkedText::MarkedText(std::string bytes, Origin origin) : bytes_(std::move(bytes)) {
  if (origin == Origin::kInput) marks_.assign(bytes_.size(), static_cast<char>(origin));
}

MarkedText MarkedText::substr(size_t at, size_t count) const {
  MarkedText out;
  out.append(*this, at, count);
  return out;
}

void MarkedText::append(const MarkedText& other, size_t at, size_t count) {
  RL_CHECK(at <= other.size() && &other != this);
  if (!other.marks_.empty()) {
    marks_.resize(bytes_.size(), static_cast<char>(Origin::kTemplate));
    marks_.append(other.marks_, at, count);
  }
  bytes_.append(other.bytes_, at, count);
  if (!marks_.empty()) marks_.resize(bytes_.size(), static_cast<char>(Origin::kTemplate));
}

void MarkedText::append(std::string_view bytes, Origin origin) {
  if (origin == Origin::kInput || !marks_.empty()) {
    marks_.resize(bytes_.size(), static_cast<char>(Origin::kTemplate));
    marks_.append(bytes.size(), static_cast<char>(origin));
  }
  bytes_.append(bytes);
}

}  // namespace rl

// A small strict XML reader for pages that the library writes: elements, attributes, text and the
// five entities, nothing else. It finds errors that an HTML parser would forgive.
#pragma once
#include <cctype>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace rl {

struct XmlElement {
  std::string name;
  std::map<std::string, std::string> attributes;
};

class XmlPage {
 public:
  explicit XmlPage(std::string_view text) : text_(text) {
    constexpr std::string_view kDoctype = "<!DOCTYPE html>\n";
    if (!take(kDoctype)) fail("no document type");
    while (problem_.empty() && at_ < text_.size()) text_[at_] == '<' ? tag() : character();
    if (problem_.empty() && !open_.empty()) fail("<" + open_.back() + "> is not closed");
  }
  // Empty for a well-formed page.
  const std::string& problem() const { return problem_; }
  const std::vector<XmlElement>& elements() const { return elements_; }
  // All text between tags, with entities replaced.
  const std::string& shown() const { return shown_; }
  size_t count(const std::string& name) const {
    size_t n = 0;
    for (const XmlElement& e : elements_) n += e.name == name;
    return n;
  }

 private:
  void fail(const std::string& what) {
    problem_ = what + " at byte " + std::to_string(at_) + ": " +
               std::string(text_.substr(at_ < 40 ? 0 : at_ - 40, 80));
  }
  bool take(std::string_view part) {
    if (text_.substr(at_, part.size()) != part) return false;
    at_ += part.size();
    return true;
  }
  std::string name() {
    const size_t begin = at_;
    while (at_ < text_.size() &&
           (std::isalnum(static_cast<unsigned char>(text_[at_])) || text_[at_] == '-')) {
      ++at_;
    }
    if (begin == at_) fail("no name");
    return std::string(text_.substr(begin, at_ - begin));
  }
  // Reads one character or entity.
  std::string unit() {
    constexpr std::pair<std::string_view, const char*> kEntities[] = {
        {"&amp;", "&"}, {"&lt;", "<"}, {"&gt;", ">"}, {"&quot;", "\""}, {"&#39;", "'"}};
    for (const auto& [entity, meaning] : kEntities) {
      if (take(entity)) return meaning;
    }
    const auto c = static_cast<unsigned char>(text_[at_]);
    if (c == '&' || c == '<' || c == 0x7F || (c < 0x20 && c != '\n' && c != '\t')) {
      fail("a character that has no place here");
    }
    return std::string(1, text_[at_++]);
  }
  void character() {
    if (open_.empty() && !std::isspace(static_cast<unsigned char>(text_[at_]))) {
      return fail("text outside the page");
    }
    shown_ += unit();
  }
  void attribute(XmlElement& element) {
    const std::string key = name();
    if (!take("=\"")) return fail("no quoted value");
    std::string value;
    while (problem_.empty() && at_ < text_.size() && text_[at_] != '"') value += unit();
    if (!take("\"")) return fail("a value without end");
    if (!element.attributes.emplace(key, value).second) fail("attribute " + key + " twice");
  }
  void tag() {
    if (take("</")) {
      const std::string closed = name();
      if (open_.empty() || open_.back() != closed) return fail("</" + closed + "> closes nothing");
      open_.pop_back();
      if (!take(">")) fail("a tag without end");
      return;
    }
    ++at_;
    XmlElement element{name(), {}};
    while (problem_.empty() && take(" ")) attribute(element);
    elements_.push_back(element);
    if (take("/>")) return;
    if (!take(">")) return fail("a tag without end");
    open_.push_back(element.name);
  }

  std::string_view text_;
  size_t at_ = 0;
  std::string problem_, shown_;
  std::vector<std::string> open_;
  std::vector<XmlElement> elements_;
};

}  // namespace rl

// Uses nlohmann's event parser; the handler here builds the value and adds the checks that the
// library lacks. The parser reads through an iterator that records how far it got, which is where
// an error is reported.
#include "core/encoding/strict_json.h"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <type_traits>
#include <unordered_set>
#include <utility>
#include <vector>

#include "core/encoding/unicode.h"
#include "core/error.h"

namespace rl {
namespace {

// Reads characters of a text and records the furthest position where the handler can see it.
class TrackingIterator {
 public:
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;

  TrackingIterator(const char* at, const char** furthest) : at_(at), furthest_(furthest) {}
  reference operator*() const { return *at_; }
  TrackingIterator& operator++() {
    *furthest_ = ++at_;
    return *this;
  }
  bool operator==(const TrackingIterator& other) const { return at_ == other.at_; }
  bool operator!=(const TrackingIterator& other) const { return at_ != other.at_; }

 private:
  const char* at_;
  const char** furthest_;
};

struct Input {
  std::string_view text;
  const std::string& name;
  const char* furthest;

  [[noreturn]] void fail(Code code, const std::string& what) const {
    const size_t end = std::min<size_t>(static_cast<size_t>(furthest - text.data()), text.size());
    size_t line = 1;
    size_t line_start = 0;
    for (size_t i = 0; i < end; ++i) {
      if (text[i] == '\n') {
        ++line;
        line_start = i + 1;
      }
    }
    const size_t column = end - line_start;
    const std::string where = str(name, ":", line, ":", column == 0 ? size_t{1} : column);
    throw Error(code, str(where, ": ", what)).with_location(where);
  }
};

template <typename Json>
class Builder : public nlohmann::json_sax<Json> {
  static constexpr bool kOrdered = std::is_same_v<Json, nlohmann::ordered_json>;
  using typename nlohmann::json_sax<Json>::number_integer_t;
  using typename nlohmann::json_sax<Json>::number_unsigned_t;
  using typename nlohmann::json_sax<Json>::number_float_t;
  using typename nlohmann::json_sax<Json>::string_t;
  using typename nlohmann::json_sax<Json>::binary_t;

 public:
  explicit Builder(const Input& input) : input_(input) {}
  Json take() { return std::move(root_); }

  bool null() override { return add(nullptr); }
  bool boolean(bool v) override { return add(v); }
  bool number_integer(number_integer_t v) override { return add(v); }
  bool number_unsigned(number_unsigned_t v) override {
    if (kOrdered && v > INT64_MAX) fail_number(str(v));
    return add(v);
  }
  bool number_float(number_float_t v, const string_t& token) override {
    if (kOrdered && token.find_first_of(".eE") == token.npos) fail_number(token);
    return add(v);
  }
  bool string(string_t& v) override { return add(std::move(v)); }
  bool binary(binary_t&) override { return false; }
  bool start_object(size_t) override { return open(Json::object()); }
  bool start_array(size_t) override { return open(Json::array()); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }

  bool key(string_t& name) override {
    auto& members = open_.back()->template get_ref<typename Json::object_t&>();
    bool inserted = true;
    if constexpr (kOrdered) {
      // ordered_map would search all its members for each new one.
      inserted = keys_.back().insert(name).second;
      members.push_back({name, nullptr});
      member_ = &members.back().second;
    } else {
      const auto [at, is_new] = members.emplace(name, nullptr);
      inserted = is_new;
      member_ = &at->second;
    }
    if (!inserted) input_.fail(Code::kDataLoss, str("duplicate key ", quote_text(name)));
    return true;
  }

  bool parse_error(size_t, const std::string& token,
                   const nlohmann::detail::exception& e) override {
    if (e.id == kNumberOverflow) fail_number(token);
    input_.fail(Code::kDataLoss, str("not valid JSON near ", quote_text(token), ": ", reason(e)));
  }

 private:
  static constexpr int kNumberOverflow = 406;

  [[noreturn]] void fail_number(const std::string& token) const {
    input_.fail(Code::kDataLoss, str("number out of range: ", quote_text(token)));
  }
  // The parser's own reason, without its prefix and without the text it last read.
  static std::string reason(const nlohmann::detail::exception& e) {
    std::string_view what = e.what();
    if (const size_t at = what.find("syntax error"); at != what.npos) what.remove_prefix(at);
    return std::string(what.substr(0, what.find("; last read")));
  }

  Json* place(Json&& value) {
    if (open_.empty()) {
      root_ = std::move(value);
      return &root_;
    }
    if (open_.back()->is_array()) {
      auto& items = open_.back()->template get_ref<typename Json::array_t&>();
      items.push_back(std::move(value));
      return &items.back();
    }
    *member_ = std::move(value);
    return member_;
  }
  template <typename T>
  bool add(T&& value) {
    place(Json(std::forward<T>(value)));
    return true;
  }
  bool open(Json&& container) {
    if (open_.size() >= static_cast<size_t>(kMaxJsonDepth)) {
      input_.fail(Code::kResourceExhausted, str("nesting deeper than ", kMaxJsonDepth));
    }
    open_.push_back(place(std::move(container)));
    if (kOrdered) keys_.emplace_back();
    return true;
  }
  bool close() {
    open_.pop_back();
    if (kOrdered) keys_.pop_back();
    return true;
  }

  const Input& input_;
  Json root_;
  std::vector<Json*> open_;  // enclosing containers; only the innermost one grows, so none moves
  std::vector<std::unordered_set<std::string>> keys_;  // of open_, for an ordered value
  Json* member_ = nullptr;                             // receives the value of the last key
};

template <typename Json>
Json parse(std::string_view text, const std::string& source_name, uint64_t max_bytes) {
  if (text.size() > max_bytes) {
    throw Error(Code::kResourceExhausted, str(source_name, ": ", text.size(),
                                              " bytes of JSON exceed the limit of ", max_bytes))
        .with_location(source_name);
  }
  Input input{text, source_name, text.data()};
  if (text.starts_with("\xef\xbb\xbf")) {
    input.fail(Code::kDataLoss, "a byte order mark is not allowed in JSON");
  }
  // The event parser treats a zero byte as the end of its input.
  if (const size_t zero = text.find('\0'); zero != text.npos) {
    input.furthest = text.data() + zero + 1;
    input.fail(Code::kDataLoss, "a zero byte is not allowed in JSON");
  }
  Builder<Json> builder(input);
  const TrackingIterator begin(text.data(), &input.furthest);
  const TrackingIterator end(text.data() + text.size(), &input.furthest);
  RL_CHECK(Json::sax_parse(begin, end, &builder));
  return builder.take();
}

}  // namespace

nlohmann::json parse_strict_json(std::string_view text, const std::string& source_name,
                                 uint64_t max_bytes) {
  return parse<nlohmann::json>(text, source_name, max_bytes);
}

nlohmann::ordered_json parse_ordered_json(std::string_view text, const std::string& source_name,
                                          uint64_t max_bytes) {
  return parse<nlohmann::ordered_json>(text, source_name, max_bytes);
}

}  // namespace rl

// What the first rank sends begins with the code of an error, 0 for none; then comes what it found,
// or key and message of the error.
#include "pipeline/ranks/first_rank.h"

#include <algorithm>
#include <cstdint>
#include <exception>
#include <span>
#include <string_view>
#include <utility>

#include "core/error.h"

namespace rl {
namespace {

constexpr size_t kWord = sizeof(uint64_t);

std::vector<std::byte> document(Code code, std::span<const std::byte> content) {
  const auto number = static_cast<uint64_t>(code);
  std::vector<std::byte> out(kWord + content.size());
  std::memcpy(out.data(), &number, kWord);
  if (!content.empty()) std::memcpy(out.data() + kWord, content.data(), content.size());
  return out;
}

// The key, a zero and the message.
std::vector<std::byte> document_of(const Error& e) {
  const std::string text = e.key + '\0' + e.message;
  return document(e.code, std::as_bytes(std::span(text)));
}

std::string_view text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

[[noreturn]] void throw_told(uint64_t code, std::string_view text) {
  const size_t end = std::min(text.find('\0'), text.size());
  const std::string key(text.substr(0, end));
  text.remove_prefix(std::min(end + 1, text.size()));
  throw Error(static_cast<Code>(code), str("rank 0: ", text)).with_key(key).with_location("rank 0");
}

}  // namespace

std::vector<std::byte> FirstRank::tell_bytes(FunctionRef<std::vector<std::byte>()> find) const {
  if (alone()) return find();
  std::vector<std::byte> own;
  std::exception_ptr failure;
  try {
    if (leads()) own = document(Code::kOk, find());
  } catch (const Error& e) {
    failure = std::current_exception();
    own = document_of(e);
  } catch (const std::exception& e) {
    failure = std::current_exception();
    own = document_of(Error(Code::kInternal, e.what()));
  }
  const std::vector<std::byte> told = ranks_.of_first(std::move(own));
  if (failure != nullptr) std::rethrow_exception(failure);
  RL_CHECK(told.size() >= kWord);
  uint64_t code = 0;
  std::memcpy(&code, told.data(), kWord);
  const std::span<const std::byte> content = std::span(told).subspan(kWord);
  if (code != static_cast<uint64_t>(Code::kOk)) throw_told(code, text_of(content));
  return {content.begin(), content.end()};
}

std::string FirstRank::tell_text(FunctionRef<std::string()> find) const {
  if (alone()) return find();
  const std::vector<std::byte> told = tell_bytes([&] {
    const std::string text = find();
    const auto bytes = std::as_bytes(std::span(text));
    return std::vector<std::byte>(bytes.begin(), bytes.end());
  });
  return std::string(text_of(told));
}

void FirstRank::run(FunctionRef<void()> work) const {
  tell_bytes([&] {
    work();
    return std::vector<std::byte>();
  });
}

void FirstRank::require_size(const std::vector<std::byte>& bytes, size_t size) {
  RL_CHECK(bytes.size() == size);
}

}  // namespace rl

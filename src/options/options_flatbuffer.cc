// The reader works on an aligned copy: the host's bytes may have any alignment, and alignment
// inside a document is relative to its start.
#include "options/options_flatbuffer.h"

#include <schemas/options_generated.h>

#include <cstring>
#include <vector>

#include "options/option_import.h"

namespace rl {
namespace {

constexpr uint32_t kFormatVersion = 1;
constexpr size_t kMinBytes = 12;  // root offset, identifier, an empty table
constexpr flatbuffers::uoffset_t kMaxDepth = 4;

using Builder = flatbuffers::FlatBufferBuilder;

// Adds the field of a value's own type. Strings and vectors must exist before the table begins.
struct Writer {
  Builder& builder;
  flatbuffers::Offset<flatbuffers::String> key;

  flatbuffers::Offset<fb::Option> operator()(bool v) const {
    return finish(fb::OptionKind::Truth, [&](fb::OptionBuilder& o) { o.add_truth(v); });
  }
  flatbuffers::Offset<fb::Option> operator()(int64_t v) const {
    return finish(fb::OptionKind::Integer, [&](fb::OptionBuilder& o) { o.add_integer(v); });
  }
  flatbuffers::Offset<fb::Option> operator()(uint64_t v) const {
    return finish(fb::OptionKind::Natural, [&](fb::OptionBuilder& o) { o.add_natural(v); });
  }
  flatbuffers::Offset<fb::Option> operator()(double v) const {
    return finish(fb::OptionKind::Number, [&](fb::OptionBuilder& o) { o.add_number(v); });
  }
  flatbuffers::Offset<fb::Option> operator()(const std::string& v) const {
    const auto text = builder.CreateString(v);
    return finish(fb::OptionKind::Text, [&](fb::OptionBuilder& o) { o.add_text(text); });
  }
  flatbuffers::Offset<fb::Option> operator()(const std::vector<std::string>& v) const {
    const auto texts = builder.CreateVectorOfStrings(v);
    return finish(fb::OptionKind::Texts, [&](fb::OptionBuilder& o) { o.add_texts(texts); });
  }
  flatbuffers::Offset<fb::Option> operator()(const std::vector<int64_t>& v) const {
    const auto integers = builder.CreateVector(v);
    return finish(fb::OptionKind::Integers,
                  [&](fb::OptionBuilder& o) { o.add_integers(integers); });
  }

 private:
  template <typename Add>
  flatbuffers::Offset<fb::Option> finish(fb::OptionKind kind, Add&& add) const {
    fb::OptionBuilder option(builder);
    option.add_key(key);
    option.add_kind(kind);
    add(option);
    return option.Finish();
  }
};

const fb::OptionSet& verified(const std::vector<uint64_t>& aligned, size_t bytes) {
  const auto* const data = reinterpret_cast<const uint8_t*>(aligned.data());
  flatbuffers::Verifier::Options limits;
  limits.max_depth = kMaxDepth;
  limits.max_tables = kMaxOptionEntries + 1;
  flatbuffers::Verifier verifier(data, bytes, limits);
  if (!fb::OptionSetBufferHasIdentifier(data) || !fb::VerifyOptionSetBuffer(verifier)) {
    throw Error(Code::kDataLoss,
                str("the ", bytes, " bytes are not a valid FlatBuffers document of at most ",
                    kMaxOptionEntries, " options"))
        .with_expected("file identifier RLOP");
  }
  return *fb::GetOptionSet(data);
}

void check_kind(const fb::Option& option) {
  using O = fb::Option;
  constexpr O::FlatBuffersVTableOffset kFields[] = {O::VT_TRUTH,   O::VT_INTEGER, O::VT_NATURAL,
                                                    O::VT_NUMBER,  O::VT_TEXT,    O::VT_TEXTS,
                                                    O::VT_INTEGERS};
  const auto kind = static_cast<uint32_t>(option.kind());
  if (kind < 1 || kind > std::size(kFields)) {
    throw Error(Code::kWrongType,
                str(option.key()->string_view(), " has a value of unknown kind ", kind))
        .with_key(option.key()->str())
        .with_expected(str("1..", std::size(kFields)));
  }
  for (uint32_t other = 1; other <= std::size(kFields); ++other) {
    const bool present = flatbuffers::IsFieldPresent(&option, kFields[other - 1]);
    // A scalar that equals the schema's default is not stored.
    const bool absent_is_zero = kFields[other - 1] < O::VT_TEXT;
    if (present == (other == kind) || (!present && absent_is_zero)) continue;
    throw Error(Code::kWrongType,
                str(option.key()->string_view(), " is of kind ", kind,
                    present ? " but has also" : " but has no", " value of kind ", other))
        .with_key(option.key()->str());
  }
}

void set_from(OptionSet& set, const fb::Option& option) {
  require_option(option.key()->string_view());
  check_kind(option);
  const std::string_view key = option.key()->string_view();
  switch (option.kind()) {
    case fb::OptionKind::Truth:
      return set.set_bool(key, option.truth());
    case fb::OptionKind::Integer:
      return set.set_i64(key, option.integer());
    case fb::OptionKind::Natural:
      return set.set_u64(key, option.natural());
    case fb::OptionKind::Number:
      return set.set_f64(key, option.number());
    case fb::OptionKind::Text:
      return set.set_string(key, option.text()->string_view());
    case fb::OptionKind::Texts: {
      std::vector<std::string> texts;
      for (const flatbuffers::String* text : *option.texts()) texts.push_back(text->str());
      return set.set_string_list(key, std::move(texts));
    }
    case fb::OptionKind::Integers:
      return set.set_i64_list(key, {option.integers()->begin(), option.integers()->end()});
    case fb::OptionKind::None:
      break;
  }
  RL_CHECK(!"every kind of value is read");
}

}  // namespace

std::string options_to_flatbuffer(const OptionSet& set, bool only_changed,
                                  std::string_view library_version) {
  Builder builder;
  const auto version = builder.CreateString(library_version.data(), library_version.size());
  std::vector<flatbuffers::Offset<fb::Option>> rows;
  for (size_t i = 0; i < option_count(); ++i) {
    const char* const key = option_at(i).key;
    if (only_changed && set.is_default(key)) continue;
    rows.push_back(std::visit(Writer{builder, builder.CreateString(key)}, set.get_value(key)));
  }
  const auto options = builder.CreateVector(rows);
  fb::FinishOptionSetBuffer(builder,
                            fb::CreateOptionSet(builder, version, options, kFormatVersion));
  const auto* const data = reinterpret_cast<const char*>(builder.GetBufferPointer());
  return {data, builder.GetSize()};
}

OptionSet options_from_flatbuffer(std::span<const std::byte> document, const OptionSet& base) {
  check_option_document_size(document.size(), kMinBytes, "FlatBuffers");
  std::vector<uint64_t> aligned((document.size() + 7) / 8);
  std::memcpy(aligned.data(), document.data(), document.size());
  const fb::OptionSet& root = verified(aligned, document.size());
  if (root.format_version() != kFormatVersion) {
    throw Error(Code::kIncompatible, str("the options document has format ", root.format_version(),
                                         "; this library reads format ", kFormatVersion));
  }
  OptionImport import(base);
  if (root.options() != nullptr) {
    for (flatbuffers::uoffset_t i = 0; i < root.options()->size(); ++i) {
      const fb::Option& option = *root.options()->Get(i);
      import.take(option.key()->string_view(), str("options[", i, "]"),
                  [&](OptionSet& set) { set_from(set, option);
    });
  }
}
return import.finish();
}  // namespace rl

}  // namespace rl

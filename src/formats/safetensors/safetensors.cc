// The header is JSON of a fixed form, so it is read event by event into entries: memory stays
// proportional to the header, and a value of an unexpected kind ends the parse at once. The ranges
// are compared afterwards.
#include "formats/safetensors/safetensors.h"

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>
#include <numeric>
#include <tuple>

#include "core/checked.h"
#include "core/error.h"

namespace rl {
namespace {

using Json = nlohmann::json;

struct ElementType {
  std::string_view name;
  uint32_t bytes;
};
constexpr ElementType kElementTypes[] = {
    {"BOOL", 1}, {"U8", 1},  {"I8", 1},  {"F8_E5M2", 1}, {"F8_E4M3", 1},
    {"U16", 2},  {"I16", 2}, {"F16", 2}, {"BF16", 2},    {"U32", 4},
    {"I32", 4},  {"F32", 4}, {"U64", 8}, {"I64", 8},     {"F64", 8},
};

// What the next event may be.
enum class State {
  kTop,
  kName,
  kEntry,
  kMetadata,
  kDtype,
  kShape,
  kShapeItem,
  kOffsets,
  kOffsetItem,
  kDone
};

struct Header {
  std::vector<SafetensorsEntry> entries;
  std::map<std::string, std::string> metadata;
};

class HeaderHandler : public nlohmann::json_sax<Json> {
 public:
  HeaderHandler(const std::string& path, Header& out) : path_(path), out_(out) {}

  bool null() override { unexpected("null"); }
  bool boolean(bool) override { unexpected("a boolean"); }
  bool number_integer(number_integer_t) override { unexpected("a negative number"); }
  bool number_float(number_float_t, const string_t&) override { unexpected("a fraction"); }
  bool binary(binary_t&) override { unexpected("binary data"); }
  bool number_unsigned(number_unsigned_t v) override;
  bool string(string_t& v) override;
  bool key(string_t& v) override;
  bool start_object(size_t) override;
  bool end_object() override;
  bool start_array(size_t) override;
  bool end_array() override;
  bool parse_error(size_t position, const std::string&,
                   const nlohmann::detail::exception& e) override {
    throw Error(Code::kDataLoss, str(path_, ": the header is not valid JSON: ", e.what()))
        .with_location(str(path_, " offset ", 8 + position));
  }

 private:
  [[noreturn]] void fail(Code code, std::string_view what) const {
    throw Error(code, str(path_, ": header entry \"", name_, "\": ", what))
        .with_key(name_)
        .with_location(str(path_, " header entry \"", name_, "\""));
  }
  [[noreturn]] void unexpected(std::string_view what) const {
    fail(Code::kDataLoss, str("unexpected ", what));
  }
  SafetensorsEntry& entry() { return out_.entries.back(); }
  void start_entry();
  void entry_key(const std::string& v);

  const std::string& path_;
  Header& out_;
  State state_ = State::kTop;
  std::string name_;          // of the entry being read
  std::string metadata_key_;  // key of the next value; valid if has_metadata_key_
  bool has_metadata_key_ = false;
  bool has_metadata_ = false;
  bool has_dtype_ = false, has_shape_ = false, has_offsets_ = false;
  int offsets_seen_ = 0;
};

bool HeaderHandler::number_unsigned(number_unsigned_t v) {
  if (state_ == State::kShapeItem) {
    if (entry().shape.size() == kSafetensorsCaps.rank) {
      fail(Code::kResourceExhausted, str("more than ", kSafetensorsCaps.rank, " dimensions"));
    }
    entry().shape.push_back(CheckedU64(uint64_t{v}).to<int64_t>());
  } else if (state_ == State::kOffsetItem && offsets_seen_ < 2) {
    (offsets_seen_++ == 0 ? entry().offset : entry().bytes) =
        v;  // bytes holds the end offset until the entry closes
  } else {
    unexpected("number");
  }
  return true;
}

bool HeaderHandler::string(string_t& v) {
  if (state_ == State::kMetadata && has_metadata_key_) {
    out_.metadata[metadata_key_] = std::move(v);
    has_metadata_key_ = false;
    return true;
  }
  if (state_ != State::kDtype) unexpected("string");
  for (const ElementType& t : kElementTypes) {
    if (v != t.name) continue;
    entry().dtype = t.name;
    entry().element_bytes = t.bytes;
    state_ = State::kEntry;
    return true;
  }
  fail(Code::kUnsupported, str("element type \"", v.substr(0, 64), "\" is not known"));
}

bool HeaderHandler::key(string_t& v) {
  if (v.size() > kSafetensorsCaps.name_bytes) {
    fail(Code::kResourceExhausted,
         str("a key of ", v.size(), " bytes exceeds the limit of ", kSafetensorsCaps.name_bytes));
  }
  if (state_ == State::kName) {
    name_ = std::move(v);
  } else if (state_ == State::kMetadata) {
    if (out_.metadata.size() == kSafetensorsCaps.metadata_entries) {
      fail(Code::kResourceExhausted,
           str("more than ", kSafetensorsCaps.metadata_entries, " metadata entries"));
    }
    if (!out_.metadata.emplace(v, "").second)
      fail(Code::kDataLoss, str("duplicate metadata key \"", v, "\""));
    metadata_key_ = std::move(v);
    has_metadata_key_ = true;
  } else {
    entry_key(v);
  }
  return true;
}

void HeaderHandler::entry_key(const std::string& v) {
  const auto once = [&](bool& seen, State next) {
    if (seen) fail(Code::kDataLoss, str("duplicate key \"", v, "\""));
    seen = true;
    state_ = next;
  };
  if (state_ != State::kEntry) unexpected("key");
  if (v == "dtype") return once(has_dtype_, State::kDtype);
  if (v == "shape") return once(has_shape_, State::kShape);
  if (v == "data_offsets") return once(has_offsets_, State::kOffsets);
  fail(Code::kDataLoss, str("unknown key \"", v, "\""));
}

void HeaderHandler::start_entry() {
  if (out_.entries.size() == kSafetensorsCaps.tensors) {
    fail(Code::kResourceExhausted, str("more than ", kSafetensorsCaps.tensors, " tensors"));
  }
  has_dtype_ = has_shape_ = has_offsets_ = false;
  offsets_seen_ = 0;
  out_.entries.emplace_back().name = name_;
  state_ = State::kEntry;
}

bool HeaderHandler::start_object(size_t) {
  if (state_ == State::kTop) {
    state_ = State::kName;
  } else if (state_ == State::kName && name_ == "__metadata__") {
    if (has_metadata_) fail(Code::kDataLoss, "duplicate key");
    has_metadata_ = true;
    state_ = State::kMetadata;
  } else if (state_ == State::kName) {
    start_entry();
  } else {
    unexpected("object");
  }
  return true;
}

bool HeaderHandler::end_object() {
  if (state_ == State::kEntry) {
    if (!has_dtype_) fail(Code::kDataLoss, "dtype is missing");
    if (!has_shape_) fail(Code::kDataLoss, "shape is missing");
    if (!has_offsets_) fail(Code::kDataLoss, "data_offsets is missing");
    state_ = State::kName;
  } else if (state_ == State::kMetadata) {
    state_ = State::kName;
  } else {
    state_ = State::kDone;
  }
  return true;
}

bool HeaderHandler::start_array(size_t) {
  if (state_ == State::kShape)
    state_ = State::kShapeItem;
  else if (state_ == State::kOffsets)
    state_ = State::kOffsetItem;
  else
    unexpected("array");
  return true;
}

bool HeaderHandler::end_array() {
  if (state_ == State::kOffsetItem && offsets_seen_ != 2)
    fail(Code::kDataLoss, "data_offsets does not have two numbers");
  state_ = State::kEntry;
  return true;
}

std::string read_header_text(const InputFile& file) {
  const std::string& path = file.path();
  if (file.size() < 8) {
    throw Error(Code::kDataLoss,
                str(path, ": ", file.size(), " bytes are too few for a safetensors file"))
        .with_location(str(path, " offset 0"));
  }
  uint64_t length = 0;
  file.read_at(0, std::as_writable_bytes(std::span(&length, 1)));
  if (length > kSafetensorsCaps.header_bytes) {
    throw Error(Code::kResourceExhausted,
                str(path, ": header of ", length, " bytes exceeds the limit of ",
                    kSafetensorsCaps.header_bytes))
        .with_location(str(path, " offset 0"));
  }
  if (length > file.size() - 8) {
    throw Error(Code::kDataLoss,
                str(path, ": header of ", length, " bytes in a file of ", file.size()))
        .with_location(str(path, " offset 0"));
  }
  std::string text(length, '\0');
  file.read_at(8, std::as_writable_bytes(std::span(text.data(), text.size())));
  const size_t nul = text.find('\0');
  const size_t bad = text.starts_with('{') ? nul : 0;
  if (bad != std::string::npos) {
    throw Error(Code::kDataLoss, str(path, ": the header is not a JSON object at offset ", 8 + bad))
        .with_location(str(path, " offset ", 8 + bad));
  }
  return text;
}

// Returns the header's length. The text is freed before the entries are compared.
uint64_t parse_header(const InputFile& file, Header& out) {
  const std::string text = read_header_text(file);
  // Exact, unless a name contains the same text; growing by doubling would need twice the memory.
  constexpr std::string_view kMark = "\"data_offsets\"";
  size_t count = 0;
  for (size_t at = text.find(kMark); at != std::string::npos && count < kSafetensorsCaps.tensors;
       at = text.find(kMark, at + kMark.size())) {
    ++count;
  }
  out.entries.reserve(count);
  HeaderHandler handler(file.path(), out);
  RL_CHECK(Json::sax_parse(text, &handler));
  return text.size();
}

// Checks shapes against ranges, and ranges against each other and the file; entries end up sorted,
// with file offsets.
void check_layout(const InputFile& file, uint64_t data_start,
                  std::vector<SafetensorsEntry>& entries) {
  const auto fail = [&](const SafetensorsEntry& e, const std::string& what) {
    throw Error(Code::kDataLoss, str(file.path(), ": tensor ", e.name, ": ", what))
        .with_key(e.name)
        .with_location(str(file.path(), " offset ", data_start, " tensor ", e.name));
  };
  const uint64_t data_bytes = file.size() - data_start;
  for (SafetensorsEntry& e : entries) {
    const uint64_t begin = e.offset, end = e.bytes;
    if (begin > end || end > data_bytes) {
      fail(e, str("its range ", begin, "..", end, " is not within the ", data_bytes,
                  " bytes of data"));
    }
    CheckedU64 want(uint64_t{e.element_bytes});
    for (int64_t n : e.shape) {
      want = n == 0 ? CheckedU64(uint64_t{0}) : want * CheckedU64(n);
      if (want > CheckedU64(data_bytes))
        fail(e, str("its shape needs more than the ", data_bytes, " bytes of data"));
    }
    if (want.get() != end - begin)
      fail(e, str("its shape needs ", want.get(), " bytes, but its range has ", end - begin));
    e.bytes = end - begin;
  }
  std::sort(entries.begin(), entries.end(), [](const auto& a, const auto& b) {
    return std::tie(a.offset, a.bytes, a.name) < std::tie(b.offset, b.bytes, b.name);
  });
  uint64_t at = 0;
  for (SafetensorsEntry& e : entries) {
    if (e.offset != at) {
      fail(e, str("starts at ", e.offset,
                  e.offset > at ? ", a hole after " : ", an overlap before ", at));
    }
    at += e.bytes;
    e.offset += data_start;
  }
  if (at == data_bytes) return;
  throw Error(Code::kDataLoss,
              str(file.path(), ": ", data_bytes - at, " bytes after the last tensor"))
      .with_location(str(file.path(), " offset ", data_start + at));
}

}  // namespace

SafetensorsFile::SafetensorsFile(FileSystem& fs, const std::string& path) : file_(fs.open(path)) {
  try {
    Header header;
    const uint64_t data_start = 8 + parse_header(*file_, header);
    check_layout(*file_, data_start, header.entries);
    entries_ = std::move(header.entries);
    metadata_ = std::move(header.metadata);
  } catch (Error& e) {
    if (e.location.empty()) e.location = str(path, " header");
    throw;
  }
  by_name_.resize(entries_.size());
  std::iota(by_name_.begin(), by_name_.end(), 0u);
  const auto name = [&](uint32_t i) -> const std::string& { return entries_[i].name; };
  std::sort(by_name_.begin(), by_name_.end(),
            [&](uint32_t a, uint32_t b) { return name(a) < name(b); });
  const auto twice = std::adjacent_find(by_name_.begin(), by_name_.end(),
                                        [&](uint32_t a, uint32_t b) { return name(a) == name(b); });
  if (twice == by_name_.end()) return;
  throw Error(Code::kDataLoss, str(path, ": tensor ", name(*twice), " is listed twice"))
      .with_key(name(*twice))
      .with_location(str(path, " header entry \"", name(*twice), "\""));
}

int64_t SafetensorsFile::find(std::string_view name) const {
  const auto it = std::lower_bound(
      by_name_.begin(), by_name_.end(), name,
      [&](uint32_t i, std::string_view wanted) { return entries_[i].name < wanted; });
  return it == by_name_.end() || entries_[*it].name != name ? -1 : int64_t{*it};
}

StoredRows SafetensorsFile::rows(int64_t index) const {
  const SafetensorsEntry& e = entries_.at(static_cast<size_t>(index));
  for (StoredType type : {StoredType::kF32, StoredType::kF16, StoredType::kBf16}) {
    if (e.dtype != stored_type_name(type) || e.shape.empty() || e.shape.size() > 2) continue;
    return StoredRows{file_.get(), type, e.offset, e.shape.back()};
  }
  throw Error(Code::kUnsupported,
              str(path(), ": tensor ", e.name, " of type ", e.dtype, " and rank ", e.shape.size(),
                  " cannot be read as rows of fp32"))
      .with_key(e.name)
      .with_expected("F32, F16 or BF16 of rank 1 or 2")
      .with_location(str(path(), " offset ", e.offset, " tensor ", e.name));
}

void SafetensorsFile::read_bytes(int64_t index, std::span<std::byte> out) const {
  const SafetensorsEntry& e = entries_.at(static_cast<size_t>(index));
  RL_CHECK(out.size() == e.bytes);
  file_->read_at(e.offset, out);
}

}  // namespace rl

// Runs of ordinals grow and join as groups are done.
#include "buffer/store_book.h"

#include <schemas/store_generated.h>

#include <algorithm>
#include <charconv>
#include <iterator>
#include <limits>
#include <span>

#include "buffer/byte_files.h"
#include "data/frame.h"

namespace rl {
namespace {

constexpr size_t kNumbers = 3;  // of an entry of the document's vectors

[[noreturn]] void fail(const std::string& place, const std::string& what) {
  throw Error(Code::kDataLoss, str(place, ": ", what)).with_location(place);
}

using Numbers = flatbuffers::Vector<uint64_t>;

size_t num_entries(const Numbers* numbers, const char* what, const std::string& place) {
  const size_t count = numbers != nullptr ? numbers->size() : 0;
  if (count % kNumbers != 0) fail(place, str(what, " has ", count, " numbers, not three for each"));
  return count / kNumbers;
}

const fb::StoreBook& verified(std::span<const std::byte> document, const std::string& place) {
  const auto* data = reinterpret_cast<const uint8_t*>(document.data());
  flatbuffers::Verifier verifier(data, document.size());
  if (!verifier.VerifyBuffer<fb::StoreBook>(std::string(kBookKind).c_str())) {
    fail(place, str("the document is not a valid ", kBookKind, " FlatBuffer"));
  }
  return *flatbuffers::GetRoot<fb::StoreBook>(data);
}

}  // namespace

std::string group_name(const GroupKey& key) {
  const auto padded = [](uint64_t number, size_t width) {
    const std::string digits = str(number);
    return std::string(width - std::min(width, digits.size()), '0') + digits;
  };
  return str(padded(key.instance, 6), "-", padded(key.ordinal, 20));
}

std::optional<GroupKey> key_named(std::string_view name) {
  GroupKey key;
  const size_t dash = name.find('-');
  if (dash == std::string_view::npos) return std::nullopt;
  std::from_chars(name.data(), name.data() + dash, key.instance);
  std::from_chars(name.data() + dash + 1, name.data() + name.size(), key.ordinal);
  if (group_name(key) != name || key.ordinal == std::numeric_limits<uint64_t>::max()) {
    return std::nullopt;
  }
  return key;
}

bool StoreBook::is_done(const GroupKey& key) const {
  const auto instance = done_.find(key.instance);
  if (instance == done_.end()) return false;
  const auto after = instance->second.upper_bound(key.ordinal);
  return after != instance->second.begin() && key.ordinal < std::prev(after)->second;
}

StoreBook::LastTaken StoreBook::last_taken(uint64_t instance) const {
  LastTaken last;
  for (const auto& [key, step] : taken_) {
    if (step > last.step) last = {step, 0};
    last.groups += step == last.step && key.instance == instance;
  }
  return last;
}

std::string StoreBook::taken_steps() const {
  uint64_t first = std::numeric_limits<uint64_t>::max(), last = 0;
  for (const auto& [key, step] : taken_) {
    first = std::min(first, step);
    last = std::max(last, step);
  }
  return first == last ? str("step ", first) : str("steps ", first, " to ", last);
}

void StoreBook::finish(const GroupKey& key) {
  taken_.erase(key);
  if (is_done(key)) return;
  Runs& runs = done_[key.instance];
  uint64_t begin = key.ordinal, end = key.ordinal + 1;
  const auto after = runs.upper_bound(key.ordinal);
  if (after != runs.begin() && std::prev(after)->second == begin) begin = std::prev(after)->first;
  if (after != runs.end() && after->first == end) {
    end = after->second;
    runs.erase(after);
  }
  runs[begin] = end;
}

std::vector<GroupKey> StoreBook::acknowledge(uint64_t step) {
  std::vector<GroupKey> done;
  for (const auto& [key, of] : taken_) {
    if (of <= step) done.push_back(key);
  }
  for (const GroupKey& key : done) finish(key);
  step_ = std::max(step_, step);
  return done;
}

std::vector<GroupKey> StoreBook::give_back() {
  std::vector<GroupKey> given;
  for (const auto& [key, step] : taken_) given.push_back(key);
  taken_.clear();
  return given;
}

std::string StoreBook::encode() const {
  std::vector<uint64_t> done, taken;
  for (const auto& [instance, runs] : done_) {
    for (const auto& [first, end] : runs) done.insert(done.end(), {instance, first, end});
  }
  for (const auto& [key, step] : taken_) {
    taken.insert(taken.end(), {key.instance, key.ordinal, step});
  }
  flatbuffers::FlatBufferBuilder builder;
  const auto root = fb::CreateStoreBookDirect(builder, opening, step_, &done, &taken, lease.holder,
                                              lease.beat, lease.ns);
  builder.Finish(root, std::string(kBookKind).c_str());
  MemoryOutput out;
  FrameWriter frames(out, kMinCompressionLevel);
  frames.append(kBookKind, std::as_bytes(std::span(builder.GetBufferPointer(), builder.GetSize())));
  frames.close();
  return std::move(out.bytes);
}

StoreBook StoreBook::decode(std::string_view bytes, const std::string& place) {
  const MemoryInput file(std::as_bytes(std::span(bytes)), place);
  FrameReader frames(file);
  const std::optional<Frame> frame = frames.next();
  const std::string where = str(place, " offset ", frame ? frame->offset : 0);
  if (!frame || frame->kind_text() != kBookKind) {
    fail(where, str("the frame is not a ", kBookKind));
  }
  const fb::StoreBook& from = verified(frame->document, where);
  StoreBook book;
  book.opening = from.opening();
  book.lease = {from.holder(), from.beat(), from.lease_ns()};
  book.step_ = from.step();
  const size_t num_runs = num_entries(from.done(), "done", where);
  for (size_t i = 0; i < num_runs; ++i) {
    const auto at = static_cast<flatbuffers::uoffset_t>(kNumbers * i);
    const uint64_t first = from.done()->Get(at + 1), end = from.done()->Get(at + 2);
    Runs& runs = book.done_[from.done()->Get(at)];
    if (first >= end || (!runs.empty() && first <= runs.rbegin()->second)) {
      fail(where, str("the run of ordinals ", first, " to ", end, " is not after those before it"));
    }
    runs[first] = end;
  }
  const size_t num_taken = num_entries(from.taken(), "taken", where);
  for (size_t i = 0; i < num_taken; ++i) {
    const auto at = static_cast<flatbuffers::uoffset_t>(kNumbers * i);
    const GroupKey key{from.taken()->Get(at), from.taken()->Get(at + 1)};
    const uint64_t step = from.taken()->Get(at + 2);
    if (step <= book.step_ || book.is_done(key) || !book.taken_.emplace(key, step).second) {
      fail(where, str("group ", group_name(key), " is taken for step ", step,
                      ", which cannot be after what else the book says"));
    }
  }
  if (frames.next()) fail(where, "a second frame follows");
  return book;
}

}  // namespace rl

// Token layout from the low bits: slot 24, generation 32, kind 8. Kinds start at 1, so no token is
// 0. The fork check comes before any lock: another thread of the parent may have held it.
#include "core/handle_table.h"

#include <sys/mman.h>
#include <unistd.h>

#include <limits>
#include <utility>

namespace rl {
namespace {

constexpr uint32_t kSlotBits = 24;
constexpr uint32_t kMaxSlots = uint32_t{1} << kSlotBits;
constexpr uint32_t kMark = 0x726c6c69;

uint64_t make_token(uint8_t kind, uint32_t generation, uint32_t slot) {
  return uint64_t{kind} << 56 | uint64_t{generation} << kSlotBits | slot;
}
uint32_t slot_of(uint64_t token) { return static_cast<uint32_t>(token & (kMaxSlots - 1)); }
uint32_t generation_of(uint64_t token) { return static_cast<uint32_t>(token >> kSlotBits); }
uint8_t kind_of(uint64_t token) { return static_cast<uint8_t>(token >> 56); }

}  // namespace

ForkGuard::ForkGuard(bool wipe_on_fork) : pid_(getpid()) {
  if (!wipe_on_fork) return;
  const auto bytes = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  void* const page =
      mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED) return;
  if (madvise(page, bytes, MADV_WIPEONFORK) != 0) {
    munmap(page, bytes);
    return;
  }
  page_ = static_cast<volatile uint32_t*>(page);
  *page_ = kMark;
}

ForkGuard::~ForkGuard() {
  if (page_ == nullptr) return;
  munmap(const_cast<uint32_t*>(page_), static_cast<size_t>(sysconf(_SC_PAGESIZE)));
}

bool ForkGuard::forked() const { return page_ != nullptr ? *page_ != kMark : getpid() != pid_; }

void HandleTable::refuse_forked() const {
  if (!forked()) return;
  throw Error(Code::kForked, "the handle was made before fork; handles live in one process only");
}

uint64_t HandleTable::insert(uint8_t kind, std::shared_ptr<void> payload) {
  RL_CHECK(payload != nullptr);
  const uint64_t token = reserve(kind);
  fill(token, std::move(payload));
  return token;
}

uint64_t HandleTable::reserve(uint8_t kind) {
  RL_CHECK(kind != 0);
  refuse_forked();
  const std::lock_guard lock(mutex_);
  if (free_.empty()) {
    if (slots_.size() == kMaxSlots) {
      throw Error(Code::kResourceExhausted, str("all ", kMaxSlots, " handles are in use"));
    }
    // Reserve room for returning every slot, so that remove never allocates.
    free_.reserve(slots_.size() + 1);
    slots_.emplace_back();
    free_.push_back(static_cast<uint32_t>(slots_.size() - 1));
  }
  const uint32_t index = free_.back();
  free_.pop_back();
  return make_token(kind, slots_[index].generation, index);
}

void HandleTable::fill(uint64_t token, std::shared_ptr<void> payload) noexcept {
  const std::lock_guard lock(mutex_);
  Slot& slot = slots_[slot_of(token)];
  slot.kind = kind_of(token);
  slot.payload = std::move(payload);
  ++num_live_;
}

void HandleTable::cancel(uint64_t token) noexcept {
  const std::lock_guard lock(mutex_);
  free_.push_back(slot_of(token));  // room was made by reserve()
}

const HandleTable::Slot& HandleTable::find(uint64_t token, uint8_t kind) const {
  const uint32_t index = slot_of(token);
  const bool live = index < slots_.size() && slots_[index].kind != 0 &&
                    slots_[index].kind == kind_of(token) &&
                    slots_[index].generation == generation_of(token);
  if (!live) throw Error(Code::kStaleHandle, "the handle was released or never issued");
  if (slots_[index].kind != kind) {
    throw Error(Code::kWrongHandle, str("a handle of kind ", slots_[index].kind,
                                        " was given where kind ", kind, " is expected"));
  }
  return slots_[index];
}

std::shared_ptr<void> HandleTable::get(uint64_t token, uint8_t kind) const {
  if (token == 0) throw Error(Code::kInvalidArgument, "the handle is NULL");
  refuse_forked();
  const std::lock_guard lock(mutex_);
  const Slot& slot = find(token, kind);
  if (!slot.poison.empty()) {
    throw Error(slot.poison_code,
                str("the handle failed before and can only be destroyed: ", slot.poison));
  }
  return slot.payload;
}

std::shared_ptr<void> HandleTable::remove(uint64_t token, uint8_t kind) {
  if (token == 0) throw Error(Code::kInvalidArgument, "the handle is NULL");
  refuse_forked();
  const std::lock_guard lock(mutex_);
  find(token, kind);
  const uint32_t index = slot_of(token);
  Slot& slot = slots_[index];
  slot.kind = 0;
  slot.poison.clear();
  --num_live_;
  if (slot.generation != std::numeric_limits<uint32_t>::max()) {
    ++slot.generation;
    free_.push_back(index);
  }
  return std::move(slot.payload);
}

void HandleTable::poison(uint64_t token, std::string message, Code code) {
  if (token == 0 || forked()) return;
  const std::lock_guard lock(mutex_);
  const uint32_t index = slot_of(token);
  if (index >= slots_.size() || slots_[index].kind == 0) return;
  if (slots_[index].kind != kind_of(token) || slots_[index].generation != generation_of(token)) {
    return;
  }
  slots_[index].poison = message.empty() ? "unknown cause" : std::move(message);
  slots_[index].poison_code = code;
}

size_t HandleTable::num_live() const {
  const std::lock_guard lock(mutex_);
  return num_live_;
}

}  // namespace rl

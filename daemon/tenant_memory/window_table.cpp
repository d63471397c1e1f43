// SPDX-License-Identifier: Apache-2.0

#include "daemon/tenant_memory/window_table.hpp"

#include <bit>
#include <cassert>
#include <cerrno>
#include <string>

#include "daemon/base/store_order.hpp"

namespace softhca::memory {
namespace {

constexpr unsigned kIndexShift = 8;
constexpr std::uint32_t kOwnersBits = (1u << kIndexShift) - 1;

}  // namespace

WindowTable::WindowTable(std::uint32_t capacity)
    : capacity_(capacity),
      index_mask_(std::bit_ceil(capacity) - 1),
      own_(capacity),
      windows_(own_) {
  open();
}

WindowTable::WindowTable(std::span<Window> memory)
    : capacity_(static_cast<std::uint32_t>(memory.size())),
      index_mask_(std::bit_ceil(capacity_) - 1),
      windows_(memory) {
  open();
}

void WindowTable::open() {
  assert(capacity_ <= kMaxCapacity);
  left_.resize(capacity_);
  for (std::uint32_t i = 0; i < capacity_; ++i) {
    left_[i] = windows_[i].key != 0;
    free_.push_back(i);
  }
}

Expected<Window*> WindowTable::insert(PdId pd, bool of_queue_pair) {
  if (size_ == capacity_)
    return Error{"memory windows: all " + std::to_string(capacity_) + " are in use", ENOMEM};
  const std::uint32_t index =
      take_random(free_, [&](std::uint32_t i) { return windows_[i].key != 0; });
  std::uint32_t key = 0;
  do {
    key = kWindowKeyBit | (random_bits() & ~(index_mask_ << kIndexShift)) | index << kIndexShift;
  } while (((key ^ windows_[index].last_key) & ~kOwnersBits) == 0);
  return enter(pd, of_queue_pair, key);
}

Expected<Window*> WindowTable::insert(PdId pd, bool of_queue_pair, std::uint32_t key) {
  const auto refuse = [&](const char* why, int code) {
    return Error{"memory window " + std::to_string(key) + ": " + why, code};
  };
  if (!is_window_key(key) || index_of(key) >= capacity_)
    return refuse("not of a table of this size", EINVAL);
  Window& window = windows_[index_of(key)];
  const bool is_left = left_[index_of(key)];
  left_[index_of(key)] = false;
  if (!is_left && window.key != 0) return refuse("its slot is in use", EEXIST);
  const bool stays = is_left && ((window.key ^ key) & ~kOwnersBits) == 0 && window.pd == pd &&
                     (window.of_queue_pair != 0) == of_queue_pair;
  if (!stays) return enter(pd, of_queue_pair, key);
  ++size_;
  return &window;
}

void WindowTable::drop_left() {
  for (std::uint32_t i = 0; i < capacity_; ++i) {
    if (!left_[i]) continue;
    left_[i] = false;
    windows_[i] = {.last_key = windows_[i].last_key};
    free_.push_back(i);
  }
}

std::uint32_t WindowTable::index_of(std::uint32_t key) const {
  return key >> kIndexShift & index_mask_;
}

/// REQUIRES: the slot of the key has no window.
Window* WindowTable::enter(PdId pd, bool of_queue_pair, std::uint32_t key) {
  Window& window = windows_[index_of(key)];
  window = {.key = key,
            .last_key = key,
            .pd = pd,
            .of_queue_pair = of_queue_pair ? std::uint8_t{1} : std::uint8_t{0}};
  ++size_;
  return &window;
}

Window* WindowTable::find(std::uint32_t key) {
  const std::uint32_t index = index_of(key);
  if (index >= capacity_ || windows_[index].key == 0 || left_[index]) return nullptr;
  return ((windows_[index].key ^ key) & ~kOwnersBits) == 0 ? &windows_[index] : nullptr;
}

bool WindowTable::erase(std::uint32_t key) {
  Window* window = find(key);
  if (window == nullptr) return false;
  *window = {.last_key = window->last_key};
  --size_;
  free_.push_back(static_cast<std::uint32_t>(window - windows_.data()));
  return true;
}

bool is_bound_so(const Window& window, const KeyTable& keys, std::uint32_t region_key,
                 std::uint64_t addr, std::uint64_t length, std::uint32_t access, std::uint32_t key,
                 Qpn qpn) {
  const Region* region = keys.lookup(region_key);
  return window.bound != 0 && region != nullptr && window.region_serial == region->serial() &&
         window.region_key == region_key && window.key == key && window.qpn == qpn &&
         window.access == access && window.addr == addr && window.length == length;
}

Verdict bind(Window& window, const KeyTable& keys, std::uint32_t region_key, std::uint64_t addr,
             std::uint64_t length, std::uint32_t access, std::uint32_t key, Qpn qpn) {
  // A window of type 2 must be invalidated before it is bound again (o10-37.2.11).
  if (window.of_queue_pair != 0 && window.bound != 0) return Verdict::kWindowBind;
  if (length == 0) {
    window.key = key;
    window.bound = 0;
    return Verdict::kOk;
  }
  const Region* region = keys.lookup(region_key);
  const bool writes = (access & (kRemoteWrite | kRemoteAtomic)) != 0;
  const std::uint32_t needed = kBindWindow | (writes ? kLocalWrite : 0u);
  if (region == nullptr || check(*region, addr, length, needed, window.pd) != Verdict::kOk)
    return Verdict::kWindowBind;
  // The process may end in between: the next engine must not find a window that is bound in part.
  window.bound = 0;
  keep_store_order();
  window.key = key;
  window.qpn = qpn;
  window.region_key = region_key;
  window.region_serial = region->serial();
  window.access = access;
  window.addr = addr;
  window.length = length;
  keep_store_order();
  window.bound = 1;
  return Verdict::kOk;
}

Region* resolve(const Window& window, const KeyTable& keys, std::uint64_t addr, std::uint64_t bytes,
                std::uint32_t needed, PdId pd, Qpn qpn, std::uint64_t& offset) {
  if (window.bound == 0 || window.pd != pd || (window.access & needed) != needed) return nullptr;
  if (window.of_queue_pair != 0 && window.qpn != qpn) return nullptr;
  const std::uint64_t start = (window.access & kZeroBased) != 0 ? 0 : window.addr;
  const std::uint64_t inside = addr - start;
  if (inside > window.length || bytes > window.length - inside) return nullptr;
  Region* region = keys.lookup(window.region_key);
  if (region == nullptr || region->serial() != window.region_serial) return nullptr;
  offset = region->offset_of(window.addr) + inside;
  return region;
}

}  // namespace softhca::memory

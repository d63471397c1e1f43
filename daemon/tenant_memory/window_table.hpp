// SPDX-License-Identifier: Apache-2.0

// Memory windows: parts of regions with keys that their owners change and end through the send
// queue (InfiniBand specification, volume 1, 10.6.7). Belongs to one engine and its thread.
//
// The highest bit of a key is set, unlike in keys of regions. Its low 8 bits belong to the owner,
// which chooses them anew with every bind (the library's ibv_inc_rkey()). The other bits stay for
// life.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "daemon/base/expected.hpp"
#include "daemon/tenant_memory/key_table.hpp"

namespace softhca::memory {

constexpr bool is_window_key(std::uint32_t key) { return (key & kWindowKeyBit) != 0; }

/// Plain data, which a later table takes over. Each value of each field is valid: an adapter that
/// crashes may leave any bytes.
struct Window {
  std::uint32_t key = 0;       ///< 0: no such window
  std::uint32_t last_key = 0;  ///< of the latest window in this slot
  PdId pd;
  std::uint8_t of_queue_pair = 0;  ///< not 0: type 2, only for the queue pair it was bound through
  std::uint8_t bound = 0;          ///< 0: it is not
  std::uint8_t reserved[2] = {};
  // Valid while it is bound.
  Qpn qpn;  ///< queue pair through which it was bound
  std::uint32_t region_key = 0;
  std::uint64_t region_serial = 0;
  std::uint64_t addr = 0;  ///< address in the region, as users of the region's keys give it
  std::uint64_t length = 0;
  std::uint32_t access = 0;  ///< Access
  std::uint32_t reserved_end = 0;
};
static_assert(sizeof(Window) == 56);

class WindowTable {
 public:
  static constexpr std::uint32_t kMaxCapacity = 1 << 16;
  /// REQUIRES: capacity <= kMaxCapacity.
  explicit WindowTable(std::uint32_t capacity);
  /// A table in memory that is zero, or that an earlier table of this size has used. The windows of
  /// that one are not found before insert() with their keys.
  explicit WindowTable(std::span<Window> memory);

  /// Creates an unbound window. Its key differs from that of the previous window in the same slot
  /// by more than the owner's bits. Errors: ENOMEM (table full).
  Expected<Window*> insert(PdId pd, bool of_queue_pair);
  /// Does the same with a key that an earlier table of this size chose. The low 8 bits are ignored.
  /// A window that the earlier table has left there stays as it is. Errors: EEXIST (its slot is
  /// in use), EINVAL (no table of this size chooses it).
  Expected<Window*> insert(PdId pd, bool of_queue_pair, std::uint32_t key);

  /// Returns the window with exactly this key, or null.
  Window* lookup(std::uint32_t key) {
    Window* window = find(key);
    return window != nullptr && window->key == key ? window : nullptr;
  }
  /// Returns the window with this key, ignoring the low 8 bits, or null.
  Window* find(std::uint32_t key);

  /// Returns false if the window is unknown. The low 8 bits are ignored.
  bool erase(std::uint32_t key);
  /// Frees the slots of windows of the earlier table that were not inserted.
  void drop_left();

  std::uint32_t size() const { return size_; }

 private:
  std::uint32_t index_of(std::uint32_t key) const;
  void open();
  Window* enter(PdId pd, bool of_queue_pair, std::uint32_t key);

  std::uint32_t capacity_;
  std::uint32_t size_ = 0;
  std::uint32_t
      index_mask_;  ///< bits of a key, above the owner's, that are the slot; the others are random
  std::vector<Window> own_;  ///< empty: windows_ is other memory
  std::span<Window> windows_;
  std::vector<bool> left_;           ///< slots that the earlier table used, until insert()
  std::vector<std::uint32_t> free_;  ///< may also have slots in use, and slots twice
};

/// Binds the window to [addr, addr + length) of the region `region_key`; `key` is its new key.
/// Length 0 unbinds it. Returns kWindowBind, without any change, in these cases: the region is of
/// another domain, does not allow windows, is too narrow, or may not be written as `access` allows;
/// the window is of type 2 and bound. REQUIRES: key is that of the window except for its low 8
/// bits.
Verdict bind(Window& window, const KeyTable& keys, std::uint32_t region_key, std::uint64_t addr,
             std::uint64_t length, std::uint32_t access, std::uint32_t key, Qpn qpn);

/// True if bind() with these arguments has bound the window, and nothing has changed it since.
bool is_bound_so(const Window& window, const KeyTable& keys, std::uint32_t region_key,
                 std::uint64_t addr, std::uint64_t length, std::uint32_t access, std::uint32_t key,
                 Qpn qpn);

/// Returns the region of a bound window, and the offset in it of `addr` of the window. Returns null
/// if the window is not bound, is of another domain or queue pair, is too narrow or lacks `needed`
/// (Access), or if its region is gone.
Region* resolve(const Window& window, const KeyTable& keys, std::uint64_t addr, std::uint64_t bytes,
                std::uint32_t needed, PdId pd, Qpn qpn, std::uint64_t& offset);

}  // namespace softhca::memory

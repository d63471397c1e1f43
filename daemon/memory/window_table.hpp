// Memory windows: parts of regions, by keys that their owners change and end through the send queue
// (InfiniBand specification, volume 1, 10.6.7). Belongs to one engine and its thread.
//
// A key has the highest bit set, unlike those of regions. Its low 8 bits belong to the owner, who
// chooses them anew with every bind (the library's ibv_inc_rkey()); the rest stay for life.
#pragma once

#include <cstdint>
#include <vector>

#include "daemon/base/expected.hpp"
#include "daemon/memory/key_table.hpp"

namespace softhca::memory {

constexpr bool is_window_key(std::uint32_t key) { return (key & kWindowKeyBit) != 0; }

struct Window {
  bool of_queue_pair = false;  ///< type 2: serves the queue pair it was bound through
  std::uint32_t key = 0;       ///< 0: no such window
  PdId pd;
  // While it is bound.
  bool bound = false;
  Qpn qpn;  ///< through which it was bound
  std::uint32_t region_key = 0;
  std::uint64_t region_serial = 0;
  std::uint32_t access = 0;  ///< Access
  std::uint64_t addr = 0;    ///< as the region's keys refer to it
  std::uint64_t length = 0;
};

class WindowTable {
 public:
  static constexpr std::uint32_t kMaxCapacity = 1 << 16;
  /// REQUIRES: capacity <= kMaxCapacity.
  explicit WindowTable(std::uint32_t capacity);

  /// A window, not bound. Its key differs from that of the window before it in the same place by
  /// more than the owner's bits. Errors: ENOMEM (table full).
  Expected<Window*> insert(PdId pd, bool of_queue_pair);

  /// The window with exactly this key, or null.
  Window* lookup(std::uint32_t key) {
    Window* window = find(key);
    return window != nullptr && window->key == key ? window : nullptr;
  }
  /// The window with this key but for its low 8 bits, or null.
  Window* find(std::uint32_t key);

  /// False: no such window. The low 8 bits do not count.
  bool erase(std::uint32_t key);

  std::uint32_t size() const { return capacity_ - static_cast<std::uint32_t>(free_.size()); }

 private:
  std::uint32_t capacity_;
  std::uint32_t
      index_mask_;  ///< of the bits that are the place, above the owner's; others are random
  std::vector<Window> windows_;
  std::vector<std::uint32_t> last_keys_;  ///< the latest that each place had
  std::vector<std::uint32_t> free_;
};

/// Ties the window to [addr, addr + length) of the region `region_key`; `key` is its new key.
/// Length 0: ties it to nothing. kWindowBind, with the window as it was: the region is not of the
/// window's domain, not open to windows, too narrow, or may not be written as `access` allows; or
/// the window is of type 2 and bound. REQUIRES: key is that of the window but for its low 8 bits.
Verdict bind(Window& window, const KeyTable& keys, std::uint32_t region_key, std::uint64_t addr,
             std::uint64_t length, std::uint32_t access, std::uint32_t key, Qpn qpn);

/// The region behind a bound window and where in it `addr` of the window lies, or null: not bound,
/// another domain or queue pair, out of its bounds, without `needed` (Access), or its region is
/// gone.
Region* resolve(const Window& window, const KeyTable& keys, std::uint64_t addr, std::uint64_t bytes,
                std::uint32_t needed, PdId pd, Qpn qpn, std::uint64_t& offset);

}  // namespace softhca::memory

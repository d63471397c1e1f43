// SPDX-License-Identifier: Apache-2.0

// The session memory of an opened device (abi/session.hpp): virtual collect buffers and doorbells.
#pragma once

#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "abi/control.hpp"
#include "abi/session.hpp"
#include "libverbs-provider/control/mapped_memory.hpp"
#include "libverbs-provider/lock.hpp"

namespace softhca::provider {

/// How commands of the ibv_wr_ calls are written into virtual collect buffers. The program chooses
/// by $SOFTHCA_KICK, else the daemon.
enum class KickMode : std::uint8_t {
  kAuto,      ///< kVirtual on an idle send queue, else kWhole
  kWhole,     ///< written and handed over when all are complete, as by ibv_post_send()
  kVirtual,   ///< handed over first; the last piece is the kick
  kExplicit,  ///< written piece by piece, then kicked and handed over
};
inline constexpr std::size_t kKickModes = 4;

/// Virtual collect buffers of one chain. The engine polls VCBs in rotation. So it sees a chain that
/// fills them from `start` on in order, even if the chain wraps around to the first VCB.
struct ClaimedVcbs {
  std::uint64_t bits = 0;  ///< 0: none
  unsigned start = 0;

  /// Calls `use` with the index of each, in the engine's order.
  template <class Use>
  void for_each(Use&& use) const {
    for (std::uint64_t left = std::rotr(bits, static_cast<int>(start)); left != 0; left &= left - 1)
      use((start + static_cast<unsigned>(std::countr_zero(left))) % abi::kMaxVcbsPerSession);
  }
};

class ClientSession {
 public:
  ClientSession() = default;
  ~ClientSession();
  ClientSession(const ClientSession&) = delete;
  ClientSession& operator=(const ClientSession&) = delete;

  /// Maps the session memory, and takes over both descriptors. Returns 0 or an errno value (EINVAL:
  /// $SOFTHCA_KICK; EPROTO: memory of another version than that of `hello`, or malformed places).
  /// `places`: of the memory in the first descriptor; null: all of it.
  int open(int memory_fd, int wake_fd, const abi::HelloReply& hello,
           const abi::MemoryPlaces* places);

  /// Returns the number of VCBs that the process may use now.
  unsigned granted_vcbs() const {
    return static_cast<unsigned>(std::bit_width(header_->granted.load(std::memory_order_relaxed)));
  }
  /// Claims `count` free VCBs, or none if fewer are free.
  ClaimedVcbs claim_vcbs(unsigned count);
  /// Writes a command into a claimed VCB.
  void write_vcb(unsigned vcb, const void* command, std::size_t bytes);
  /// Hands claimed and written VCBs over to the engine, and wakes it if necessary. False: the
  /// engine has just taken one of them away, so the commands need a doorbell.
  bool hand_over(std::uint64_t vcbs);

  // --- a command in pieces, in a claimed VCB
  KickMode kick_mode() const { return kick_mode_; }
  /// Takes the mode that the daemon asks for, unless the program has chosen one. `capabilities`: of
  /// abi::DeviceReply. An unknown mode does not count.
  void follow_daemon(std::uint32_t capabilities);
  /// Begins a command, without any piece. With a virtual kick the engine may collect it from now
  /// on. False: the engine has just taken the VCB away.
  bool begin_vcb(unsigned vcb);
  /// Writes `bytes` of the command from `offset` on, the start of a segment; the last segment may
  /// be incomplete. Each segment is written once.
  void write_piece(unsigned vcb, std::size_t offset, const void* from, std::size_t bytes);
  /// Writes the last piece, which is the first two segments, and with the length marks the `unused`
  /// segments.
  void finish_vcb(unsigned vcb, const void* first, std::uint64_t unused);
  /// Call it when a chain of VCBs is finished. False: as for hand_over().
  bool hand_over_finished(std::uint64_t vcbs);
  /// Takes back VCBs that were begun but not finished.
  void withdraw(std::uint64_t vcbs);

  /// Announces commands of a send queue. False: the ring is full.
  bool ring_doorbell(const abi::Doorbell& doorbell);

  /// True if the engine runs on this processor, as far as it has told.
  bool engine_is_on(unsigned cpu) const {
    return header_->engine_cpu.load(std::memory_order_relaxed) == cpu + 1;
  }

  /// Call it after each store that the engine should see soon.
  void wake_if_parked();
  /// False once the program is known to have closed the eventfd, so that a parked engine cannot be
  /// woken.
  bool can_wake() const { return can_wake_.load(std::memory_order_relaxed); }

  /// Replaces the parent's session by private memory in a forked child.
  void abandon();

 private:
  std::uint64_t free_vcbs() const;
  bool are_granted(std::uint64_t vcbs) const;
  void write_withdrawn(std::uint64_t vcbs);
  bool has_wake_fd() const;
  void close_wake_fd();
  bool kicks_virtually() const { return kick_mode_ != KickMode::kExplicit; }
  int choose_kick_mode();
  int map(int fd, std::uint32_t vcbs, const abi::MemoryPlaces* places);

  MappedMemory memory_;     ///< header and doorbells; on a host, VCB pages follow
  MappedMemory vcb_pages_;  ///< in a virtual machine
  abi::SessionHeader* header_ = nullptr;
  abi::Doorbell* doorbells_ = nullptr;
  abi::VcbPage* pages_ = nullptr;
  int wake_fd_ = -1;
  std::atomic<bool> can_wake_{true};
  KickMode kick_mode_ = KickMode::kWhole;
  bool program_chose_kick_ = false;
  /// VCBs that a thread of this process is writing.
  std::atomic<std::uint64_t> claimed_{0};
  std::atomic<std::uint32_t> cursor_{0};
  SpinLock doorbell_lock_;
};

}  // namespace softhca::provider

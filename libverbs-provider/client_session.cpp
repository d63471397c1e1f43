// SPDX-License-Identifier: Apache-2.0

#include "libverbs-provider/client_session.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <bit>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <iterator>

#include "libverbs-provider/control/seal.hpp"
#include "libverbs-provider/explain.hpp"

namespace softhca::provider {
namespace {

/// Marks the provider's eventfd: eventfds share one inode (own_descriptor.hpp), so it cannot tell
/// them apart. The mark is the number of the signal for O_ASYNC, which nothing here sets, so the
/// kernel never sends it.
constexpr int kWakeMark = 57;

}  // namespace

ClientSession::~ClientSession() {
  memory_.unmap();
  vcb_pages_.unmap();
  close_wake_fd();
}

/// True if the number still refers to the eventfd. Programs close descriptors that they do not
/// know, and reuse the numbers for files of their own.
bool ClientSession::has_wake_fd() const {
  return wake_fd_ >= 0 && ::fcntl(wake_fd_, F_GETSIG) == kWakeMark;
}

void ClientSession::close_wake_fd() {
  if (has_wake_fd()) ::close(wake_fd_);
  wake_fd_ = -1;
}

int ClientSession::choose_kick_mode() {
  const char* wanted = std::getenv("SOFTHCA_KICK");
  if (wanted == nullptr || *wanted == '\0') return 0;
  constexpr const char* kNames[] = {"auto", "whole", "virtual", "explicit"};
  static_assert(std::size(kNames) == kKickModes);
  for (std::size_t mode = 0; mode < kKickModes; ++mode) {
    if (std::strcmp(wanted, kNames[mode]) != 0) continue;
    kick_mode_ = static_cast<KickMode>(mode);
    program_chose_kick_ = true;
    return 0;
  }
  return refuse(EINVAL, "SOFTHCA_KICK must be auto, whole, virtual or explicit");
}

void ClientSession::follow_daemon(std::uint32_t capabilities) {
  const unsigned code = abi::kick_code(capabilities);
  if (program_chose_kick_ || code == 0 || code > kKickModes) return;
  kick_mode_ = static_cast<KickMode>(code - 1);
}

/// Maps the session memory. Returns 0 or an errno value.
int ClientSession::map(int fd, std::uint32_t vcbs, const abi::MemoryPlaces* places) {
  if (vcbs > abi::kMaxVcbsPerSession) return EPROTO;
  if (places == nullptr) {
    if (const int error = memory_.map(fd, {0, abi::session_bytes(vcbs)})) return error;
    pages_ = reinterpret_cast<abi::VcbPage*>(memory_.base + abi::kVcbOffset);
    seal_memory(fd);
    return 0;
  }
  if (!is_mappable(places->memory, abi::kVcbOffset)) return EPROTO;
  if (vcbs != 0 && !is_mappable(places->vcbs, vcbs * sizeof(abi::VcbPage))) return EPROTO;
  if (const int error = memory_.map(fd, places->memory)) return error;
  if (vcbs == 0) return 0;
  if (const int error = vcb_pages_.map(fd, places->vcbs)) return error;
  pages_ = reinterpret_cast<abi::VcbPage*>(vcb_pages_.base);
  return 0;
}

int ClientSession::open(int memory_fd, int wake_fd, const abi::HelloReply& hello,
                        const abi::MemoryPlaces* places) {
  if (::fcntl(wake_fd, F_SETSIG, kWakeMark) != 0) {
    const int error = errno;
    ::close(memory_fd);
    ::close(wake_fd);
    return error;
  }
  wake_fd_ = wake_fd;
  const int error = map(memory_fd, hello.vcbs, places);
  ::close(memory_fd);
  if (error != 0) return error;
  header_ = reinterpret_cast<abi::SessionHeader*>(memory_.base);
  doorbells_ = reinterpret_cast<abi::Doorbell*>(memory_.base + abi::kDoorbellOffset);
  if (header_->magic != abi::kSessionMagic || header_->version != hello.version) return EPROTO;
  return choose_kick_mode();
}

std::uint64_t ClientSession::free_vcbs() const {
  const std::uint64_t busy = header_->released.load(std::memory_order_acquire) ^
                             header_->active.load(std::memory_order_acquire);
  return header_->granted.load(std::memory_order_relaxed) & ~busy;
}

ClaimedVcbs ClientSession::claim_vcbs(unsigned count) {
  const unsigned granted = granted_vcbs();
  if (granted < count) return {};
  const unsigned start = cursor_.fetch_add(count, std::memory_order_relaxed) % granted;
  std::uint64_t claimed = claimed_.load(std::memory_order_acquire);
  for (;;) {
    const std::uint64_t free = free_vcbs() & ~claimed;
    if (static_cast<unsigned>(std::popcount(free)) < count) return {};
    // Round robin: from `start` up, then from 0.
    std::uint64_t candidates = std::rotr(free, static_cast<int>(start));
    std::uint64_t chosen = 0;
    for (unsigned i = 0; i < count; ++i) {
      chosen |= candidates & -candidates;
      candidates &= candidates - 1;
    }
    chosen = std::rotl(chosen, static_cast<int>(start));
    if (!claimed_.compare_exchange_weak(claimed, claimed | chosen, std::memory_order_acq_rel))
      continue;
    // Another thread may have claimed, used and handed over one of them between the read of
    // `active` and the exchange.
    if ((free_vcbs() & chosen) == chosen) return {chosen, start};
    claimed = claimed_.fetch_and(~chosen, std::memory_order_acq_rel) & ~chosen;
  }
}

void ClientSession::write_vcb(unsigned vcb, const void* command, std::size_t bytes) {
  abi::VcbPage& page = pages_[vcb];
  page.scoreboard.store(0, std::memory_order_relaxed);
  std::atomic_thread_fence(std::memory_order_release);
  std::memcpy(page.command, command, bytes);
  // All segments at once: those written, and those unused for this length.
  page.scoreboard.store(abi::kAllSegments, std::memory_order_release);
}

/// REQUIRES: the caller has inverted the bits in `active`.
bool ClientSession::are_granted(std::uint64_t vcbs) const {
  return (vcbs & ~header_->granted.load(std::memory_order_seq_cst)) == 0;
}

bool ClientSession::hand_over(std::uint64_t vcbs) {
  header_->active.fetch_xor(vcbs, std::memory_order_seq_cst);
  const bool granted = are_granted(vcbs);
  // The VCBs are still claimed, so no other thread writes to them even if the engine has collected
  // them.
  if (!granted) write_withdrawn(vcbs);
  claimed_.fetch_and(~vcbs, std::memory_order_release);
  wake_if_parked();
  return granted;
}

bool ClientSession::begin_vcb(unsigned vcb) {
  const bool is_virtual = kicks_virtually();
  pages_[vcb].scoreboard.store(is_virtual ? abi::kVirtualKick : 0, std::memory_order_relaxed);
  if (!is_virtual) {
    std::atomic_thread_fence(std::memory_order_release);
    return true;
  }
  const std::uint64_t bit = std::uint64_t{1} << vcb;
  header_->active.fetch_xor(bit, std::memory_order_seq_cst);
  const bool granted = are_granted(bit);
  if (!granted) write_withdrawn(bit);
  claimed_.fetch_and(~bit, std::memory_order_release);
  return granted;
}

void ClientSession::write_piece(unsigned vcb, std::size_t offset, const void* from,
                                std::size_t bytes) {
  abi::VcbPage& page = pages_[vcb];
  std::memcpy(page.command + offset, from, bytes);
  const std::size_t segments = (bytes + abi::kSegmentBytes - 1) / abi::kSegmentBytes;
  const std::uint64_t written = ((std::uint64_t{1} << segments) - 1) << offset / abi::kSegmentBytes;
  const std::uint64_t before = page.scoreboard.load(std::memory_order_relaxed);
  page.scoreboard.store(before | written, std::memory_order_release);
}

void ClientSession::finish_vcb(unsigned vcb, const void* first, std::uint64_t unused) {
  constexpr std::uint64_t kFirstSegments = 0b11;
  abi::VcbPage& page = pages_[vcb];
  std::memcpy(page.command, first, 2 * abi::kSegmentBytes);
  const std::uint64_t all =
      page.scoreboard.load(std::memory_order_relaxed) | kFirstSegments | unused;
  if (kicks_virtually())
    page.scoreboard.store(all, std::memory_order_seq_cst);  // seq_cst, as `parked` is read next
  else
    page.scoreboard.store(all | abi::kExplicitKick, std::memory_order_release);
}

bool ClientSession::hand_over_finished(std::uint64_t vcbs) {
  if (!kicks_virtually()) return hand_over(vcbs);
  wake_if_parked();
  return true;
}

void ClientSession::withdraw(std::uint64_t vcbs) {
  if (!kicks_virtually()) {
    claimed_.fetch_and(~vcbs, std::memory_order_release);
    return;
  }
  write_withdrawn(vcbs);
  wake_if_parked();
}

void ClientSession::write_withdrawn(std::uint64_t vcbs) {
  for (; vcbs != 0; vcbs &= vcbs - 1)
    pages_[std::countr_zero(vcbs)].scoreboard.store(abi::kWithdrawn, std::memory_order_seq_cst);
}

bool ClientSession::ring_doorbell(const abi::Doorbell& doorbell) {
  {
    Guard guard(doorbell_lock_);
    const std::uint32_t producer = header_->doorbell_producer.load(std::memory_order_relaxed);
    const std::uint32_t consumer = header_->doorbell_consumer.load(std::memory_order_acquire);
    if (producer - consumer >= abi::kDoorbellEntries) return false;
    doorbells_[producer % abi::kDoorbellEntries] = doorbell;
    header_->doorbell_producer.store(producer + 1, std::memory_order_seq_cst);
  }
  wake_if_parked();
  return true;
}

void ClientSession::wake_if_parked() {
  if (header_->parked.load(std::memory_order_seq_cst) == 0) return;
  if (!has_wake_fd()) return can_wake_.store(false, std::memory_order_relaxed);
  const std::uint64_t one = 1;
  // Never blocks, and its failures do not matter: a saturated counter wakes the engine, too.
  [[maybe_unused]] const ssize_t written = ::write(wake_fd_, &one, sizeof one);
}

void ClientSession::abandon() {
  memory_.make_private();
  vcb_pages_.make_private();
  close_wake_fd();
}

}  // namespace softhca::provider

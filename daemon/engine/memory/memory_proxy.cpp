// SPDX-License-Identifier: Apache-2.0

#include "daemon/engine/memory/memory_proxy.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "abi/control.hpp"
#include "daemon/base/passed_descriptors.hpp"
#include "daemon/base/system_error.hpp"
#include "daemon/engine/records/system_clock.hpp"
#include "daemon/engine/turns/work_clock.hpp"

namespace softhca::engine {
namespace {

constexpr Duration kSlice = std::chrono::milliseconds(1);

/// Moves `bytes` between `packed` and the entries of `list`, which are used up.
template <class Move>
void for_bytes(std::span<iovec>& list, std::byte* packed, std::size_t bytes, Move&& move) {
  for (memory::skip_bytes(list, 0); bytes != 0;) {
    const std::size_t part = std::min(bytes, list.front().iov_len);
    move(static_cast<std::byte*>(list.front().iov_base), packed, part);
    packed += part;
    bytes -= part;
    memory::skip_bytes(list, part);
  }
}

/// Distinguishes accesses. 64 bits of FNV-1a over words.
class Hash {
 public:
  void add(std::uint64_t word) {
    value_ = (value_ ^ word) * 0x100000001b3;
    value_ ^= value_ >> 29;
  }
  std::uint64_t value() const { return value_; }

 private:
  std::uint64_t value_ = 0xcbf29ce484222325;
};

}  // namespace

/// The memory of one process.
class MemoryProxy::Memory final : public memory::ProcessMemory {
 public:
  Memory(std::shared_ptr<MemoryProxy> proxy, std::uint32_t number)
      : proxy_(std::move(proxy)), number_(number) {}
  ~Memory() override { proxy_->remove(number_); }

  Verdict read(std::span<iovec> local, std::span<iovec> remote) override {
    return proxy_->transfer(number_, ProxyArea::kRead, local, remote);
  }
  Verdict write(std::span<iovec> local, std::span<iovec> remote) override {
    return proxy_->transfer(number_, ProxyArea::kWrite, local, remote);
  }
  Verdict atomic(std::uint64_t addr, memory::AtomicOp op, std::uint64_t compare_add,
                 std::uint64_t swap, std::uint64_t& original) override {
    ProxyArea::Atomic operands{static_cast<std::uint64_t>(op), compare_add, swap, 0};
    const Verdict done = proxy_->run_atomic(number_, addr, operands);
    if (done == Verdict::kOk) original = operands.original;
    return done;
  }
  void settle() override {
    if (proxy_->writes()) proxy_->settle();
  }

 private:
  std::shared_ptr<MemoryProxy> proxy_;
  std::uint32_t number_;
};

Expected<std::shared_ptr<MemoryProxy>> MemoryProxy::create(const Start& start, User user,
                                                           const AccessBounds& bounds) {
  const UniqueFd area(::memfd_create("softhca-memory-proxy", MFD_CLOEXEC));
  if (!area || ::ftruncate(area.get(), sizeof(ProxyArea)) != 0)
    return system_error("memory access process");
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0)
    return system_error("memory access process");
  UniqueFd ours(ends[0]);
  const UniqueFd theirs(ends[1]);
  // Populated, and locked against swapping: the engine takes no page faults here.
  void* at = ::mmap(nullptr, sizeof(ProxyArea), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE,
                    area.get(), 0);
  if (at == MAP_FAILED) return system_error("memory access process");
  ::mlock2(at, sizeof(ProxyArea), MLOCK_ONFAULT);
  std::shared_ptr<MemoryProxy> proxy(new MemoryProxy(*static_cast<ProxyArea*>(at), nullptr,
                                                     std::move(ours), std::move(user), bounds));
  if (auto started = start(area.get(), theirs.get()); !started) return started.error();
  return proxy;
}

std::shared_ptr<MemoryProxy> MemoryProxy::create_in_machine(std::shared_ptr<void> owner,
                                                            std::byte* area, int bell, User user) {
  UniqueFd socket(::fcntl(bell, F_DUPFD_CLOEXEC, 0));
  if (!socket) return nullptr;
  return std::shared_ptr<MemoryProxy>(new MemoryProxy(*reinterpret_cast<ProxyArea*>(area),
                                                      std::move(owner), std::move(socket),
                                                      std::move(user), {}));
}

/// The area of a machine may have accesses of an earlier proxy, which count as late.
MemoryProxy::MemoryProxy(ProxyArea& area, std::shared_ptr<void> owner, UniqueFd socket, User user,
                         const AccessBounds& bounds)
    : area_(area),
      owner_(std::move(owner)),
      bounds_(bounds),
      user_(std::move(user)),
      began_(monotonic_time()),
      socket_(std::move(socket)) {
  asked_ = collected_ = area_.asked.load(std::memory_order_relaxed);
  late_ = area_.done.load(std::memory_order_relaxed) != asked_;
  if (owner_ == nullptr) area_.slept.store(~0u, std::memory_order_relaxed);
  waits_.set({.per_second = static_cast<std::uint64_t>(1e9 * bounds.share),
              .burst = static_cast<std::uint64_t>(bounds.burst.count())},
             monotonic_time());
}

MemoryProxy::~MemoryProxy() {
  if (owner_ != nullptr) return;
  socket_.reset();
  area_.messages.fetch_add(1, std::memory_order_release);
  wake();
  ::munmap(&area_, sizeof(ProxyArea));
}

// --- memories of processes

Expected<std::shared_ptr<memory::ProcessMemory>> MemoryProxy::add(
    const std::shared_ptr<MemoryProxy>& proxy, int socket, Duration wait) {
  std::unique_lock lock(proxy->mutex_);
  while (proxy->is_full() && !proxy->has_ended() && monotonic_time() < proxy->began_ + wait) {
    lock.unlock();
    ::usleep(100);
    lock.lock();
  }
  if (proxy->has_ended()) return Error{"the memory access process has ended", EPIPE};
  if (proxy->is_full())
    return Error{"an earlier access to the tenant's memory has not returned yet", EBUSY};
  proxy->tell_removed();
  const std::uint32_t number = ++proxy->next_;
  if (!proxy->tell({.memory = number, .adds = 1}, socket))
    return system_error("memory access process");
  return std::shared_ptr<memory::ProcessMemory>(std::make_shared<Memory>(proxy, number));
}

Expected<std::shared_ptr<memory::ProcessMemory>> MemoryProxy::add(
    const std::shared_ptr<MemoryProxy>& proxy, std::uint32_t number) {
  if (proxy->has_ended()) return Error{"the agent of the virtual machine has ended", EPIPE};
  if (proxy->is_late())
    return Error{"an earlier access to the tenant's memory has not returned yet", EBUSY};
  return std::shared_ptr<memory::ProcessMemory>(std::make_shared<Memory>(proxy, number));
}

/// True if the process has taken no message for so long that another one has to wait. REQUIRES: the
/// lock.
bool MemoryProxy::is_full() const {
  constexpr std::uint32_t kMany = 64;
  return is_late() || area_.messages.load(std::memory_order_relaxed) -
                              area_.taken.load(std::memory_order_relaxed) >
                          kMany;
}

void MemoryProxy::remove(std::uint32_t memory) {
  const std::lock_guard lock(mutex_);
  if (owner_ != nullptr) return ring_bell(memory);  // if it is lost, the agent keeps a descriptor
  untold_.push_back(memory);
  tell_removed();
}

/// REQUIRES: the lock.
void MemoryProxy::tell_removed() {
  while (!untold_.empty() && tell({.memory = untold_.back(), .adds = 0}, -1)) untold_.pop_back();
}

/// REQUIRES: the lock. False and errno set: the socket is full, or the process has ended.
bool MemoryProxy::tell(const ProxyMessage& message, int fd) {
  const std::span fds(&fd, fd >= 0 ? 1 : 0);
  if (send_with_descriptors(socket_.get(), std::as_bytes(std::span{&message, 1}), fds) < 0)
    return false;
  area_.messages.fetch_add(1, std::memory_order_release);
  wake();
  return true;
}

void MemoryProxy::wake() {
  area_.wake.fetch_add(1, std::memory_order_seq_cst);
  if (owner_ != nullptr) return ring_bell(0);
  memory::futex_wake(area_.wake);
}

/// A full socket wakes the agent, too.
void MemoryProxy::ring_bell(std::uint32_t ended) {
  const abi::MachineBell record{ended, 0};
  (void)send_with_descriptors(socket_.get(), std::as_bytes(std::span{&record, 1}), {});
}

// --- accesses

bool MemoryProxy::is_late() const {
  return late_.load(std::memory_order_relaxed) &&
         area_.done.load(std::memory_order_acquire) != area_.asked.load(std::memory_order_relaxed);
}

/// True if an access may be made. False until all accesses that were lost have come back.
bool MemoryProxy::may_ask() {
  if (!late_.load(std::memory_order_relaxed)) return true;
  if (is_late()) return false;
  late_.store(false, std::memory_order_relaxed);
  for (Place& place : places_)
    if (place.state == Place::State::kLost) place = {};
  return true;
}

/// Describes the next access to `remote`, and uses up that part of it.
MemoryProxy::Part MemoryProxy::describe(std::span<iovec>& remote) {
  Part part;
  for (memory::skip_bytes(remote, 0);
       !remote.empty() && part.ranges < memory::kMaxEntries && part.bytes < ProxyArea::kBytes;) {
    const std::size_t bytes = std::min(remote.front().iov_len, ProxyArea::kBytes - part.bytes);
    part.range[part.ranges++] = {reinterpret_cast<std::uintptr_t>(remote.front().iov_base), bytes};
    part.bytes += bytes;
    memory::skip_bytes(remote, bytes);
  }
  return part;
}

Verdict MemoryProxy::transfer(std::uint32_t memory, Kind kind, std::span<iovec> local,
                              std::span<iovec> remote) {
  if (!may_ask()) return Verdict::kLocalProtection;
  for (;;) {
    Part part = describe(remote);
    if (part.bytes == 0) return Verdict::kOk;
    part.kind = kind;
    part.memory = memory;
    const auto fill = [&](std::span<std::byte> packed) {
      for_bytes(
          local, packed.data(), part.bytes,
          [](const std::byte* from, std::byte* to, std::size_t n) { std::memcpy(to, from, n); });
    };
    const auto take = [&](std::span<std::byte> packed) {
      for_bytes(
          local, packed.data(), part.bytes,
          [](std::byte* to, const std::byte* from, std::size_t n) { std::memcpy(to, from, n); });
    };
    const bool writes = kind == ProxyArea::kWrite;
    const Verdict done = writes ? access(part, fill, [](auto) {})
                                : access(
                                      part, [](auto) {}, take);
    if (done != Verdict::kOk) return done;
    // A repeated step does not pack again what it had written before.
    if (writes && known_) memory::skip_bytes(local, part.bytes);
  }
}

Verdict MemoryProxy::run_atomic(std::uint32_t memory, std::uint64_t addr,
                                ProxyArea::Atomic& operands) {
  if (!may_ask()) return Verdict::kLocalProtection;
  Part part;
  part.kind = ProxyArea::kAtomic;
  part.memory = memory;
  part.ranges = 1;
  part.range[0] = {addr, sizeof(std::uint64_t)};
  part.bytes = sizeof(std::uint64_t);
  return access(
      part,
      [&](std::span<std::byte> packed) { std::memcpy(packed.data(), &operands, sizeof operands); },
      [&](std::span<std::byte> packed) { std::memcpy(&operands, packed.data(), sizeof operands); });
}

/// `fill` writes the bytes of the access before it, `take` reads them after it.
template <class Fill, class Take>
Verdict MemoryProxy::access(const Part& part, Fill&& fill, Take&& take) {
  Hash hash;
  hash.add(std::uint64_t{part.memory} << 32 | part.kind);
  for (std::uint32_t i = 0; i < part.ranges; ++i) {
    hash.add(part.range[i].addr);
    hash.add(part.range[i].length);
  }
  const MemoryWaits::What what{.hash = hash.value(),
                               .bytes = static_cast<std::uint32_t>(part.bytes),
                               .repeats = part.kind != ProxyArea::kAtomic};
  const bool keeps = part.kind != ProxyArea::kWrite;
  MemoryWaits& waits = user_.waits;
  using Next = MemoryWaits::Next;
  Next next = waits.next(*this, what);
  if (next == Next::kDone) {
    known_ = true;
    if (waits.verdict() == Verdict::kOk && keeps) take(bytes_of(waits.place()));
    return waits.verdict();
  }
  known_ = false;
  if (next == Next::kBegin) {
    const std::uint32_t place = free_place();
    const std::uint32_t waiter = place == ProxyArea::kPlaces
                                     ? MemoryWaits::kNobody
                                     : waits.begin(shared_from_this(), what, place);
    if (waiter == MemoryWaits::kNobody) {
      next = waits.wait_for_room();
    } else {
      fill(bytes_of(place));
      ask(part, place, waiter, keeps);
      next = Next::kWait;
    }
  }
  if (next == Next::kWait) return Verdict::kBusy;
  fill(bytes_of(kOwnPlace));
  ask(part, kOwnPlace, MemoryWaits::kNobody, keeps);
  if (!wait_for(asked_) || area_.access[kOwnPlace].ok == 0) return Verdict::kLocalProtection;
  if (keeps) take(bytes_of(kOwnPlace));
  return Verdict::kOk;
}

/// Returns a free place; kPlaces: all are taken.
std::uint32_t MemoryProxy::free_place() const {
  std::uint32_t place = 0;
  while (place < kOwnPlace && places_[place].state != Place::State::kFree) ++place;
  return place < kOwnPlace ? place : ProxyArea::kPlaces;
}

void MemoryProxy::ask(const Part& part, std::uint32_t place, std::uint32_t waiter, bool keeps) {
  user_.counters.process_accesses.add();
  const bool writes = part.kind != ProxyArea::kRead;
  places_[place] = {Place::State::kAsked, writes, keeps, waiter};
  writing_ += writes ? 1 : 0;
  ProxyArea::Access& access = area_.access[place];
  access.memory = part.memory;
  access.kind = part.kind;
  access.ranges = part.ranges;
  std::copy_n(part.range.begin(), part.ranges, access.range.begin());
  if (asked_ == collected_) patience_ = {};
  order_[asked_ % ProxyArea::kPlaces] = area_.order[asked_ % ProxyArea::kPlaces] = place;
  area_.asked.store(++asked_, std::memory_order_seq_cst);
  // The process is at work, or will be before it sleeps, unless it has slept since it was last
  // woken.
  if (area_.slept.load(std::memory_order_seq_cst) == area_.wake.load(std::memory_order_relaxed))
    wake();
  if (listed_ || waiter == MemoryWaits::kNobody) return;
  listed_ = true;
  user_.waits.add_busy(shared_from_this());
}

/// Ends the access in this place, which is done or lost.
void MemoryProxy::finish(std::uint32_t at, Verdict verdict) {
  Place& place = places_[at];
  writing_ -= place.writes ? 1 : 0;
  const bool is_held = place.waiter != MemoryWaits::kNobody &&
                       user_.waits.completed(place.waiter, verdict, place.keeps);
  place.state = is_held ? Place::State::kHeld : Place::State::kFree;
}

void MemoryProxy::give_back(std::uint32_t at) {
  Place& place = places_[at];
  place.waiter = MemoryWaits::kNobody;
  if (place.state == Place::State::kHeld) place.state = Place::State::kFree;
}

bool MemoryProxy::collect() {
  if (collected_ == asked_) return false;
  const std::uint32_t done = area_.done.load(std::memory_order_acquire);
  if (done - collected_ > asked_ - collected_) lose();  // more than were asked for
  if (done != collected_) patience_ = {};
  for (; collected_ != done && collected_ != asked_; ++collected_) {
    const std::uint32_t place = order_[collected_ % ProxyArea::kPlaces];
    finish(place, area_.access[place].ok != 0 ? Verdict::kOk : Verdict::kLocalProtection);
  }
  if (collected_ != asked_) {
    const Time now = monotonic_time();
    pass(patience_, now);
    bool is_lost = patience_.is_out(bounds_, bounds_.longest);
    if (now - asked_whether_ended_ >= kSlice) {
      asked_whether_ended_ = now;
      is_lost = is_lost || has_ended();
    }
    if (is_lost) lose();
  }
  return collected_ != asked_;
}

/// Gives up the accesses in progress, which have reached their time limit. No more are made until
/// all of these have come back.
void MemoryProxy::lose() {
  user_.counters.late_accesses.add();
  late_.store(true, std::memory_order_relaxed);
  for (; collected_ != asked_; ++collected_) {
    const std::uint32_t place = order_[collected_ % ProxyArea::kPlaces];
    finish(place, Verdict::kLocalProtection);
    places_[place].state = Place::State::kLost;
  }
}

/// Counts the time that passes during a wait, without the time in which this thread has no
/// processor.
void MemoryProxy::pass(Patience& patience, Time now) {
  const Duration passed =
      patience.last == Time{} ? Duration{} : std::min<Duration>(now - patience.last, 2 * kSlice);
  patience.last = now;
  const bool at_work = area_.working.load(std::memory_order_relaxed) != 0;
  (at_work ? patience.at_work : patience.idle) += passed;
}

void MemoryProxy::settle() {
  if (collected_ != asked_) wait_for(asked_);
}

/// Waits until access number `asked` - 1 is done. False: it has reached its time limit.
bool MemoryProxy::wait_for(std::uint32_t asked) {
  const Time begun = monotonic_time();
  Patience patience{.last = begun};
  const Duration allowed = waits_.ready_at() <= begun ? bounds_.longest : bounds_.usual;
  for (;;) {
    collect();
    if (collected_ == asked) break;
    pass(patience, monotonic_time());
    // A machine could claim that its agent has no processor.
    const bool is_out = patience.is_out(bounds_, allowed) ||
                        (owner_ != nullptr && patience.idle + patience.at_work >= allowed);
    if (is_out) {
      lose();
      break;
    }
    area_.waiting.store(1, std::memory_order_seq_cst);
    if (area_.done.load(std::memory_order_seq_cst) == collected_)
      memory::futex_wait(area_.done, collected_, std::min<Duration>(kSlice, allowed));
    area_.waiting.store(0, std::memory_order_relaxed);
  }
  const Time now = monotonic_time();
  pass(patience, now);
  const Duration took = patience.at_work + patience.idle;
  WorkClock::count_wait(took);
  // The tenant is not at fault if the process has no processor.
  const bool is_slow =
      owner_ != nullptr || area_.kept_waiting != 0 || late_.load(std::memory_order_relaxed);
  if (took > bounds_.usual && is_slow) waits_.charge(static_cast<std::uint64_t>(took.count()), now);
  user_.waited(took);
  return !late_.load(std::memory_order_relaxed);
}

/// True if the process has ended, or could not be started.
bool MemoryProxy::has_ended() const {
  pollfd state{socket_.get(), 0, 0};
  return ::poll(&state, 1, 0) > 0 && (state.revents & (POLLHUP | POLLERR)) != 0;
}

}  // namespace softhca::engine

// SPDX-License-Identifier: Apache-2.0

// An unreliable-datagram queue pair of the daemon that several clients share (mechanism E6). Queue
// pair 1, of the general services agent, is one; queue pair 2 is another. What it receives goes
// through a receive pool to the thread of the clients. What the clients send becomes commands like
// any other, with PCBs, a TVL and a share of the engine of the queue pair's own tenant.
//
// Two threads use it: the engine's, and that of the clients (the control thread). Between them are
// rings without locks.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "daemon/base/counter.hpp"
#include "daemon/base/expected.hpp"
#include "daemon/base/sealed_memory.hpp"
#include "daemon/base/spsc_ring.hpp"
#include "daemon/base/unique_fd.hpp"
#include "daemon/engine/records/objects.hpp"
#include "daemon/qos/gsa/receive_pool.hpp"

namespace softhca::engine {

/// Number and key of the queue pair of general services (IBA 3.5.10, 10.2.5).
inline constexpr Qpn kGeneralServicesQpn(1);
inline constexpr std::uint32_t kGeneralServicesQkey = 0x80010000;

/// The first bytes of a datagram select its client; this many are read.
inline constexpr std::size_t kSelectorBytes = 4;

/// A queue pair that the daemon has on each tenant's addresses.
struct SharedQueuePair {
  Qpn qpn;
  std::uint32_t qkey = 0;
  /// Returns which client of a tenant a datagram is for, by its first bytes.
  std::uint32_t (*selector)(std::span<const std::byte, kSelectorBytes> start) = nullptr;
};

/// Clients are identified by management class and direction: see class_selector().
extern const SharedQueuePair kManagementQueuePair;
/// For programs of tenants. Clients are identified by the number, big endian, that datagrams begin
/// with.
extern const SharedQueuePair kProgramQueuePair;

/// A management datagram (IBA 13.4.2), or another of at most that size, and the path that it takes
/// or took.
struct Datagram {
  static constexpr std::size_t kBytes = 256;

  AddressPath path;  ///< source: an address of ours; destination: the peer's
  Qpn peer;
  std::uint32_t qkey = kGeneralServicesQkey;  ///< for datagrams to be sent
  TenantId tenant;                            ///< owns the address that it came to or comes from
  /// A program of the tenant sends it, not the daemon, or its destination may be made up.
  bool gives_way = false;
  std::uint16_t length = kBytes;  ///< of payload, in bytes
  std::array<std::byte, kBytes> payload{};
};

/// Offsets of class and method in a management datagram (IBA 13.4.2).
inline constexpr std::size_t kClassOffset = 1;
inline constexpr std::size_t kMethodOffset = 3;
/// Bit of the method that marks a response.
inline constexpr std::byte kResponse{0x80};

/// Returns the selector of the client of a management class: the one for requests and unsolicited
/// messages or, with `responses`, the one for responses.
constexpr std::uint32_t class_selector(std::uint8_t management_class, bool responses = false) {
  return management_class | (responses ? 0x100u : 0u);
}

constexpr std::uint8_t class_of(std::uint32_t selector) {
  return static_cast<std::uint8_t>(selector);
}
/// Returns a word for the messages that the client of a selector gets.
constexpr const char* messages_of(std::uint32_t selector) {
  return selector == class_selector(class_of(selector)) ? "requests" : "responses";
}

struct SharedQpCounters {
  Counter sent;
  Counter received;      ///< and given to a client
  Counter send_refused;  ///< the clients' ring was full; written by the clients' thread
  Counter unresolved;    ///< sends to a neighbour that did not answer
  Counter over_share;    ///< received while the share of the engine was used up
  Counter bad_length;    ///< received, too long for a buffer or too short for a selector
};

/// The key of a tenant's client in the receive pool.
constexpr management::gsa::ClientKey client_key(TenantId tenant, std::uint32_t selector) {
  return management::gsa::ClientKey(std::uint64_t{tenant.value} << 32 | selector);
}

constexpr TenantId tenant_of(management::gsa::ClientKey key) {
  return TenantId(static_cast<std::uint16_t>(key.value >> 32));
}
constexpr std::uint32_t selector_of(management::gsa::ClientKey key) {
  return static_cast<std::uint32_t>(key.value);
}

class SharedQp;

/// What the engine has of a shared queue pair: what a process with one queue pair would have.
struct ServiceEndpoint {
  static constexpr std::uint32_t kSends = 32;     ///< commands under way at most
  static constexpr std::uint32_t kWaiting = 128;  ///< datagrams that wait for a neighbour
  struct Waiting {
    Datagram datagram;
    Time until{};
  };

  ServiceEndpoint(SharedQp& service, const SharedQueuePair& which, Tenant& tenant,
                  SealedMemory mapped);
  static std::size_t memory_bytes();

  SealedMemory memory;  ///< session, send queue, completion queue
  Session session;
  CompletionQueue cq;
  QueuePair qp;
  std::array<AddressHandle, kSends> paths;      ///< of commands in progress, by number
  std::array<std::uint32_t, kSends> handles{};  ///< numbers of `paths`
  std::uint32_t sequence = 0;                   ///< of the next command
  std::vector<Waiting> waiting;                 ///< for a neighbour
  Time next_try = kNever;                       ///< next try for them; kNever: none waits
  bool news = false;                            ///< something came in this poll step

  // The engine's work since `share_since`, and how much of it was for datagrams to this one.
  double share = 1;
  Time share_since{};
  std::uint64_t share_start = 0;
  std::uint64_t share_used = 0;
};

class SharedQp {
 public:
  static constexpr std::uint32_t kSends = ServiceEndpoint::kSends;

  struct Options {
    SharedQueuePair queue_pair = kManagementQueuePair;
    management::gsa::PoolSize size = {};
    management::gsa::Parameters parameters = {};
  };
  /// `tenant` stands for it in the engine, and outlives it. Errors: out of memory or
  /// descriptors.
  static Expected<std::unique_ptr<SharedQp>> make(Tenant& tenant, const Options& options, Time now);

  // --- the clients' thread

  /// Readable when something was received since clear_event().
  int event_fd() const { return event_.get(); }
  void clear_event();
  /// Returns the oldest datagram received, or null.
  const Datagram* front();
  /// Removes the oldest datagram and returns its buffer to the pool. REQUIRES: front() was not
  /// null.
  void pop();
  /// As pop(), but the buffer stays in use until release(). Returns its number.
  std::uint32_t take();
  /// REQUIRES: take() returned it, and it has not been released since.
  void release(std::uint32_t buffer);
  const Datagram& datagram(std::uint32_t buffer) const { return *place_of(buffer); }
  management::gsa::ClientKey key_of(const Datagram& datagram) const;
  /// Queues a datagram to be sent. False: too many wait; those with `gives_way` may take only half
  /// of the room. The caller wakes the engine afterwards.
  bool send(const Datagram& datagram);

  // --- the engine's thread, or before it is open

  /// Bounds what is received to this part of the engine's time while tenants want it.
  void set_engine_share(double share) { endpoint_.share = share; }
  management::gsa::ReceivePool& pool() { return pool_; }
  ServiceEndpoint& endpoint() { return endpoint_; }
  const ServiceEndpoint& endpoint() const { return endpoint_; }
  /// Returns which client a datagram is for.
  std::uint32_t selector(std::span<const std::byte, kSelectorBytes> start) const {
    return queue_pair_.selector(start);
  }
  /// Returns the oldest datagram to be sent, or null.
  const Datagram* next_send() { return sends_.front(); }
  /// REQUIRES: next_send() was not null.
  void pop_send() { sends_.pop(); }
  /// Gives buffers that clients have released back to the pool. Returns how many.
  std::size_t take_back_buffers();
  /// Prepares a buffer of the pool for a datagram that has come. hand_over() gives it to the
  /// clients. announce() notifies them, once for all that came since they last looked.
  Datagram& fresh(std::uint32_t buffer) { return *std::construct_at(place_of(buffer)); }
  void hand_over(std::uint32_t buffer);
  void announce();
  SharedQpCounters& counters() { return counters_; }

  // --- any thread
  const SharedQpCounters& counters() const { return counters_; }
  bool has_work() const { return !sends_.empty() || !released_.empty(); }

 private:
  SharedQp(Tenant& tenant, const Options& options, SealedMemory memory, Time now);
  Datagram* place_of(std::uint32_t buffer) const {
    return reinterpret_cast<Datagram*>(buffers_.get()) + buffer;
  }

  const SharedQueuePair queue_pair_;
  management::gsa::ReceivePool pool_;
  /// By number in the pool. There is room for the largest pool that the operator may configure;
  /// unused buffers are not touched.
  std::unique_ptr<std::byte[]> buffers_;
  SpscRing<std::uint32_t> arrivals_;  ///< buffers, engine to clients
  SpscRing<std::uint32_t> released_;  ///< buffers, clients to engine
  SpscRing<Datagram> sends_;          ///< clients to engine
  UniqueFd event_;
  std::atomic<bool> announced_{false};  ///< event_ has been written and not cleared
  SharedQpCounters counters_;

  ServiceEndpoint endpoint_;  ///< the engine's
};

}  // namespace softhca::engine

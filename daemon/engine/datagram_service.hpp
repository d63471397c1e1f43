// An unreliable-datagram queue pair of the daemon's own that several clients share (mechanism E6);
// queue pair 1, of the general services agent, is one. What it receives goes through a receive pool
// to the thread of the clients; what these send becomes commands like any other, with PCBs, a TVL
// and a share of the engine of the party that the service stands for.
//
// Two threads meet here: the engine's, and the one on which the clients are (the control thread).
// Between them are rings without locks.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "daemon/base/counter.hpp"
#include "daemon/base/expected.hpp"
#include "daemon/base/sealed_memory.hpp"
#include "daemon/base/spsc_ring.hpp"
#include "daemon/base/unique_fd.hpp"
#include "daemon/engine/objects.hpp"
#include "daemon/management/gsa/receive_pool.hpp"

namespace softhca::engine {

/// Number and key of the queue pair of general services (IBA 3.5.10, 10.2.5).
inline constexpr Qpn kGeneralServicesQpn(1);
inline constexpr std::uint32_t kGeneralServicesQkey = 0x80010000;

/// A management datagram (IBA 13.4.2), or as much else, with the way it goes or came by.
struct Datagram {
  static constexpr std::size_t kBytes = 256;

  AddressPath path;  ///< source: an address of ours; destination: the peer's
  Qpn peer;
  std::uint32_t qkey = kGeneralServicesQkey;  ///< of what is sent
  TenantId tenant;                            ///< whose address it came to
  std::uint16_t length = kBytes;              ///< of payload, in bytes
  std::array<std::byte, kBytes> payload{};
};

/// Where the class is in a management datagram (IBA 13.4.2), by which its client is known.
inline constexpr std::size_t kClassOffset = 1;
inline std::uint8_t management_class_of(const Datagram& datagram) {
  return static_cast<std::uint8_t>(datagram.payload[kClassOffset]);
}

struct DatagramServiceCounters {
  Counter sent;
  Counter received;      ///< and given to a client
  Counter send_refused;  ///< the clients' ring was full; written by the clients' thread
  Counter unresolved;    ///< sends to a neighbour that did not answer
  Counter over_share;    ///< received, while the engine's time was others'
  Counter bad_length;    ///< received, too long for a buffer or too short to have a class
};

/// In the receive pool: a management class of one tenant.
constexpr management::gsa::ClientKey client_key(TenantId tenant, std::uint8_t management_class) {
  return management::gsa::ClientKey(std::uint64_t{tenant.value} << 8 | management_class);
}

constexpr TenantId tenant_of(management::gsa::ClientKey key) {
  return TenantId(static_cast<std::uint16_t>(key.value >> 8));
}

class DatagramService {
 public:
  static constexpr std::uint32_t kSends = 32;    ///< commands under way at most
  static constexpr std::uint32_t kWaiting = 64;  ///< datagrams that wait for a neighbour

  struct Options {
    std::uint32_t qkey = kGeneralServicesQkey;
    management::gsa::PoolSize size = {};
    management::gsa::Parameters parameters = {};
  };
  /// `tenant`: the party it stands for. It outlives the service. Errors: out of memory or
  /// descriptors.
  static Expected<std::unique_ptr<DatagramService>> make(Tenant& tenant, const Options& options,
                                                         Time now);

  // --- the clients' thread

  /// Readable when something was received since clear_event().
  int event_fd() const { return event_.get(); }
  void clear_event();
  /// The oldest datagram received, null: there is none.
  const Datagram* front();
  /// Its buffer goes back to the pool. REQUIRES: front() was not null.
  void pop();
  /// False: too many wait to be sent. The engine is to be woken afterwards.
  bool send(const Datagram& datagram);

  // --- the engine's thread

  /// What comes for it takes at most this part of the engine's time while tenants want it.
  void set_engine_share(double share) { engine_share_ = share; }
  management::gsa::ReceivePool& pool() { return pool_; }
  /// Nothing happens before unless a client sends or releases, or a packet comes.
  Time next_try() const { return next_try_; }

  // --- any thread
  const DatagramServiceCounters& counters() const { return counters_; }
  bool has_work() const { return !sends_.empty() || !released_.empty(); }

 private:
  friend class Engine;
  struct Waiting {
    Datagram datagram;
    Time until{};
  };

  DatagramService(Tenant& tenant, const Options& options, SealedMemory memory, Time now);
  void announce();

  management::gsa::ReceivePool pool_;
  std::vector<Datagram> buffers_;     ///< by number in the pool
  SpscRing<std::uint32_t> arrivals_;  ///< buffers, engine to clients
  SpscRing<std::uint32_t> released_;  ///< buffers, clients to engine
  SpscRing<Datagram> sends_;          ///< clients to engine
  UniqueFd event_;
  std::atomic<bool> announced_{false};  ///< event_ has been written and not cleared
  DatagramServiceCounters counters_;

  // The engine's.
  SealedMemory memory_;  ///< of what a process would have: session, send queue, completion queue
  Session session_;
  CompletionQueue cq_;
  QueuePair qp_;
  std::array<AddressHandle, kSends> paths_;      ///< of commands under way, by number
  std::array<std::uint32_t, kSends> handles_{};  ///< the engine's, of paths_
  std::uint32_t sequence_ = 0;                   ///< of the next command
  std::vector<Waiting> waiting_;
  Time next_try_ = kNever;
  bool news_ = false;  ///< something came in this poll step
  double engine_share_ = 1;
  // Engine work since a moment ago, and what of it was for what came here.
  Time share_since_{};
  std::uint64_t share_start_ = 0;
  std::uint64_t share_used_ = 0;
};

}  // namespace softhca::engine

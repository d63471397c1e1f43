// SPDX-License-Identifier: Apache-2.0

// The receive buffers of an unreliable-datagram queue pair that several clients share (mechanism
// E). It is queue pair 1, where clients register for a management class, or another one (E6). The
// pool decides which client gets a buffer. Its user owns the memory behind the indices, copies and
// delivers.
//
//   share      the buffers posted for a client: what it asked for, more if traffic showed that it
//              regularly needs more (E4). Within its share a client never loses a datagram to
//              another client: no buffer is promised twice.
//   spare      buffers that belong to no share. A client over its share may borrow them. It may
//              borrow as much as it leaves to others, and each of its sources a part of that, so
//              that none takes them all.
//   source     within a client, one host holds at most its part of the share while other hosts
//              send, and has a rate with a burst. See source_table.hpp for made-up sources.
//
// admit() decides whether a datagram is discarded before anything is copied. It reads only the key
// and the source address, and takes O(1).
//
// Its parts: client_table (registrations), shares (promised and held buffers), posted_buffers
// (number of posted buffers), buffer_table (buffers in use), source_table (senders). The module
// receive_admission decides for each datagram, and share_adjuster adapts shares to traffic.
//
// Pure: no clock, no thread (one owner), no allocation except at set-up and registration.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "daemon/base/expected.hpp"
#include "daemon/base/net.hpp"
#include "daemon/base/time.hpp"
#include "daemon/qos/gsa/buffer_table.hpp"
#include "daemon/qos/gsa/client_table.hpp"
#include "daemon/qos/gsa/gsa_client.hpp"
#include "daemon/qos/gsa/posted_buffers.hpp"
#include "daemon/qos/gsa/receive_parameters.hpp"
#include "daemon/qos/gsa/share_adjuster.hpp"
#include "daemon/qos/gsa/shares.hpp"
#include "daemon/qos/gsa/source_table.hpp"

namespace softhca::management::gsa {

/// Sizes that are fixed at set-up.
struct PoolSize {
  std::uint32_t buffers = 16384;  ///< upper limit of Parameters::buffers
  std::uint32_t clients = 256;    ///< most registered at once
  std::uint32_t sources = 8192;   ///< most recorded at once, of all clients
  /// Random: if peers knew the seed, they could make up sources that are slow to find.
  SourceTable::Seed seed{};
};

/// A buffer for the datagram, or the reason why there is none.
struct Admission {
  std::uint32_t buffer = kNoIndex;  ///< below PoolSize::buffers
  Discard cause = Discard::kNone;
  ClientId client;  ///< not set with kNoClient
  /// True if the datagram's source has used more than half of its burst or, if it is new, all new
  /// sources together have used more than half of theirs.
  bool from_busy_source = false;

  explicit operator bool() const { return cause == Discard::kNone; }
};

class ReceivePool {
 public:
  /// Allocates. REQUIRES: parameters pass check().
  ReceivePool(const PoolSize& size, const Parameters& parameters, Time now);

  // --- clients and what they ask for (E1, E2)

  /// Posts `buffers` for a client, or the operator's number, which then follows reloads. Lowers
  /// raised shares (E4) first if the buffers do not suffice otherwise. Errors: EEXIST the key is
  /// registered; ENOSPC too many clients; ENOMEM too few buffers (the message gives the room left);
  /// EINVAL 0 buffers.
  Expected<ClientId> register_client(ClientKey key, std::string name,
                                     std::optional<std::uint32_t> buffers = std::nullopt,
                                     GivesBack gives_back = GivesBack::kSoon);
  /// Changes what a client asks for, for example before and after an expected burst. Empty: the
  /// operator's number. Its share is then exactly that. Errors: ENOENT, ENOMEM, EINVAL; nothing is
  /// changed then.
  Outcome set_buffers(ClientId client, std::optional<std::uint32_t> buffers);
  /// Removes the client's buffers. Buffers that it holds stay in use until release().
  void deregister_client(ClientId client);

  // --- datagrams (E5)

  /// Decides whether this datagram may have a buffer. Call it before copying the datagram.
  Admission admit(ClientKey key, const Gid& source, Time now);
  /// Marks the source as established at once: the client has verified its address. Does nothing if
  /// the key has no client.
  void vouch_for(ClientKey key, const Gid& source, Time now);
  /// Gives back a buffer of a client. Returns false if it is not in use.
  bool release(std::uint32_t buffer);

  // --- traffic (E4)

  /// Returns when to call watch_traffic() next.
  Time watch_at() const { return adjuster_.next(); }
  /// Ends a window: judges the traffic of each client, raises and lowers shares. O(clients).
  void watch_traffic(Time now) { adjuster_.expire(now); }
  /// Returns the next changed share; nothing if all have been returned. Several changes of one
  /// client are reported as one.
  std::optional<ShareChange> take_share_change() { return shares_.take_change(); }

  // --- operator

  const Parameters& parameters() const { return parameters_; }
  /// Replaces the parameters at once; buffers held stay held. Fails without any effect if check()
  /// fails, or if there are more buffers than at set-up or fewer than the clients asked for.
  Outcome set_parameters(const Parameters& parameters, Time now);
  static Outcome check(const Parameters& parameters);

  /// Returns the number of posted buffers below which more are posted, or above which the added
  /// ones are removed (E3). The default grows with the number of clients.
  std::uint32_t low_threshold() const { return posted_.low_threshold(); }
  std::uint32_t high_threshold() const { return posted_.high_threshold(); }

  const PoolCounters& counters() const { return counters_; }
  /// Returns null for a stale id. The pointer is valid until the client is deregistered.
  const ClientCounters* counters_of(ClientId client) const;

  /// Returns the clients by key. Allocates, as busiest_sources() does: not for the data path.
  std::vector<ClientView> clients() const { return clients_.view(); }
  /// Returns sources of all clients, those that sent most in this window and the previous one
  /// first.
  std::vector<SourceView> busiest_sources(std::size_t most) const;

 private:
  std::uint32_t take_buffer(ClientId client, std::uint32_t source, bool borrowed);
  Admission discard(Admission admission, Client* client, Source* source, Discard cause);

  Parameters parameters_;
  PoolCounters counters_;
  ClientTable clients_;
  SourceTable sources_;
  BufferTable buffers_;
  PostedBuffers posted_;
  Shares shares_;
  ShareAdjuster adjuster_;
};

}  // namespace softhca::management::gsa

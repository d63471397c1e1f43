// The receive buffers of an unreliable-datagram queue pair that several clients share (mechanism
// E): queue pair 1, whose clients register for a management class, or any other (E6). The pool
// decides who gets a buffer; the memory behind the indices, the copy and the delivery are its
// user's.
//
//   share      the buffers posted for a client: what it asked for, more if traffic showed that it
//              regularly needs more (E4). Within its share a client never loses a datagram to
//              another client, whatever the others do: shares are never promised twice.
//   spare      buffers of nobody's share. A client that is over its share may borrow them as long
//              as there are any; of what is left a client may borrow as much as it leaves to
//              others, a source its part of that. So none takes them all.
//   source     within a client, one host holds at most its part of the share while other hosts
//              send, and has a rate with a burst. See source_table.hpp for made-up sources.
//
// A datagram that is to be discarded is known before anything is copied: admit() comes first, reads
// the key and the source address alone, and takes O(1).
//
// Its parts: who is registered (client_table), what is promised and held (shares), how many buffers
// are posted (posted_buffers), which are in use (buffer_table), who sends (source_table), which
// datagram gets one (admission), and how shares follow traffic (share_adjuster).
//
// Pure: no clock, no thread (one owner), no allocation but at set-up and registration.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "daemon/base/expected.hpp"
#include "daemon/base/net.hpp"
#include "daemon/base/time.hpp"
#include "daemon/management/gsa/buffer_table.hpp"
#include "daemon/management/gsa/client.hpp"
#include "daemon/management/gsa/client_table.hpp"
#include "daemon/management/gsa/parameters.hpp"
#include "daemon/management/gsa/posted_buffers.hpp"
#include "daemon/management/gsa/share_adjuster.hpp"
#include "daemon/management/gsa/shares.hpp"
#include "daemon/management/gsa/source_table.hpp"

namespace softhca::management::gsa {

/// What is made at set-up and cannot be changed.
struct PoolSize {
  std::uint32_t buffers = 16384;  ///< most that Parameters::buffers may ever be
  std::uint32_t clients = 256;    ///< registered at once
  std::uint32_t sources = 8192;   ///< remembered at once, of all clients
  /// Random: with a known seed, sources could be made up that are slow to find.
  SourceTable::Seed seed{};
};

/// A buffer for the datagram, or why there is none.
struct Admission {
  std::uint32_t buffer = kNoIndex;  ///< below PoolSize::buffers
  Discard cause = Discard::kNone;
  ClientId client;  ///< none: kNoClient
  /// The datagram's source has used more than half of what it may send at once or, if it is new,
  /// all new sources together have.
  bool from_busy_source = false;

  explicit operator bool() const { return cause == Discard::kNone; }
};

class ReceivePool {
 public:
  /// Allocates. REQUIRES: parameters pass check().
  ReceivePool(const PoolSize& size, const Parameters& parameters, Time now);

  // --- clients and what they ask for (E1, E2)

  /// Posts buffers for a client: `buffers`, or the operator's number, which then follows reloads.
  /// Shares that were raised (E4) are lowered first if there is no other room.
  /// Errors: EEXIST the key is registered; ENOSPC too many clients; ENOMEM no room for so many
  /// buffers (the message says how many there is room for); EINVAL 0 buffers.
  Expected<ClientId> register_client(ClientKey key, std::string name,
                                     std::optional<std::uint32_t> buffers = std::nullopt,
                                     GivesBack gives_back = GivesBack::kSoon);
  /// Changes what a client asks for: up before an expected burst, down after; none: the operator's
  /// number. Its share is then exactly that. Errors: ENOENT, ENOMEM, EINVAL; nothing is changed
  /// then.
  Outcome set_buffers(ClientId client, std::optional<std::uint32_t> buffers);
  /// Removes the client's buffers. What it still holds stays in use until release().
  void deregister_client(ClientId client);

  // --- datagrams (E5)

  /// May this datagram have a buffer? To be asked before it is copied.
  Admission admit(ClientKey key, const Gid& source, Time now);
  /// The client knows that the source is at its address, so that it is established at once. Nothing
  /// happens for a key of no client.
  void vouch_for(ClientKey key, const Gid& source, Time now);
  /// The client is done with a buffer. False: it is not in use.
  bool release(std::uint32_t buffer);

  // --- traffic (E4)

  /// When watch_traffic() wants to be called next.
  Time watch_at() const { return adjuster_.next(); }
  /// Ends a window: judges the traffic of each client, raises and lowers shares. O(clients).
  void watch_traffic(Time now) { adjuster_.expire(now); }
  /// The next share that was changed; none: all have been taken. Several changes of one client come
  /// as one.
  std::optional<ShareChange> take_share_change() { return shares_.take_change(); }

  // --- operator

  const Parameters& parameters() const { return parameters_; }
  /// Takes effect at once; what is held stays held. Refused, without any effect: check() fails,
  /// more buffers than were made at set-up, or fewer than the clients asked for.
  Outcome set_parameters(const Parameters& parameters, Time now);
  static Outcome check(const Parameters& parameters);

  /// Posted buffers below which more are posted, above which those are removed (E3); the default
  /// grows with the number of clients.
  std::uint32_t low_threshold() const { return posted_.low_threshold(); }
  std::uint32_t high_threshold() const { return posted_.high_threshold(); }

  const PoolCounters& counters() const { return counters_; }
  /// Null: a stale id. Valid until the client is deregistered.
  const ClientCounters* counters_of(ClientId client) const;

  /// By key. Allocates, as busiest_sources() does: not for the data path.
  std::vector<ClientView> clients() const { return clients_.view(); }
  /// Sources of all clients, starting with those that sent most in this window and the one before.
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

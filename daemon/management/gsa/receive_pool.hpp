// The receive buffers of an unreliable-datagram queue pair that several clients share (mechanism
// E): queue pair 1, whose clients register for a management class, or any other (E6). The pool
// decides who gets a buffer; the memory behind the indices, the copy and the delivery are its
// user's.
//
//   share      the buffers posted for a client: what it asked for, more if traffic showed that it
//              regularly needs more (E4). Within its share a client never loses a datagram to
//              another client, whatever the others do: shares are never promised twice.
//   spare      buffers of nobody's share. Who is over his share may borrow them as long as there
//              are any; of what is left a client may borrow as much as it leaves to others, a
//              source its part of that. So none takes them all.
//   source     within a client, one host holds at most its part of the share while other hosts
//              send, and has a rate with a burst. See source_table.hpp for made-up sources.
//
// A datagram that is to be discarded is known before anything is copied: admit() comes first, reads
// the key and the source address alone, and takes O(1).
//
// Pure: no clock, no thread (one owner), no allocation but at set-up and registration.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "daemon/base/bit_set.hpp"
#include "daemon/base/expected.hpp"
#include "daemon/base/fixed_pool.hpp"
#include "daemon/base/net.hpp"
#include "daemon/base/time.hpp"
#include "daemon/management/gsa/client.hpp"
#include "daemon/management/gsa/parameters.hpp"
#include "daemon/management/gsa/source_table.hpp"

namespace softhca::management::gsa {

/// What is made at set-up and cannot be changed.
struct PoolSize {
  std::uint32_t buffers = 16384;  ///< most that Parameters::buffers may ever be
  std::uint32_t clients = 256;    ///< registered at once
  std::uint32_t sources = 8192;   ///< remembered at once, of all clients
  /// Random: whoever knows it could make up sources that are slow to find.
  SourceTable::Seed seed{};
};

/// A buffer for the datagram, or why there is none.
struct Admission {
  std::uint32_t buffer = kNoIndex;  ///< below PoolSize::buffers
  Discard cause = Discard::kNone;
  ClientId client;  ///< none: kNoClient
  /// Its source has used more than half of what it may send at once; a new source, all new ones.
  bool from_busy_source = false;

  explicit operator bool() const { return cause == Discard::kNone; }
};

/// What can be expected of a client. One that keeps buffers as long as it likes borrows none, and
/// its share is not raised while it gives none back: all that it can keep from others is its share.
enum class GivesBack : std::uint8_t { kSoon, kMaybe };

class ReceivePool {
 public:
  /// Allocates. REQUIRES: parameters pass check().
  ReceivePool(const PoolSize& size, const Parameters& parameters, Time now);

  // --- clients and what they ask for (E1, E2): receive_pool.cpp

  /// Posts buffers for a client: `buffers`, or the operator's number, which then follows reloads.
  /// Shares that were raised (E4) are lowered first if there is no other room.
  /// Errors: EEXIST the key is registered; ENOSPC too many clients; ENOMEM no room for so many
  /// buffers (the message says how many there is room for); EINVAL 0 buffers.
  Expected<ClientId> register_client(ClientKey key, std::string name,
                                     std::optional<std::uint32_t> buffers = std::nullopt,
                                     GivesBack gives_back = GivesBack::kSoon);
  /// Up before an expected burst, down after; none: the operator's number. Begins with exactly that
  /// as its share. Errors: ENOENT, ENOMEM, EINVAL; nothing is changed then.
  Outcome set_buffers(ClientId client, std::optional<std::uint32_t> buffers);
  /// Removes its buffers. What it still holds stays in use until release().
  void deregister_client(ClientId client);

  // --- datagrams (E5): admit.cpp

  /// May this datagram have a buffer? To be asked before it is copied.
  Admission admit(ClientKey key, const Gid& source, Time now);
  /// The client is done with a buffer. False: it is not in use.
  bool release(std::uint32_t buffer);
  /// Who holds a buffer; none: nobody, or a client that is gone.
  std::optional<ClientId> holder_of(std::uint32_t buffer) const;

  // --- traffic (E4): watch.cpp

  /// When watch_traffic() wants to be called next.
  Time watch_at() const { return watch_at_; }
  /// Ends a window: judges the traffic of each client, raises and lowers shares. O(clients).
  void watch_traffic(Time now);
  /// A share that was changed, until there is none; several changes of one client come as one.
  std::optional<ShareChange> take_share_change();

  // --- operator

  const Parameters& parameters() const { return parameters_; }
  /// Takes effect at once; what is held stays held. Refused, without any effect: check() fails,
  /// more buffers than were made at set-up, or fewer than the clients asked for.
  Outcome set_parameters(const Parameters& parameters, Time now);
  static Outcome check(const Parameters& parameters);

  /// Posted buffers below which more are posted, above which those are removed (E3); the default
  /// grows with the number of clients.
  std::uint32_t low_threshold() const;
  std::uint32_t high_threshold() const;

  const PoolCounters& counters() const { return counters_; }
  /// Null: a stale id. Valid until the client is deregistered.
  const ClientCounters* counters_of(ClientId client) const;
  std::optional<ClientId> find_client(ClientKey key) const;

  /// By key. Allocates, as busiest_sources() does: not for the data path.
  std::vector<ClientView> clients() const;
  /// Of all clients, most datagrams in this window and the one before first.
  std::vector<SourceView> busiest_sources(std::size_t most) const;

 private:
  struct Client {
    ClientKey key;
    std::string name;
    std::optional<std::uint32_t> number;  ///< that it named; none: the operator's
    GivesBack gives_back = GivesBack::kSoon;
    std::uint32_t asked = 0;
    std::uint32_t share = 0;
    std::uint32_t granted = 0;        ///< of the share; the rest follows as others give back
    std::uint32_t told_share = 0;     ///< that it knows of
    std::uint32_t own = 0;            ///< held, of its share
    std::uint32_t borrowed = 0;       ///< held, of the spare ones
    std::uint32_t own_of_new = 0;     ///< of own: by new sources
    TokenBucket new_rate;             ///< of its new sources together
    std::uint32_t latest = kNoIndex;  ///< source of the latest datagram
    Time several_until{};             ///< until then it counts as having several sources
    std::uint32_t peak = 0;           ///< most held in this window
    bool refused = false;             ///< one was discarded as over its share in this window
    bool gave_back = false;           ///< one in this window
    std::uint8_t short_windows = 0;   ///< one bit for each of the last 8, the latest lowest
    std::uint32_t calm_windows = 0;   ///< in a row
    ClientCounters counters;

    std::uint32_t held() const { return own + borrowed; }
  };
  struct Buffer {
    ClientId client;  ///< none: not in use
    std::uint32_t source = kNoIndex;
    bool borrowed = false;
    bool of_new_source = false;
  };
  enum class Grant : std::uint8_t { kOwn, kBorrowed, kRefused };

  // receive_pool.cpp
  Outcome check_room(std::uint32_t asked_before, std::uint32_t asked) const;
  void set_asked(std::uint32_t i, std::uint32_t asked);
  void set_share(std::uint32_t i, std::uint32_t share);
  void grant_promised();
  /// Runs `f`, which changes what a client is granted or holds, and keeps the sum right.
  template <class F>
  void change(Client& client, F&& f) {
    reserved_ -= std::max(client.granted, client.own) + client.borrowed;
    f();
    reserved_ += std::max(client.granted, client.own) + client.borrowed;
    client.counters.held.set(client.held());
    client.counters.held_high_water.raise_to(client.held());
  }

  // posting.cpp
  std::uint32_t posted() const { return provisioned_ - counters_.in_use.value(); }
  void post_for_shares();
  void remove_posted(std::uint32_t buffers);
  bool post_for_datagram();
  void post_below_low_threshold();
  void post_more(std::uint32_t wanted);
  void remove_above_high_threshold();
  void publish_posted();

  // admit.cpp
  void note_source(Client& client, std::uint32_t source, Time now) const;
  static Discard check_rates(const Client& client, const Source& source, Time now);
  Grant grant(const Client& client, const Source& source, Time now) const;
  bool within_share(const Client& client, const Source& source, Time now) const;
  bool may_borrow(const Client& client, const Source& source) const;
  Discard cause_of_refusal(const Client& client, const Source& source) const;
  std::uint32_t spare_buffers() const;
  Admission discard(Admission admission, Client* client, Source* source, Discard cause);
  std::uint32_t take_buffer(ClientId id, std::uint32_t source, bool borrowed);

  // watch.cpp
  void judge_traffic(std::uint32_t i);
  void raise_share(std::uint32_t i);
  void lower_share(std::uint32_t i, std::uint32_t share);
  void lower_raised_shares(std::uint32_t wanted);

  Parameters parameters_;
  FixedPool<Client> clients_;
  std::unordered_map<std::uint64_t, std::uint32_t> by_key_;
  SourceTable sources_;
  std::vector<Buffer> buffers_;
  std::vector<std::uint32_t> free_;  ///< indices of buffers not in use; the last is taken first
  std::uint32_t asked_ = 0;          ///< sum over the clients
  std::uint32_t shares_ = 0;         ///< likewise; at most Parameters::buffers
  std::uint32_t provisioned_ = 0;    ///< posted and in use; at least shares_
  /// Sum of max(granted, own), and what is borrowed. At most Parameters::buffers, except after a
  /// reload that took buffers away which are in use.
  std::uint32_t reserved_ = 0;
  std::uint32_t borrowed_by_new_ = 0;
  BitSet promised_;  ///< clients that were not granted all of their share yet
  BitSet changed_;   ///< clients that have to be told
  std::uint32_t window_ = 0;
  Time watch_at_;
  PoolCounters counters_;
};

}  // namespace softhca::management::gsa

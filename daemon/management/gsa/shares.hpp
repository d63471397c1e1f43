// The shares of the clients of a receive pool: what each asked for, what it was granted of that,
// what it holds, and what is left to borrow (mechanisms E1, E2 and E4). Shares are never promised
// twice. Pure.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>

#include "daemon/base/bit_set.hpp"
#include "daemon/base/expected.hpp"
#include "daemon/management/gsa/client_table.hpp"
#include "daemon/management/gsa/parameters.hpp"
#include "daemon/management/gsa/posted_buffers.hpp"

namespace softhca::management::gsa {

class Shares {
 public:
  /// All outlive it. It keeps the counters of shares raised and lowered.
  Shares(const Parameters& parameters, ClientTable& clients, PostedBuffers& posted,
         PoolCounters& counters);
  Shares(const Shares&) = delete;
  Shares& operator=(const Shares&) = delete;

  // --- what clients ask for; a client is named by its number

  /// May a client ask for so many? `before`: what it asked for until now. Errors: EINVAL, ENOMEM.
  Outcome check_room(std::uint32_t before, std::uint32_t asked) const;
  /// A client has exactly what it asked for; shares that were raised are lowered if there is no
  /// other room. REQUIRES: check_room().
  void set_asked(std::uint32_t i, std::uint32_t asked);
  /// The client no longer asks for anything. What it holds stays reserved.
  void remove(std::uint32_t i);
  /// The number of buffers has changed: raised shares are lowered where there is no room.
  void parameters_changed();

  // --- what clients hold

  /// Buffers of nobody's share that nobody has borrowed.
  std::uint32_t spare() const;
  /// Buffers of nobody's share that new sources have borrowed.
  std::uint32_t borrowed_by_new() const { return borrowed_by_new_; }
  /// The client got a buffer, for a new source or an established one.
  void take(Client& client, bool borrowed, bool of_new_source);
  /// The client gave the buffer back. Null: a client that is gone.
  void give_back(Client* client, bool borrowed, bool of_new_source);

  // --- shares that follow traffic (E4)

  /// The share up to which a client could be raised.
  std::uint64_t most_for(const Client& client) const;
  /// REQUIRES: more than it has, and no more than most_for().
  void raise(std::uint32_t i, std::uint32_t share);
  /// REQUIRES: less than it has.
  void lower(std::uint32_t i, std::uint32_t share);
  /// The client is to be told its share if it is not the one it knows of.
  void note_changed(std::uint32_t i) { changed_.set(i); }
  /// The next share that was changed; none: all have been taken. Several changes of one client come
  /// as one.
  std::optional<ShareChange> take_change();

 private:
  void set_share(std::uint32_t i, std::uint32_t share);
  void grant_promised();
  void lower_raised(std::uint32_t wanted);
  /// Runs `f`, which changes what a client is granted or holds, and keeps the sum right.
  template <class F>
  void change(Client& client, F&& f) {
    reserved_ -= std::max(client.granted, client.own) + client.borrowed;
    f();
    reserved_ += std::max(client.granted, client.own) + client.borrowed;
    client.counters.held.set(client.held());
    client.counters.held_high_water.raise_to(client.held());
  }

  const Parameters& parameters_;
  ClientTable& clients_;
  PostedBuffers& posted_;
  PoolCounters& counters_;
  std::uint32_t asked_ = 0;   ///< sum over the clients
  std::uint32_t shares_ = 0;  ///< sum over the clients; at most Parameters::buffers
  /// Sum of max(granted, own), and what is borrowed. At most Parameters::buffers, except after a
  /// reload that took buffers away which are in use.
  std::uint32_t reserved_ = 0;
  std::uint32_t borrowed_by_new_ = 0;
  BitSet promised_;  ///< clients that were not granted all of their share yet
  BitSet changed_;   ///< clients that have to be told their share
};

}  // namespace softhca::management::gsa

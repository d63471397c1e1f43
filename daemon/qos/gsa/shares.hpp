// SPDX-License-Identifier: Apache-2.0

// The shares of the clients of a receive pool: what each client asked for, was granted and holds,
// and what is left to borrow (mechanisms E1, E2 and E4). No buffer is promised twice. Pure.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>

#include "daemon/base/bit_set.hpp"
#include "daemon/base/expected.hpp"
#include "daemon/qos/gsa/client_table.hpp"
#include "daemon/qos/gsa/posted_buffers.hpp"
#include "daemon/qos/gsa/receive_parameters.hpp"

namespace softhca::management::gsa {

class Shares {
 public:
  /// All outlive it. It maintains the counters of raised and lowered shares.
  Shares(const Parameters& parameters, ClientTable& clients, PostedBuffers& posted,
         PoolCounters& counters);
  Shares(const Shares&) = delete;
  Shares& operator=(const Shares&) = delete;

  // --- what clients ask for; a client is identified by its number

  /// Checks whether a client may ask for this many. `before`: its previous number. Errors: EINVAL,
  /// ENOMEM.
  Outcome check_room(std::uint32_t before, std::uint32_t asked) const;
  /// Sets the share of a client to exactly what it asks for. Lowers raised shares if the buffers do
  /// not suffice otherwise. REQUIRES: check_room().
  void set_asked(std::uint32_t i, std::uint32_t asked);
  /// Removes the share of a client. The buffers it holds stay reserved.
  void remove(std::uint32_t i);
  /// Adapts to a new number of buffers: lowers raised shares if the buffers do not suffice.
  void parameters_changed();

  // --- what clients hold

  /// Returns how many buffers belong to no share and are not borrowed.
  std::uint32_t spare() const;
  /// Returns how many buffers that belong to no share new sources have borrowed.
  std::uint32_t borrowed_by_new() const { return borrowed_by_new_; }
  /// Records that the client got a buffer, for a new source or an established one.
  void take(Client& client, bool borrowed, bool of_new_source);
  /// Records that the client gave the buffer back. Null: the client is gone.
  void give_back(Client* client, bool borrowed, bool of_new_source);

  // --- shares that follow traffic (E4)

  /// Returns the largest share that the client could be raised to.
  std::uint64_t most_for(const Client& client) const;
  /// REQUIRES: `share` is above its share and at most most_for().
  void raise(std::uint32_t i, std::uint32_t share);
  /// REQUIRES: `share` is below its share.
  void lower(std::uint32_t i, std::uint32_t share);
  /// Notifies the client of its share, unless it knows that share.
  void note_changed(std::uint32_t i) { changed_.set(i); }
  /// Returns the next changed share; nothing if all have been returned. Several changes of one
  /// client are reported as one.
  std::optional<ShareChange> take_change();

 private:
  void set_share(std::uint32_t i, std::uint32_t share);
  void grant_promised();
  void lower_raised(std::uint32_t wanted);
  /// Runs `f`, which changes what a client is granted or holds, and updates the sum.
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
  /// Sum of max(granted, own) and of what is borrowed. At most Parameters::buffers, except after a
  /// reload that removed buffers in use.
  std::uint32_t reserved_ = 0;
  std::uint32_t borrowed_by_new_ = 0;
  BitSet promised_;  ///< clients with a share that is not completely granted yet
  BitSet changed_;   ///< clients to be notified of their share
};

}  // namespace softhca::management::gsa

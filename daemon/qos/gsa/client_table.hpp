// SPDX-License-Identifier: Apache-2.0

// The registered clients of a receive pool, by number and by key. Pure; allocates only at set-up
// and registration.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "daemon/base/fixed_pool.hpp"
#include "daemon/base/time.hpp"
#include "daemon/base/token_bucket.hpp"
#include "daemon/qos/gsa/gsa_client.hpp"

namespace softhca::management::gsa {

/// How soon a client gives buffers back. A client that keeps buffers as long as it likes (kMaybe)
/// borrows none, and its share is not raised while it gives none back. So it can keep no more than
/// its share from others.
enum class GivesBack : std::uint8_t { kSoon, kMaybe };

struct Client {
  ClientKey key;
  std::string name;
  std::optional<std::uint32_t> requested;  ///< number it gave; empty: the operator's
  GivesBack gives_back = GivesBack::kSoon;

  // Maintained by Shares.
  std::uint32_t asked = 0;
  std::uint32_t share = 0;
  std::uint32_t granted = 0;     ///< of the share; the rest is granted as others give back
  std::uint32_t told_share = 0;  ///< share that it was notified of
  std::uint32_t own = 0;         ///< buffers held, of its share
  std::uint32_t borrowed = 0;    ///< buffers held, of the spare ones
  std::uint32_t own_of_new = 0;  ///< part of `own` for new sources

  // Its traffic, maintained by receive_admission.
  TokenBucket new_rate;             ///< for all its new sources together
  std::uint32_t latest = kNoIndex;  ///< source of the latest datagram
  Time several_until{};             ///< until then, it counts as having several sources

  // Its traffic, as judged by ShareAdjuster.
  std::uint32_t peak = 0;          ///< most buffers held in this window
  bool refused = false;            ///< a datagram over its share was discarded in this window
  bool gave_back = false;          ///< it gave a buffer back in this window
  std::uint8_t short_windows = 0;  ///< one bit for each of the last 8; the latest is the lowest
  std::uint32_t calm_windows = 0;  ///< in a row

  ClientCounters counters;

  std::uint32_t held() const { return own + borrowed; }
};

class ClientTable {
 public:
  /// `most`: maximum number of clients. Allocates.
  explicit ClientTable(std::uint32_t most);

  bool contains(ClientKey key) const { return by_key_.contains(key.value); }
  /// Returns nothing if all slots are taken. REQUIRES: no client has this key.
  std::optional<ClientId> add(Client&& client);
  /// Removes a client; its id becomes stale. REQUIRES: it is registered.
  void remove(ClientId id);

  /// Returns null for a stale id.
  Client* find(ClientId id) { return clients_.find(id); }
  const Client* find(ClientId id) const;
  /// Returns nothing if no client has this key.
  std::optional<ClientId> find(ClientKey key) const;

  /// By number, which must be in use.
  Client& operator[](std::uint32_t i) { return clients_[i]; }
  const Client& operator[](std::uint32_t i) const { return clients_[i]; }
  ClientId id_of(std::uint32_t i) const { return clients_.handle(i); }
  bool is_used(std::uint32_t i) const { return clients_.is_used(i); }
  std::uint32_t capacity() const { return clients_.capacity(); }

  /// Calls visit(number, client) for each client, by number.
  template <class Visit>
  void for_each(Visit&& visit) {
    for (std::uint32_t i = 0; i < capacity(); ++i)
      if (is_used(i)) visit(i, clients_[i]);
  }
  /// Returns the clients by key. Allocates.
  std::vector<ClientView> view() const;

 private:
  FixedPool<Client> clients_;
  std::unordered_map<std::uint64_t, std::uint32_t> by_key_;
};

}  // namespace softhca::management::gsa

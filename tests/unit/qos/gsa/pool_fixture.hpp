// SPDX-License-Identifier: Apache-2.0

// A receive pool driven by hand: tests deliver datagrams, and return buffers of clients.
#pragma once

#include <gtest/gtest.h>

#include <deque>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "daemon/qos/gsa/receive_pool.hpp"

namespace softhca::management::gsa {

using std::chrono::milliseconds;
using std::chrono::seconds;

/// Returns parameters without rate limits for sources.
inline Parameters unlimited(std::uint32_t buffers) {
  Parameters parameters;
  parameters.buffers = buffers;
  parameters.sources.rate = parameters.sources.new_rate = Rate{};
  return parameters;
}

inline Gid host(std::uint32_t n) { return Gid::from_ipv4(0x0a000000 + n); }

struct PoolFixture {
  explicit PoolFixture(const Parameters& parameters, const PoolSize& size = {.buffers = 256,
                                                                             .clients = 16,
                                                                             .sources = 64,
                                                                             .seed = {3, 5}})
      : pool(size, parameters, now) {}

  ClientId join(std::uint64_t key, std::optional<std::uint32_t> buffers = std::nullopt) {
    Expected<ClientId> id =
        pool.register_client(ClientKey(key), "class " + std::to_string(key), buffers);
    EXPECT_TRUE(id) << (id ? "" : id.error().message);
    return id ? *id : ClientId{};
  }

  /// The client keeps the buffer.
  Discard send(std::uint64_t key, std::uint32_t from) {
    const Admission admission = pool.admit(ClientKey(key), host(from), now);
    if (admission) held[key].push_back(admission.buffer);
    return admission.cause;
  }
  /// The client is done with it at once.
  Discard serve(std::uint64_t key, std::uint32_t from) {
    const Admission admission = pool.admit(ClientKey(key), host(from), now);
    if (admission) {
      EXPECT_TRUE(pool.release(admission.buffer));
    }
    return admission.cause;
  }
  /// Sends `n` datagrams. Returns how many got a buffer.
  std::uint32_t flood(std::uint64_t key, std::uint32_t from, std::uint32_t n) {
    std::uint32_t given = 0;
    for (std::uint32_t i = 0; i < n; ++i) given += send(key, from) == Discard::kNone ? 1 : 0;
    return given;
  }
  void give_back(std::uint64_t key, std::size_t most = ~std::size_t{0}) {
    for (; most != 0 && !held[key].empty(); --most) {
      EXPECT_TRUE(pool.release(held[key].front()));
      held[key].pop_front();
    }
  }
  /// The source sends until its probation is over.
  void establish(std::uint64_t key, std::uint32_t from) {
    serve(key, from);
    now += pool.parameters().sources.probation;
    serve(key, from);
  }
  void pass_window() {
    now = pool.watch_at();
    pool.watch_traffic(now);
  }

  /// Returns nothing if no client with this key is registered.
  std::optional<ClientId> find(std::uint64_t key) const {
    for (const ClientView& client : pool.clients())
      if (client.key == ClientKey(key)) return client.id;
    return std::nullopt;
  }
  const ClientCounters& counters(std::uint64_t key) const { return *pool.counters_of(*find(key)); }
  std::uint32_t share(std::uint64_t key) const { return counters(key).share.value(); }
  std::uint64_t discarded(std::uint64_t key, Discard cause) const {
    return counters(key).discarded[static_cast<std::size_t>(cause)].value();
  }
  std::uint32_t posted() const { return pool.counters().posted.value(); }
  std::uint32_t in_use() const { return pool.counters().in_use.value(); }

  Time now{seconds(1)};
  ReceivePool pool;
  std::map<std::uint64_t, std::deque<std::uint32_t>> held;
};

}  // namespace softhca::management::gsa

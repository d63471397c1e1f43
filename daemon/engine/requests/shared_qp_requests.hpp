// SPDX-License-Identifier: Apache-2.0

// Requests about queue pairs that several clients share (mechanism E): the queue pair itself, and
// the clients in its receive pool.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "daemon/base/expected.hpp"
#include "daemon/base/net.hpp"
#include "daemon/base/time.hpp"
#include "daemon/qos/collect/pcb_pool.hpp"
#include "daemon/qos/gsa/client_table.hpp"
#include "daemon/qos/gsa/gsa_client.hpp"
#include "daemon/qos/gsa/receive_parameters.hpp"
#include "daemon/qos/schedule/tvl_table_spread.hpp"

namespace softhca::engine {

class Engine;
class SharedQp;
struct Tenant;

/// Takes PCBs and TVLs for a shared queue pair, adds its tenant and opens it. Errors: EBUSY the
/// queue pair is taken; as PcbPool::add_group() and TvlAssignment::add(). After an error the queue
/// pair is not open, but the engine may have its tenant.
struct OpenSharedQp {
  SharedQp& service;
  Tenant& tenant;  ///< stands for it; the request sets its class
  collect::GroupConfig group;
  std::array<schedule::TvlTerms, 2> tvls;  ///< the request sets their class
  Outcome run(Engine& engine) const;
};

/// Closes a shared queue pair. REQUIRES: it is open.
struct CloseSharedQp {
  SharedQp& service;
  void run(Engine& engine) const;
};

/// Sets the parameters of the pool and the share of the engine. After an error nothing has changed.
/// Errors: as gsa::ReceivePool::set_parameters().
struct ConfigureSharedQp {
  SharedQp& service;
  management::gsa::Parameters parameters;
  double engine_share = 1;
  Time now{};
  Outcome run(Engine& engine) const;
};

/// Registers a client and returns its id. Errors: as gsa::ReceivePool::register_client().
struct RegisterClient {
  SharedQp& service;
  management::gsa::ClientKey key;
  std::string name;
  std::optional<std::uint32_t> buffers;  ///< nothing: the operator's number
  management::gsa::GivesBack gives_back{};
  Expected<management::gsa::ClientId> run(Engine& engine);
};

/// Changes what a client asks for. Errors: as gsa::ReceivePool::set_buffers().
struct SetClientBuffers {
  SharedQp& service;
  management::gsa::ClientId client;
  std::optional<std::uint32_t> buffers;  ///< nothing: the operator's number
  Outcome run(Engine& engine) const;
};

/// Marks a source as established, since the client has verified its address. Does nothing if the
/// client does not exist.
struct VouchForSource {
  SharedQp& service;
  management::gsa::ClientKey client;
  Gid source;
  Time now{};
  void run(Engine& engine) const;
};

/// Removes a client. Returns its last counters. REQUIRES: it is registered.
struct RemoveClient {
  SharedQp& service;
  management::gsa::ClientId client;
  management::gsa::ClientCounters run(Engine& engine) const;
};

/// What WatchTraffic returns.
struct WatchedTraffic {
  std::vector<management::gsa::ClientView> clients;  ///< before the changes
  std::vector<management::gsa::ShareChange> changes;
};

/// Adjusts the shares of the clients to their traffic (E4), if it is time. Returns the clients and
/// the changes that no earlier request has returned.
struct WatchTraffic {
  SharedQp& service;
  Time now{};
  WatchedTraffic run(Engine& engine) const;
};

/// The state of a pool, for the operator.
struct PoolView {
  management::gsa::Parameters parameters;
  std::uint32_t low_threshold = 0, high_threshold = 0;
  std::vector<management::gsa::ClientView> clients;
  std::vector<management::gsa::SourceView> sources;  ///< the busiest ones
};

/// Returns the state of the pool.
struct ViewPool {
  SharedQp& service;
  std::size_t most_sources = 0;
  PoolView run(Engine& engine) const;
};

}  // namespace softhca::engine

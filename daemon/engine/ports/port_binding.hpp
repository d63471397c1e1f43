// SPDX-License-Identifier: Apache-2.0

// A port and the addresses that this daemon has on it.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "daemon/base/types.hpp"
#include "daemon/engine/ports/outbox.hpp"
#include "daemon/engine/records/counters.hpp"
#include "daemon/port/port.hpp"
#include "daemon/roce/neighbour/neighbours.hpp"
#include "daemon/roce/wire/hidden_identification.hpp"

namespace softhca::engine {

/// Whether a port is served. One that is not receives and sends nothing, and has no link.
enum class PortService : std::uint8_t {
  kOn,
  kSetDown,  ///< by the operator
  kFailed,   ///< the adapter crashed twice while it served the port
};

struct PortBinding {
  PortId id;
  std::string name;
  std::unique_ptr<port::Port> port;
  std::unique_ptr<Outbox> outbox;  ///< null: the port gathers nothing
  std::unique_ptr<neighbour::Neighbours> neighbours;
  std::optional<std::uint16_t> vlan;
  /// Set if the port does not see the identification of received packets.
  std::optional<wire::HiddenIdentifications> hidden;
  PortDropCounters drops;
  std::atomic<PortService> service{PortService::kOn};  ///< the engine sets it

  bool is_served() const { return service.load(std::memory_order_relaxed) == PortService::kOn; }
  bool link_up() const { return is_served() && port->link_up(); }
  /// Returns its state in a word: up, no_link, set_down or failed.
  const char* state() const {
    if (!is_served()) return service == PortService::kSetDown ? "set_down" : "failed";
    return port->link_up() ? "up" : "no_link";
  }

  /// Returns the UDP source port of packets of the flow that asks for `wanted`.
  std::uint16_t source_port(std::uint16_t wanted) const {
    const port::KernelHeaders* by_kernel = port->kernel_headers();
    return by_kernel == nullptr ? wanted : by_kernel->source_port(wanted);
  }
};

}  // namespace softhca::engine

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
  /// The adapter crashed twice while it served the port: what the port receives is dropped.
  std::atomic<bool> failed{false};

  bool link_up() const { return !failed.load(std::memory_order_relaxed) && port->link_up(); }

  /// Returns the UDP source port of packets of the flow that asks for `wanted`.
  std::uint16_t source_port(std::uint16_t wanted) const {
    const port::KernelHeaders* by_kernel = port->kernel_headers();
    return by_kernel == nullptr ? wanted : by_kernel->source_port(wanted);
  }
};

}  // namespace softhca::engine

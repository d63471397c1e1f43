// A port and the addresses this daemon has on it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "daemon/base/types.hpp"
#include "daemon/engine/counters.hpp"
#include "daemon/neighbour/neighbours.hpp"
#include "daemon/port/port.hpp"

namespace softhca::engine {

struct PortBinding {
  PortId id;
  std::string name;
  std::unique_ptr<port::Port> port;
  std::unique_ptr<neighbour::Neighbours> neighbours;
  std::optional<std::uint16_t> vlan;
  PortDropCounters drops;
};

}  // namespace softhca::engine

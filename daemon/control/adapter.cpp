#include "daemon/control/adapter.hpp"

#include <algorithm>

namespace softhca::control {

std::uint32_t path_mtu_for(std::uint32_t bytes) {
  // IPv6 header, UDP header, base and largest extended transport headers, ICRC.
  constexpr std::uint32_t kOverhead = 40 + 8 + 12 + 28 + 4;
  std::uint32_t mtu = 4096;
  while (mtu > 256 && mtu + kOverhead > bytes) mtu /= 2;
  return mtu;
}

std::uint32_t Adapter::path_mtu(const engine::Tenant& tenant) const {
  std::uint32_t mtu = 4096;
  for (const auto& address : tenant.addresses)
    if (address.port)
      mtu = std::min(mtu, path_mtu_for(engine.ports()[address.port->value]->port->mtu()));
  return mtu;
}

bool Adapter::link_up(const engine::Tenant& tenant) const {
  return std::all_of(tenant.addresses.begin(), tenant.addresses.end(), [&](const auto& address) {
    return !address.port || engine.ports()[address.port->value]->port->link_up();
  });
}

}  // namespace softhca::control

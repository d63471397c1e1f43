// SPDX-License-Identifier: Apache-2.0

#include "daemon/frontend/unix/server/port_watch.hpp"

#include <spdlog/spdlog.h>

#include <string>
#include <utility>

namespace softhca::control {

void PortWatch::tick() {
  told_.resize(ports_.size());
  for (std::size_t i = 0; i < ports_.size(); ++i) {
    const port::PortCounters now = ports_[i]->port->counters();
    const std::string& name = ports_[i]->name;
    Told& told = told_[i];
    if (now.trains_refused != 0 && !std::exchange(told.trains, true))
      spdlog::warn(
          "port {}: the interface or the kernel does not support trains of packets (Linux 6.2 and "
          "later do); the port sends packets one by one",
          name);
    if (ports_[i]->port->kernel_headers() == nullptr) continue;
    if (now.path_too_narrow != 0 && !std::exchange(told.narrow, true))
      spdlog::warn(
          "port {}: packets are lost because a link on their path has a smaller MTU; set the "
          "port's mtu to that of the link",
          name);
    if (now.rx_missed != 0 && !std::exchange(told.missed, true))
      spdlog::warn(
          "port {}: packets are lost because the receive buffer of its socket is full; raise the "
          "sysctl net.core.rmem_max, which limits it for unprivileged users",
          name);
  }
}

}  // namespace softhca::control

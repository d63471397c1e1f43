// What the sessions of one adapter have in common. Belongs to the control thread.
#pragma once

#include <cstdint>

#include "daemon/control/session/device_files.hpp"
#include "daemon/control/session/xrc_domains.hpp"

namespace softhca::control {

struct SharedObjects {
  XrcDomains xrc_domains;
  DeviceFiles device_files;
  std::uint32_t next_pd = 1;  ///< no number is used again
};

}  // namespace softhca::control

// SPDX-License-Identifier: Apache-2.0

// State that the sessions of one adapter share. The control thread owns it.
#pragma once

#include "daemon/device/objects/device_files.hpp"
#include "daemon/device/objects/shared_names.hpp"
#include "daemon/device/objects/xrc_domains.hpp"

namespace softhca::control {

struct SharedObjects {
  PdNumbers pd_numbers;  ///< outlives the domains
  XrcDomains xrc_domains;
  DeviceFiles device_files;
  SharedNames shared_names;
};

}  // namespace softhca::control

// SPDX-License-Identifier: Apache-2.0

// The identity of a process that uses a tenant's device, or asks something of the operator.
#pragma once

#include <sys/types.h>

namespace softhca::control {

struct PeerIdentity {
  pid_t pid = 0;
  uid_t uid = 0;
  gid_t gid = 0;
};

}  // namespace softhca::control

// SPDX-License-Identifier: Apache-2.0

// Seals memory that the daemon made and this process has mapped (abi/control.hpp).
#pragma once

#include <fcntl.h>

namespace softhca::provider {

/// Seals the memory. If this fails, the daemon seals it, which takes longer.
inline void seal_memory(int fd) {
  (void)::fcntl(fd, F_ADD_SEALS, F_SEAL_FUTURE_WRITE | F_SEAL_SEAL);
}

}  // namespace softhca::provider

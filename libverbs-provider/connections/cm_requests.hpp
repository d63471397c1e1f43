// SPDX-License-Identifier: Apache-2.0

// Commands of rdma_cm, as librdmacm writes them to the device file (rdma/rdma_user_cm.h).
#pragma once

#include <sys/types.h>

#include <cstddef>

namespace softhca::provider {

/// Implements write() to the descriptor of an event channel: executes one command, and stores its
/// response at the address in the command. GET_EVENT waits for an event unless O_NONBLOCK is set.
/// Returns `bytes`, or -1 with errno.
ssize_t write_command(int fd, const void* buffer, std::size_t bytes);

}  // namespace softhca::provider

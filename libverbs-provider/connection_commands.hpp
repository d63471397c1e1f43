// Commands of rdma_cm as librdmacm writes them to the device file (rdma/rdma_user_cm.h).
#pragma once

#include <sys/types.h>

#include <cstddef>

namespace softhca::provider {

/// What write() does to the descriptor of an event channel: carries out one command, and puts its
/// response where the command says. GET_EVENT waits for an event unless O_NONBLOCK is set. Returns
/// `bytes`, or -1 with errno.
ssize_t write_command(int fd, const void* buffer, std::size_t bytes);

}  // namespace softhca::provider

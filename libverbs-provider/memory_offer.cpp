#include "libverbs-provider/memory_offer.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

namespace softhca::provider {

MemoryOffer::~MemoryOffer() {
  if (socket_ >= 0) ::close(socket_);
}

int MemoryOffer::make(ControlChannel& control) {
  const Guard guard(mutex_);
  if (is_made()) return 0;
  if (socket_ < 0)
    if (const int error = ask_for_socket(control)) return error;
  const int memory = ::open("/proc/self/mem", O_RDWR | O_CLOEXEC);
  if (memory < 0) return errno == EACCES || errno == EPERM || errno == ENOENT ? EOPNOTSUPP : errno;
  const int error = send_descriptor(socket_, memory);
  ::close(memory);
  if (error != 0) return error;
  ::close(socket_);
  socket_ = -1;
  made_ = true;
  return 0;
}

int MemoryOffer::ask_for_socket(ControlChannel& control) {
  ReceivedFds fds;
  const abi::HandleBody request{};
  const iovec body{const_cast<abi::HandleBody*>(&request), sizeof request};
  if (const int error = control.call(abi::Operation::kOfferMemory, {&body, 1}, {}, fds))
    return error;
  if (fds.count() != 1) return EPROTO;
  socket_ = fds.take(0);
  return 0;
}

}  // namespace softhca::provider

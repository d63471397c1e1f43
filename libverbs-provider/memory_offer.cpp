#include "libverbs-provider/memory_offer.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

namespace softhca::provider {

int MemoryOffer::make(ControlChannel& control) {
  const Guard guard(mutex_);
  if (is_made()) return 0;
  const int memory = ::open("/proc/self/mem", O_RDWR | O_CLOEXEC);
  if (memory < 0) return EOPNOTSUPP;
  ReceivedFds fds;
  const abi::HandleBody request{};
  const iovec body{const_cast<abi::HandleBody*>(&request), sizeof request};
  int error = control.call(abi::Operation::kOfferMemory, {&body, 1}, {}, fds);
  if (error == 0 && fds.count() != 1) error = EPROTO;
  if (error == 0) {
    const int socket = fds.take(0);
    error = send_descriptor(socket, memory);
    ::close(socket);
  }
  ::close(memory);
  made_ = error == 0;
  return error;
}

}  // namespace softhca::provider

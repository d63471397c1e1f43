// SPDX-License-Identifier: Apache-2.0

#include "libverbs-provider/control/memory_offer.hpp"

#include <cerrno>

#include "libverbs-provider/share/proc_file.hpp"

namespace softhca::provider {

int MemoryOffer::make(ControlChannel& control) {
  const Guard guard(mutex_);
  if (is_made()) return 0;
  const ProcFile::Use memory(ProcFile::memory());
  if (memory.fd() < 0) {
    open_error_.store(memory.error(), std::memory_order_relaxed);
    return memory.error() == EMFILE || memory.error() == ENFILE ? memory.error() : EOPNOTSUPP;
  }
  if (!socket_.is_ours())
    if (const int error = ask_for_socket(control)) return error;
  if (const int error = send_descriptor(socket_.get(), memory.fd()))
    return error == ETOOMANYREFS ? EMFILE : error;  // the user has too many in flight
  socket_.reset();
  made_ = true;
  return 0;
}

int MemoryOffer::ask_for_socket(ControlChannel& control) {
  ReceivedFds fds;
  const abi::HandleBody request{};
  const iovec body{const_cast<abi::HandleBody*>(&request), sizeof request};
  if (const int error = control.call(abi::Operation::kOfferMemory, {&body, 1}, {}, fds))
    return error;
  if (const int error = fds.check(1)) return error;  // the request may be repeated
  socket_.reset(fds.take(0));
  return 0;
}

}  // namespace softhca::provider

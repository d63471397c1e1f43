// SPDX-License-Identifier: Apache-2.0

// Receives frames from a packet socket.
#pragma once

#include "daemon/port/message_buffers.hpp"

namespace softhca::port {

class ReceiveBuffers final : public MessageBuffers {
 private:
  void offer(msghdr& to, Buffer& buffer) override;
  Frame accept(const mmsghdr& message, Buffer& buffer) override;
};

}  // namespace softhca::port

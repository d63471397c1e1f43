// SPDX-License-Identifier: Apache-2.0

// Writes events to the sockets of completion channels and contexts.
#pragma once

#include "daemon/engine/events/async_events.hpp"

namespace softhca::control {

class EventSender final : public engine::EventSink {
 public:
  bool completion_event(int channel_fd, std::uint64_t user_handle) override;
  bool async_event(int async_fd, std::uint64_t element, std::uint32_t type) override;
};

}  // namespace softhca::control

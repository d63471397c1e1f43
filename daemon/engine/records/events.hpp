// SPDX-License-Identifier: Apache-2.0

// Events for processes: completion events, and asynchronous events of objects and the port.
#pragma once

#include <cstddef>
#include <cstdint>

namespace softhca::engine {

/// Where events go: the daemon's ends of completion channels and contexts, by their numbers
/// (control::EventEnd). A function returns false if the end is full since the process does not
/// read; the engine tries again later.
class EventSink {
 public:
  virtual ~EventSink() = default;
  virtual bool completion_event(int completion_end, std::uint64_t user_handle) = 0;
  virtual bool async_event(int async_end, std::uint64_t element, std::uint32_t type) = 0;
};

/// Values of enum ibv_event_type.
enum class EventType : std::uint32_t {
  kCqError = 0,
  kQpFatal = 1,
  kQpRequestError = 2,
  kQpAccessError = 3,
  kCommunicationEstablished = 4,
  kSendQueueDrained = 5,
  kPortActive = 9,
  kPortError = 10,
  kGidChange = 18,
  kSrqError = 14,
  kSrqLimitReached = 15,
  kQpLastWqeReached = 16,
};

inline constexpr std::size_t kEventTypes = 12;

}  // namespace softhca::engine

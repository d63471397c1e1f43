// A completion queue as the engine sees it.
#pragma once

#include <cstdint>

#include "daemon/base/intrusive_queue.hpp"
#include "daemon/base/linked_list.hpp"
#include "daemon/base/time.hpp"
#include "daemon/shm/completion_ring.hpp"

namespace softhca::engine {

struct Session;

struct CompletionQueue {
  Session* session = nullptr;
  shm::CompletionRing ring;
  std::uint64_t user_handle = 0;
  int channel_fd = -1;
  bool failed = false;                 ///< overflowed
  ListLink<CompletionQueue> dirty;     ///< has elements whose event is not decided yet
  ListLink<CompletionQueue> deferred;  ///< a completion event waits for room in its channel
  std::uint32_t waiting_events = 0;    ///< how many do, also while one is with EventNotifier
  std::uint32_t notice = kNoIndex;     ///< its event is with EventNotifier: which one there
  bool asked_again = false;            ///< and something has come since
  bool urgent = false;                 ///< its next event is: there may be no other completion
  Time paced_until{};
  ListLink<CompletionQueue> paced;  ///< its event waits until then
  // Moderation of events: off without a timer.
  std::uint32_t moderation_timer = kNoIndex;
  std::uint32_t moderation_count = 0;
  Duration moderation_period{};
  std::uint32_t unannounced = 0;  ///< completions since an event was last decided on
  Time announce_by = kNever;      ///< held back until then
  ListLink<CompletionQueue> due;  ///< then is now
};

}  // namespace softhca::engine

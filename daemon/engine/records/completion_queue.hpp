// SPDX-License-Identifier: Apache-2.0

// A completion queue as the engine sees it.
#pragma once

#include <cstdint>

#include "daemon/base/intrusive_queue.hpp"
#include "daemon/base/linked_list.hpp"
#include "daemon/base/time.hpp"
#include "daemon/tenant_memory/completion_ring.hpp"

namespace softhca::engine {

struct Session;

struct CompletionQueue {
  Session* session = nullptr;
  shm::CompletionRing ring;
  std::uint64_t user_handle = 0;
  int completion_end = -1;             ///< of its channel, for EventSink; negative: none
  bool failed = false;                 ///< overflowed
  ListLink<CompletionQueue> dirty;     ///< has completions for which no event is decided yet
  ListLink<CompletionQueue> deferred;  ///< a completion event waits for room in its channel
  std::uint32_t waiting_events = 0;  ///< number of these, also while EventNotifier has another one
  std::uint32_t notice = kNoIndex;   ///< place of its event in EventNotifier; kNoIndex: it has none
  bool asked_again = false;          ///< completions came while EventNotifier had its event
  bool urgent = false;               ///< its next event is not paced: no other completion may come
  Time paced_until{};
  ListLink<CompletionQueue> paced;  ///< its event waits until paced_until
  // Moderation of events: off without a timer.
  std::uint32_t moderation_timer = kNoIndex;
  std::uint32_t moderation_count = 0;
  Duration moderation_period{};
  std::uint32_t unannounced = 0;  ///< completions since an event was last decided on
  Time announce_by = kNever;      ///< its event is held back until then; kNever: it is not
  ListLink<CompletionQueue> due;  ///< announce_by has come
};

}  // namespace softhca::engine

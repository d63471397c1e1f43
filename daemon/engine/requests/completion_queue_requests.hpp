// SPDX-License-Identifier: Apache-2.0

// Requests about completion queues. The engine needs none to add one.
#pragma once

#include <cstddef>
#include <cstdint>

#include "daemon/base/time.hpp"

namespace softhca::engine {

class Engine;
struct CompletionQueue;
struct Session;

/// Wakes a session if it is parked, so that the next poll step takes in what its process has
/// posted.
struct UnparkSession {
  Session& session;
  void run(Engine& engine) const;
};

/// Continues a completion queue of an earlier engine, in the ring in which that engine has stopped.
/// Its session is installed. No other request is needed to add it.
struct RestoreCq {
  CompletionQueue& cq;
  void run(Engine& engine) const;
};

/// Continues a completion queue in another ring, if at most `most` completions wait to be polled.
/// Returns false if there are more; nothing has changed then.
struct ResizeCq {
  CompletionQueue& cq;
  std::byte* base;        ///< memory of the new ring, zeroed
  std::uint32_t entries;  ///< of the new ring, a power of two
  std::uint32_t most;
  std::uint32_t by;  ///< CompletionRing::replace()
  bool run(Engine& engine) const;
};

/// Sets moderation: an event is sent `count` completions or `period` after the first completion. An
/// event that is held back under the old settings is sent now.
struct ModerateCq {
  CompletionQueue& cq;
  std::uint32_t count;
  Duration period;
  void run(Engine& engine) const;
};

/// Removes a completion queue. The object may be freed afterwards. Its channel may be closed when
/// no event of the queue is under way (Worker::await_event()).
struct RemoveCq {
  CompletionQueue& cq;
  void run(Engine& engine) const;
};

}  // namespace softhca::engine

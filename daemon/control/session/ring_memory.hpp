// Memory of rings that process and engine share: parts of segments, whose descriptors a process
// gets with the first ring in each.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "daemon/control/session/context.hpp"
#include "daemon/control/session/queue_pair.hpp"
#include "daemon/control/sockets/message.hpp"
#include "daemon/shm/segment_pool.hpp"

namespace softhca::control {

class RingMemory {
 public:
  explicit RingMemory(const SessionContext& context);

  /// Allocates and, when the segment is new to the process, attaches its descriptor to the reply.
  /// 0, ENOMEM or another errno value.
  int allocate(std::size_t bytes, Reply& reply, Ring& ring, std::uint32_t& new_segment);
  /// Nothing happens if the ring has no memory.
  void release(Ring& ring);
  /// The reply that carries what allocate() attached was sent; false: the process has not got it.
  void replied(bool sent);
  /// The process has mapped what replies told it of, and can give none of that back from now on.
  Outcome seal() { return segments_.seal(); }

  /// Segments that no ring is in.
  std::uint64_t idle_count() const { return segments_.idle_count(); }
  void give_up_idle() { segments_.give_up_idle(); }

 private:
  const SessionContext& context_;
  shm::SegmentPool segments_;
  std::vector<std::uint32_t> announced_;  ///< segments whose descriptor the current reply carries
};

}  // namespace softhca::control

// Memory of rings that process and engine share: parts of segments, whose descriptors a process
// gets with the first ring in each.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "daemon/base/unique_fd.hpp"
#include "daemon/control/session/context.hpp"
#include "daemon/control/session/queue_pair.hpp"
#include "daemon/control/sockets/message.hpp"
#include "daemon/shm/segment_pool.hpp"

namespace softhca::control {

class RingMemory {
 public:
  explicit RingMemory(const SessionContext& context);

  /// Allocates and, when the segment is new to the process, attaches its descriptor to the reply.
  /// 0, ENOMEM or another errno value; or kNoRoomYet.
  int allocate(std::size_t bytes, Reply& reply, Ring& ring, std::uint32_t& new_segment);
  /// Nothing happens if the ring has no memory.
  void release(Ring& ring);
  /// The reply that carries what allocate() attached was sent; false: the process has not got it.
  void replied(bool sent);
  /// For a ring that is in use at once: is there room in memory of which the process can give
  /// nothing back?
  bool has_sealed_room(std::size_t bytes) const { return segments_.has_sealed_room(bytes); }
  /// Else it is told of such memory first, by an Out with a ring of 0 bytes, and asks again. 0,
  /// as allocate().
  template <class Out>
  int reserve(std::size_t bytes, Reply& reply) {
    Out out{};
    out.handle = abi::kNoHandle;
    if (const int error = reserve(bytes, reply, out.ring.segment, out.new_segment)) return error;
    reply.write(out);
    return 0;
  }
  /// As SegmentPool::to_seal().
  std::vector<UniqueFd> to_seal() { return segments_.to_seal(); }

  /// Segments that no ring is in.
  std::uint64_t idle_count() const { return segments_.idle_count(); }
  void give_up_idle() { segments_.give_up_idle(); }

 private:
  int reserve(std::size_t bytes, Reply& reply, std::uint32_t& segment, std::uint32_t& new_segment);

  const SessionContext& context_;
  shm::SegmentPool segments_;
  std::vector<std::uint32_t> announced_;  ///< segments whose descriptor the current reply carries
};

}  // namespace softhca::control

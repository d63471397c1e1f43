// SPDX-License-Identifier: Apache-2.0

// Memory of rings that process and engine share: parts of segments. A process gets the descriptor
// of a segment with the first ring in it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "daemon/base/unique_fd.hpp"
#include "daemon/device/objects/device_context.hpp"
#include "daemon/device/objects/object_records.hpp"
#include "daemon/device/objects/qp_object.hpp"
#include "daemon/tenant_memory/segment_pool.hpp"

namespace softhca::control {

class RingMemory {
 public:
  explicit RingMemory(const SessionContext& context);

  /// Allocates a ring and, if the segment is new to the process, attaches its descriptor to the
  /// reply. Returns 0, ENOMEM or another errno value, or kNoRoomYet.
  int allocate(std::size_t bytes, Reply& reply, Ring& ring, std::uint32_t& new_segment);
  /// Make the same as an earlier adapter. Return false if the record does not fit.
  bool restore_segment(const record::RingSegment& kept, records::Record record);
  bool restore(const abi::RingLocation& location, Ring& ring);
  /// Ends the restoration, before any new ring.
  void end_restoring() { segments_.end_adoption(); }
  /// Frees the memory of a ring, if it has any.
  void release(Ring& ring);
  /// Records whether the reply with what allocate() attached was sent. False: the process did not
  /// get it.
  void replied(bool sent);
  /// True if there is room in memory that the process can no longer free. A ring that the engine
  /// uses at once needs that.
  bool has_sealed_room(std::size_t bytes) const { return segments_.has_sealed_room(bytes); }
  /// Announces such memory first, if there is none, by an Out with a ring of 0 bytes. The process
  /// then repeats the request. Returns 0, or an error as allocate().
  template <class Out>
  int reserve(std::size_t bytes, Reply& reply) {
    Out out{};
    out.handle = abi::kNoHandle;
    if (const int error = reserve(bytes, reply, out.ring.segment, out.new_segment)) return error;
    reply.write(out);
    return 0;
  }
  /// As SegmentPool::to_seal().
  std::vector<DescriptorToSeal> to_seal() { return segments_.to_seal(); }

  /// Returns the number of segments without rings.
  std::uint64_t idle_count() const { return segments_.idle_count(); }
  void give_up_idle() { segments_.give_up_idle(); }

 private:
  /// What ends with a segment.
  struct Account {
    configuration::Charge mapping;
    record::RingSegment kept{};
    records::Record record;
  };

  int reserve(std::size_t bytes, Reply& reply, std::uint32_t& segment, std::uint32_t& new_segment);

  const SessionContext& context_;
  std::unordered_map<std::uint32_t, std::weak_ptr<Account>> accounts_;  ///< by segment
  shm::SegmentPool segments_;
  std::vector<std::uint32_t> announced_;  ///< segments with their descriptor in the current reply
};

}  // namespace softhca::control

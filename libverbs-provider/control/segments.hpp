// SPDX-License-Identifier: Apache-2.0

// Memory segments for the rings of a session, which the daemon announces: each is a memfd, in a
// virtual machine a part of the machine's memory.
#pragma once

#include <cerrno>
#include <cstddef>
#include <cstdint>

#include "libverbs-provider/control/control_channel.hpp"
#include "libverbs-provider/control/mapped_memory.hpp"
#include "libverbs-provider/lock.hpp"

namespace softhca::provider {

class Segments {
 public:
  Segments() = default;
  ~Segments();
  Segments(const Segments&) = delete;
  Segments& operator=(const Segments&) = delete;

  /// Maps a segment announced with a reply. Returns 0 or an errno value, for example EMFILE or
  /// ENOMEM. If the segment is announced again, the new memory replaces the old; the daemon does so
  /// only while no ring is in it.
  ///
  /// Call this and find() in the turn of the request: a segment is announced once, and the next
  /// reply, to any thread, may name it. If it cannot be mapped, the caller destroys its queue in
  /// the same turn; then the daemon gives the segment up and announces another.
  int announce(std::uint32_t segment, ReceivedFds& fds);

  /// As turn.call(), for a ring that is used at once. If the daemon has no mapped memory for it,
  /// the daemon announces a segment first, and this repeats the request.
  template <class Request, class Reply>
  int call(ControlChannel::Turn& turn, abi::Operation operation, const Request& request,
           Reply& reply, ReceivedFds& fds) {
    constexpr int kTries = 4;  // the daemon may give it up for another process
    for (int i = 0; i < kTries; ++i) {
      if (const int error = turn.call(operation, request, reply, fds)) return error;
      if (reply.ring.bytes != 0) return 0;
      if (reply.new_segment == 0) return EPROTO;
      const int error = announce(reply.ring.segment, fds);
      fds.clear();
      if (error == 0) continue;
      // The second request after the reply makes the daemon give up a segment without rings.
      const abi::HandleBody none{abi::kNoHandle, 0};
      turn.call(abi::Operation::kDestroyCq, none);
      return error;
    }
    return ENOMEM;
  }

  /// Returns the first byte of the ring; null unless it is in a mapped segment, aligned, with at
  /// least `needed` bytes.
  std::byte* find(const abi::RingLocation& ring, std::uint64_t needed);

  /// Replaces the parent's rings by private memory in a forked child.
  void abandon();

 private:
  struct Mapping {
    std::uint32_t segment;
    MappedMemory memory;

    int map(int fd, const abi::MemoryPlaces* places);
  };
  Mapping* lookup(std::uint32_t segment);
  Mapping* add(std::uint32_t segment);

  Mutex mutex_;
  Mapping* mappings_ = nullptr;
  std::size_t count_ = 0;
};

}  // namespace softhca::provider

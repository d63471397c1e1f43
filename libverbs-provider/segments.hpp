// Memory segments that hold the rings of a session: memfds announced by the daemon, mapped whole.
#pragma once

#include <cerrno>
#include <cstddef>
#include <cstdint>

#include "libverbs-provider/control_channel.hpp"
#include "libverbs-provider/lock.hpp"

namespace softhca::provider {

class Segments {
 public:
  Segments() = default;
  ~Segments();
  Segments(const Segments&) = delete;
  Segments& operator=(const Segments&) = delete;

  /// Maps a segment announced with a reply. Announced again, the new memory replaces the old (the
  /// daemon does so only when no ring lies in it). 0 or an errno value, EMFILE and ENOMEM among
  /// them. To be called in the turn of the request, as is find(): a segment is announced once, and
  /// the next reply, to any thread, may name it. The queue of a segment that could not be mapped is
  /// to be destroyed in the same turn: the daemon gives the segment up then, and announces another.
  int announce(std::uint32_t segment, ReceivedFds& fds);

  /// As turn.call(), for a ring that would be in use at once: where the daemon has no memory for it
  /// that is mapped, it announces some first, and is asked again.
  template <class Request, class Reply>
  int call(ControlChannel::Turn& turn, abi::Operation operation, const Request& request,
           Reply& reply, ReceivedFds& fds) {
    constexpr int kTries = 4;  // another process of the tenant may need what it takes
    for (int i = 0; i < kTries; ++i) {
      if (const int error = turn.call(operation, request, reply, fds)) return error;
      if (reply.ring.bytes != 0) return 0;
      if (reply.new_segment == 0) return EPROTO;
      const int error = announce(reply.ring.segment, fds);
      fds.clear();
      if (error == 0) continue;
      // The daemon gives a segment without rings up with the second request after its reply.
      const abi::HandleBody none{abi::kNoHandle, 0};
      turn.call(abi::Operation::kDestroyCq, none);
      return error;
    }
    return ENOMEM;
  }

  /// The ring's first byte; null unless it lies in a mapped segment, aligned, with at least
  /// `needed` bytes.
  std::byte* find(const abi::RingLocation& ring, std::uint64_t needed);

  /// In a forked child: private memory takes the place of the parent's rings.
  void abandon();

 private:
  struct Mapping {
    std::uint32_t segment;
    std::byte* base;  ///< null: not mapped
    std::size_t bytes;

    int map(int fd);
    void drop();
  };
  Mapping* lookup(std::uint32_t segment);
  Mapping* add(std::uint32_t segment);

  Mutex mutex_;
  Mapping* mappings_ = nullptr;
  std::size_t count_ = 0;
};

}  // namespace softhca::provider

// SPDX-License-Identifier: Apache-2.0

// The processes of the guest, and the pieces of the region that they have for registered memory.
//
// A piece must not get another owner while its process still maps it, or the daemon still writes to
// it. So it becomes free when the process says that it has unmapped it, or when the process and the
// sessions of its connections have ended.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <set>
#include <string>

#include "abi/control.hpp"
#include "daemon/base/expected.hpp"
#include "daemon/base/unique_fd.hpp"
#include "guest/agent/page_ranges.hpp"
#include "guest/agent/region.hpp"
#include "guest/channel/event_loop.hpp"

namespace softhca::guest {

class Clients {
 public:
  /// `end`: ends a stream, as its process has ended.
  Clients(EventLoop& loop, Region& region, std::function<void(std::uint32_t stream)> end)
      : loop_(loop), region_(region), end_(std::move(end)) {}
  ~Clients();

  /// Gives pieces of `shared` from now on. What a process maps of it at the first call stays with
  /// that process: an earlier agent has given it.
  Outcome serve(const abi::MemoryPlace& shared);

  /// Adds a connection. Returns false if its process cannot be identified, or has ended.
  bool add(std::uint32_t stream, int socket);
  /// The connection and its session have ended.
  void remove(std::uint32_t stream);
  /// All have ended.
  void remove_all();

  /// Gives a piece, filled with zeros, to the process of a connection. Returns 0 or an errno value:
  /// EINVAL, ENOMEM.
  int allocate(std::uint32_t stream, std::uint64_t bytes, abi::MemoryPlace& piece);
  /// Takes back the piece with this handle. Returns 0 or EINVAL: the process has none.
  int free(std::uint32_t stream, std::uint32_t handle, bool is_unmapped);

  std::size_t processes() const { return processes_.size(); }
  std::uint64_t free_bytes() const { return ranges_.free_bytes(); }

 private:
  struct Piece {
    std::uint64_t bytes = 0;
    bool is_given_up = false;  ///< the process may still map it
  };
  struct Process {
    pid_t id = 0;
    UniqueFd pidfd;
    Watch watch;
    bool has_ended = false;
    std::set<std::uint32_t> streams;
    std::map<std::uint64_t, Piece> pieces;  ///< by offset
    std::list<Process>::iterator self;
  };

  Process* enter(pid_t id, UniqueFd pidfd);
  Process* find(pid_t id);
  Process* of_stream(std::uint32_t stream);
  void ended(Process& process);
  void settle(Process& process);
  void adopt_mapped();

  EventLoop& loop_;
  Region& region_;
  std::function<void(std::uint32_t)> end_;
  std::list<Process> processes_;
  std::map<std::uint32_t, Process*> by_stream_;
  PageRanges ranges_;
  abi::MemoryPlace shared_{};
  bool has_served_ = false;
};

}  // namespace softhca::guest

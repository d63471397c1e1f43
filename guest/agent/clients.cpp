// SPDX-License-Identifier: Apache-2.0

#include "guest/agent/clients.hpp"

#include <poll.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <iterator>
#include <utility>
#include <vector>

#include "abi/session.hpp"
#include "guest/agent/mapped_memory.hpp"

namespace softhca::guest {
namespace {

#ifndef SO_PEERPIDFD
constexpr int SO_PEERPIDFD = 77;
#endif

UniqueFd open_pidfd(pid_t id) {
  return UniqueFd(static_cast<int>(::syscall(SYS_pidfd_open, id, 0)));
}

/// Returns a pidfd of the process that connected; before Linux 6.5, of the process that has its
/// number now.
UniqueFd peer_pidfd(int socket, pid_t id) {
  int fd = -1;
  socklen_t length = sizeof fd;
  if (::getsockopt(socket, SOL_SOCKET, SO_PEERPIDFD, &fd, &length) == 0) return UniqueFd(fd);
  return errno == ENOPROTOOPT ? open_pidfd(id) : UniqueFd();
}

bool is_over(int pidfd) {
  pollfd state{pidfd, POLLIN, 0};
  return ::poll(&state, 1, 0) != 0;
}

/// True if a process maps all of the shared memory and more. In a machine none does. Where the
/// agent runs on the host, for tests, the daemon does.
bool maps_all(std::vector<abi::MemoryPlace> places, const abi::MemoryPlace& shared) {
  std::ranges::sort(places, {}, &abi::MemoryPlace::offset);
  std::uint64_t begin = 0, end = 0;
  for (const abi::MemoryPlace& place : places) {
    if (place.offset > end) begin = place.offset;
    end = std::max(end, place.offset + place.bytes);
    if (begin < shared.offset && end >= shared.offset + shared.bytes) return true;
  }
  return false;
}

}  // namespace

Clients::~Clients() {
  for (Process& process : processes_) loop_.arm(process.pidfd.get(), process.watch, 0);
}

Outcome Clients::serve(const abi::MemoryPlace& shared) {
  if (auto mapped = region_.map(shared); !mapped) return mapped;
  const bool is_same = shared.offset == shared_.offset && shared.bytes == shared_.bytes;
  if (is_same && has_served_) return {};
  shared_ = shared;
  ranges_.reset(shared);
  for (Process& process : processes_)
    for (const auto& [offset, piece] : process.pieces) ranges_.take_free_of({offset, piece.bytes});
  if (!std::exchange(has_served_, true)) adopt_mapped();
  return {};
}

/// Leaves to other processes what they map of the shared memory.
void Clients::adopt_mapped() {
  for (const MappedPlaces& mapped : find_mapped(region_.device(), region_.inode())) {
    if (maps_all(mapped.places, shared_)) continue;
    UniqueFd pidfd = open_pidfd(mapped.process);
    if (!pidfd || is_over(pidfd.get())) continue;
    Process* const process = enter(mapped.process, std::move(pidfd));
    for (const abi::MemoryPlace& place : mapped.places)
      for (const abi::MemoryPlace& taken : ranges_.take_free_of(place))
        process->pieces[taken.offset] = {.bytes = taken.bytes, .is_given_up = true};
    settle(*process);
  }
}

Clients::Process* Clients::enter(pid_t id, UniqueFd pidfd) {
  Process& process = processes_.emplace_back();
  process.self = std::prev(processes_.end());
  process.id = id;
  process.pidfd = std::move(pidfd);
  process.watch.ready = [this, &process](std::uint32_t) { ended(process); };
  loop_.arm(process.pidfd.get(), process.watch, EPOLLIN);
  return &process;
}

/// Returns null if no process that has not ended has this number.
Clients::Process* Clients::find(pid_t id) {
  for (Process& process : processes_)
    if (process.id == id && !process.has_ended && !is_over(process.pidfd.get())) return &process;
  return nullptr;
}

Clients::Process* Clients::of_stream(std::uint32_t stream) {
  const auto found = by_stream_.find(stream);
  return found == by_stream_.end() ? nullptr : found->second;
}

bool Clients::add(std::uint32_t stream, int socket) {
  ucred credentials{};
  socklen_t length = sizeof credentials;
  if (::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &credentials, &length) != 0 ||
      credentials.pid <= 0)
    return false;
  UniqueFd pidfd = peer_pidfd(socket, credentials.pid);
  if (!pidfd || is_over(pidfd.get())) return false;
  Process* process = find(credentials.pid);
  if (process == nullptr) process = enter(credentials.pid, std::move(pidfd));
  process->streams.insert(stream);
  by_stream_[stream] = process;
  return true;
}

void Clients::remove(std::uint32_t stream) {
  Process* const process = of_stream(stream);
  if (process == nullptr) return;
  by_stream_.erase(stream);
  process->streams.erase(stream);
  settle(*process);
}

void Clients::remove_all() {
  by_stream_.clear();
  for (auto at = processes_.begin(); at != processes_.end();) {
    Process& process = *at++;
    process.streams.clear();
    settle(process);
  }
}

void Clients::ended(Process& process) {
  loop_.arm(process.pidfd.get(), process.watch, 0);
  process.has_ended = true;
  for (const std::uint32_t stream : process.streams) end_(stream);
  settle(process);
}

/// Forgets a process without connections, if it has ended or has no piece.
void Clients::settle(Process& process) {
  if (!process.streams.empty() || (!process.has_ended && !process.pieces.empty())) return;
  for (const auto& [offset, piece] : process.pieces) ranges_.give({offset, piece.bytes});
  loop_.arm(process.pidfd.get(), process.watch, 0);
  processes_.erase(process.self);
}

int Clients::allocate(std::uint32_t stream, std::uint64_t bytes, abi::MemoryPlace& piece) {
  Process* const process = of_stream(stream);
  if (process == nullptr || bytes == 0 || bytes % abi::kPageBytes != 0) return EINVAL;
  const auto offset = ranges_.take(bytes);
  if (!offset) return ENOMEM;
  region_.zero(*offset, bytes);
  process->pieces[*offset] = {.bytes = bytes};
  piece = {*offset, bytes};
  return 0;
}

int Clients::free(std::uint32_t stream, std::uint32_t handle, bool is_unmapped) {
  Process* const process = of_stream(stream);
  if (process == nullptr) return EINVAL;
  const auto found = process->pieces.find(std::uint64_t{handle} * abi::kPageBytes);
  if (found == process->pieces.end() || found->second.is_given_up) return EINVAL;
  if (!is_unmapped) {
    found->second.is_given_up = true;
    return 0;
  }
  ranges_.give({found->first, found->second.bytes});
  process->pieces.erase(found);
  return 0;
}

}  // namespace softhca::guest

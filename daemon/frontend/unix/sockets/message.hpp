// SPDX-License-Identifier: Apache-2.0

// Records of requests and replies, and the sockets that replies hand over.
#pragma once

#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cassert>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <utility>

#include "abi/control.hpp"
#include "daemon/base/unique_fd.hpp"
#include "daemon/device/peer/reply.hpp"
#include "daemon/frontend/unix/sockets/peer_socket.hpp"
#include "daemon/frontend/unix/sockets/unix_socket.hpp"

namespace softhca::control {

/// Returns the handle of a socket that is for the process alone, for its reply.
inline PassedHandle handed_over(PeerSocket socket) {
  const int number = socket.get();
  const auto hand_over = [](PeerSocket* given) {
    given->hand_over();
    delete given;
  };
  return {number, std::shared_ptr<PeerSocket>(new PeerSocket(std::move(socket)), hand_over)};
}

/// Makes a socket by which the daemon notifies a process, and gives the process the other end. The
/// kernel refuses what the process sends by it. `socket`: a socket of the same owner. Returns 0 or
/// an errno value.
inline int make_one_way(int type, const PeerSocket& socket, PeerSocket& ours, Reply& reply) {
  int ends[2];
  if (::socketpair(AF_UNIX, type | SOCK_CLOEXEC, 0, ends) != 0) return errno;
  ours = socket.sibling(UniqueFd(ends[0]));
  reply.give(handed_over(socket.sibling(UniqueFd(ends[1]))));
  ::shutdown(ours.get(), SHUT_RD);
  return 0;
}

/// Answers a request: with the body and descriptors of `reply`, or with the error and the body
/// alone. Returns false if the process is gone or does not read.
inline bool send_reply(int socket, std::uint32_t tag, int error, const Reply& reply) {
  std::array<std::byte, sizeof(abi::ReplyHeader) + Reply::kRoom + sizeof(abi::MemoryPlaces)> record;
  std::size_t size = 0;
  const auto add = [&](const void* part, std::size_t bytes) {
    std::memcpy(record.data() + size, part, bytes);
    size += bytes;
  };
  const abi::ReplyHeader header{tag, error};
  add(&header, sizeof header);
  add(reply.bytes().data(), reply.bytes().size());
  if (error == 0 && reply.places() != nullptr) add(reply.places(), sizeof *reply.places());
  const std::span<const std::byte> bytes(record.data(), size);
  if (error != 0) return send_record(socket, bytes, {});
  std::array<int, abi::kMaxFds> fds{};
  assert(reply.handles().size() <= fds.size());
  std::ranges::transform(reply.handles(), fds.begin(), &PassedHandle::number);
  return send_record(socket, bytes, std::span(fds).first(reply.handles().size()));
}

/// A request that waits in a socket.
struct WaitingRequest {
  abi::RequestHeader header;
  std::size_t bytes;  ///< of the whole record
};
/// Returns the first one, which stays in the socket. An earlier adapter may have carried it out and
/// crashed before it took it.
inline std::optional<WaitingRequest> peek_request(int socket) {
  std::array<std::byte, abi::kMaxRecord> record;
  WaitingRequest out{};
  if (peek_record(socket, record, out.bytes) != ReceiveResult::kRecord ||
      out.bytes < sizeof out.header)
    return std::nullopt;
  std::memcpy(&out.header, record.data(), sizeof out.header);
  return out;
}

/// What to do after a record. kLater: it is not answered yet. It stays in the socket until
/// take_record().
enum class Served : std::uint8_t { kNext, kLater, kEnd };

/// Gives waiting records to `answer`, which returns what to do next. Their number and time are
/// bounded, so that one process does not keep others from being served. Returns false if the
/// connection is over.
template <class Answer>
bool serve_records(int socket, Answer&& answer) {
  constexpr int kMost = 16;
  const auto clock = [] { return std::chrono::steady_clock::now(); };
  const auto end = clock() + std::chrono::microseconds(500);
  std::array<std::byte, abi::kMaxRecord> buffer;
  for (int i = 0; i < kMost && (i == 0 || clock() < end); ++i) {
    std::size_t length = 0;
    const ReceiveResult result = peek_record(socket, buffer, length);
    if (result != ReceiveResult::kRecord) return result == ReceiveResult::kNothing;
    const Served served = answer(std::span<const std::byte>(buffer.data(), length));
    if (served == Served::kLater) return true;
    take_record(socket);  // else a process at its end gets ECONNRESET before the last answer
    if (served == Served::kEnd) return false;
  }
  return true;
}

}  // namespace softhca::control

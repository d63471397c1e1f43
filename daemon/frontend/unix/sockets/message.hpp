// SPDX-License-Identifier: Apache-2.0

// One request being answered: typed access to the copied record, and the reply.
#pragma once

#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "abi/control.hpp"
#include "daemon/base/unique_fd.hpp"
#include "daemon/frontend/unix/sockets/peer_socket.hpp"
#include "daemon/frontend/unix/sockets/unix_socket.hpp"

namespace softhca::control {

/// A private copy of a request's body, validated by size before use.
class RequestBody {
 public:
  explicit RequestBody(std::span<const std::byte> bytes) : bytes_(bytes) {}

  /// Reads a T. Returns false if the body is not exactly a T (or, with a tail, shorter than a T).
  template <class T>
  bool read(T& out, bool with_tail = false) const {
    static_assert(std::is_trivially_copyable_v<T>);
    if (bytes_.size() < sizeof(T) || (!with_tail && bytes_.size() != sizeof(T))) return false;
    std::memcpy(&out, bytes_.data(), sizeof(T));
    return true;
  }
  /// Reads exactly `count` elements of T behind a head of type H. Returns false for any other size.
  template <class H, class T>
  bool read_tail(std::vector<T>& out, std::size_t count) const {
    static_assert(std::is_trivially_copyable_v<T>);
    if (bytes_.size() != sizeof(H) + count * sizeof(T)) return false;
    out.resize(count);
    if (count != 0) std::memcpy(out.data(), bytes_.data() + sizeof(H), count * sizeof(T));
    return true;
  }
  /// True if the body is empty or a HandleBody of zeros, which means the same.
  bool empty() const {
    abi::HandleBody handle;
    return bytes_.empty() || (read(handle) && handle.handle == 0);
  }

 private:
  std::span<const std::byte> bytes_;
};

class Reply {
 public:
  Reply() = default;
  Reply(const Reply&) = delete;
  Reply& operator=(const Reply&) = delete;
  ~Reply() {
    for (PeerSocket& socket : given_) socket.hand_over();
  }

  static constexpr std::size_t kRoom = 512;  ///< bytes of body

  /// Writes the first `size` bytes of `body`.
  template <class T>
  void write(const T& body, std::size_t size = sizeof(T)) {
    static_assert(std::is_trivially_copyable_v<T>);
    static_assert(sizeof(T) <= kRoom);
    std::memcpy(bytes_, &body, size);
    size_ = size;
  }
  /// Attaches a descriptor, which stays the caller's and must stay open until the reply is sent.
  void attach(int fd) { fds_.push_back(fd); }
  /// Attaches a socket that is for the process alone.
  void give(PeerSocket socket) {
    fds_.push_back(socket.get());
    given_.push_back(std::move(socket));
  }

  std::span<const std::byte> bytes() const { return {bytes_, size_}; }
  const std::vector<int>& fds() const { return fds_; }

 private:
  std::byte bytes_[kRoom] = {};
  std::size_t size_ = 0;
  std::vector<int> fds_;
  std::vector<PeerSocket> given_;
};

/// Makes a socket by which the daemon notifies a process, and gives the process the other end. The
/// kernel refuses what the process sends by it. `socket`: a socket of the same owner. Returns 0 or
/// an errno value.
inline int make_one_way(int type, const PeerSocket& socket, PeerSocket& ours, Reply& reply) {
  int ends[2];
  if (::socketpair(AF_UNIX, type | SOCK_CLOEXEC, 0, ends) != 0) return errno;
  ours = socket.sibling(UniqueFd(ends[0]));
  reply.give(socket.sibling(UniqueFd(ends[1])));
  ::shutdown(ours.get(), SHUT_RD);
  return 0;
}

/// Answers a request: with the body and descriptors of `reply`, or with the error alone. Returns
/// false if the process is gone or does not read.
inline bool send_reply(int socket, std::uint32_t tag, int error, const Reply& reply) {
  std::array<std::byte, sizeof(abi::ReplyHeader) + Reply::kRoom> record;
  const abi::ReplyHeader header{tag, error};
  std::memcpy(record.data(), &header, sizeof header);
  if (error != 0) return send_record(socket, {record.data(), sizeof header}, {});
  std::memcpy(record.data() + sizeof header, reply.bytes().data(), reply.bytes().size());
  return send_record(socket, {record.data(), sizeof header + reply.bytes().size()}, reply.fds());
}

/// What to do after a record.
enum class Served : std::uint8_t { kNext, kEnough, kEnd };

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
    const ReceiveResult result = receive_record(socket, buffer, length);
    if (result != ReceiveResult::kRecord) return result == ReceiveResult::kNothing;
    const Served served = answer(std::span<const std::byte>(buffer.data(), length));
    if (served != Served::kNext) return served == Served::kEnough;
  }
  return true;
}

}  // namespace softhca::control

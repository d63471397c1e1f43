// SPDX-License-Identifier: Apache-2.0

// The tenant socket, spoken to directly: requests of abi/control.hpp, replies with descriptors.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "abi/control.hpp"
#include "tests/tenant_socket.hpp"

namespace softhca::scribble {

[[noreturn]] void die(const std::string& what);

/// Shared memory of the daemon, mapped whole.
struct Mapping {
  std::byte* base;
  std::size_t bytes;
};

class Channel {
 public:
  /// Ends the program on failure, also when the daemon goes away later.
  explicit Channel(const std::string& socket_path);

  /// 0 or the errno value of the reply. Descriptors that came are in fds().
  template <class In, class Out>
  int ask(abi::Operation operation, const In& in, Out& out) {
    static_assert(std::is_trivially_copyable_v<In> && std::is_trivially_copyable_v<Out>);
    std::vector<std::byte> body;
    const int error = exchange(operation, std::as_bytes(std::span(&in, 1)), body);
    if (error != 0) return error;
    if (body.size() != sizeof out) die("a reply of another size");
    std::memcpy(&out, body.data(), sizeof out);
    return 0;
  }
  template <class In>
  int tell(abi::Operation operation, const In& in) {
    std::vector<std::byte> body;
    return exchange(operation, std::as_bytes(std::span(&in, 1)), body);
  }
  /// Begins a session.
  abi::HelloReply greet();
  /// Closed with the next request.
  const std::vector<UniqueFd>& fds() const { return fds_; }
  /// Maps a descriptor of the last reply.
  Mapping map(std::size_t fd) const;

 private:
  int exchange(abi::Operation operation, std::span<const std::byte> body,
               std::vector<std::byte>& reply);

  int socket_;
  std::uint32_t tag_ = 0;
  std::vector<UniqueFd> fds_;
};

}  // namespace softhca::scribble

// SPDX-License-Identifier: Apache-2.0

// The Unix sockets between which a channel carries records and bytes: of programs in the guest, of
// the daemon on the host.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "abi/control.hpp"
#include "daemon/base/expected.hpp"
#include "daemon/base/unique_fd.hpp"

namespace softhca::guest {

enum class Received : std::uint8_t {
  kBytes,    ///< a record, which may be empty, or bytes
  kNothing,  ///< nothing waits
  kEnd,      ///< the other end is closed, or has sent what this end does not take
};

struct ReceivedRecord {
  std::size_t bytes = 0;
  std::array<UniqueFd, abi::kMaxFds> fds;
  std::size_t descriptors = 0;
};

/// Makes receive_record() tell an empty record from the end. Fails only for sockets of other kinds.
void tell_empty_records(int socket);

/// Receives a record of a SOCK_SEQPACKET socket, with at most `most` descriptors. A record that is
/// longer than `buffer`, or has more descriptors, counts as the end.
Received receive_record(int socket, std::span<std::byte> buffer, std::size_t most,
                        ReceivedRecord& record);
/// Receives bytes of a SOCK_STREAM socket.
Received receive_bytes(int socket, std::span<std::byte> buffer, std::size_t& bytes);

/// Connects to a Unix socket. Waits up to a second while more connections wait there than it takes.
/// Errors: those of socket(2) and connect(2), and ENAMETOOLONG.
Expected<UniqueFd> connect_to(const std::string& path, int type);
/// Listens on a Unix socket, and replaces one that is there already.
Expected<UniqueFd> listen_on(const std::string& path, int type, unsigned mode);

}  // namespace softhca::guest

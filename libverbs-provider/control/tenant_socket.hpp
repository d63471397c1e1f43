// SPDX-License-Identifier: Apache-2.0

// Selects the tenant's socket for a process, and makes its first request. $SOFTHCA_LEVEL may name a
// level of the tenant.
#pragma once

#include <cstddef>

#include "abi/control.hpp"
#include "libverbs-provider/control/control_channel.hpp"

namespace softhca::provider {

inline constexpr std::size_t kSocketPathBytes = 108;  ///< of sockaddr_un

/// Selects the socket of the wanted level, beside the tenant's, if the process may use it; else the
/// tenant's.
void choose_socket(const char* tenants, char (&path)[kSocketPathBytes]);

/// Body of the first request of a connection.
struct Hello {
  abi::HelloWithLevel body;
  std::size_t bytes;  ///< bytes of it to send
};
/// Builds a HELLO. Returns 0, or EINVAL if the name of the level is too long.
int make_hello(Hello& hello, abi::VersionRange versions = abi::kSpokenVersions);

/// Prints once per process why the daemon has refused the versions of a HELLO. `answer`: the body
/// of the refusal, or zeros.
void explain_refusal(abi::VersionRange answer, abi::VersionRange versions = abi::kSpokenVersions);

/// Sends the HELLO of a session. Returns 0 with the version of the session in `reply`, or an errno
/// value. EPROTO: the daemon speaks none of the versions, or its answer is invalid.
int greet(ControlChannel& control, abi::HelloReply& reply, ReceivedFds& fds,
          abi::VersionRange versions = abi::kSpokenVersions);

}  // namespace softhca::provider

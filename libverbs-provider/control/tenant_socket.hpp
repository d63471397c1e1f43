// SPDX-License-Identifier: Apache-2.0

// Selects the tenant's socket for a process, and makes its first request. $SOFTHCA_LEVEL may name a
// level of the tenant.
#pragma once

#include <cerrno>
#include <cstddef>
#include <cstdint>

#include "abi/control.hpp"
#include "libverbs-provider/control/control_channel.hpp"

namespace softhca::provider {

inline constexpr std::size_t kSocketPathBytes = 108;  ///< of sockaddr_un

/// Where a device's sessions connect.
struct TenantSocket {
  char path[kSocketPathBytes];
  std::uint32_t device;  ///< index of the device among those of the tenant
};

/// Selects the socket of the wanted level, beside the tenant's, if the process may use it; else the
/// tenant's.
void choose_socket(const char* tenants, char (&path)[kSocketPathBytes]);

/// Body of the first request of a connection.
struct Hello {
  abi::HelloWithDevice body;
  std::size_t bytes;  ///< bytes of it to send
};
/// Builds a HELLO for a device of the tenant, by its index. Returns 0, or EINVAL if the name of the
/// level is too long.
int make_hello(Hello& hello, std::uint32_t device,
               abi::VersionRange versions = abi::kSpokenVersions);

/// Prints once per process why the daemon has refused the versions of a HELLO. `answer`: the body
/// of the refusal, or zeros.
void explain_refusal(abi::VersionRange answer, abi::VersionRange versions = abi::kSpokenVersions);

/// Sends the HELLO of a session. Returns 0 with the version of the session in `reply`, or an errno
/// value. EPROTO: the daemon speaks none of the versions, or its answer is invalid.
int greet(ControlChannel& control, std::uint32_t device, abi::HelloReply& reply, ReceivedFds& fds,
          abi::VersionRange versions = abi::kSpokenVersions);

}  // namespace softhca::provider

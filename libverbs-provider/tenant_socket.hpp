// Which socket of the tenant a process connects to, and what it says first: $SOFTHCA_LEVEL may name
// a level of the tenant.
#pragma once

#include <cstddef>

#include "abi/control.hpp"

namespace softhca::provider {

inline constexpr std::size_t kSocketPathBytes = 108;  ///< of sockaddr_un

/// The socket of the wanted level, beside the tenant's, where there is one for us; else the
/// tenant's.
void choose_socket(const char* tenants, char (&path)[kSocketPathBytes]);

/// Body of the first request of a connection.
struct Hello {
  abi::HelloWithLevel body;
  std::size_t bytes;  ///< of it, to be sent
};
/// 0, or EINVAL when the name of the level is too long.
int make_hello(Hello& hello);

}  // namespace softhca::provider

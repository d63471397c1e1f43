// SPDX-License-Identifier: Apache-2.0

// Listening sockets that outlive the adapter, with the connections that wait in them.
#pragma once

#include <string>

#include "daemon/base/expected.hpp"
#include "daemon/base/unique_fd.hpp"
#include "daemon/control_thread/kept_descriptors.hpp"
#include "daemon/frontend/unix/sockets/unix_socket.hpp"

namespace softhca::control {

struct KeptListener {
  UniqueFd socket;
  KeptDescriptor kept;
  bool is_earlier = false;  ///< an earlier adapter made it, with its permissions
};

/// Takes up the socket that an earlier adapter made at `path`. If there is none, makes one as
/// listen_at(). Errors: as that, and those of KeptDescriptors::keep().
Expected<KeptListener> take_up_or_listen(KeptDescriptors& kept, const std::string& path,
                                         const SocketPermissions& permissions,
                                         int type = SOCK_SEQPACKET);

/// True if an earlier adapter made the socket at `path`, and this one has not taken it up.
bool is_earlier(const KeptDescriptors& kept, const std::string& path);

/// Removes the sockets of an earlier adapter that this one has not taken up.
void remove_earlier(KeptDescriptors& kept);

}  // namespace softhca::control

// SPDX-License-Identifier: Apache-2.0

// The sockets of the tenant and its levels in the guest, to which programs connect.
#pragma once

#include <sys/types.h>

#include <functional>
#include <map>
#include <optional>
#include <string>

#include "daemon/base/expected.hpp"
#include "daemon/base/unique_fd.hpp"
#include "guest/channel/event_loop.hpp"

namespace softhca::guest {

class TenantSockets {
 public:
  /// Takes a connection to the socket of this name.
  using Accept = std::function<void(const std::string& name, UniqueFd connection)>;

  /// `group`: may connect, and no other user but root; nothing: all may, but to the control socket
  /// only root.
  TenantSockets(EventLoop& loop, std::optional<gid_t> group, Accept accept);
  ~TenantSockets() { close_all(); }
  TenantSockets(const TenantSockets&) = delete;
  TenantSockets& operator=(const TenantSockets&) = delete;

  /// Listens at the socket `name` of the folder, unless it does so already.
  Outcome open(const std::string& folder, const std::string& name);
  void close(const std::string& name);
  void close_all();
  /// False: connections wait.
  void accept_more(bool more);

 private:
  static constexpr std::size_t kMost = 256;
  static constexpr std::uint32_t kPause = 200;  // ms

  struct Listening {
    std::string path;
    UniqueFd fd;
    Watch watch;
  };

  void ready(const std::string& name, Listening& listening);
  void arm();

  EventLoop& loop_;
  std::optional<gid_t> group_;
  Accept accept_;
  std::map<std::string, Listening> listening_;
  Timer pause_;  ///< after a shortage, such as of descriptors
  bool accepts_more_ = true;
};

}  // namespace softhca::guest

// SPDX-License-Identifier: Apache-2.0

#include "guest/agent/channel_place.hpp"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>

// It uses types of sys/socket.h.
#include <linux/vm_sockets.h>
#include <unistd.h>

#include <charconv>

#include "daemon/base/system_error.hpp"
#include "guest/channel/frame.hpp"
#include "guest/channel/local_socket.hpp"

namespace softhca::guest {
namespace {

Expected<UniqueFd> open_vsock() {
  UniqueFd fd(::socket(AF_VSOCK, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_vm address{};
  address.svm_family = AF_VSOCK;
  address.svm_cid = VMADDR_CID_HOST;
  address.svm_port = kVsockPort;
  if (!fd || ::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0)
    return system_error("vsock port " + std::to_string(kVsockPort) + " of the host");
  return fd;
}

Expected<UniqueFd> open_inherited(const std::string& number) {
  int inherited = -1;
  const char* const last = number.data() + number.size();
  const auto [end, error] = std::from_chars(number.data(), last, inherited);
  if (error != std::errc{} || end != last)
    return Error{"fd:" + number + ": expected the number of a descriptor", EINVAL};
  UniqueFd fd(::fcntl(inherited, F_DUPFD_CLOEXEC, 0));
  if (!fd) return system_error("fd:" + number);
  return fd;
}

}  // namespace

Expected<UniqueFd> open_channel(const std::string& place) {
  if (place.starts_with("fd:")) return open_inherited(place.substr(3));
  const bool has_port = ::access(kVirtioPort, F_OK) == 0;
  if (place == "vsock" || (place.empty() && !has_port)) return open_vsock();
  const std::string path = place.empty() ? kVirtioPort : place;
  struct stat info;
  if (::stat(path.c_str(), &info) != 0) return system_error(path);
  if (S_ISSOCK(info.st_mode)) return connect_to(path, SOCK_STREAM);
  if (!S_ISCHR(info.st_mode))
    return Error{path + ": expected a character device or a Unix socket", EINVAL};
  UniqueFd fd(::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (!fd) return system_error(path);
  return fd;
}

}  // namespace softhca::guest

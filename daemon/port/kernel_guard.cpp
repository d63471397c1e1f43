// SPDX-License-Identifier: Apache-2.0

#include "daemon/port/kernel_guard.hpp"

#include <linux/filter.h>
#include <net/if.h>
#include <net/if_arp.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "daemon/base/address_text.hpp"
#include "daemon/base/host_addresses.hpp"
#include "daemon/base/kernel_address.hpp"
#include "daemon/base/system_error.hpp"
#include "daemon/port/roce_udp.hpp"

namespace softhca::port {
namespace {

/// Closes a descriptor at the end of a scope.
struct Descriptor {
  int fd;
  explicit Descriptor(int f) : fd(f) {}
  Descriptor(const Descriptor&) = delete;
  ~Descriptor() {
    if (fd >= 0) close(fd);
  }
};

bool ask(int fd, unsigned long what, const std::string& name, ifreq& request) {
  std::memset(&request, 0, sizeof request);
  if (name.empty() || name.size() >= sizeof request.ifr_name) {
    errno = ENODEV;
    return false;
  }
  std::memcpy(request.ifr_name, name.data(), name.size());
  return ioctl(fd, what, &request) == 0;
}

bool is_running(const ifreq& request) {
  constexpr int kWanted = IFF_UP | IFF_RUNNING;
  return (request.ifr_flags & kWanted) == kWanted;
}

/// Enables trains on a guard socket. Otherwise the kernel would cut trains for the socket, only to
/// drop their packets one by one, as older kernels do.
void take_trains(int fd) {
  const int on = 1;
  (void)setsockopt(fd, IPPROTO_UDP, UDP_GRO, &on, sizeof on);
}

}  // namespace

Expected<std::vector<AssignedAddress>> interface_addresses(const std::string& name) {
  const auto all = host_addresses();
  if (!all) return all.error();
  std::vector<AssignedAddress> own;
  for (const HostAddress& each : *all)
    if (each.interface == name) own.push_back({each.address, each.prefix_length});
  return own;
}

Expected<std::string> interface_with(const Gid& address) {
  const auto all = host_addresses();
  if (!all) return all.error();
  std::vector<std::string> having;
  std::string loopback;
  for (const HostAddress& each : *all) {
    if (each.address == address) having.push_back(each.interface);
    if (each.loopback && each.network().contains(address)) loopback = each.interface;
  }
  if (having.empty() && !loopback.empty()) return loopback;
  if (having.size() == 1) return having.front();
  return Error{having.empty() ? "no interface of this host has the address " +
                                    address_text(address) + " (see `ip addr`)"
                              : "more than one interface of this host has the address " +
                                    address_text(address),
               EADDRNOTAVAIL};
}

Expected<InterfaceState> read_interface(const std::string& name) {
  const Descriptor s(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  ifreq request;
  InterfaceState state;
  if (!ask(s.fd, SIOCGIFINDEX, name, request))
    return Error{"interface " + name + ": " + std::strerror(errno), errno};
  state.index = request.ifr_ifindex;
  if (ask(s.fd, SIOCGIFMTU, name, request)) state.mtu = static_cast<std::uint32_t>(request.ifr_mtu);
  if (ask(s.fd, SIOCGIFFLAGS, name, request)) state.running = is_running(request);
  if (ask(s.fd, SIOCGIFHWADDR, name, request) && request.ifr_hwaddr.sa_family == ARPHRD_ETHER)
    std::memcpy(state.mac.bytes.data(), request.ifr_hwaddr.sa_data, state.mac.bytes.size());
  auto addresses = interface_addresses(name);
  if (!addresses) return addresses.error();
  state.addresses = std::move(*addresses);
  return state;
}

bool interface_running(const std::string& name) {
  const Descriptor s(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  ifreq request;
  return ask(s.fd, SIOCGIFFLAGS, name, request) && is_running(request);
}

UdpGuard::UdpGuard(UdpGuard&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}

UdpGuard& UdpGuard::operator=(UdpGuard&& other) noexcept {
  std::swap(fd_, other.fd_);
  return *this;
}

UdpGuard::~UdpGuard() {
  if (fd_ >= 0) close(fd_);
}

bool drop_everything(int fd) {
  sock_filter drop[] = {BPF_STMT(BPF_RET | BPF_K, 0)};
  const sock_fprog program{1, drop};
  return setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program) == 0;
}

Expected<UdpGuard> guard_roce_port(const Gid& address, const std::string& interface,
                                   UniqueFd kept) {
  const unsigned index = if_nametoindex(interface.c_str());
  if (kept && is_bound(kept.get(), address, kRocePort, index)) return UdpGuard(kept.release());
  UdpGuard guard(socket(family_of(address), SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (guard.fd() < 0 || !drop_everything(guard.fd())) return system_error("UDP socket");
  if (auto bound = bind_udp(guard.fd(), address, kRocePort, index); !bound) return bound.error();
  take_trains(guard.fd());
  return guard;
}

bool is_bound(int fd, const Gid& address, std::uint16_t port, unsigned interface_index) {
  const KernelAddress wanted = kernel_address(address, port, interface_index);
  KernelAddress bound;
  bound.length = static_cast<socklen_t>(bound.bytes.size());
  return getsockname(fd, bound.get(), &bound.length) == 0 && bound.length == wanted.length &&
         std::memcmp(bound.get(), wanted.get(), wanted.length) == 0;
}

Outcome bind_udp(int fd, const Gid& address, std::uint16_t port, unsigned interface_index) {
  const int on = 1;
  const KernelAddress to = kernel_address(address, port, interface_index);
  if ((address.is_ipv4() || setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof on) == 0) &&
      bind(fd, to.get(), to.length) == 0)
    return {};
  const int code = errno;
  std::string why = std::strerror(code);
  if (code == EADDRINUSE) why += " (another RoCE implementation uses it; stop that one first)";
  if (code == EADDRNOTAVAIL) why += " (the kernel does not own the address)";
  return Error{"UDP port " + std::to_string(port) + " of " + address_text(address) + ": " + why,
               code};
}

}  // namespace softhca::port

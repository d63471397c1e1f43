#include "daemon/port/kernel_guard.hpp"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <linux/filter.h>
#include <net/if.h>
#include <net/if_arp.h>
#include <netinet/in.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <bit>
#include <cerrno>
#include <cstring>
#include <memory>
#include <utility>

#include "daemon/port/roce_udp.hpp"

namespace softhca::port {
namespace {

/// Closes at the end of a scope.
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

Gid gid_of(const sockaddr& address) {
  if (address.sa_family == AF_INET)
    return Gid::from_ipv4(ntohl(reinterpret_cast<const sockaddr_in&>(address).sin_addr.s_addr));
  Gid g;
  std::memcpy(g.bytes.data(), &reinterpret_cast<const sockaddr_in6&>(address).sin6_addr, 16);
  return g;
}

std::uint8_t prefix_of(const sockaddr& mask) {
  const bool v4 = mask.sa_family == AF_INET;
  const auto* bytes = v4 ? reinterpret_cast<const std::uint8_t*>(
                               &reinterpret_cast<const sockaddr_in&>(mask).sin_addr)
                         : reinterpret_cast<const std::uint8_t*>(
                               &reinterpret_cast<const sockaddr_in6&>(mask).sin6_addr);
  int bits = 0;
  for (int i = 0; i < (v4 ? 4 : 16); ++i) bits += std::popcount(bytes[i]);
  return static_cast<std::uint8_t>(bits);
}

bool drop_everything(int fd) {
  sock_filter drop[] = {BPF_STMT(BPF_RET | BPF_K, 0)};
  const sock_fprog program{1, drop};
  return setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program) == 0;
}

bool bind_to(int fd, const Gid& address, const std::string& interface) {
  if (address.is_ipv4()) {
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(kRocePort);
    to.sin_addr.s_addr = htonl(address.ipv4());
    return bind(fd, reinterpret_cast<sockaddr*>(&to), sizeof to) == 0;
  }
  const int on = 1;
  if (setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof on) < 0) return false;
  sockaddr_in6 to{};
  to.sin6_family = AF_INET6;
  to.sin6_port = htons(kRocePort);
  std::memcpy(&to.sin6_addr, address.bytes.data(), address.bytes.size());
  if (address.is_link_local()) to.sin6_scope_id = if_nametoindex(interface.c_str());
  return bind(fd, reinterpret_cast<sockaddr*>(&to), sizeof to) == 0;
}

}  // namespace

Expected<std::vector<InterfaceAddress>> interface_addresses(const std::string& name) {
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0)
    return Error{std::string("cannot list addresses: ") + std::strerror(errno), errno};
  const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> owner(list, freeifaddrs);
  std::vector<InterfaceAddress> all;
  for (const ifaddrs* a = list; a != nullptr; a = a->ifa_next) {
    if (name != a->ifa_name || a->ifa_addr == nullptr || a->ifa_netmask == nullptr) continue;
    if (a->ifa_addr->sa_family != AF_INET && a->ifa_addr->sa_family != AF_INET6) continue;
    all.push_back({gid_of(*a->ifa_addr), prefix_of(*a->ifa_netmask)});
  }
  return all;
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

Expected<UdpGuard> guard_roce_port(const Gid& address, const std::string& interface) {
  UdpGuard guard(socket(address.is_ipv4() ? AF_INET : AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  const int fd = guard.fd();
  if (fd >= 0 && drop_everything(fd) && bind_to(fd, address, interface)) return guard;
  const int code = errno;
  std::string why = std::strerror(code);
  if (code == EADDRINUSE) why += " (another RoCE implementation holds it; stop that one first)";
  if (code == EADDRNOTAVAIL) why += " (the kernel does not own the address)";
  return Error{"UDP port 4791 of " + address_text(address) + ": " + why, code};
}

std::string address_text(const Gid& address) {
  char text[INET6_ADDRSTRLEN] = {};
  if (address.is_ipv4())
    inet_ntop(AF_INET, address.bytes.data() + 12, text, sizeof text);
  else
    inet_ntop(AF_INET6, address.bytes.data(), text, sizeof text);
  return text;
}

}  // namespace softhca::port

// What the kernel knows of an interface, and how to keep it from answering in our place.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "daemon/base/expected.hpp"
#include "daemon/base/net.hpp"

namespace softhca::port {

struct InterfaceAddress {
  Gid address;
  std::uint8_t prefix_length = 0;  ///< of its own family: 0..32 or 0..128
};

struct InterfaceState {
  int index = 0;
  MacAddress mac;
  std::uint32_t mtu = 0;                    ///< bytes of an IP packet
  bool running = false;                     ///< up, with a carrier
  std::vector<InterfaceAddress> addresses;  ///< IPv4 and IPv6, link-local ones too
};

/// Looks an interface of this network namespace up. Error: it does not exist.
Expected<InterfaceState> read_interface(const std::string& name);

/// The addresses the kernel owns on the interface. For those it answers ARP and neighbour
/// discovery itself.
Expected<std::vector<InterfaceAddress>> interface_addresses(const std::string& name);

/// Is the interface up and does it have a carrier? One system call or two.
bool interface_running(const std::string& name);

/// Holds UDP port 4791 of an address the kernel owns, so that the kernel does not answer RoCE
/// packets with "port unreachable". A filter drops everything before it is queued.
class UdpGuard {
 public:
  explicit UdpGuard(int fd) : fd_(fd) {}
  UdpGuard(UdpGuard&& other) noexcept;
  UdpGuard& operator=(UdpGuard&& other) noexcept;
  ~UdpGuard();
  int fd() const { return fd_; }

 private:
  int fd_;
};

/// `interface` is needed for link-local addresses only, which belong to one.
/// Error: the address is not the kernel's, or another RoCE implementation holds the port.
Expected<UdpGuard> guard_roce_port(const Gid& address, const std::string& interface = {});

/// The interface on which the kernel has the address; the loopback interface for those of its
/// network. Error: none has it, or more than one.
Expected<std::string> interface_with(const Gid& address);

/// Binds a UDP socket to an address, and to a port of the kernel's choice for 0. `interface_index`:
/// see kernel_address(). Error: as guard_roce_port().
Outcome bind_udp(int fd, const Gid& address, std::uint16_t port, unsigned interface_index);

/// From now on the socket is given nothing. To be called before it is bound.
bool drop_everything(int fd);

/// "192.0.2.1" or "fe80::1".
std::string address_text(const Gid& address);

}  // namespace softhca::port

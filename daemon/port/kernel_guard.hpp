// SPDX-License-Identifier: Apache-2.0

// Reads the kernel's view of an interface, and keeps the kernel from answering in place of the
// daemon.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "daemon/base/expected.hpp"
#include "daemon/base/net.hpp"
#include "daemon/base/unique_fd.hpp"

namespace softhca::port {

struct AssignedAddress {
  Gid address;
  std::uint8_t prefix_length = 0;  ///< of its own family: 0..32 or 0..128
};

struct InterfaceState {
  int index = 0;
  MacAddress mac;
  std::uint32_t mtu = 0;                   ///< bytes of an IP packet
  bool running = false;                    ///< up, with a carrier
  std::vector<AssignedAddress> addresses;  ///< IPv4 and IPv6, link-local ones too
};

/// Reads an interface of this network namespace. Error: it does not exist.
Expected<InterfaceState> read_interface(const std::string& name);

/// Returns the addresses that the kernel owns on the interface. For those the kernel answers ARP
/// and neighbour discovery itself.
Expected<std::vector<AssignedAddress>> interface_addresses(const std::string& name);

/// True if the interface is up and has a carrier. Costs one or two system calls.
bool interface_running(const std::string& name);

/// Holds UDP port 4791 of an address that the kernel owns, so that the kernel does not answer RoCE
/// packets with "port unreachable". A filter drops all packets before they are queued.
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

/// Makes a guard. Only link-local addresses need `interface`, because they belong to one. `kept`:
/// the socket of an earlier guard. It is used if it still guards the address. Error: the kernel
/// does not own the address, or another RoCE implementation holds the port.
Expected<UdpGuard> guard_roce_port(const Gid& address, const std::string& interface = {},
                                   UniqueFd kept = {});

/// Returns the interface on which the kernel has the address, or the loopback interface for
/// addresses of its network. Error: none has it, or more than one.
Expected<std::string> interface_with(const Gid& address);

/// Binds a UDP socket to an address and a port; port 0: the kernel chooses one. `interface_index`:
/// as for kernel_address(). Error: as for guard_roce_port().
Outcome bind_udp(int fd, const Gid& address, std::uint16_t port, unsigned interface_index);
/// True if the socket is bound as by bind_udp().
bool is_bound(int fd, const Gid& address, std::uint16_t port, unsigned interface_index);

/// Makes the kernel drop all packets for the socket. REQUIRES: the socket is not bound yet.
bool drop_everything(int fd);

}  // namespace softhca::port

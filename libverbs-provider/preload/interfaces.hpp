// SPDX-License-Identifier: Apache-2.0

// The addresses of the tenant that the process's network namespace lacks. Those of a tenant without
// a port are on no interface of the kernel, and a container has another namespace than the daemon.
// Programs look for a device's addresses among those of the interfaces, so this library's
// replacements of the listing functions add them.
#pragma once

#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>

#include <cstddef>

namespace softhca::preload {

/// An address on the interface that the device tree names (gid_attrs/ndevs).
struct MissingAddress {
  char interface[IFNAMSIZ];
  int index;       ///< of the interface
  unsigned flags;  ///< of the interface, IFF_*
  bool listed;     ///< the kernel has an interface of this name
  bool first;      ///< the first one of its interface
  union {
    sockaddr any;
    sockaddr_in v4;
    sockaddr_in6 v6;
  };

  bool is_v4() const { return any.sa_family == AF_INET; }
  const void* bytes() const;
  std::size_t size() const { return is_v4() ? sizeof(in_addr) : sizeof(in6_addr); }
  /// True if `other` is the same address, on any interface.
  bool equals(const sockaddr* other) const;
};

class MissingAddresses {
 public:
  static constexpr std::size_t kMax = 64;  ///< further ones are ignored

  /// Finds those that are not in a list of getifaddrs(3). Keeps errno.
  explicit MissingAddresses(const ifaddrs* listed) { find(listed); }
  /// Finds those that are not in the C library's current list.
  MissingAddresses();

  const MissingAddress* begin() const { return found_; }
  const MissingAddress* end() const { return found_ + count_; }
  std::size_t size() const { return count_; }
  /// Returns the first address of an interface that the kernel does not list, or nullptr.
  const MissingAddress* unlisted(const char* name) const;
  const MissingAddress* unlisted(int index) const;

 private:
  void find(const ifaddrs* listed);
  void add(const char* gid, const char* interface, int position, const ifaddrs* listed);

  MissingAddress found_[kMax];
  std::size_t count_ = 0;
};

struct InterfaceFigures {
  int mtu;
  unsigned char hardware_address[6];
};
/// Returns the values of the device tree for an interface that the kernel does not list.
InterfaceFigures figures_of(const MissingAddress& address);

/// The functions of the C library.
int real_getifaddrs(ifaddrs** list);
void real_freeifaddrs(ifaddrs* list);

}  // namespace softhca::preload

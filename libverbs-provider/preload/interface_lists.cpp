// SPDX-License-Identifier: Apache-2.0

// The functions of the C library that list network interfaces and their addresses. Each calls the
// original, then appends the missing addresses of the tenant. They come last, because programs that
// need any address take the first.
#include <linux/if_packet.h>
#include <net/if_arp.h>
#include <sys/ioctl.h>

#include <cerrno>
#include <cstdarg>
#include <cstdlib>
#include <cstring>

#include "libverbs-provider/preload/interfaces.hpp"
#include "libverbs-provider/preload/next.hpp"

using softhca::preload::figures_of;
using softhca::preload::InterfaceFigures;
using softhca::preload::MissingAddress;
using softhca::preload::MissingAddresses;
using softhca::preload::Next;

namespace {

/// An entry appended to a list of getifaddrs(3). All of them are in one block.
struct Entry {
  ifaddrs base;
  char name[IFNAMSIZ];
  union Address {
    sockaddr any;
    sockaddr_in v4;
    sockaddr_in6 v6;
    sockaddr_ll link;
  } address, netmask;

  /// True if the entry is one of these: the C library stores the name elsewhere.
  static bool is(const ifaddrs* entry) {
    return entry->ifa_name == reinterpret_cast<const Entry*>(entry)->name;
  }

  void name_it(const MissingAddress& missing) {
    std::memset(this, 0, sizeof *this);
    std::strcpy(name, missing.interface);
    base.ifa_name = name;
    base.ifa_flags = missing.flags;
    base.ifa_addr = &address.any;
  }
  void describe_link(const MissingAddress& missing) {
    name_it(missing);
    const InterfaceFigures figures = figures_of(missing);
    address.link.sll_family = AF_PACKET;
    address.link.sll_ifindex = missing.index;
    address.link.sll_hatype = ARPHRD_ETHER;
    address.link.sll_halen = sizeof figures.hardware_address;
    std::memcpy(address.link.sll_addr, figures.hardware_address, sizeof figures.hardware_address);
  }
  void describe(const MissingAddress& missing) {
    name_it(missing);
    base.ifa_netmask = &netmask.any;
    netmask.any.sa_family = missing.any.sa_family;
    if (missing.is_v4()) {
      address.v4 = missing.v4;
      netmask.v4.sin_addr.s_addr = INADDR_NONE;
    } else {
      address.v6 = missing.v6;
      std::memset(&netmask.v6.sin6_addr, 0xff, sizeof netmask.v6.sin6_addr);
    }
  }
};

/// Appends the missing addresses. False: out of memory.
bool append(const MissingAddresses& missing, ifaddrs** list) {
  if (missing.size() == 0) return true;
  auto* entries = static_cast<Entry*>(std::malloc(2 * missing.size() * sizeof(Entry)));
  if (entries == nullptr) return false;
  while (*list != nullptr) list = &(*list)->ifa_next;
  for (const MissingAddress& address : missing) {
    if (address.first && !address.listed) {
      entries->describe_link(address);
      *list = &entries->base;
      list = &entries++->base.ifa_next;
    }
    entries->describe(address);
    *list = &entries->base;
    list = &entries++->base.ifa_next;
  }
  return true;
}

void copy_address(const MissingAddress& address, ifreq& entry) {
  std::memcpy(&entry.ifr_addr, &address.v4, sizeof address.v4);
}

int append(const MissingAddresses& missing, ifconf& list, int room) {
  for (const MissingAddress& address : missing) {
    if (!address.is_v4()) continue;
    if (list.ifc_buf != nullptr) {
      if (list.ifc_len + static_cast<int>(sizeof(ifreq)) > room) break;
      ifreq entry{};
      std::strcpy(entry.ifr_name, address.interface);
      copy_address(address, entry);
      std::memcpy(list.ifc_buf + list.ifc_len, &entry, sizeof entry);
    }
    list.ifc_len += static_cast<int>(sizeof(ifreq));
  }
  return 0;
}

/// Answers a request that the kernel refused, about an interface that it does not list, or one
/// without an IPv4 address of its own. False: the tenant has no such interface.
bool answer(unsigned long request, ifreq& entry) {
  const MissingAddresses missing;
  if (request == SIOCGIFNAME) {
    const MissingAddress* found = missing.unlisted(entry.ifr_ifindex);
    if (found != nullptr) std::strcpy(entry.ifr_name, found->interface);
    return found != nullptr;
  }
  if (request == SIOCGIFADDR || request == SIOCGIFNETMASK) {
    for (const MissingAddress& address : missing) {
      if (!address.is_v4() || std::strncmp(address.interface, entry.ifr_name, IFNAMSIZ) != 0)
        continue;
      copy_address(address, entry);
      if (request == SIOCGIFNETMASK)
        reinterpret_cast<sockaddr_in&>(entry.ifr_netmask).sin_addr.s_addr = INADDR_NONE;
      return true;
    }
    return false;
  }
  const MissingAddress* found = missing.unlisted(entry.ifr_name);
  if (found == nullptr) return false;
  const InterfaceFigures figures = figures_of(*found);
  switch (request) {
    case SIOCGIFFLAGS:
      entry.ifr_flags = static_cast<short>(found->flags);
      return true;
    case SIOCGIFINDEX:
      entry.ifr_ifindex = found->index;
      return true;
    case SIOCGIFMTU:
      entry.ifr_mtu = figures.mtu;
      return true;
    case SIOCGIFMETRIC:
    case SIOCGIFTXQLEN:
      entry.ifr_metric = 0;
      return true;
    default:  // SIOCGIFHWADDR
      entry.ifr_hwaddr = {};
      entry.ifr_hwaddr.sa_family = ARPHRD_ETHER;
      std::memcpy(entry.ifr_hwaddr.sa_data, figures.hardware_address,
                  sizeof figures.hardware_address);
      return true;
  }
}

bool asks_interface(unsigned long request) {
  switch (request) {
    case SIOCGIFNAME:
    case SIOCGIFADDR:
    case SIOCGIFNETMASK:
    case SIOCGIFFLAGS:
    case SIOCGIFINDEX:
    case SIOCGIFMTU:
    case SIOCGIFMETRIC:
    case SIOCGIFTXQLEN:
    case SIOCGIFHWADDR:
      return true;
    default:
      return false;
  }
}

}  // namespace

extern "C" SOFTHCA_INTERPOSE int softhca_getifaddrs(ifaddrs**) asm("getifaddrs");
extern "C" int softhca_getifaddrs(ifaddrs** list) {
  const int result = softhca::preload::real_getifaddrs(list);
  if (result != 0 || append(MissingAddresses(*list), list)) return result;
  softhca::preload::real_freeifaddrs(*list);
  errno = ENOMEM;
  return -1;
}

extern "C" SOFTHCA_INTERPOSE void softhca_freeifaddrs(ifaddrs*) asm("freeifaddrs");
extern "C" void softhca_freeifaddrs(ifaddrs* list) {
  ifaddrs** added = &list;
  while (*added != nullptr && !Entry::is(*added)) added = &(*added)->ifa_next;
  std::free(*added);
  *added = nullptr;
  softhca::preload::real_freeifaddrs(list);
}

extern "C" SOFTHCA_INTERPOSE unsigned softhca_if_nametoindex(const char*) asm("if_nametoindex");
extern "C" unsigned softhca_if_nametoindex(const char* name) {
  static constinit Next<unsigned(const char*)> next{"if_nametoindex"};
  const int error = errno;
  const unsigned index = next.get()(name);
  if (index != 0 || errno != ENODEV) return index;
  const MissingAddresses missing;
  const MissingAddress* found = missing.unlisted(name);
  if (found == nullptr) return 0;
  errno = error;
  return static_cast<unsigned>(found->index);
}

extern "C" SOFTHCA_INTERPOSE char* softhca_if_indextoname(unsigned, char*) asm("if_indextoname");
extern "C" char* softhca_if_indextoname(unsigned index, char* name) {
  static constinit Next<char*(unsigned, char*)> next{"if_indextoname"};
  const int error = errno;
  if (char* result = next.get()(index, name)) return result;
  const MissingAddresses missing;
  const MissingAddress* found = missing.unlisted(static_cast<int>(index));
  if (found == nullptr) return nullptr;
  errno = error;
  return std::strcpy(name, found->interface);
}

extern "C" SOFTHCA_INTERPOSE struct if_nameindex* softhca_if_nameindex() asm("if_nameindex");
extern "C" struct if_nameindex* softhca_if_nameindex() {
  static constinit Next<struct if_nameindex*()> next{"if_nameindex"};
  struct if_nameindex* list = next.get()();
  if (list == nullptr) return nullptr;
  const MissingAddresses missing;
  std::size_t count = 0;
  while (list[count].if_name != nullptr) ++count;
  for (const MissingAddress& address : missing) {
    if (!address.first || address.listed) continue;
    void* grown = std::realloc(list, (count + 2) * sizeof *list);
    char* name = grown == nullptr ? nullptr : ::strdup(address.interface);
    if (grown != nullptr) list = static_cast<struct if_nameindex*>(grown);
    if (name == nullptr) {
      ::if_freenameindex(list);
      errno = ENOBUFS;
      return nullptr;
    }
    list[count] = {static_cast<unsigned>(address.index), name};
    list[++count] = {};
  }
  return list;
}

extern "C" SOFTHCA_INTERPOSE int softhca_ioctl(int, unsigned long, ...) asm("ioctl");
extern "C" int softhca_ioctl(int fd, unsigned long request, ...) {
  static constinit Next<int(int, unsigned long, ...)> next{"ioctl"};
  va_list list;
  va_start(list, request);
  void* argument = va_arg(list, void*);
  va_end(list);
  const int room = request == SIOCGIFCONF && argument != nullptr
                       ? static_cast<const ifconf*>(argument)->ifc_len
                       : 0;
  const int error = errno;
  const int result = next.get()(fd, request, argument);
  if (result == 0 && request == SIOCGIFCONF)
    return append(MissingAddresses(), *static_cast<ifconf*>(argument), room);
  if (result == 0 || !asks_interface(request) || (errno != ENODEV && errno != EADDRNOTAVAIL))
    return result;
  if (!answer(request, *static_cast<ifreq*>(argument))) return result;
  errno = error;
  return 0;
}

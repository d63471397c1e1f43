// SPDX-License-Identifier: Apache-2.0

#include "libverbs-provider/preload/interfaces.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "libverbs-provider/preload/next.hpp"
#include "libverbs-provider/preload/redirect.hpp"

namespace softhca::preload {
namespace {

constexpr int kMaxGids = 1024;
/// First index for interfaces of other namespaces, which have no index in this one. It is beyond
/// those of a kernel and within the 16 bits that Open MPI uses.
constexpr int kFirstIndex = 61441;
/// Flags of an interface that the kernel does not list. IFF_SLAVE makes Open MPI ignore its
/// addresses, because the kernel's TCP cannot use them.
constexpr unsigned kFlags = IFF_UP | IFF_RUNNING | IFF_NOARP | IFF_MULTICAST | IFF_SLAVE;

/// Reads the first line of a file. False: there is none.
bool read_line(const char* path, char* line, std::size_t size) {
  const int fd = ::open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return false;
  const ssize_t got = ::read(fd, line, size - 1);
  ::close(fd);
  line[got > 0 ? got : 0] = '\0';
  line[std::strcspn(line, "\n")] = '\0';
  return *line != '\0';
}

/// True if the folder of a device has this file.
bool has_file(const char* device, const char* file) {
  char path[PATH_MAX + 32];
  std::snprintf(path, sizeof path, "%s/%s", device, file);
  return ::access(path, F_OK) == 0;
}

/// Calls f(folder) for the folder of each softhca device, in the order of their names, until it
/// returns false.
template <class F>
void for_each_device(const char* root, F&& f) {
  char path[PATH_MAX];
  std::snprintf(path, sizeof path, "%s/class/infiniband", root);
  dirent** entries = nullptr;
  const auto is_visible = [](const dirent* entry) { return entry->d_name[0] != '.' ? 1 : 0; };
  const int count = ::scandir(path, &entries, is_visible, ::versionsort);
  bool on = true;
  for (int i = 0; i < count; ++i) {
    const int length =
        std::snprintf(path, sizeof path, "%s/class/infiniband/%s", root, entries[i]->d_name);
    std::free(entries[i]);
    if (on && static_cast<std::size_t>(length) < sizeof path &&
        (has_file(path, "softhca_socket") || has_file(path, "softhca_device")))
      on = f(path);
  }
  std::free(entries);
}

bool read_figure(const char* interface, const char* name, char* line, std::size_t size) {
  const char* root = device_tree();
  char path[PATH_MAX];
  const int length = std::snprintf(path, sizeof path, "%s/class/net/%s/%s",
                                   root != nullptr ? root : "", interface, name);
  return root != nullptr && static_cast<std::size_t>(length) < sizeof path &&
         read_line(path, line, size);
}

int number_in_tree(const char* interface, const char* name, int otherwise) {
  char line[32];
  return read_figure(interface, name, line, sizeof line) ? std::atoi(line) : otherwise;
}

/// Parses "0000:0000:0000:0000:0000:ffff:c612:0001".
bool parse_gid(const char* text, MissingAddress& address) {
  unsigned group[8];
  if (std::sscanf(text, "%4x:%4x:%4x:%4x:%4x:%4x:%4x:%4x", &group[0], &group[1], &group[2],
                  &group[3], &group[4], &group[5], &group[6], &group[7]) != 8)
    return false;
  in6_addr gid;
  for (std::size_t i = 0; i < 8; ++i) {
    gid.s6_addr[2 * i] = static_cast<unsigned char>(group[i] >> 8);
    gid.s6_addr[2 * i + 1] = static_cast<unsigned char>(group[i]);
  }
  if (IN6_IS_ADDR_UNSPECIFIED(&gid)) return false;
  address.v6 = {};
  if (IN6_IS_ADDR_V4MAPPED(&gid)) {
    address.v4 = {};
    address.v4.sin_family = AF_INET;
    std::memcpy(&address.v4.sin_addr, gid.s6_addr + 12, sizeof address.v4.sin_addr);
  } else {
    address.v6.sin6_family = AF_INET6;
    address.v6.sin6_addr = gid;
  }
  return true;
}

const ifaddrs* entry_of(const char* interface, const ifaddrs* listed) {
  while (listed != nullptr && std::strcmp(listed->ifa_name, interface) != 0)
    listed = listed->ifa_next;
  return listed;
}

}  // namespace

int real_getifaddrs(ifaddrs** list) {
  static constinit Next<int(ifaddrs**)> next{"getifaddrs"};
  return next.get()(list);
}

void real_freeifaddrs(ifaddrs* list) {
  static constinit Next<void(ifaddrs*)> next{"freeifaddrs"};
  next.get()(list);
}

const void* MissingAddress::bytes() const {
  if (is_v4()) return &v4.sin_addr;
  return &v6.sin6_addr;
}

bool MissingAddress::equals(const sockaddr* other) const {
  if (other == nullptr || other->sa_family != any.sa_family) return false;
  const auto* begin = reinterpret_cast<const char*>(other);
  return std::memcmp(bytes(),
                     begin + (is_v4() ? offsetof(sockaddr_in, sin_addr)
                                      : offsetof(sockaddr_in6, sin6_addr)),
                     size()) == 0;
}

MissingAddresses::MissingAddresses() {
  const int error = errno;
  ifaddrs* listed = nullptr;
  if (device_tree() != nullptr && real_getifaddrs(&listed) == 0) {
    find(listed);
    real_freeifaddrs(listed);
  }
  errno = error;
}

void MissingAddresses::find(const ifaddrs* listed) {
  const char* root = device_tree();
  if (root == nullptr) return;
  const int error = errno;
  for_each_device(root, [&](const char* device) {
    char path[PATH_MAX + 64], gid[64], interface[64];
    for (int port = 1, position = 0, first = -1; position != first; ++port) {
      first = position;
      for (int index = 0; position < kMaxGids && count_ < kMax; ++index, ++position) {
        std::snprintf(path, sizeof path, "%s/ports/%d/gids/%d", device, port, index);
        if (!read_line(path, gid, sizeof gid)) break;
        std::snprintf(path, sizeof path, "%s/ports/%d/gid_attrs/ndevs/%d", device, port, index);
        if (read_line(path, interface, sizeof interface)) add(gid, interface, position, listed);
      }
    }
    return count_ < kMax;
  });
  errno = error;
}

void MissingAddresses::add(const char* gid, const char* interface, int position,
                           const ifaddrs* listed) {
  MissingAddress& address = found_[count_];
  if (std::strlen(interface) >= sizeof address.interface || !parse_gid(gid, address)) return;
  for (const ifaddrs* entry = listed; entry != nullptr; entry = entry->ifa_next)
    if (address.equals(entry->ifa_addr)) return;
  const MissingAddress* same = nullptr;
  for (const MissingAddress& other : *this) {
    if (other.equals(&address.any)) return;
    if (same == nullptr && std::strcmp(other.interface, interface) == 0) same = &other;
  }
  std::strcpy(address.interface, interface);
  const ifaddrs* entry = entry_of(interface, listed);
  address.listed = entry != nullptr;
  address.first = same == nullptr;
  address.flags = entry != nullptr ? entry->ifa_flags : kFlags;
  if (same != nullptr)
    address.index = same->index;
  else if (entry != nullptr)
    address.index = static_cast<int>(::if_nametoindex(interface));
  else
    address.index = number_in_tree(interface, "ifindex", kFirstIndex + position);
  if (!address.is_v4() && IN6_IS_ADDR_LINKLOCAL(&address.v6.sin6_addr))
    address.v6.sin6_scope_id = static_cast<unsigned>(address.index);
  ++count_;
}

const MissingAddress* MissingAddresses::unlisted(const char* name) const {
  for (const MissingAddress& address : *this)
    if (!address.listed && std::strncmp(address.interface, name, IFNAMSIZ) == 0) return &address;
  return nullptr;
}

const MissingAddress* MissingAddresses::unlisted(int index) const {
  for (const MissingAddress& address : *this)
    if (!address.listed && address.index == index) return &address;
  return nullptr;
}

InterfaceFigures figures_of(const MissingAddress& address) {
  InterfaceFigures figures{number_in_tree(address.interface, "mtu", 1500), {}};
  char line[32];
  unsigned byte[6] = {};
  if (read_figure(address.interface, "address", line, sizeof line))
    std::sscanf(line, "%2x:%2x:%2x:%2x:%2x:%2x", &byte[0], &byte[1], &byte[2], &byte[3], &byte[4],
                &byte[5]);
  for (int i = 0; i < 6; ++i) figures.hardware_address[i] = static_cast<unsigned char>(byte[i]);
  return figures;
}

}  // namespace softhca::preload

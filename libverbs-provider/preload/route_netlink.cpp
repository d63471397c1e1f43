// SPDX-License-Identifier: Apache-2.0

// Route netlink: the kernel's lists of links, addresses and routes, with the missing addresses of
// the tenant (interfaces.hpp) at their end. This library records a program's request for such a
// list. It inserts its own messages before the end of the answer. The program's socket stays the
// kernel's.
//
// The route over an interface of missing addresses is a default route, because the daemon decides
// what is reachable, and the least preferred one, because the kernel's TCP cannot use it. UCX since
// 1.20 takes a peer without a route for unreachable.
#include <linux/if_addr.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <net/if_arp.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "libverbs-provider/preload/interfaces.hpp"
#include "libverbs-provider/preload/next.hpp"
#include "libverbs-provider/preload/redirect.hpp"

namespace softhca::preload {
namespace {

constexpr std::uint8_t kOperationalUp = 6;  // IF_OPER_UP, which <net/if.h> excludes

ssize_t real_recvmsg(int fd, msghdr* message, int flags) {
  static constinit Next<ssize_t(int, msghdr*, int)> next{"recvmsg"};
  return next.get()(fd, message, flags);
}

/// A request of a program that is not answered yet.
struct Request {
  std::uint32_t sequence;
  std::uint16_t type;  ///< RTM_GETLINK, RTM_GETADDR or RTM_GETROUTE
  bool dump;
  std::uint8_t family;  ///< 0: all
  int index;            ///< 0: all
  char name[IFNAMSIZ];  ///< empty: the index decides
  bool selects;         ///< routes by more than the family, if the kernel checks strictly

  /// Parses the first message of a datagram. False: it requests no list that this library extends.
  bool parse(const char* data, std::size_t bytes) {
    nlmsghdr header;
    if (bytes < NLMSG_LENGTH(1)) return false;
    std::memcpy(&header, data, sizeof header);
    if ((header.nlmsg_type != RTM_GETLINK && header.nlmsg_type != RTM_GETADDR &&
         header.nlmsg_type != RTM_GETROUTE) ||
        (header.nlmsg_flags & NLM_F_REQUEST) == 0 || header.nlmsg_len > bytes)
      return false;
    *this = {header.nlmsg_seq,
             header.nlmsg_type,
             (header.nlmsg_flags & NLM_F_DUMP) == NLM_F_DUMP,
             static_cast<std::uint8_t>(data[NLMSG_HDRLEN]),
             0,
             {},
             false};
    if (type == RTM_GETROUTE) {
      rtmsg body{};
      if (header.nlmsg_len >= NLMSG_LENGTH(sizeof body))
        std::memcpy(&body, data + NLMSG_HDRLEN, sizeof body);
      selects = body.rtm_table != RT_TABLE_UNSPEC || body.rtm_protocol != RTPROT_UNSPEC ||
                body.rtm_type != RTN_UNSPEC || header.nlmsg_len > NLMSG_SPACE(sizeof body);
      return dump && (body.rtm_flags & RTM_F_CLONED) == 0;
    }
    if (type == RTM_GETADDR) {
      ifaddrmsg body{};
      if (header.nlmsg_len >= NLMSG_LENGTH(sizeof body))
        std::memcpy(&body, data + NLMSG_HDRLEN, sizeof body);
      index = static_cast<int>(body.ifa_index);
      return dump;
    }
    ifinfomsg body{};
    if (header.nlmsg_len >= NLMSG_LENGTH(sizeof body))
      std::memcpy(&body, data + NLMSG_HDRLEN, sizeof body);
    family = 0;
    index = body.ifi_index;
    if (!dump) find_name(data, header.nlmsg_len);
    return true;
  }

  bool wants(const MissingAddress& address) const {
    if (*name != '\0') return !address.listed && std::strcmp(name, address.interface) == 0;
    return index == 0 ? dump : index == address.index;
  }

 private:
  void find_name(const char* data, std::size_t bytes) {
    rtattr attribute;
    std::size_t at = NLMSG_SPACE(sizeof(ifinfomsg));
    for (; at + sizeof attribute <= bytes; at += RTA_ALIGN(attribute.rta_len)) {
      std::memcpy(&attribute, data + at, sizeof attribute);
      if (attribute.rta_len < sizeof attribute || attribute.rta_len > bytes - at) return;
      const std::size_t length = attribute.rta_len - RTA_LENGTH(0);
      if ((attribute.rta_type == IFLA_IFNAME || attribute.rta_type == IFLA_ALT_IFNAME) &&
          length <= sizeof name)
        std::memcpy(name, data + at + RTA_LENGTH(0), length);
    }
    name[sizeof name - 1] = '\0';
  }
};

/// The open requests of the process, by socket. A sending thread uses a free slot, or overwrites an
/// old one. The socket of the overwritten request gets the kernel's unchanged answer.
class Requests {
 public:
  void add(int fd, const Request& request) {
    Place* place = find(fd);
    if (place == nullptr) place = find(kFree);
    if (place == nullptr) place = &places_[turn_.fetch_add(1, std::memory_order_relaxed) % kPlaces];
    place->fd.store(kTaken, std::memory_order_relaxed);
    place->request = request;
    place->fd.store(fd, std::memory_order_release);
    used_.store(true, std::memory_order_release);
  }
  bool get(int fd, Request& request) {
    if (!used_.load(std::memory_order_acquire)) return false;
    const Place* place = find(fd);
    if (place != nullptr) request = place->request;
    return place != nullptr;
  }
  void forget(int fd) {
    if (Place* place = find(fd)) place->fd.store(kFree, std::memory_order_release);
  }

 private:
  static constexpr int kPlaces = 16, kFree = -1, kTaken = -2;
  struct Place {
    std::atomic<int> fd{kFree};
    Request request{};
  };
  Place* find(int fd) {
    for (Place& place : places_)
      if (place.fd.load(std::memory_order_acquire) == fd) return &place;
    return nullptr;
  }

  Place places_[kPlaces];
  std::atomic<unsigned> turn_{0};
  std::atomic<bool> used_{false};
};

constinit Requests requests;

bool is_route_netlink(int fd) {
  int domain = 0, protocol = -1;
  socklen_t size = sizeof(int);
  return ::getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &size) == 0 && domain == AF_NETLINK &&
         ::getsockopt(fd, SOL_SOCKET, SO_PROTOCOL, &protocol, &size) == 0 &&
         protocol == NETLINK_ROUTE;
}

/// True if the request is for one link, which the kernel does not list.
bool is_of_ours(const Request& request) {
  const MissingAddresses missing;
  return std::any_of(missing.begin(), missing.end(), [&](const MissingAddress& address) {
    return !address.listed && request.wants(address);
  });
}

/// Records a sent message. Reads the environment only for a possible request, because another
/// thread may be changing the environment.
void note(int fd, const void* data, std::size_t bytes) {
  Request request;
  if (data == nullptr || !request.parse(static_cast<const char*>(data), bytes) ||
      device_tree() == nullptr)
    return;
  const int error = errno;
  int strict = 0;
  socklen_t size = sizeof strict;
  if (is_route_netlink(fd)) {
    ::getsockopt(fd, SOL_NETLINK, NETLINK_GET_STRICT_CHK, &strict, &size);
    if (request.dump && strict == 0) request.index = 0;  // the kernel ignores it
    const bool elsewhere = strict != 0 && request.selects;
    if (request.dump ? !elsewhere : is_of_ours(request)) requests.add(fd, request);
  }
  errno = error;
}

/// Records a message that was sent in parts.
void note(int fd, const msghdr& message) {
  if (message.msg_iovlen == 1)
    return note(fd, message.msg_iov[0].iov_base, message.msg_iov[0].iov_len);
  char data[256];  // requests for lists are shorter
  std::size_t bytes = 0;
  for (std::size_t i = 0; i < message.msg_iovlen; ++i) {
    const iovec& part = message.msg_iov[i];
    if (part.iov_len > sizeof data - bytes) return;
    if (part.iov_len != 0) std::memcpy(data + bytes, part.iov_base, part.iov_len);
    bytes += part.iov_len;
  }
  note(fd, data, bytes);
}

/// Consecutive messages, in memory of the C library.
class Messages {
 public:
  explicit Messages(std::size_t room) : data_(static_cast<char*>(std::calloc(1, room))) {}
  ~Messages() { std::free(data_); }
  Messages(const Messages&) = delete;
  Messages& operator=(const Messages&) = delete;

  explicit operator bool() const { return data_ != nullptr; }
  char* data() { return data_; }
  std::size_t bytes() const { return bytes_; }

  void add(const void* more, std::size_t bytes) {
    std::memcpy(data_ + bytes_, more, bytes);
    bytes_ += bytes;
  }
  template <class Body>
  void begin(std::uint16_t type, const nlmsghdr& answered, bool several, const Body& body) {
    begun_ = bytes_;
    const nlmsghdr header{0, type, static_cast<std::uint16_t>(several ? NLM_F_MULTI : 0),
                          answered.nlmsg_seq, answered.nlmsg_pid};
    add(&header, sizeof header);
    add(&body, sizeof body);
    align();
  }
  void attribute(std::uint16_t type, const void* value, std::size_t bytes) {
    const rtattr header{static_cast<std::uint16_t>(RTA_LENGTH(bytes)), type};
    add(&header, sizeof header);
    add(value, bytes);
    align();
  }
  void end() {
    const auto length = static_cast<std::uint32_t>(bytes_ - begun_);
    std::memcpy(data_ + begun_, &length, sizeof length);
  }

 private:
  void align() { bytes_ = NLMSG_ALIGN(bytes_); }

  char* data_;
  std::size_t bytes_ = 0, begun_ = 0;
};
constexpr std::size_t kMessageRoom = 256;  ///< for each message of this library

void add_link(Messages& messages, const MissingAddress& address, const nlmsghdr& answered,
              bool several) {
  ifinfomsg body{};
  body.ifi_type = ARPHRD_ETHER;
  body.ifi_index = address.index;
  body.ifi_flags = address.flags;
  const InterfaceFigures figures = figures_of(address);
  const auto mtu = static_cast<std::uint32_t>(figures.mtu);
  messages.begin(RTM_NEWLINK, answered, several, body);
  messages.attribute(IFLA_IFNAME, address.interface, std::strlen(address.interface) + 1);
  messages.attribute(IFLA_MTU, &mtu, sizeof mtu);
  messages.attribute(IFLA_OPERSTATE, &kOperationalUp, sizeof kOperationalUp);
  messages.attribute(IFLA_ADDRESS, figures.hardware_address, sizeof figures.hardware_address);
  messages.end();
}

void add_address(Messages& messages, const MissingAddress& address, const nlmsghdr& answered) {
  ifaddrmsg body{};
  body.ifa_family = static_cast<std::uint8_t>(address.any.sa_family);
  body.ifa_prefixlen = static_cast<std::uint8_t>(8 * address.size());
  body.ifa_flags = IFA_F_PERMANENT;
  body.ifa_scope =
      !address.is_v4() && address.v6.sin6_scope_id != 0 ? RT_SCOPE_LINK : RT_SCOPE_UNIVERSE;
  body.ifa_index = static_cast<std::uint32_t>(address.index);
  messages.begin(RTM_NEWADDR, answered, true, body);
  messages.attribute(IFA_ADDRESS, address.bytes(), address.size());
  if (address.is_v4()) {
    messages.attribute(IFA_LOCAL, address.bytes(), address.size());
    messages.attribute(IFA_LABEL, address.interface, std::strlen(address.interface) + 1);
  }
  messages.end();
}

void add_route(Messages& messages, const MissingAddress& address, const nlmsghdr& answered) {
  constexpr std::uint32_t kLeastPreferred = 0xffffffff;
  rtmsg body{};
  body.rtm_family = static_cast<std::uint8_t>(address.any.sa_family);
  body.rtm_table = RT_TABLE_MAIN;
  body.rtm_protocol = RTPROT_STATIC;
  body.rtm_scope = address.is_v4() ? RT_SCOPE_LINK : RT_SCOPE_UNIVERSE;
  body.rtm_type = RTN_UNICAST;
  const std::uint32_t table = RT_TABLE_MAIN;
  messages.begin(RTM_NEWROUTE, answered, true, body);
  messages.attribute(RTA_TABLE, &table, sizeof table);
  messages.attribute(RTA_OIF, &address.index, sizeof address.index);
  messages.attribute(RTA_PRIORITY, &kLeastPreferred, sizeof kLeastPreferred);
  messages.end();
}

/// True if no earlier address has the interface and the family of this one.
bool is_first_of_family(const MissingAddress& address, const MissingAddresses& missing) {
  return std::none_of(missing.begin(), &address, [&](const MissingAddress& other) {
    return other.index == address.index && other.any.sa_family == address.any.sa_family;
  });
}

/// Adds the requested messages of this library. False: there are none.
bool add_ours(Messages& messages, const MissingAddresses& missing, const Request& request,
              const nlmsghdr& answered) {
  const std::size_t before = messages.bytes();
  for (const MissingAddress& address : missing) {
    if (!request.wants(address)) continue;
    const bool of_family = request.family == 0 || request.family == address.any.sa_family;
    if (request.type == RTM_GETADDR) {
      if (of_family) add_address(messages, address, answered);
    } else if (request.type == RTM_GETROUTE) {
      if (of_family && is_first_of_family(address, missing)) add_route(messages, address, answered);
    } else if (!address.listed && address.first) {
      add_link(messages, address, answered, request.dump);
    }
  }
  return messages.bytes() != before;
}

/// The message that ends the answer to a request.
struct End {
  std::size_t at;
  nlmsghdr header;
  int error;
};
bool find_end(const char* data, std::size_t bytes, const Request& request, End& end) {
  for (end.at = 0; end.at + NLMSG_HDRLEN <= bytes; end.at += NLMSG_ALIGN(end.header.nlmsg_len)) {
    std::memcpy(&end.header, data + end.at, sizeof end.header);
    if (end.header.nlmsg_len < NLMSG_HDRLEN || end.header.nlmsg_len > bytes - end.at) return false;
    if (end.header.nlmsg_seq != request.sequence) continue;
    if (end.header.nlmsg_type != NLMSG_DONE && end.header.nlmsg_type != NLMSG_ERROR) continue;
    end.error = 0;
    if (end.header.nlmsg_len >= NLMSG_LENGTH(sizeof end.error))
      std::memcpy(&end.error, data + end.at + NLMSG_HDRLEN, sizeof end.error);
    return true;
  }
  return false;
}

std::size_t room_of(const msghdr& message) {
  std::size_t room = 0;
  for (std::size_t i = 0; i < message.msg_iovlen; ++i) room += message.msg_iov[i].iov_len;
  return room;
}

/// Delivers a datagram to a program as the kernel would.
ssize_t deliver(Messages& messages, msghdr& message, int flags) {
  const sockaddr_nl kernel{AF_NETLINK, 0, 0, 0};
  if (message.msg_name != nullptr)
    std::memcpy(message.msg_name, &kernel,
                std::min<std::size_t>(message.msg_namelen, sizeof kernel));
  message.msg_namelen = message.msg_name != nullptr ? sizeof kernel : 0;
  message.msg_controllen = 0;
  std::size_t done = 0;
  for (std::size_t i = 0; i < message.msg_iovlen && done < messages.bytes(); ++i) {
    const std::size_t part = std::min(message.msg_iov[i].iov_len, messages.bytes() - done);
    if (part != 0) std::memcpy(message.msg_iov[i].iov_base, messages.data() + done, part);
    done += part;
  }
  message.msg_flags = done < messages.bytes() ? MSG_TRUNC : 0;
  return static_cast<ssize_t>((flags & MSG_TRUNC) != 0 ? messages.bytes() : done);
}

/// Returns the length of the next datagram.
ssize_t receive_whole(int fd, void* data, std::size_t bytes, int flags) {
  iovec place{data, bytes};
  msghdr message{};
  message.msg_iov = &place;
  message.msg_iovlen = 1;
  return real_recvmsg(fd, &message, flags | MSG_TRUNC);
}
ssize_t peek(int fd, void* data, std::size_t bytes, int flags) {
  return receive_whole(fd, data, bytes, flags | MSG_PEEK);
}
void take(int fd) {
  char first;
  receive_whole(fd, &first, sizeof first, MSG_DONTWAIT);
}

/// True if the kernel ends a list with a datagram of its own. It stays: a program may take the
/// first message of a datagram for its only one, as UCX does.
bool ends_alone(const Request& request, const End& end) {
  return request.dump && end.at == 0 && end.error == 0;
}

/// Builds the datagram that replaces the kernel's last one, or that precedes it if it
/// ends_alone(). False: the kernel's stays, and none is inserted.
bool rebuild(Messages& messages, const char* kernels, const End& end, const Request& request,
             const MissingAddresses& missing) {
  if (end.error != 0 && end.error != -ENODEV) return false;
  messages.add(kernels, end.at);
  if (!add_ours(messages, missing, request, end.header)) return false;
  if (!request.dump || ends_alone(request, end)) return true;
  constexpr int kSuccess = 0;
  messages.begin(NLMSG_DONE, end.header, true, kSuccess);
  messages.end();
  return true;
}

/// Receives for a program. Forgets a socket once its answer is complete, or its number refers to
/// another file.
ssize_t receive(int fd, msghdr* message, int flags) {
  Request request;
  if (!requests.get(fd, request)) return real_recvmsg(fd, message, flags);
  if (!is_route_netlink(fd)) {
    requests.forget(fd);
    return real_recvmsg(fd, message, flags);
  }
  char first;
  const ssize_t length = peek(fd, &first, sizeof first, flags);
  if (length < 0) return length;
  const auto bytes = static_cast<std::size_t>(length);
  const MissingAddresses missing;
  Messages kernels(bytes + 1);
  Messages messages(bytes + (missing.size() + 1) * kMessageRoom);
  End end;
  if (!kernels || !messages || peek(fd, kernels.data(), bytes, MSG_DONTWAIT) != length ||
      !find_end(kernels.data(), bytes, request, end))
    return real_recvmsg(fd, message, flags);
  const bool peeks = (flags & MSG_PEEK) != 0;
  if (!peeks) requests.forget(fd);
  if (!rebuild(messages, kernels.data(), end, request, missing) ||
      (!peeks && room_of(*message) < messages.bytes()))
    return real_recvmsg(fd, message, flags);
  if (!peeks && !ends_alone(request, end)) take(fd);
  return deliver(messages, *message, flags);
}

ssize_t receive_from(int fd, void* data, std::size_t bytes, int flags, sockaddr* from,
                     socklen_t* from_bytes) {
  iovec place{data, bytes};
  msghdr message{};
  message.msg_name = from;
  message.msg_namelen = from != nullptr && from_bytes != nullptr ? *from_bytes : 0;
  message.msg_iov = &place;
  message.msg_iovlen = 1;
  const ssize_t got = receive(fd, &message, flags);
  if (got >= 0 && from != nullptr && from_bytes != nullptr) *from_bytes = message.msg_namelen;
  return got;
}

bool is_answered_later(int fd) {
  Request request;
  return requests.get(fd, request);
}

}  // namespace
}  // namespace softhca::preload

using softhca::preload::is_answered_later;
using softhca::preload::Next;
using softhca::preload::note;
using softhca::preload::receive_from;

extern "C" SOFTHCA_INTERPOSE ssize_t softhca_send(int, const void*, size_t, int) asm("send");
extern "C" ssize_t softhca_send(int fd, const void* data, size_t bytes, int flags) {
  static constinit Next<ssize_t(int, const void*, size_t, int)> next{"send"};
  const ssize_t sent = next.get()(fd, data, bytes, flags);
  if (sent > 0) note(fd, data, static_cast<std::size_t>(sent));
  return sent;
}

extern "C" SOFTHCA_INTERPOSE ssize_t softhca_sendto(int, const void*, size_t, int, const sockaddr*,
                                                    socklen_t) asm("sendto");
extern "C" ssize_t softhca_sendto(int fd, const void* data, size_t bytes, int flags,
                                  const sockaddr* to, socklen_t to_bytes) {
  static constinit Next<ssize_t(int, const void*, size_t, int, const sockaddr*, socklen_t)> next{
      "sendto"};
  const ssize_t sent = next.get()(fd, data, bytes, flags, to, to_bytes);
  if (sent > 0) note(fd, data, static_cast<std::size_t>(sent));
  return sent;
}

extern "C" SOFTHCA_INTERPOSE ssize_t softhca_sendmsg(int, const msghdr*, int) asm("sendmsg");
extern "C" ssize_t softhca_sendmsg(int fd, const msghdr* message, int flags) {
  static constinit Next<ssize_t(int, const msghdr*, int)> next{"sendmsg"};
  const ssize_t sent = next.get()(fd, message, flags);
  if (sent > 0) note(fd, *message);
  return sent;
}

extern "C" SOFTHCA_INTERPOSE ssize_t softhca_recvmsg(int, msghdr*, int) asm("recvmsg");
extern "C" ssize_t softhca_recvmsg(int fd, msghdr* message, int flags) {
  return softhca::preload::receive(fd, message, flags);
}

extern "C" SOFTHCA_INTERPOSE ssize_t softhca_recv(int, void*, size_t, int) asm("recv");
extern "C" ssize_t softhca_recv(int fd, void* data, size_t bytes, int flags) {
  static constinit Next<ssize_t(int, void*, size_t, int)> next{"recv"};
  if (is_answered_later(fd)) return receive_from(fd, data, bytes, flags, nullptr, nullptr);
  return next.get()(fd, data, bytes, flags);
}

extern "C" SOFTHCA_INTERPOSE ssize_t softhca_recvfrom(int, void*, size_t, int, sockaddr*,
                                                      socklen_t*) asm("recvfrom");
extern "C" ssize_t softhca_recvfrom(int fd, void* data, size_t bytes, int flags, sockaddr* from,
                                    socklen_t* from_bytes) {
  static constinit Next<ssize_t(int, void*, size_t, int, sockaddr*, socklen_t*)> next{"recvfrom"};
  if (is_answered_later(fd)) return receive_from(fd, data, bytes, flags, from, from_bytes);
  return next.get()(fd, data, bytes, flags, from, from_bytes);
}

// SPDX-License-Identifier: Apache-2.0

// libibverbs first asks the kernel's RDMA netlink for devices, and reads SYSFS_PATH only if that
// fails. On ordinary kernels it succeeds (opening the socket loads ib_core) and finds nothing. So
// this library makes it fail.
//
// It answers one request: children have copies of registered memory, as on all kernels since 5.12.
// So ibv_fork_init() does nothing, and ibv_is_fork_initialized() reports that it is not needed.
// libibverbs gets a socket of NETLINK_USERSOCK that is connected to itself, and the request is sent
// as its own answer.
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <linux/netlink.h>
#include <rdma/rdma_netlink.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "libverbs-provider/preload/next.hpp"
#include "libverbs-provider/preload/redirect.hpp"

struct nl_sock;
struct nl_msg;

namespace {

using softhca::preload::Next;

// libnl's error numbers (netlink/errno.h), which it returns negated.
constexpr int kFailure = 1;
constexpr int kNotSupported = 10;

constexpr char kLibnl[] = "libnl-3.so.200";

constexpr int kAskCopyOnFork = RDMA_NL_GET_TYPE(RDMA_NL_NLDEV, RDMA_NLDEV_CMD_SYS_GET);

struct CopyOnFork {
  nlattr attribute{NLA_HDRLEN + 1, RDMA_NLDEV_SYS_ATTR_COPY_ON_FORK};
  std::uint8_t value = 1;
  std::uint8_t padding[3]{};
};

/// Returns a function of a loaded library. If libibverbs was loaded with dlopen, that library does
/// not follow this one in the global scope.
void* find_in(const char* file, const char* name) {
  void* library = ::dlopen(file, RTLD_LAZY | RTLD_NOLOAD);
  if (library == nullptr) return nullptr;
  void* found = ::dlsym(library, name);
  ::dlclose(library);  // its user keeps it loaded
  return found;
}
void* find_in_libnl(const char* name) { return find_in(kLibnl, name); }

template <class Function>
Function* real(Next<Function>& next, const char* name, const char* file = kLibnl) {
  if (Function* found = next.get()) return found;
  return reinterpret_cast<Function*>(find_in(file, name));
}

std::uint32_t port_of(const nl_sock* socket, const char* getter) {
  auto* get = reinterpret_cast<std::uint32_t (*)(const nl_sock*)>(find_in_libnl(getter));
  return get == nullptr ? 0 : get(socket);
}

/// True if connect_to_itself() made the socket.
bool answers_itself(const nl_sock* socket) {
  if (softhca::preload::device_tree() == nullptr) return false;
  const std::uint32_t peer = port_of(socket, "nl_socket_get_peer_port");
  return peer != 0 && peer == port_of(socket, "nl_socket_get_local_port");
}

int connect_to_itself(nl_sock* socket, int (*connect)(nl_sock*, int)) {
  using SetPort = void(nl_sock*, std::uint32_t);
  auto* set_peer = reinterpret_cast<SetPort*>(find_in_libnl("nl_socket_set_peer_port"));
  if (set_peer == nullptr || connect(socket, NETLINK_USERSOCK) != 0) return -kNotSupported;
  set_peer(socket, port_of(socket, "nl_socket_get_local_port"));
  return 0;
}

}  // namespace

extern "C" SOFTHCA_INTERPOSE int softhca_nl_connect(nl_sock*, int) asm("nl_connect");
extern "C" int softhca_nl_connect(nl_sock* socket, int protocol) {
  static constinit Next<int(nl_sock*, int)> next{"nl_connect"};
  auto* connect = real(next, "nl_connect");
  if (connect == nullptr) return -kFailure;
  if (protocol == NETLINK_RDMA && softhca::preload::device_tree() != nullptr)
    return connect_to_itself(socket, connect);
  return connect(socket, protocol);
}

extern "C" SOFTHCA_INTERPOSE int softhca_nl_send_simple(nl_sock*, int, int, void*,
                                                        std::size_t) asm("nl_send_simple");
extern "C" int softhca_nl_send_simple(nl_sock* socket, int type, int flags, void* data,
                                      std::size_t bytes) {
  static constinit Next<int(nl_sock*, int, int, void*, std::size_t)> next{"nl_send_simple"};
  auto* send = real(next, "nl_send_simple");
  if (send == nullptr) return -kFailure;
  if (!answers_itself(socket)) return send(socket, type, flags, data, bytes);
  if (type != kAskCopyOnFork) return -kNotSupported;
  CopyOnFork answer;
  return send(socket, type, 0, &answer, sizeof answer);
}

extern "C" SOFTHCA_INTERPOSE int softhca_nl_send_auto(nl_sock*, nl_msg*) asm("nl_send_auto");
extern "C" int softhca_nl_send_auto(nl_sock* socket, nl_msg* message) {
  static constinit Next<int(nl_sock*, nl_msg*)> next{"nl_send_auto"};
  auto* send = real(next, "nl_send_auto");
  if (send == nullptr) return -kFailure;
  if (!answers_itself(socket)) return send(socket, message);
  // nl_send_simple() sends the answer by this function.
  auto* header = reinterpret_cast<nlmsghdr* (*)(nl_msg*)>(find_in_libnl("nlmsg_hdr"));
  const bool answer = header != nullptr && header(message)->nlmsg_type == kAskCopyOnFork;
  return answer ? send(socket, message) : -kNotSupported;
}

namespace {

/// Sorts the devices by name, as far as their numbers: libibverbs lists them in the order of the
/// tree's folder, which depends on the file system. The kernel lists them in the order of their
/// numbers.
void sort_by_name(ibv_device** list) {
  std::size_t count = 0;
  while (list[count] != nullptr) ++count;
  std::qsort(list, count, sizeof *list, [](const void* a, const void* b) {
    return ::strverscmp((*static_cast<ibv_device* const*>(a))->name,
                        (*static_cast<ibv_device* const*>(b))->name);
  });
}

}  // namespace

// Also replaces ENOSYS, which libibverbs reports if it cannot read the device tree for lack of a
// descriptor.
extern "C" SOFTHCA_INTERPOSE ibv_device** softhca_ibv_get_device_list(int*) asm(
    "ibv_get_device_list");
extern "C" ibv_device** softhca_ibv_get_device_list(int* count) {
  static constinit Next<ibv_device**(int*)> next{"ibv_get_device_list"};
  auto* list_devices = real(next, "ibv_get_device_list", "libibverbs.so.1");
  if (list_devices == nullptr) return errno = ENOSYS, nullptr;
  ibv_device** const list = list_devices(count);
  const char* tree = softhca::preload::device_tree();
  if (list != nullptr && tree != nullptr) sort_by_name(list);
  if (list != nullptr || errno != ENOSYS || tree == nullptr) return list;
  const int fd = ::open(tree, O_PATH | O_CLOEXEC);
  if (fd < 0) return nullptr;  // errno has the reason
  ::close(fd);
  errno = ENOSYS;
  return nullptr;
}

// libibverbs asks the kernel's RDMA netlink for devices first, and looks at SYSFS_PATH only where
// that fails. On ordinary kernels it succeeds (opening the socket loads ib_core) and finds nothing.
#include <linux/netlink.h>

#include "libverbs-provider/preload/next.hpp"
#include "libverbs-provider/preload/redirect.hpp"

struct nl_sock;

namespace {

// libnl's error numbers (netlink/errno.h), which it returns negated.
constexpr int kFailure = 1;
constexpr int kNotSupported = 10;

using Connect = int(nl_sock*, int);

/// The function of libnl, which does not come after ours in the global scope when libibverbs was
/// loaded with dlopen.
Connect* real_connect() {
  static constinit softhca::preload::Next<Connect> next{"nl_connect"};
  if (Connect* found = next.get()) return found;
  void* library = ::dlopen("libnl-3.so.200", RTLD_LAZY | RTLD_NOLOAD);
  if (library == nullptr) return nullptr;
  void* found = ::dlsym(library, "nl_connect");
  ::dlclose(library);  // its user keeps it loaded
  return reinterpret_cast<Connect*>(found);
}

}  // namespace

extern "C" SOFTHCA_INTERPOSE int softhca_nl_connect(nl_sock*, int) asm("nl_connect");
extern "C" int softhca_nl_connect(nl_sock* socket, int protocol) {
  if (protocol == NETLINK_RDMA && softhca::preload::active()) return -kNotSupported;
  Connect* connect = real_connect();
  return connect == nullptr ? -kFailure : connect(socket, protocol);
}

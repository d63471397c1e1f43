// SPDX-License-Identifier: Apache-2.0

// XRC domains.
#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstddef>

#include "libverbs-provider/context.hpp"
#include "libverbs-provider/explain.hpp"
#include "libverbs-provider/operations.hpp"
#include "libverbs-provider/share/own_descriptor.hpp"

namespace softhca::provider {
namespace {

struct Xrcd {
  abi34::VerbsXrcd base;
  OwnDescriptor file;  ///< kept open, so that its inode number is not reused
};
static_assert(offsetof(Xrcd, base) == 0);

/// Names the file to the daemon, which has no access to it. Returns 0 or an errno value.
int name_file(const ibv_xrcd_init_attr& init, abi::OpenXrcDomainRequest& request,
              OwnDescriptor& file) {
  if (init.fd == -1) return 0;
  struct stat status {};
  if (::fstat(init.fd, &status) != 0) return refuse(errno, "fd %d", init.fd);
  request.device = status.st_dev;
  request.inode = status.st_ino;
  request.flags = abi::kXrcOfFile;
  if ((init.oflags & O_CREAT) != 0) request.flags |= abi::kXrcCreate;
  if ((init.oflags & O_EXCL) != 0) request.flags |= abi::kXrcExclusive;
  const int copy = ::fcntl(init.fd, F_DUPFD_CLOEXEC, 0);
  if (copy < 0) return errno;
  file.reset(copy);
  return 0;
}

/// Opens the domain. Returns 0 or an errno value.
int open(Context& context, const ibv_xrcd_init_attr& init, Xrcd& xrcd) {
  constexpr std::uint32_t kNeeded = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS;
  if ((init.comp_mask & ~kNeeded) != 0)
    return refuse(EOPNOTSUPP, "comp_mask has unsupported bits 0x%x", init.comp_mask & ~kNeeded);
  if (init.comp_mask != kNeeded)
    return refuse(EINVAL, "comp_mask 0x%x, must be 0x%x", init.comp_mask, kNeeded);
  abi::OpenXrcDomainRequest request{};
  if (const int error = name_file(init, request, xrcd.file)) return error;
  abi::HandleBody reply{};
  const int error = context.control.call(abi::Operation::kOpenXrcDomain, request, reply);
  xrcd.base.handle = reply.handle;
  return error;
}

}  // namespace

ibv_xrcd* open_xrcd(ibv_context* context, ibv_xrcd_init_attr* init) {
  Owned<Xrcd> xrcd(make<Xrcd>());
  if (xrcd == nullptr) return nullptr;
  if (const int error = open(*to_context(context), *init, *xrcd)) {
    errno = error;
    return nullptr;
  }
  xrcd->base.xrcd.context = context;
  return &xrcd.release()->base.xrcd;
}

int close_xrcd(ibv_xrcd* ibv_xrcd) {
  Xrcd* xrcd = reinterpret_cast<Xrcd*>(ibv_xrcd);
  ControlChannel& control = to_context(ibv_xrcd->context)->control;
  if (const int error = control.destroy(abi::Operation::kCloseXrcDomain, xrcd->base.handle))
    return error;
  dispose(xrcd);
  return 0;
}

}  // namespace softhca::provider

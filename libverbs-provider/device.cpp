// SPDX-License-Identifier: Apache-2.0

// Entry of the plugin: tells the library which devices are softhca's, and opens and closes them.
#include "libverbs-provider/device.hpp"

#include <fcntl.h>
#include <sys/auxv.h>
#include <unistd.h>

#include <bit>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "libverbs-provider/connections/connection_files.hpp"
#include "libverbs-provider/connections/event_files.hpp"
#include "libverbs-provider/context.hpp"
#include "libverbs-provider/control/mapped_memory.hpp"
#include "libverbs-provider/control/seal.hpp"
#include "libverbs-provider/control/tenant_socket.hpp"
#include "libverbs-provider/device_file.hpp"
#include "libverbs-provider/explain.hpp"
#include "libverbs-provider/operations.hpp"
#include "libverbs-provider/share/proc_file.hpp"

namespace softhca::provider {
namespace {

struct Device {
  abi34::VerbsDevice base;
  TenantSocket socket;
};

/// True if the process may connect to this socket. The user that starts a program selects its
/// device tree by environment variables. A program with more rights than its user (set-user-id,
/// file capabilities: AT_SECURE, getauxval(3)) may only use sockets in the system's folder.
bool may_connect_to(const char* path) {
  constexpr char kSystem[] = "/run/softhca/";
  return ::getauxval(AT_SECURE) == 0 || (std::strncmp(path, kSystem, sizeof kSystem - 1) == 0 &&
                                         std::strstr(path, "/../") == nullptr);
}

/// Reads the first line of a file in the device's sysfs folder. False: the file is absent, empty or
/// too long.
bool read_line(const char* ibdev_path, const char* file, char (&line)[kSocketPathBytes + 8]) {
  char name[300];
  const int length = std::snprintf(name, sizeof name, "%s/%s", ibdev_path, file);
  if (length < 0 || static_cast<std::size_t>(length) >= sizeof name) return false;
  const int fd = ::open(name, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return false;
  const ssize_t got = ::read(fd, line, sizeof line - 1);
  ::close(fd);
  if (got <= 0) return false;
  line[got] = '\0';
  const std::size_t bytes = std::strcspn(line, "\n");
  const bool whole = bytes < sizeof line - 1;
  line[bytes] = '\0';
  return bytes != 0 && whole;
}

/// Finds the tenant socket of a device: "PATH" for the first device of the tenant, "INDEX PATH" for
/// another. False: the device is not softhca's, or not for this process.
bool find_socket(const char* ibdev_path, TenantSocket& socket) {
  char line[kSocketPathBytes + 8];
  const char* path = line;
  socket.device = 0;
  if (!read_line(ibdev_path, "softhca_socket", line)) {
    if (!read_line(ibdev_path, "softhca_device", line)) return false;
    char* end = line;
    socket.device = static_cast<std::uint32_t>(std::strtoul(line, &end, 10));
    if (*end != ' ') return false;
    path = end + 1;
  }
  const std::size_t bytes = std::strlen(path) + 1;
  if (*path != '/' || bytes > sizeof socket.path) return false;
  std::memcpy(socket.path, path, bytes);
  return may_connect_to(socket.path);
}

bool match_device(abi34::SysfsDevice* sysfs) {
  TenantSocket socket;
  return find_socket(sysfs->ibdev_path, socket);
}

abi34::VerbsDevice* alloc_device(abi34::SysfsDevice* sysfs) {
  Device* device = make<Device>();
  if (device == nullptr) return nullptr;
  if (!find_socket(sysfs->ibdev_path, device->socket)) {
    dispose(device);
    return nullptr;
  }
  read_debug_setting();
  serve_connections(device->socket.path);
  return &device->base;
}

void uninit_device(abi34::VerbsDevice* device) { dispose(reinterpret_cast<Device*>(device)); }

ControlChannel& control_of(void* context) { return static_cast<Context*>(context)->control; }

/// Finds the piece of the machine's memory in a reply; zeros on a host. Returns 0 or an errno
/// value.
int find_piece(const ReceivedFds& fds, bool in_machine, std::uint64_t bytes, std::uint32_t handle,
               abi::MemoryPlace& place) {
  const abi::MemoryPlaces* places = fds.places();
  if (in_machine != (places != nullptr)) return EPROTO;
  if (!in_machine) return 0;
  place = places->memory;
  return is_mappable(place, bytes) && place.offset / abi::kPageBytes == handle ? 0 : EPROTO;
}

abi::HandleBody free_request(std::uint32_t handle, bool unmapped) {
  return {handle, unmapped ? abi::kIsUnmapped : 0};
}

int alloc_shared(void* context, std::uint64_t bytes, SharedMemory* memory) {
  const abi::AllocSharedRequest request{bytes};
  abi::AllocSharedReply reply{};
  ReceivedFds fds;
  ControlChannel::Turn turn(control_of(context));
  if (const int error = turn.call(abi::Operation::kAllocShared, request, reply, fds)) return error;
  const bool in_machine = static_cast<Context*>(context)->memory->in_machine();
  const int error = fds.check(1);
  static_cast<Context*>(context)->shortage.store(error, std::memory_order_relaxed);
  if (error != 0) {
    turn.call(abi::Operation::kFreeShared, free_request(reply.handle, in_machine));
    return error;
  }
  abi::MemoryPlace place{};
  if (const int wrong = find_piece(fds, in_machine, bytes, reply.handle, place)) return wrong;
  *memory = {fds.take(0), reply.handle, place};
  return 0;
}

void free_shared(void* context, std::uint32_t handle, bool unmapped) {
  const bool in_machine = static_cast<Context*>(context)->memory->in_machine();
  control_of(context).destroy(abi::Operation::kFreeShared,
                              free_request(handle, in_machine && unmapped));
}

int name_shared(void* context, std::uint32_t handle, abi::SharedToken* token) {
  return control_of(context).call(abi::Operation::kNameShared, abi::HandleBody{handle, 0}, *token);
}

int join_shared(void* context, const abi::SharedToken& token, std::uint32_t* handle) {
  abi::HandleBody reply{};
  const int error = control_of(context).call(abi::Operation::kJoinShared, token, reply);
  *handle = reply.handle;
  return error;
}

/// Connects to the daemon and maps the session. Returns 0 or an errno value.
int open_session(Context& context, const TenantSocket& socket) {
  char path[kSocketPathBytes];
  choose_socket(socket.path, path);
  abi::HelloReply reply{};
  ReceivedFds fds;
  const int refusal = greet_again_if_lost([&] {
    if (const int refused = context.control.connect(path))
      return refuse(refused, "cannot connect to %s; start the daemon, or see tenant.socket", path);
    return greet(context.control, socket.device, reply, fds);
  });
  if (refusal != 0) return refusal;
  if (const int error = fds.check(3)) return error;
  const int memory = fds.take(0);
  const int wake = fds.take(1);
  const int async = fds.take(2);
  context.ibv()->async_fd = async;
  // Users of the library expect a blocking file until they change it.
  ::fcntl(async, F_SETFL, ::fcntl(async, F_GETFL) & ~O_NONBLOCK);
  FileIdentity machine{};
  if (fds.places() != nullptr) machine = identity_of(memory);
  context.memory.reset(make<MemoryRegistry>(
      SharedMemorySource{&context, alloc_shared, free_shared, name_shared, join_shared,
                         [](void*, int fd) { seal_memory(fd); }, machine}));
  if (const int error = context.session.open(memory, wake, reply, fds.places())) return error;
  if (context.memory == nullptr) return ENOMEM;

  ProcFile::keep_all();
  const int error =
      context.control.call(abi::Operation::kQueryDevice, abi::HandleBody{}, context.limits);
  if (error == 0) context.session.follow_daemon(context.limits.capabilities);
  return error;
}

/// Lets other processes join the session by copies of cmd_fd, which has referred to the device so
/// far. Returns 0 or an errno value.
int share_session(Context& context) {
  abi::ContextToken token{};
  const int error = context.control.call(abi::Operation::kShareContext, abi::HandleBody{}, token);
  if (error != 0) return error;
  const auto* device = reinterpret_cast<const Device*>(context.ibv()->device);
  return make_device_file(context.ibv()->cmd_fd, device->base.sysfs->sysfs_cdev, token);
}

/// Joins the session of cmd_fd. Returns 0 or an errno value.
int join_session(Context& context) {
  DeviceFileContent content;
  if (!read_device_file(context.ibv()->cmd_fd, content))
    return refuse(EINVAL, "cmd_fd %d is not of a softhca device", context.ibv()->cmd_fd);
  return context.control.call(abi::Operation::kJoinContext, content.token);
}

/// Returns the offset of the library's verbs_context in a Context.
std::size_t offset_of_library_part() {
  return offsetof(LibraryContext, base) - context_front(library_version());
}
verbs_context* library_part(Context& context) {
  return reinterpret_cast<verbs_context*>(reinterpret_cast<std::byte*>(&context) +
                                          offset_of_library_part());
}

/// True if the library's verbs_context has the size of its version. The library stores that size in
/// front of the ibv_context. This detects a version that grew without a new interface number.
bool is_of_known_size(const Context& context) {
  std::size_t bytes = 0;
  const auto& front = context.library.front;
  std::memcpy(&bytes, front + sizeof front - sizeof bytes, sizeof bytes);
  return bytes == context_front(library_version()) + sizeof(ibv_context);
}

/// Constructs the members of `context`, which the library made of zero bytes. close() destroys
/// them.
void construct_parts(Context& context) {
  new (&context.control) ControlChannel;
  new (&context.session) ClientSession;
  new (&context.segments) Segments;
  new (&context.memory) Owned<MemoryRegistry>;
  new (&context.on_demand) OnDemandRegions;
  new (&context.memory_offer) MemoryOffer;
  new (&context.shortage) std::atomic<int>(0);
  new (&context.qps) QpNumberTable;
  new (&context.xrc_srqs) SrqNumberTable;
  new (&context.forked) std::atomic<bool>(false);
}

void close(Context& context) {
  context.xrc_srqs.~SrqNumberTable();
  context.qps.~QpNumberTable();
  context.on_demand.~OnDemandRegions();
  context.memory.~unique_ptr();
  context.memory_offer.~MemoryOffer();
  context.segments.~Segments();
  context.session.~ClientSession();
  context.control.~ControlChannel();
  verbs_uninit_context(library_part(context));
  std::free(&context);
}

void free_context(ibv_context* ibv_context) {
  Context* context = to_context(ibv_context);
  stop_serving_files(*context);
  close(*context);
}

/// Empty: event_files.hpp counts events where the library reads them.
void async_event(ibv_context*, ibv_async_event*) {}

/// The name of a verb, as a template argument.
template <std::size_t size>
struct VerbName {
  char text[size];
  constexpr VerbName(const char (&name)[size]) {  // NOLINT: implicit
    for (std::size_t i = 0; i < size; ++i) text[i] = name[i];
  }
};

template <VerbName name, auto verb>
struct Reporting;
/// Wraps an operation that returns an errno value, to set errno, too, and to explain a failure.
/// Success leaves errno unchanged, because programs and libraries clean up between a failure and
/// their check of errno.
template <VerbName name, class... Arguments, int (*verb)(Arguments...)>
struct Reporting<name, verb> {
  static int call(Arguments... arguments) {
    const int before = errno;
    const int error = verb(arguments...);
    if (error != 0) return failed(name.text, error);
    forget_reason();
    errno = before;
    return 0;
  }
};
/// Wraps an operation that returns an object, or null with errno.
template <VerbName name, class Object, class... Arguments, Object* (*verb)(Arguments...)>
struct Reporting<name, verb> {
  static Object* call(Arguments... arguments) {
    Object* const object = verb(arguments...);
    if (object == nullptr)
      failed(name.text, errno);
    else
      forget_reason();
    return object;
  }
};

constexpr abi34::ContextOps make_operations() {
  abi34::ContextOps ops{};
  ops.advise_mr = Reporting<"ibv_advise_mr", advise_mr>::call;
  ops.alloc_mw = Reporting<"ibv_alloc_mw", alloc_mw>::call;
  ops.alloc_null_mr = Reporting<"ibv_alloc_null_mr", alloc_null_mr>::call;
  ops.alloc_parent_domain = Reporting<"ibv_alloc_parent_domain", alloc_parent_domain>::call;
  ops.alloc_pd = Reporting<"ibv_alloc_pd", alloc_pd>::call;
  ops.alloc_td = Reporting<"ibv_alloc_td", alloc_td>::call;
  ops.async_event = async_event;
  ops.attach_mcast = Reporting<"ibv_attach_mcast", attach_mcast>::call;
  ops.bind_mw = Reporting<"ibv_bind_mw", bind_mw>::call;
  ops.close_xrcd = Reporting<"ibv_close_xrcd", close_xrcd>::call;
  ops.create_ah = Reporting<"ibv_create_ah", create_ah>::call;
  ops.create_cq = Reporting<"ibv_create_cq", create_cq>::call;
  ops.create_cq_ex = Reporting<"ibv_create_cq_ex", create_cq_ex>::call;
  ops.create_qp = Reporting<"ibv_create_qp", create_qp>::call;
  ops.create_qp_ex = Reporting<"ibv_create_qp_ex", create_qp_ex>::call;
  ops.create_srq = Reporting<"ibv_create_srq", create_srq>::call;
  ops.create_srq_ex = Reporting<"ibv_create_srq_ex", create_srq_ex>::call;
  ops.dealloc_mw = Reporting<"ibv_dealloc_mw", dealloc_mw>::call;
  ops.dealloc_pd = Reporting<"ibv_dealloc_pd", dealloc_pd>::call;
  ops.dealloc_td = Reporting<"ibv_dealloc_td", dealloc_td>::call;
  ops.dereg_mr = Reporting<"ibv_dereg_mr", dereg_mr>::call;
  ops.destroy_ah = Reporting<"ibv_destroy_ah", destroy_ah>::call;
  ops.destroy_cq = Reporting<"ibv_destroy_cq", destroy_cq>::call;
  ops.destroy_qp = Reporting<"ibv_destroy_qp", destroy_qp>::call;
  ops.destroy_srq = Reporting<"ibv_destroy_srq", destroy_srq>::call;
  ops.detach_mcast = Reporting<"ibv_detach_mcast", detach_mcast>::call;
  ops.free_context = free_context;
  ops.get_srq_num = Reporting<"ibv_get_srq_num", get_srq_num>::call;
  ops.import_mr = Reporting<"ibv_import_mr", import_mr>::call;
  ops.import_pd = Reporting<"ibv_import_pd", import_pd>::call;
  ops.modify_cq = Reporting<"ibv_modify_cq", modify_cq>::call;
  ops.modify_qp = Reporting<"ibv_modify_qp", modify_qp>::call;
  ops.modify_srq = Reporting<"ibv_modify_srq", modify_srq>::call;
  ops.open_qp = Reporting<"ibv_open_qp", open_qp>::call;
  ops.open_xrcd = Reporting<"ibv_open_xrcd", open_xrcd>::call;
  ops.poll_cq = poll_cq;
  ops.post_recv = post_recv;
  ops.post_send = post_send;
  ops.post_srq_recv = post_srq_recv;
  ops.query_device_ex = Reporting<"ibv_query_device_ex", query_device_ex>::call;
  ops.query_port = Reporting<"ibv_query_port", query_port>::call;
  ops.query_qp = Reporting<"ibv_query_qp", query_qp>::call;
  ops.query_rt_values = Reporting<"ibv_query_rt_values", query_rt_values>::call;
  ops.query_srq = Reporting<"ibv_query_srq", query_srq>::call;
  ops.reg_mr = Reporting<"ibv_reg_mr", reg_mr>::call;
  ops.req_notify_cq = req_notify_cq;
  ops.rereg_mr = Reporting<"ibv_rereg_mr", rereg_mr>::call;
  ops.resize_cq = Reporting<"ibv_resize_cq", resize_cq>::call;
  ops.unimport_mr = unimport_mr;
  ops.unimport_pd = unimport_pd;
  return ops;
}

/// Makes a context with its own session, then calls `share(context)`, which returns 0 or an errno
/// value.
verbs_context* make_context(const char* verb, ibv_device* ibv_device, int cmd_fd,
                            int (*share)(Context&)) {
  static constexpr abi34::ContextOps kOperations = make_operations();
  static constexpr std::uint32_t kNoKernelDriver = 0;
  auto* context = static_cast<Context*>(_verbs_init_and_alloc_context(
      ibv_device, cmd_fd, sizeof(Context), std::bit_cast<verbs_context*>(offset_of_library_part()),
      kNoKernelDriver));
  if (context == nullptr) return nullptr;
  read_debug_setting();
  construct_parts(*context);
  const auto* device = reinterpret_cast<const Device*>(ibv_device);
  int error = is_of_known_size(*context)
                  ? 0
                  : refuse(ENOSYS, "no plugin of the provider fits this libibverbs");
  if (error == 0) error = open_session(*context, device->socket);
  if (error == 0) error = share(*context);
  if (error == 0) error = serve_files(*context);
  if (error != 0) {
    close(*context);
    failed(verb, error);
    return nullptr;
  }
  forget_reason();
  context->ibv()->num_comp_vectors = static_cast<int>(context->limits.completion_vectors);
  const Operations operations = operations_of(library_version(), kOperations);
  verbs_set_ops(library_part(*context), operations.data());
  return library_part(*context);
}

verbs_context* alloc_context(ibv_device* device, int cmd_fd, void*) {
  return make_context("ibv_open_device", device, cmd_fd, share_session);
}

verbs_context* import_context(ibv_device* device, int cmd_fd) {
  return make_context("ibv_import_device", device, cmd_fd, join_session);
}

}  // namespace

constinit const abi34::DeviceOps kDeviceOps = {
    .name = "softhca",
    .match_min_abi_version = 0,
    .match_max_abi_version = 0x7fffffff,
    .match_table = nullptr,
    .static_providers = nullptr,
    .match_device = match_device,
    .alloc_context = alloc_context,
    .import_context = import_context,
    .alloc_device = alloc_device,
    .uninit_device = uninit_device,
};

}  // namespace softhca::provider

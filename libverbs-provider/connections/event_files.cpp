// SPDX-License-Identifier: Apache-2.0

#include "libverbs-provider/connections/event_files.hpp"

#include <fcntl.h>
#include <poll.h>
#include <rdma/ib_user_ioctl_cmds.h>
#include <rdma/ib_user_verbs.h>
#include <rdma/rdma_user_ioctl_cmds.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "libverbs-provider/connections/descriptor_table.hpp"
#include "libverbs-provider/connections/import_redirect.hpp"
#include "libverbs-provider/explain.hpp"
#include "libverbs-provider/share/own_descriptor.hpp"

namespace softhca::provider {
namespace {

enum class FileKind : std::uint32_t { kForeign = 0, kDevice, kChannel, kAsync };

struct File {
  FileKind kind;
  std::uint32_t handle;  ///< channels: the handle in the daemon
  Context* context;
  FileIdentity identity;
  bool blocks;  ///< as far as the latest read knows
};

/// A record in the file of asynchronous events.
struct AsyncRecord {
  std::uint64_t element;
  std::uint32_t type;
  std::uint32_t reserved;
};

Mutex files_lock;  ///< guards the variables below, and what event_files.hpp names
DescriptorTable<File> files;
Context* contexts = nullptr;
bool redirected = false;

File find(int fd) {
  Guard guard(files_lock);
  return files.find(fd);
}

/// True if the program has closed the file itself. The number may now refer to another file.
bool is_reused(int fd, const File& file) {
  return file.kind != FileKind::kForeign && identity_of(fd) != file.identity;
}

/// Returns -1 and sets errno to EBADF.
int refuse_reused() {
  errno = EBADF;
  return -1;
}

/// Adds a file. False: out of memory. REQUIRES: files_lock held.
bool put(int fd, File file) {
  file.identity = identity_of(fd);
  return files.put(fd, file);
}

// --- the device file -------------------------------------------------------------------------

/// Makes a completion channel. Returns 0 or an errno value.
int create_channel(Context& context, std::uint32_t& fd) {
  abi::HandleBody reply{};
  ReceivedFds fds;
  int error = context.control.call(abi::Operation::kCreateChannel, {},
                                   std::as_writable_bytes(std::span{&reply, 1}), fds);
  if (error != 0) return error;
  if ((error = fds.check(1)) != 0) return error;  // the kernel has closed it
  const int channel = fds.take(0);
  fd = static_cast<std::uint32_t>(channel);
  // The new descriptor must block, as a new kernel file does.
  ::fcntl(channel, F_SETFL, ::fcntl(channel, F_GETFL) & ~O_NONBLOCK);
  Guard guard(files_lock);
  if (put(channel, {FileKind::kChannel, reply.handle, &context, {}})) return 0;
  ::close(channel);
  return ENOMEM;
}

ssize_t command(Context& context, const void* buffer, std::size_t bytes) {
  struct Request {
    ib_uverbs_cmd_hdr header;
    ib_uverbs_create_comp_channel body;
  } request;
  int error = EOPNOTSUPP;
  if (bytes == sizeof request) {
    std::memcpy(&request, buffer, sizeof request);
    ib_uverbs_create_comp_channel_resp response{};
    if (request.header.command == IB_USER_VERBS_CMD_CREATE_COMP_CHANNEL &&
        request.header.out_words * 4u == sizeof response) {
      error = create_channel(context, response.fd);
      if (error == 0)
        std::memcpy(reinterpret_cast<void*>(request.body.response), &response, sizeof response);
    }
  }
  if (error == 0) return static_cast<ssize_t>(bytes);
  failed("ibv_create_comp_channel", error);
  return -1;
}

/// Answers the ioctl() that makes a file of asynchronous events. The library makes one for an
/// imported context, although the provider has already given the context its file. False: it is
/// another ioctl().
bool control(const Context& context, void* argument) {
  auto& request = *static_cast<ib_uverbs_ioctl_hdr*>(argument);
  if (request.object_id != UVERBS_OBJECT_ASYNC_EVENT ||
      request.method_id != UVERBS_METHOD_ASYNC_EVENT_ALLOC || request.num_attrs != 1)
    return false;
  request.attrs[0].data = static_cast<std::uint64_t>(context.library.base.async_fd);
  return true;
}

// --- event records ---------------------------------------------------------------------------

EventTarget* target_of(const AsyncRecord& record) {
  auto* element = reinterpret_cast<void*>(record.element);
  switch (record.type) {
    case IBV_EVENT_CQ_ERR:
      return &static_cast<Cq*>(element)->events;
    case IBV_EVENT_QP_FATAL:
    case IBV_EVENT_QP_REQ_ERR:
    case IBV_EVENT_QP_ACCESS_ERR:
    case IBV_EVENT_COMM_EST:
    case IBV_EVENT_SQ_DRAINED:
    case IBV_EVENT_PATH_MIG:
    case IBV_EVENT_PATH_MIG_ERR:
    case IBV_EVENT_QP_LAST_WQE_REACHED:
      return &static_cast<Qp*>(element)->events;
    case IBV_EVENT_SRQ_ERR:
    case IBV_EVENT_SRQ_LIMIT_REACHED:
      return &static_cast<Srq*>(element)->events;
    default:
      return nullptr;  // of the port or the device
  }
}

constexpr std::size_t record_bytes(FileKind kind) {
  return kind == FileKind::kChannel ? sizeof(std::uint64_t) : sizeof(AsyncRecord);
}

/// The object that a record names, and its count of delivered events; {} for records of the port or
/// the device.
struct Named {
  EventTarget* target = nullptr;
  std::uint32_t* delivered = nullptr;

  bool retired() const { return target != nullptr && target->retired; }
};

Named named_by(FileKind kind, const void* buffer) {
  if (kind == FileKind::kChannel) {
    std::uint64_t element;
    std::memcpy(&element, buffer, sizeof element);
    EventTarget& target = reinterpret_cast<Cq*>(element)->events;
    return {&target, &target.completions_delivered};
  }
  AsyncRecord record;
  std::memcpy(&record, buffer, sizeof record);
  EventTarget* target = target_of(record);
  return target == nullptr ? Named{} : Named{target, &target->async_delivered};
}

/// Removes records of destroyed objects from the head of the queue, so that the descriptor is
/// readable only if the library has something to read. REQUIRES: files_lock held.
void drop_stale_records(int fd, FileKind kind) {
  char buffer[sizeof(AsyncRecord)];
  const auto whole = static_cast<ssize_t>(record_bytes(kind));
  while (::recv(fd, buffer, sizeof buffer, MSG_PEEK | MSG_DONTWAIT) == whole &&
         named_by(kind, buffer).retired())
    ::recv(fd, buffer, sizeof buffer, MSG_DONTWAIT);
}

/// Handles the end of the daemon. The first call reports that the device has failed; later calls
/// return an error. REQUIRES: files_lock held.
ssize_t report_loss(Context& context, void* buffer) {
  if (context.loss_reported) {
    errno = refuse_lost();
    return -1;
  }
  context.loss_reported = true;
  context.control.hung_up();
  const AsyncRecord record{0, IBV_EVENT_DEVICE_FATAL, 0};
  std::memcpy(buffer, &record, sizeof record);
  return sizeof record;
}

/// Reads one record of a living object, without waiting. The lock makes the read and the count of
/// deliveries one step, as a thread that destroys the object requires.
ssize_t take_record(int fd, const File& file, void* buffer) {
  const FileKind kind = file.kind;
  const auto whole = static_cast<ssize_t>(record_bytes(kind));
  Guard guard(files_lock);
  for (;;) {
    const ssize_t got = ::recv(fd, buffer, record_bytes(kind), MSG_DONTWAIT);
    if (got == 0 && kind == FileKind::kAsync) return report_loss(*file.context, buffer);
    if (got == 0) errno = refuse_lost();
    if (got < 0 && errno == ENOTSOCK) return refuse_reused();
    if (got != whole) return got == 0 ? -1 : got;
    const Named named = named_by(kind, buffer);
    if (named.retired()) continue;
    if (named.target != nullptr) ++*named.delivered;
    if (file.context->leaves_records) drop_stale_records(fd, kind);
    return got;
  }
}

/// Waits for a record if the descriptor blocks. Only the kernel knows, since the program sets it.
/// Returns 0, or -1 with errno: EAGAIN, it does not block.
int await_record(int fd, const File& file) {
  if (is_reused(fd, file)) return refuse_reused();
  char first;
  const bool comes = ::recv(fd, &first, sizeof first, MSG_PEEK) >= 0;
  const int error = comes ? 0 : errno;
  if (comes != file.blocks && (comes || error == EAGAIN)) {
    Guard guard(files_lock);
    if (File now = files.find(fd); now.identity == file.identity) {
      now.blocks = comes;
      files.put(fd, now);
    }
  }
  errno = error;
  return comes ? 0 : -1;
}

/// Without waiting, a record takes one system call, and finding none takes two. Waiting for a
/// record takes three. The time that they take is a large part of what a program that waits for
/// events needs.
ssize_t read_events(int fd, const File& file, void* buffer, std::size_t bytes) {
  if (bytes != record_bytes(file.kind)) {
    errno = EINVAL;
    return -1;
  }
  for (bool waits = file.blocks;; waits = true) {
    if (waits && await_record(fd, file) != 0) return -1;
    const ssize_t got = take_record(fd, file, buffer);
    if (got >= 0 || errno != EAGAIN) return got;
    const int flags = waits ? 0 : ::fcntl(fd, F_GETFL);
    errno = EAGAIN;
    if (flags > 0 && (flags & O_NONBLOCK) != 0) return -1;
  }
}

// --- functions that the library calls ---------------------------------------------------------

ssize_t verbs_write(int fd, const void* buffer, std::size_t bytes) {
  const File file = find(fd);
  if (file.kind != FileKind::kDevice) return ::write(fd, buffer, bytes);
  if (is_reused(fd, file)) return refuse_reused();
  return command(*file.context, buffer, bytes);
}

ssize_t verbs_read(int fd, void* buffer, std::size_t bytes) {
  const File file = find(fd);
  if (file.kind != FileKind::kChannel && file.kind != FileKind::kAsync)
    return ::read(fd, buffer, bytes);
  const ssize_t got = read_events(fd, file, buffer, bytes);
  if (got < 0 && errno != EAGAIN)
    failed(file.kind == FileKind::kChannel ? "ibv_get_cq_event" : "ibv_get_async_event", errno);
  return got;
}

int verbs_ioctl(int fd, unsigned long request, void* argument) {
  const File file = find(fd);
  if (file.kind == FileKind::kDevice && request == RDMA_VERBS_IOCTL &&
      control(*file.context, argument))
    return 0;
  return ::ioctl(fd, request, argument);
}

int verbs_close(int fd) {
  {
    Guard guard(files_lock);
    const bool reused = is_reused(fd, files.find(fd));
    files.forget(fd);
    if (reused) return refuse_reused();
  }
  return ::close(fd);
}

// --- fork ------------------------------------------------------------------------------------

void lock_files() { files_lock.lock(); }
void unlock_files() { files_lock.unlock(); }
/// Neither disturbs the parent's session nor keeps its connection open.
void abandon_in_child() {
  for (Context* c = contexts; c != nullptr; c = c->next) {
    c->forked.store(true, std::memory_order_relaxed);
    c->control.abandon();
    c->session.abandon();
    c->segments.abandon();
  }
  files_lock.unlock();
}

/// REQUIRES: files_lock held.
void redirect_verbs() {
  if (redirected) return;
  redirected = true;
  const auto* inside = reinterpret_cast<const void*>(&verbs_set_ops);
  // read() before write(): without read() a channel is not safe to use, and without write() none is
  // made.
  redirect_import(inside, "ioctl", reinterpret_cast<void*>(&verbs_ioctl));
  if (redirect_import(inside, "read", reinterpret_cast<void*>(&verbs_read)) &&
      redirect_import(inside, "close", reinterpret_cast<void*>(&verbs_close)))
    redirect_import(inside, "write", reinterpret_cast<void*>(&verbs_write));
  ::pthread_atfork(lock_files, unlock_files, abandon_in_child);
}

void await_acknowledged(pthread_mutex_t& mutex, pthread_cond_t& cond, const std::uint32_t& done,
                        std::uint32_t delivered) {
  pthread_mutex_lock(&mutex);
  while (done != delivered) pthread_cond_wait(&cond, &mutex);
  pthread_mutex_unlock(&mutex);
}

/// True if no records are left that may name destroyed objects. Such records may remain behind one
/// of a living object. REQUIRES: files_lock held.
bool drained(int fd, FileKind kind) {
  const File file = files.find(fd);
  if (file.kind != kind || is_reused(fd, file)) return true;
  drop_stale_records(fd, kind);
  pollfd state{fd, POLLIN, 0};
  return ::poll(&state, 1, 0) <= 0 || (state.revents & POLLIN) == 0;
}

/// Marks an object as destroyed. True: no record can name it.
bool mark_retired(Context& context, EventTarget& target, int channel) {
  Guard guard(files_lock);
  target.retired = true;
  if (drained(context.ibv()->async_fd, FileKind::kAsync) && drained(channel, FileKind::kChannel))
    return true;
  context.leaves_records = true;
  return false;
}

bool waits_for_acknowledgement(const Context& context) {
  return !context.forked.load(std::memory_order_relaxed);  // a child has no other threads
}

}  // namespace

int serve_files(Context& context) {
  Guard guard(files_lock);
  redirect_verbs();
  const ibv_context& ibv = *context.ibv();
  if (!put(ibv.cmd_fd, {FileKind::kDevice, 0, &context, {}})) return ENOMEM;
  if (!put(ibv.async_fd, {FileKind::kAsync, 0, &context, {}})) {
    files.forget(ibv.cmd_fd);
    return ENOMEM;
  }
  context.next = contexts;
  contexts = &context;
  return 0;
}

void stop_serving_files(Context& context) {
  Guard guard(files_lock);
  // The library closes these two next. If the program has closed them itself, their numbers may
  // refer to other files or contexts.
  for (int* fd : {&context.ibv()->cmd_fd, &context.ibv()->async_fd}) {
    const File file = files.find(*fd);
    if (file.context != &context || is_reused(*fd, file)) *fd = -1;
  }
  for (File& file : files)
    if (file.context == &context) file = {};
  for (Context** c = &contexts; *c != nullptr; c = &(*c)->next) {
    if (*c != &context) continue;
    *c = context.next;
    break;
  }
  while (Buried* grave = context.buried) {
    context.buried = grave->next;
    grave->dispose(grave->object);
    std::free(grave);
  }
}

std::optional<std::uint32_t> channel_handle(const Context& context, int fd) {
  const File file = find(fd);
  if (file.kind != FileKind::kChannel || file.context != &context) return std::nullopt;
  return file.handle;
}

bool retire(Context& context, EventTarget& target, Cq* cq) {
  ibv_cq& base = cq->base.cq;
  const bool unnamed =
      mark_retired(context, target, base.channel != nullptr ? base.channel->fd : -1);
  if (waits_for_acknowledgement(context)) {
    await_acknowledged(base.mutex, base.cond, base.comp_events_completed,
                       target.completions_delivered);
    await_acknowledged(base.mutex, base.cond, base.async_events_completed, target.async_delivered);
  }
  return unnamed;
}

bool retire(Context& context, EventTarget& target, Qp* qp) {
  ibv_qp& base = qp->base.qp;
  const bool unnamed = mark_retired(context, target, -1);
  if (waits_for_acknowledgement(context))
    await_acknowledged(base.mutex, base.cond, base.events_completed, target.async_delivered);
  return unnamed;
}

bool retire(Context& context, EventTarget& target, Srq* srq) {
  ibv_srq& base = srq->base.srq;
  const bool unnamed = mark_retired(context, target, -1);
  if (waits_for_acknowledgement(context))
    await_acknowledged(base.mutex, base.cond, base.events_completed, target.async_delivered);
  return unnamed;
}

void bury(Context& context, void* object, void (*dispose)(void*)) {
  auto* grave = static_cast<Buried*>(std::malloc(sizeof(Buried)));
  if (grave == nullptr) return;  // the object stays allocated, which is sufficient
  Guard guard(files_lock);
  *grave = {object, dispose, context.buried};
  context.buried = grave;
}

}  // namespace softhca::provider

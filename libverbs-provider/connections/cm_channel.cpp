// SPDX-License-Identifier: Apache-2.0

#include "libverbs-provider/connections/cm_channel.hpp"

#include <pthread.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include <algorithm>
#include <atomic>
#include <cerrno>

#include "libverbs-provider/control/tenant_socket.hpp"
#include "libverbs-provider/explain.hpp"

namespace softhca::provider {

/// In memory that a forked child shares.
struct CmChannel::Shared {
  pthread_mutex_t mutex;
  std::uint32_t next_tag;
  std::atomic<bool> lost;
};

CmChannel::~CmChannel() {
  if (shared_ != nullptr) ::munmap(shared_, sizeof(Shared));
}

int CmChannel::open(const char* tenant_socket, int& signal_fd) {
  char path[kSocketPathBytes];
  choose_socket(tenant_socket, path);
  if (const int error = share()) return error;
  return greet_again_if_lost([&] {
    int fd = -1;
    const int error = connect_socket(path, fd);
    fd_.reset(fd);
    if (error != 0) return refuse(error, "cannot connect to %s; start the daemon", path);
    return greet(signal_fd);
  });
}

int CmChannel::share() {
  void* memory =
      ::mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return ENOMEM;
  shared_ = static_cast<Shared*>(memory);
  pthread_mutexattr_t attributes;
  pthread_mutexattr_init(&attributes);
  pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
  pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
  const int error = pthread_mutex_init(&shared_->mutex, &attributes);
  pthread_mutexattr_destroy(&attributes);
  return error;
}

int CmChannel::greet(int& signal_fd) {
  Hello hello;
  if (const int error = make_hello(hello, 0)) return error;
  abi::RequestHeader header{static_cast<std::uint32_t>(abi::Operation::kOpenEventChannel),
                            shared_->next_tag++};
  iovec request[] = {{&header, sizeof header}, {&hello.body, hello.bytes}};
  if (const int error = send_record(fd_.get(), request)) return error;

  abi::ReplyHeader answer{};
  union {
    abi::EventChannelReply reply;
    abi::VersionRange refusal;
  } channel{};
  ReceivedFds fds;
  iovec reply[] = {{&answer, sizeof answer}, {&channel, sizeof channel}};
  const Received got = receive_record(fd_.get(), reply, fds);
  if (got.bytes == 0) return EIO;
  if (got.bytes < sizeof answer || answer.tag != header.tag) return EPROTO;
  if (answer.error == EPROTO) explain_refusal(channel.refusal);
  if (answer.error != 0) return answer.error > 0 ? answer.error : EPROTO;
  if (got.bytes != sizeof answer + sizeof channel.reply) return EPROTO;
  if (abi::answered_version(abi::kSpokenVersions, channel.reply.version) == 0) return EPROTO;
  if (const int error = fds.check(1)) return error;
  number_ = channel.reply.channel;
  signal_fd = fds.take(0);
  return 0;
}

bool CmChannel::lost() const { return shared_->lost.load(std::memory_order_relaxed); }

/// Disables cancellation: a thread cancelled between a request and its reply would leave the reply
/// to the next thread, and programs do cancel the thread that takes their events. If a process was
/// killed there, the state of its command is unknown, so the channel is given up.
CmChannel::Turn::Turn(CmChannel& channel) : channel_(channel) {
  pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel_state_);
  pthread_mutex_t& mutex = channel.shared_->mutex;
  if (pthread_mutex_lock(&mutex) != EOWNERDEAD) return;
  pthread_mutex_consistent(&mutex);
  give_up(EIO);
}

CmChannel::Turn::~Turn() {
  pthread_mutex_unlock(&channel_.shared_->mutex);
  pthread_setcancelstate(cancel_state_, nullptr);
}

int CmChannel::Turn::give_up(int error) {
  channel_.shared_->lost.store(true, std::memory_order_relaxed);
  if (channel_.fd_.is_ours()) ::shutdown(channel_.fd_.get(), SHUT_RDWR);
  return error;
}

int CmChannel::Turn::command(const abi::ConnectionCommandRequest& request,
                             std::span<const std::byte> body, Response& response) {
  if (channel_.lost()) return refuse_lost();
  if (!channel_.fd_.is_ours()) return EBADF;  // other processes that share the channel continue
  abi::RequestHeader header{static_cast<std::uint32_t>(abi::Operation::kConnectionCommand),
                            channel_.shared_->next_tag++};
  iovec parts[] = {{&header, sizeof header},
                   {const_cast<abi::ConnectionCommandRequest*>(&request), sizeof request},
                   {const_cast<std::byte*>(body.data()), body.size()}};
  if (const int error = send_record(channel_.fd_.get(), parts))
    return is_shortage(error) ? error : give_up(EIO);

  abi::ReplyHeader answer{};
  ReceivedFds none;
  iovec reply[] = {{&answer, sizeof answer}, {&response, sizeof response}};
  const Received got = receive_reply(channel_.fd_.get(), reply, header.tag, none);
  if (got.bytes == 0) return give_up(EIO);
  if (got.bytes < sizeof answer || answer.tag != header.tag) return give_up(EPROTO);
  if (answer.error > 0)
    return refuse_as_answered(answer.error,
                              std::as_bytes(std::span{&response, 1})
                                  .first(std::min(got.bytes - sizeof answer, sizeof response)));
  if (answer.error != 0) return give_up(EPROTO);
  const bool whole = got.bytes >= sizeof answer + sizeof response.head &&
                     response.head.bytes <= sizeof response.bytes &&
                     got.bytes == sizeof answer + sizeof response.head + response.head.bytes;
  return whole ? 0 : give_up(EPROTO);
}

}  // namespace softhca::provider

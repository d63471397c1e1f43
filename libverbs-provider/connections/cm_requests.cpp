// SPDX-License-Identifier: Apache-2.0

#include "libverbs-provider/connections/cm_requests.hpp"

#include <fcntl.h>
#include <netinet/in.h>
#include <rdma/rdma_user_cm.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <span>

#include "abi/rdma_cm_calls.hpp"
#include "libverbs-provider/connections/open_channels.hpp"
#include "libverbs-provider/explain.hpp"

namespace softhca::provider {
namespace {

using Body = std::span<const std::byte>;

/// Offset of the response address in a command's body, and the least room for the response (0: the
/// command has none). The kernel uses the same sizes: those of the first library that had the
/// command.
struct ResponsePlace {
  std::size_t at;
  std::size_t least;
};

constexpr ResponsePlace response_place(std::uint32_t command) {
  switch (command) {
    case RDMA_USER_CM_CMD_CREATE_ID:
      return {offsetof(rdma_ucm_create_id, response), sizeof(rdma_ucm_create_id_resp)};
    case RDMA_USER_CM_CMD_DESTROY_ID:
    case RDMA_USER_CM_CMD_LEAVE_MCAST:
      return {offsetof(rdma_ucm_destroy_id, response), sizeof(rdma_ucm_destroy_id_resp)};
    case RDMA_USER_CM_CMD_QUERY_ROUTE:
      return {offsetof(rdma_ucm_query, response), offsetof(rdma_ucm_query_route_resp, ibdev_index)};
    case RDMA_USER_CM_CMD_INIT_QP_ATTR:
      return {offsetof(rdma_ucm_init_qp_attr, response), sizeof(ib_uverbs_qp_attr)};
    case RDMA_USER_CM_CMD_GET_EVENT:
      return {offsetof(rdma_ucm_get_event, response), offsetof(rdma_ucm_event_resp, reserved)};
    case RDMA_USER_CM_CMD_JOIN_IP_MCAST:
      return {offsetof(rdma_ucm_join_ip_mcast, response), sizeof(rdma_ucm_create_id_resp)};
    case RDMA_USER_CM_CMD_MIGRATE_ID:
      return {offsetof(rdma_ucm_migrate_id, response), sizeof(rdma_ucm_migrate_resp)};
    default:
      return {};
  }
}

/// A command as the program wrote it.
struct Command {
  rdma_ucm_cmd_hdr header;
  Body body;
  ResponsePlace place;

  void respond(const void* response, std::size_t bytes) const {
    if (place.least == 0) return;
    std::uint64_t address;
    std::memcpy(&address, body.data() + place.at, sizeof address);
    std::memcpy(reinterpret_cast<void*>(address), response,
                std::min<std::size_t>(bytes, header.out));
  }
};

/// Parses a command. Returns 0 or an errno value, the same as the kernel's.
int parse(const void* buffer, std::size_t bytes, Command& command) {
  if (bytes < sizeof command.header) return EINVAL;
  std::memcpy(&command.header, buffer, sizeof command.header);
  if (command.header.in > bytes - sizeof command.header) return EINVAL;
  if (command.header.in > abi::kMaxConnectionCommand) return EINVAL;
  command.body = {static_cast<const std::byte*>(buffer) + sizeof command.header, command.header.in};
  command.place = response_place(command.header.cmd);
  if (command.place.least == 0) return 0;
  if (command.body.size() < command.place.at + sizeof(std::uint64_t)) return EINVAL;
  return command.header.out < command.place.least ? ENOSPC : 0;
}

bool ends_something(const Command& command) {
  return command.header.cmd == RDMA_USER_CM_CMD_DESTROY_ID ||
         command.header.cmd == RDMA_USER_CM_CMD_LEAVE_MCAST;
}

/// Sends one request on `channel` and receives its reply. `drains`: the channel of the events in
/// the reply.
int exchange(const HeldChannel& channel, const HeldChannel& drains, const Command& command,
             Body body, std::uint32_t other) {
  CmChannel::Turn turn(*channel);
  CmChannel::Response response;
  const int error = turn.command({command.header.cmd, other}, body, response);
  if (error != 0) {
    // As with other objects, a lost connection has ended the identifier or membership. Success lets
    // programs clean up. No events can come any more.
    if ((!channel->lost() && error != EBADF) || !ends_something(command)) return error;
    const rdma_ucm_destroy_id_resp nothing{};
    command.respond(&nothing, sizeof nothing);
    return 0;
  }
  if (response.head.drained != 0) drains.take_signal();
  if (response.head.bytes < command.place.least) return turn.give_up(EPROTO);
  command.respond(response.bytes, response.head.bytes);
  return 0;
}

/// Returns 0, an errno value, or EBADF if the channel has been closed meanwhile.
int run(int fd, const Command& command) {
  const HeldChannel channel(fd);
  return channel ? exchange(channel, channel, command, command.body, 0) : EBADF;
}

/// Sends an option. Its value is in memory of the process, so it is copied behind the body.
int set_option(int fd, const Command& command) {
  rdma_ucm_set_option option;
  if (command.body.size() < sizeof option) return EINVAL;
  std::memcpy(&option, command.body.data(), sizeof option);
  std::byte body[abi::kMaxConnectionCommand];
  if (option.optlen > sizeof body - sizeof option) return EINVAL;
  std::memcpy(body, &option, sizeof option);
  std::memcpy(body + sizeof option, reinterpret_cast<const void*>(option.optval), option.optlen);
  const HeldChannel channel(fd);
  if (!channel) return EBADF;
  return exchange(channel, channel, command, {body, sizeof option + option.optlen}, 0);
}

/// Migrates an identifier. The program writes the command to the new channel; the body has the
/// descriptor of the current one.
int migrate(int fd, const Command& command) {
  rdma_ucm_migrate_id request;
  if (command.body.size() < sizeof request) return EINVAL;
  std::memcpy(&request, command.body.data(), sizeof request);
  const HeldChannel to(fd);
  if (!to) return EBADF;
  const HeldChannel from(static_cast<int>(request.fd));
  if (!from) return EINVAL;
  return exchange(to, from, command, command.body, from->number());
}

/// Waits until the channel of `fd` has events or is lost. Returns 0 or an errno value. As with the
/// kernel's file, closing the descriptor does not wake a thread that waits on it; programs leave
/// such a thread waiting until the process ends.
int await_event(int fd) {
  if (channel_file(fd) == ChannelFile::kReused) return EBADF;
  const int flags = ::fcntl(fd, F_GETFL);
  if (flags >= 0 && (flags & O_NONBLOCK) != 0) return EAGAIN;
  char byte;
  const ssize_t got = ::recv(fd, &byte, sizeof byte, MSG_PEEK);
  const int error = got < 0 ? errno : 0;
  while (channel_file(fd) == ChannelFile::kForeign) ::pause();
  return got == 0 ? EIO : error;
}

/// Returns the next event. Holds neither a lock nor the channel while it waits, so that other
/// threads can send commands and the waiting thread can be cancelled.
int next_event(int fd, const Command& command) {
  for (;;) {
    int error = run(fd, command);
    if (error != EAGAIN) return error;
    error = await_event(fd);
    if (error != 0) return error;
  }
}

int carry_out(int fd, const Command& command) {
  switch (command.header.cmd) {
    case RDMA_USER_CM_CMD_GET_EVENT:
      return next_event(fd, command);
    case RDMA_USER_CM_CMD_SET_OPTION:
      return set_option(fd, command);
    case RDMA_USER_CM_CMD_MIGRATE_ID:
      return migrate(fd, command);
    default:
      return run(fd, command);
  }
}

/// True if the failure is an answer that librdmacm or the program expects: no event is queued, or
/// the library asks at its start if addresses of InfiniBand exist.
bool is_expected(const Command& command, int error) {
  if (command.header.cmd == RDMA_USER_CM_CMD_GET_EVENT) return error == EAGAIN;
  rdma_ucm_create_id request;
  if (command.header.cmd != RDMA_USER_CM_CMD_CREATE_ID || command.body.size() < sizeof request)
    return false;
  std::memcpy(&request, command.body.data(), sizeof request);
  return request.ps == RDMA_PS_IB;
}

}  // namespace

ssize_t write_command(int fd, const void* buffer, std::size_t bytes) {
  Command command{};
  int error = parse(buffer, bytes, command);
  if (error == 0) error = carry_out(fd, command);
  if (error == 0) {
    forget_reason();
    return static_cast<ssize_t>(bytes);
  }
  if (!is_expected(command, error)) failed(abi::rdma_cm_call(command.header.cmd), error);
  errno = error;
  return -1;
}

}  // namespace softhca::provider

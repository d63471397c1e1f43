// SPDX-License-Identifier: Apache-2.0

// Records of a tenant's socket (abi/control.hpp), as a process writes and reads them by itself.
#pragma once

#include <sys/socket.h>

#include <array>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <vector>

#include "abi/control.hpp"
#include "daemon/base/unique_fd.hpp"

namespace softhca {

inline std::vector<std::byte> request_record(abi::Operation operation, std::uint32_t tag,
                                             std::span<const std::byte> body) {
  const abi::RequestHeader header{static_cast<std::uint32_t>(operation), tag};
  std::vector<std::byte> record(sizeof header + body.size());
  std::memcpy(record.data(), &header, sizeof header);
  if (!body.empty()) std::memcpy(record.data() + sizeof header, body.data(), body.size());
  return record;
}

struct ReplyRecord {
  abi::ReplyHeader header{};
  std::vector<std::byte> body;
  std::vector<UniqueFd> fds;
};

/// `flags` of recvmsg(). Nothing: none came.
inline std::optional<ReplyRecord> receive_reply(int socket, int flags = 0) {
  std::array<std::byte, 2048> bytes;
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int) * abi::kMaxFds)];
  iovec part{bytes.data(), bytes.size()};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  const ssize_t got = ::recvmsg(socket, &message, flags | MSG_CMSG_CLOEXEC);
  ReplyRecord reply;
  if (got < static_cast<ssize_t>(sizeof reply.header)) return std::nullopt;
  std::memcpy(&reply.header, bytes.data(), sizeof reply.header);
  reply.body.assign(bytes.data() + sizeof reply.header, bytes.data() + got);
  if (const cmsghdr* c = CMSG_FIRSTHDR(&message); c != nullptr)
    for (std::size_t i = 0; i < (c->cmsg_len - CMSG_LEN(0)) / sizeof(int); ++i) {
      int fd;
      std::memcpy(&fd, CMSG_DATA(c) + i * sizeof fd, sizeof fd);
      reply.fds.emplace_back(fd);
    }
  return reply;
}

}  // namespace softhca

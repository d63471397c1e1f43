// SPDX-License-Identifier: Apache-2.0

#include "daemon/frontend/unix/sockets/tenant_channel.hpp"

#include <sys/socket.h>

#include <cstring>

#include "daemon/frontend/unix/sockets/message.hpp"

namespace softhca::control {

int TenantChannel::make_signal(Reply& reply) {
  if (!descriptors_) return EMFILE;
  return make_one_way(SOCK_STREAM, socket_, signal_, reply);
}

bool TenantChannel::answer_open(std::uint32_t tag, int error, const Reply& reply) {
  const bool answered = send_reply(socket(), tag, error, reply);
  return error == 0 && answered;
}

bool TenantChannel::serve() {
  return serve_records(socket(), [this](std::span<const std::byte> record) {
    return answer(record) ? Served::kNext : Served::kEnd;
  });
}

/// Answers a request. Returns false if the peer breaks the protocol or does not take the answer.
bool TenantChannel::answer(std::span<const std::byte> record) {
  abi::RequestHeader header;
  if (record.size() < sizeof header) return false;
  std::memcpy(&header, record.data(), sizeof header);
  Reply reply;
  const auto error =
      run(static_cast<abi::Operation>(header.operation), record.subspan(sizeof header), reply);
  return error && send_reply(socket_.get(), header.tag, *error, reply);
}

}  // namespace softhca::control

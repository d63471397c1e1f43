// SPDX-License-Identifier: Apache-2.0

// The C library: each client sends requests to the daemon on its own connection. See
// softhca/datagrams.h.
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "abi/control.hpp"
#include "abi/session.hpp"
#include "libverbs-provider/control/record_socket.hpp"
#include "libverbs-provider/datagrams/softhca/datagrams.h"

namespace abi = softhca::abi;
using softhca::provider::ReceivedFds;

struct softhca_client {
  int socket = -1;
  int signal = -1;  ///< readable while a datagram or an event waits
  std::uint32_t quota = 0;
  std::uint32_t tag = 0;
};

static_assert(SOFTHCA_QPN_MANAGEMENT == abi::kManagementQpn);
static_assert(SOFTHCA_QPN_PROGRAMS == abi::kProgramQpn);
static_assert(SOFTHCA_QKEY_PROGRAMS == abi::kProgramQkey);
static_assert(SOFTHCA_DATAGRAM_BYTES == abi::kDatagramBytes);

namespace {

struct Part {
  void* at;
  std::size_t bytes;
};

/// A reply without its head: up to two parts, of which the last may be shorter.
struct Answer {
  Part parts[2] = {};
  std::size_t bytes = 0;  ///< total of both
};

/// Sends one request and receives its reply. Returns 0 or a negative errno value.
int ask(softhca_client& client, abi::Operation operation, Part first, Part second, Answer& answer,
        ReceivedFds& fds) {
  abi::RequestHeader request{static_cast<std::uint32_t>(operation), ++client.tag};
  iovec out[] = {{&request, sizeof request}, {first.at, first.bytes}, {second.at, second.bytes}};
  if (softhca::provider::send_record(client.socket, out) != 0) return -EIO;
  abi::ReplyHeader reply{};
  iovec in[] = {{&reply, sizeof reply},
                {answer.parts[0].at, answer.parts[0].bytes},
                {answer.parts[1].at, answer.parts[1].bytes}};
  const auto got = softhca::provider::receive_reply(client.socket, in, client.tag, fds);
  const std::size_t most = sizeof reply + answer.parts[0].bytes + answer.parts[1].bytes;
  if (got.bytes < sizeof reply || got.bytes > most || reply.tag != client.tag) return -EIO;
  answer.bytes = got.bytes - sizeof reply;
  return reply.error > 0 ? -reply.error : reply.error == 0 ? 0 : -EIO;
}

int ask_for_quota(softhca_client& client, abi::Operation operation, Part body,
                  abi::DatagramQuotaBody& quota, ReceivedFds& fds) {
  Answer answer{.parts = {{&quota, sizeof quota}}};
  if (const int error = ask(client, operation, body, {}, answer, fds)) return error;
  if (answer.bytes != sizeof quota) return -EIO;
  client.quota = quota.quota;
  return 0;
}

/// Finds the tenant's socket. Returns 0 or a negative errno value.
int find_socket(const char* given, char (&path)[108]) {
  if (given != nullptr) {
    const int length = std::snprintf(path, sizeof path, "%s", given);
    return static_cast<std::size_t>(length) < sizeof path ? 0 : -ENAMETOOLONG;
  }
  const char* folder = ::secure_getenv("SOFTHCA_RUNTIME_DIR");
  const char* tenant = ::secure_getenv("SOFTHCA_TENANT");
  if (folder == nullptr || tenant == nullptr) return -ENODEV;
  const int length = std::snprintf(path, sizeof path, "%s/%s/socket", folder, tenant);
  return static_cast<std::size_t>(length) < sizeof path ? 0 : -ENAMETOOLONG;
}

int start(softhca_client& client, const char* socket, abi::OpenDatagramClientRequest& request) {
  char path[108];
  if (const int error = find_socket(socket, path)) return error;
  request.magic = abi::kSessionMagic;
  request.oldest = abi::kSpokenVersions.oldest;
  request.newest = abi::kSpokenVersions.newest;
  abi::DatagramQuotaBody answer{};
  ReceivedFds fds;
  const int refusal = softhca::provider::greet_again_if_lost([&] {
    if (client.socket >= 0) ::close(client.socket);
    if (const int error = softhca::provider::connect_socket(path, client.socket)) return error;
    return -ask_for_quota(client, abi::Operation::kOpenDatagramClient, {&request, sizeof request},
                          answer, fds);
  });
  if (refusal != 0) return -refusal;
  if (abi::answered_version(abi::kSpokenVersions, answer.version) == 0) return -EPROTO;
  if (const int error = fds.check(1)) return error == EMFILE ? -EMFILE : -EIO;
  client.signal = fds.take(0);
  return 0;
}

int open_client(const char* socket, abi::OpenDatagramClientRequest request,
                softhca_client** client) {
  void* room = std::malloc(sizeof(softhca_client));
  if (room == nullptr) return -ENOMEM;
  auto* made = new (room) softhca_client;
  if (const int error = start(*made, socket, request)) {
    softhca_client_close(made);
    return error;
  }
  *client = made;
  return 0;
}

/// Removes the signal byte, because the daemon has reported that the queue is empty. Does not
/// block, because another reader may have taken the byte.
void take_signal(const softhca_client& client) {
  char byte;
  [[maybe_unused]] const ssize_t got = ::recv(client.signal, &byte, sizeof byte, MSG_DONTWAIT);
}

int take_datagram(const abi::DatagramHead& head, const std::byte* payload, std::size_t bytes,
                  softhca_datagram* out) {
  if (head.bytes > SOFTHCA_DATAGRAM_BYTES || head.bytes > bytes) return -EIO;
  std::memcpy(out->local, head.local, sizeof out->local);
  std::memcpy(out->peer, head.peer, sizeof out->peer);
  out->qpn = head.qpn;
  out->qkey = 0;
  out->flow_label = head.flow_label;
  out->traffic_class = head.traffic_class;
  out->hop_limit = 0;
  out->pkey = head.pkey;
  out->bytes = head.bytes;
  std::memcpy(out->payload, payload, head.bytes);
  return SOFTHCA_RECEIVED;
}

}  // namespace

extern "C" {

int softhca_client_open_class(const char* socket, unsigned management_class,
                              softhca_messages messages, uint32_t buffers,
                              softhca_client** client) {
  return open_client(socket,
                     {.qpn = abi::kManagementQpn,
                      .selector = management_class,
                      .flags = messages == SOFTHCA_RESPONSES ? abi::kDatagramResponses : 0,
                      .buffers = buffers},
                     client);
}

int softhca_client_open_number(const char* socket, uint32_t number, uint32_t buffers,
                               softhca_client** client) {
  return open_client(socket, {.qpn = abi::kProgramQpn, .selector = number, .buffers = buffers},
                     client);
}

void softhca_client_close(softhca_client* client) {
  if (client == nullptr) return;
  if (client->signal >= 0) ::close(client->signal);
  if (client->socket >= 0) ::close(client->socket);
  std::free(client);
}

int softhca_client_fd(const softhca_client* client) { return client->signal; }

uint32_t softhca_client_quota(const softhca_client* client) { return client->quota; }

int softhca_client_set_buffers(softhca_client* client, uint32_t buffers) {
  abi::HandleBody body{buffers, 0};
  abi::DatagramQuotaBody answer{};
  ReceivedFds fds;
  return ask_for_quota(*client, abi::Operation::kSetDatagramBuffers, {&body, sizeof body}, answer,
                       fds);
}

int softhca_client_send(softhca_client* client, const softhca_datagram* datagram) {
  if (datagram->bytes > SOFTHCA_DATAGRAM_BYTES) return -EINVAL;
  abi::DatagramHead head{};
  std::memcpy(head.local, datagram->local, sizeof head.local);
  std::memcpy(head.peer, datagram->peer, sizeof head.peer);
  head.qpn = datagram->qpn;
  head.qkey = datagram->qkey;
  head.flow_label = datagram->flow_label;
  head.traffic_class = datagram->traffic_class;
  head.hop_limit = datagram->hop_limit;
  head.bytes = datagram->bytes;
  Answer answer;
  ReceivedFds fds;
  return ask(*client, abi::Operation::kSendDatagram, {&head, sizeof head},
             {const_cast<uint8_t*>(datagram->payload), datagram->bytes}, answer, fds);
}

int softhca_client_receive(softhca_client* client, softhca_datagram* datagram) {
  abi::ReceiveDatagramReply head{};
  struct {
    abi::DatagramHead from;
    std::byte payload[SOFTHCA_DATAGRAM_BYTES];
  } body{};
  Answer answer{.parts = {{&head, sizeof head}, {&body, sizeof body}}};
  ReceivedFds fds;
  if (const int error = ask(*client, abi::Operation::kReceiveDatagram, {}, {}, answer, fds))
    return error;
  if (answer.bytes < sizeof head) return -EIO;
  const std::size_t bytes = answer.bytes - sizeof head;
  if (head.drained != 0) take_signal(*client);
  switch (static_cast<abi::DatagramEvent>(head.event)) {
    case abi::DatagramEvent::kNothing:
      return SOFTHCA_NOTHING;
    case abi::DatagramEvent::kReceived:
      if (bytes < sizeof body.from) return -EIO;
      return take_datagram(body.from, body.payload, bytes - sizeof body.from, datagram);
    case abi::DatagramEvent::kQuota: {
      abi::DatagramQuotaBody quota;
      if (bytes != sizeof quota) return -EIO;
      std::memcpy(&quota, &body, sizeof quota);
      client->quota = quota.quota;
      return SOFTHCA_QUOTA;
    }
  }
  return -EIO;
}

const char* softhca_client_error(int error) {
  switch (std::abs(error)) {
    case EACCES:
      return "this program may not use the management class, or the tenant's socket";
    case EADDRINUSE:
      return "another client has this class or number";
    case EDQUOT:
      return "the tenant has reached its limit of clients";
    case ENOSPC:
      return "all tenants together have reached the limit of clients";
    case ENOBUFS:
      return "the tenant would exceed its limit of buffers (a part of `buffers`)";
    case ENOMEM:
      return "too few buffers are free (buffers)";
    case EMFILE:
      return "the tenant has reached its limit of descriptors (descriptors)";
    case EBUSY:
      return "the tenant's programs exceed their rate of requests";
    case EADDRNOTAVAIL:
      return "not an address of the tenant";
    case ENETUNREACH:
      return "no address of the tenant reaches the peer";
    case EAGAIN:
      return "too many datagrams wait to be sent";
    case ENODEV:
      return "no tenant is named, or it is being removed";
    case EIO:
      return "the daemon is gone";
    case EPROTO:
      return "the daemon speaks another version of the protocol; upgrade the older one of softhca "
             "and softhca-provider";
    default:
      return std::strerror(std::abs(error));
  }
}

}  // extern "C"

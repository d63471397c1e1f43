// SPDX-License-Identifier: Apache-2.0

// What both sides of a storm of connections share. Each connect has a token, so that what became of
// it at one end can be held against what the other end says.
#pragma once

#include <fcntl.h>
#include <poll.h>
#include <rdma/rdma_cma.h>

#include <cstdint>
#include <ctime>

#include "tests/system/programs.hpp"

namespace storm {

/// What a connect brings along as private data.
struct Token {
  std::uint32_t client;
  std::uint32_t number;

  /// The server refuses these.
  bool to_be_refused() const { return number % 10 == 9; }
};

/// What became of connects, a line for each: "CLIENT NUMBER OUTCOME".
class Log {
 public:
  explicit Log(const char* path) : file_(std::fopen(path, "w")) { expect(file_ != nullptr, path); }
  ~Log() { std::fclose(file_); }
  Log(const Log&) = delete;
  Log& operator=(const Log&) = delete;

  void write(const Token& token, const char* outcome) {
    std::fprintf(file_, "%u %u %s\n", token.client, token.number, outcome);
  }

 private:
  std::FILE* file_;
};

class Channel {
 public:
  Channel() : channel_(rdma_create_event_channel()) {
    expect(channel_ != nullptr, "event channel");
    expect(fcntl(channel_->fd, F_SETFL, O_NONBLOCK) == 0, "O_NONBLOCK");
  }
  ~Channel() { rdma_destroy_event_channel(channel_); }
  Channel(const Channel&) = delete;
  Channel& operator=(const Channel&) = delete;

  rdma_event_channel* get() const { return channel_; }
  /// The next event; null: none came for so many milliseconds.
  rdma_cm_event* wait(int milliseconds) {
    rdma_cm_event* event = nullptr;
    if (rdma_get_cm_event(channel_, &event) == 0) return event;
    pollfd ready{channel_->fd, POLLIN, 0};
    poll(&ready, 1, milliseconds);
    if (rdma_get_cm_event(channel_, &event) == 0) return event;
    expect(errno == EAGAIN || errno == EINTR, "event");
    return nullptr;
  }

 private:
  rdma_event_channel* channel_;
};

/// A queue pair for `id`, with what all of this process have in common. False: the peer has gone.
inline bool make_queue_pair(rdma_cm_id* id) {
  static ibv_pd* const pd = ibv_alloc_pd(id->verbs);
  static ibv_cq* const cq = ibv_create_cq(id->verbs, 16, nullptr, nullptr, 0);
  expect(pd != nullptr && cq != nullptr, "completion queue");
  ibv_qp_init_attr attributes{};
  attributes.send_cq = attributes.recv_cq = cq;
  attributes.qp_type = IBV_QPT_RC;
  attributes.cap.max_send_wr = attributes.cap.max_recv_wr = 1;
  attributes.cap.max_send_sge = attributes.cap.max_recv_sge = 1;
  return rdma_create_qp(id, pd, &attributes) == 0;
}

inline sockaddr_storage address_of(const char* host, const char* port) {
  rdma_addrinfo hints{}, *found = nullptr;
  hints.ai_flags = RAI_NUMERICHOST | RAI_NOROUTE;
  hints.ai_port_space = RDMA_PS_TCP;
  expect(rdma_getaddrinfo(host, port, &hints, &found) == 0, host);
  sockaddr_storage address{};
  std::memcpy(&address, found->ai_dst_addr, found->ai_dst_len);
  rdma_freeaddrinfo(found);
  return address;
}

/// Until SIGTERM comes.
void serve(const char* address, const char* port, const char* log);

struct Plan {
  const char* address;
  const char* port;
  std::uint32_t client;
  std::uint32_t connects;
  std::uint32_t at_once;
};
void connect(const Plan& plan, const char* log);

}  // namespace storm

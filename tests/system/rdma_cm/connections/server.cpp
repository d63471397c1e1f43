// SPDX-License-Identifier: Apache-2.0

#include <csignal>

#include "tests/system/rdma_cm/connections/channel.hpp"

namespace storm {
namespace {

volatile std::sig_atomic_t stopping = 0;

constexpr int kBacklog = 1024;
constexpr int kLook = 100;  // milliseconds, for a signal

/// A connection that was accepted.
struct Accepted {
  Token token{};
  bool established = false;
};

class Server {
 public:
  Server(const char* address, const char* port, const char* log) : log_(log) {
    expect(rdma_create_id(channel_.get(), &listener_, nullptr, RDMA_PS_TCP) == 0, "identifier");
    sockaddr_storage to = address_of(address, port);
    expect(rdma_bind_addr(listener_, reinterpret_cast<sockaddr*>(&to)) == 0, address);
    expect(rdma_listen(listener_, kBacklog) == 0, "listen");
  }
  ~Server() { rdma_destroy_id(listener_); }

  void run() {
    while (!stopping)
      if (rdma_cm_event* event = channel_.wait(kLook)) handle(event);
    std::printf("%u established, %u refused, %u failed, %u open\n", established_, refused_, failed_,
                open_);
  }

 private:
  void handle(rdma_cm_event* event) {
    rdma_cm_id* const id = event->id;
    const rdma_cm_event_type what = event->event;
    const int status = event->status;
    Token token{};
    if (what == RDMA_CM_EVENT_CONNECT_REQUEST)
      std::memcpy(&token, event->param.conn.private_data, sizeof token);
    expect(rdma_ack_cm_event(event) == 0, "acknowledge");
    switch (what) {
      case RDMA_CM_EVENT_CONNECT_REQUEST:
        return token.to_be_refused() ? refuse(id, token) : accept(id, token);
      case RDMA_CM_EVENT_ESTABLISHED:
        accepted(id).established = true;
        return;
      case RDMA_CM_EVENT_DISCONNECTED:  // before ESTABLISHED if the RTU was lost
        rdma_disconnect(id);
        ++established_;
        return end(id, "established");
      case RDMA_CM_EVENT_CONNECT_ERROR:
      case RDMA_CM_EVENT_UNREACHABLE:
      case RDMA_CM_EVENT_REJECTED:
        expect(!accepted(id).established, "an end that is none");
        ++failed_;
        return end(id, "failed");
      case RDMA_CM_EVENT_TIMEWAIT_EXIT:
        return;
      default:
        std::fprintf(stderr, "%s, status %d\n", rdma_event_str(what), status);
        std::exit(1);
    }
  }

  static Accepted& accepted(rdma_cm_id* id) { return *static_cast<Accepted*>(id->context); }

  /// The client may be gone before.
  void accept(rdma_cm_id* id, const Token& token) {
    id->context = new Accepted{token};
    ++open_;
    rdma_conn_param parameters{};
    parameters.responder_resources = parameters.initiator_depth = 1;
    parameters.rnr_retry_count = 7;
    if (make_queue_pair(id) && rdma_accept(id, &parameters) == 0) return;
    ++failed_;
    end(id, "failed");
  }

  void refuse(rdma_cm_id* id, const Token& token) {
    if (rdma_reject(id, &token, sizeof token) == 0) {
      ++refused_;
      log_.write(token, "refused");
    }
    expect(rdma_destroy_id(id) == 0, "destroy");
  }

  void end(rdma_cm_id* id, const char* outcome) {
    log_.write(accepted(id).token, outcome);
    delete &accepted(id);
    if (id->qp != nullptr) rdma_destroy_qp(id);
    expect(rdma_destroy_id(id) == 0, "destroy");
    --open_;
  }

  Log log_;
  Channel channel_;
  rdma_cm_id* listener_ = nullptr;
  std::uint32_t established_ = 0, refused_ = 0, failed_ = 0, open_ = 0;
};

}  // namespace

void serve(const char* address, const char* port, const char* log) {
  struct sigaction action {};
  action.sa_handler = [](int) { stopping = 1; };
  sigaction(SIGTERM, &action, nullptr);
  Server(address, port, log).run();
}

}  // namespace storm

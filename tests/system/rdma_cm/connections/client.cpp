// SPDX-License-Identifier: Apache-2.0

#include <algorithm>
#include <chrono>
#include <string>
#include <vector>

#include "tests/system/rdma_cm/connections/channel.hpp"

namespace storm {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kMilliseconds = 2000;  // of a resolution
// Sixteen tries of 6.1 s, and what a busy machine takes.
constexpr int kLongestSilence = 120'000;

/// A connect, from its resolution to its end.
struct Connect {
  Token token{};
  bool established = false;
  Clock::time_point begun{};
};

class Client {
 public:
  Client(const Plan& plan, const char* log)
      : plan_(plan), address_(address_of(plan.address, plan.port)), log_(log) {}

  void run() {
    while (ended_ < plan_.connects) {
      while (begun_ < plan_.connects && begun_ - ended_ < plan_.at_once) begin();
      rdma_cm_event* event = channel_.wait(kLongestSilence);
      expect(event != nullptr, "a connect that never ends");
      handle(event);
    }
  }

  /// Prints the results. Times are of the connections established, in milliseconds from resolution
  /// on.
  void report() {
    std::ranges::sort(took_);
    const auto quantile = [&](double q) {
      return took_.empty() ? 0 : took_[static_cast<std::size_t>(q * double(took_.size() - 1))];
    };
    std::printf(
        "%u connects: %zu established, %u refused, %u without a listener, %u failed, "
        "%u unreachable; p50 %.3f ms, p90 %.3f ms, p99 %.3f ms\n",
        ended_, took_.size(), refused_, unheard_, failed_, unreachable_, quantile(0.5),
        quantile(0.9), quantile(0.99));
  }

 private:
  void begin() {
    auto* connect = new Connect{.token = {plan_.client, begun_++}, .begun = Clock::now()};
    rdma_cm_id* id = nullptr;
    expect(rdma_create_id(channel_.get(), &id, connect, RDMA_PS_TCP) == 0, "identifier");
    expect(
        rdma_resolve_addr(id, nullptr, reinterpret_cast<sockaddr*>(&address_), kMilliseconds) == 0,
        "resolve address");
  }

  static void request(rdma_cm_id* id, const Connect& connect) {
    expect(make_queue_pair(id), "queue pair");
    rdma_conn_param parameters{};
    parameters.private_data = &connect.token;
    parameters.private_data_len = sizeof connect.token;
    parameters.responder_resources = parameters.initiator_depth = 1;
    parameters.retry_count = parameters.rnr_retry_count = 7;
    expect(rdma_connect(id, &parameters) == 0, "connect");
  }

  void handle(rdma_cm_event* event) {
    rdma_cm_id* const id = event->id;
    auto& connect = *static_cast<Connect*>(id->context);
    const rdma_cm_event_type what = event->event;
    const int status = event->status;
    expect(rdma_ack_cm_event(event) == 0, "acknowledge");
    switch (what) {
      case RDMA_CM_EVENT_ADDR_RESOLVED:
        return expect(rdma_resolve_route(id, kMilliseconds) == 0, "resolve route");
      case RDMA_CM_EVENT_ROUTE_RESOLVED:
        return request(id, connect);
      case RDMA_CM_EVENT_ESTABLISHED:
        connect.established = true;
        took_.push_back(
            std::chrono::duration<double, std::milli>(Clock::now() - connect.begun).count());
        return expect(rdma_disconnect(id) == 0, "disconnect");
      case RDMA_CM_EVENT_TIMEWAIT_EXIT:
        return;
      case RDMA_CM_EVENT_DISCONNECTED:
        expect(connect.established, "disconnected and never established");
        return end(id, connect, "established");
      case RDMA_CM_EVENT_REJECTED:
        return end(id, connect, refusal(status));
      case RDMA_CM_EVENT_UNREACHABLE:
        ++unreachable_;
        return end(id, connect, "unreachable");
      case RDMA_CM_EVENT_CONNECT_ERROR:  // the peer accepted, and had gone when this side was told
        ++failed_;
        return end(id, connect, "failed");
      default:
        std::fprintf(stderr, "%s, status %d\n", rdma_event_str(what), status);
        std::exit(1);
    }
  }

  const char* refusal(int reason) {
    constexpr int kNobodyListens = 8, kStaleConnection = 10, kConsumer = 28;
    if (reason == kConsumer) return ++refused_, "refused";
    if (reason == kNobodyListens) return ++unheard_, "unheard";
    // The server had accepted, its reply was lost, and it has ended since.
    if (reason == kStaleConnection) return ++failed_, "failed";
    std::fprintf(stderr, "refused for reason %d\n", reason);
    std::exit(1);
  }

  void end(rdma_cm_id* id, Connect& connect, const char* outcome) {
    log_.write(connect.token, outcome);
    if (id->qp != nullptr) rdma_destroy_qp(id);
    expect(rdma_destroy_id(id) == 0, "destroy");
    delete &connect;
    ++ended_;
  }

  Plan plan_;
  sockaddr_storage address_;
  Channel channel_;
  Log log_;
  std::uint32_t begun_ = 0, ended_ = 0, refused_ = 0, unheard_ = 0, failed_ = 0, unreachable_ = 0;
  std::vector<double> took_;
};

}  // namespace

void connect(const Plan& plan, const char* log) {
  Client client(plan, log);
  client.run();
  client.report();
}

}  // namespace storm

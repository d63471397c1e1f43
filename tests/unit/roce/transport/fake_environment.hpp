// SPDX-License-Identifier: Apache-2.0

// An adapter made of lists: what the transport asks for is written down, what it is answered is set
// by the test.
#pragma once

#include <array>
#include <cstring>
#include <deque>
#include <string>
#include <vector>

#include "daemon/roce/transport/upcalls.hpp"
#include "tests/unit/roce/transport/text.hpp"

namespace softhca::transport {

class FakeEnvironment final : public PacketSink,
                              public LocalMemory,
                              public RemoteMemory,
                              public ReceiveSource,
                              public PeerLimits,
                              public CompletionSink,
                              public QueuePairEvents {
 public:
  SendResult send(const wire::Headers& h, const PayloadSource& payload) override {
    if (port_buffers == 0) return SendResult::kNoBuffer;
    if (payload.from != PayloadSource::From::kNone && !payload_accessible)
      return SendResult::kNoAccess;
    --port_buffers;
    sent.push_back(to_text(h, payload));
    return SendResult::kSent;
  }
  Verdict store_response(PcbId pcb, std::uint32_t offset,
                         std::span<const std::byte> payload) override {
    if (local_access == Verdict::kOk)
      stored.push_back("response " + std::to_string(pcb.value) + range(offset, payload.size()));
    last_payload.assign(payload.begin(), payload.end());
    return local_access;
  }
  void complete_request(PcbId pcb, Verdict verdict) override {
    done.push_back(std::to_string(pcb.value) + " " + to_text(verdict));
  }
  Verdict check_remote(Rkey, std::uint64_t addr, std::uint64_t length,
                       RemoteAccess access) override {
    asked.push_back(to_text(access) + " " + hex(addr) + "+" + std::to_string(length));
    return length == 0 ? Verdict::kOk : remote_access;
  }
  Verdict write_remote(Rkey, std::uint64_t addr, std::span<const std::byte> payload) override {
    if (remote_access != Verdict::kOk) return remote_access;
    stored.push_back("write " + hex(addr) + "+" + std::to_string(payload.size()));
    return write_access;
  }
  Verdict atomic_remote(Rkey, std::uint64_t, RequestKind kind, std::uint64_t compare_add,
                        std::uint64_t swap, AtomicLog log) override {
    const std::uint64_t before = counter;
    if (kind == RequestKind::kFetchAdd) counter += compare_add;
    if (kind == RequestKind::kCompareSwap && counter == compare_add) counter = swap;
    log.begin(before, counter);
    log.end();
    return remote_access;
  }
  std::optional<std::uint64_t> draw_receive() override {
    if (receives.empty()) return std::nullopt;
    drawn = next_receive++;
    const std::uint64_t capacity = receives.front();
    receives.pop_front();
    return capacity;
  }
  Verdict store_receive(std::uint64_t offset, std::span<const std::byte> payload) override {
    if (local_access == Verdict::kOk)
      stored.push_back("receive " + receive() + range(offset, payload.size()));
    return local_access;
  }
  Verdict store_routing_header() override {
    stored.push_back("grh " + receive());
    return local_access;
  }
  void complete_receive(const ReceiveCompletion& c) override {
    received.push_back(receive() + " " + to_text(c));
  }
  Verdict invalidate_key(Rkey rkey) override {
    stored.push_back("invalidate " + hex(rkey.value));
    return invalidation;
  }
  std::optional<std::uint32_t> receive_credits() override { return credits; }
  Duration request_wait(bool reads) override { return reads ? Duration::zero() : wait; }
  bool drops_request() override { return drops; }
  void took_request(std::uint32_t bytes, bool begins_message) override {
    brought.push_back(std::to_string(bytes) + (begins_message ? " begin" : ""));
  }
  bool holds_response() override { return responses_left == 0; }
  void sent_response(std::uint32_t bytes, bool begins_message) override {
    --responses_left;
    served.push_back(std::to_string(bytes) + (begins_message ? " begin" : ""));
  }
  void enter_error(std::optional<AsyncEvent> event) override {
    events.push_back("error" + (event ? " " + to_text(*event) : ""));
  }
  void raise_event(AsyncEvent event) override { events.push_back(to_text(event)); }
  void count(Count what, std::uint32_t n = 1) override { counts[static_cast<unsigned>(what)] += n; }

  std::uint32_t counted(Count what) const { return counts[static_cast<unsigned>(what)]; }

  /// The one under way: there is one at a time.
  std::string receive() const { return std::to_string(drawn); }

  // What happened, in order.
  std::vector<std::string> sent;
  std::vector<std::string> done;      ///< requests: "pcb verdict"
  std::vector<std::string> received;  ///< receives
  std::vector<std::string> stored;    ///< memory touched
  std::vector<std::string> events;
  std::vector<std::string> asked;    ///< what a peer is to be allowed
  std::vector<std::string> brought;  ///< by requests, in bytes
  std::vector<std::string> served;   ///< by responses to reads
  std::vector<std::byte> last_payload;
  std::array<std::uint32_t, static_cast<unsigned>(Count::kCount)> counts{};

  // What the transport is answered.
  std::uint32_t port_buffers = 1000000;
  bool payload_accessible = true;
  Verdict local_access = Verdict::kOk;
  Verdict remote_access = Verdict::kOk;
  Verdict write_access = Verdict::kOk;
  Verdict invalidation = Verdict::kOk;
  std::uint64_t counter = 0;
  std::deque<std::uint64_t> receives;  ///< capacities
  std::uint32_t next_receive = 0;
  std::uint32_t drawn = 0;  ///< number of the last one drawn
  std::optional<std::uint32_t> credits;
  Duration wait{};                         ///< of the next requests
  bool drops = false;                      ///< they are dropped
  std::uint32_t responses_left = 1000000;  ///< that may go
};

}  // namespace softhca::transport

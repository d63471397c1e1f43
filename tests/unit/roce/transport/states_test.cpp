// SPDX-License-Identifier: Apache-2.0

// Every state of a responder met by every request opcode, and of a requester by every response, as
// text that is compared with an approved file. A change of behaviour shows as a difference there.
#include "tests/unit/roce/transport/approved.hpp"

namespace softhca::transport {
namespace {

class ResponderStates : public ResponderTest {
 protected:
  /// Brings a fresh responder to PSN 10 expected, in the state named.
  void enter(const std::string& state) {
    env = FakeEnvironment();
    if (state != "no receive") env.receives = {4096, 4096};
    start_at(9);
    if (state == "in send")
      feed(Opcode::kRcSendFirst, 9, 256);
    else if (state == "in write")
      feed(Opcode::kRcWriteFirst, 9, 256, 512);
    else
      feed_read(9, 4);
    if (state == "after gap") feed(Opcode::kRcWriteOnly, 13, 1, 1);
    if (state == "after fatal") feed(Opcode::kRcSendMiddle, 10, 256);
    run();
    if (state == "flushed") responder.flush(env);
    env = FakeEnvironment();
    if (state != "no receive") env.receives = {4096};
  }
};

TEST_F(ResponderStates, AllOpcodes) {
  std::string text;
  for (const char* state :
       {"idle", "no receive", "in send", "in write", "after gap", "after fatal", "flushed"}) {
    for (const auto& [where, psn] :
         {std::pair{"duplicate", 9u}, {"expected", 10u}, {"ahead", 12u}}) {
      for (const auto& row : wire::detail::kOpcodeRows) {
        const wire::OpcodeMask mask = wire::opcode_info(row.opcode).mask;
        if (wire::opcode_info(row.opcode).transport != wire::Transport::kRc) continue;
        if (!mask.has_all(wire::kRequest)) continue;
        enter(state);
        const std::uint32_t whole = mask.has_all(wire::kAtomicWrite) ? 8 : 256;
        const std::size_t size = mask.has_all(wire::kPayload) ? whole : 0;
        const std::uint32_t announced = mask.has_all(wire::kEnd) ? whole : 512;
        feed(row.opcode, psn, size, mask.has_all(wire::kRead) ? 4 : announced);
        run();
        text += std::string(state) + " | " + where + " | " + row.name + " | " + outcome(env) + "\n";
      }
    }
  }
  compare_with_approved("responder_states", text);
}

class RequesterStates : public RequesterTest {
 protected:
  /// PSN 10 is the oldest unacknowledged; 9 was acknowledged.
  void enter(const std::string& state) {
    env = FakeEnvironment();
    number = 0;
    start_at(9);
    post_and_run(RequestKind::kSend, 1);
    feed_ack(9);
    if (state == "send" || state == "waits for receiver" || state == "failed")
      post_and_run(RequestKind::kSend, 300);
    if (state == "read") post_and_run(RequestKind::kRead, 300);
    if (state == "atomic") post_and_run(RequestKind::kFetchAdd, 8);
    if (state != "idle") post_and_run(RequestKind::kSend, 1);
    if (state == "waits for receiver") feed_nak(10, wire::kSyndromeRnr | 1);
    if (state == "failed") feed_nak(10, wire::kSyndromeRemoteAccess);
    env = FakeEnvironment();
  }
};

TEST_F(RequesterStates, AllResponses) {
  struct Response {
    const char* name;
    Opcode opcode;
    std::uint8_t syndrome = wire::kSyndromeNoCreditLimit;
    std::size_t payload = 0;
  };
  const Response responses[] = {
      {"ACK", Opcode::kRcAck},
      {"RNR", Opcode::kRcAck, wire::kSyndromeRnr | 1},
      {"NAK 60", Opcode::kRcAck, 0x60},
      {"NAK 61", Opcode::kRcAck, 0x61},
      {"NAK 62", Opcode::kRcAck, 0x62},
      {"NAK 63", Opcode::kRcAck, 0x63},
      {"NAK 64", Opcode::kRcAck, 0x64},
      {"RESERVED 40", Opcode::kRcAck, 0x40},
      {"READ_RESP_FIRST", Opcode::kRcReadResponseFirst, wire::kSyndromeNoCreditLimit, 256},
      {"READ_RESP_MIDDLE", Opcode::kRcReadResponseMiddle, wire::kSyndromeNoCreditLimit, 256},
      {"READ_RESP_LAST", Opcode::kRcReadResponseLast, wire::kSyndromeNoCreditLimit, 44},
      {"READ_RESP_ONLY", Opcode::kRcReadResponseOnly, wire::kSyndromeNoCreditLimit, 44},
      {"ATOMIC_ACK", Opcode::kRcAtomicAck},
  };
  std::string text;
  for (const char* state : {"idle", "send", "read", "atomic", "waits for receiver", "failed"}) {
    for (const auto& [where, psn] :
         {std::pair{"old", 8u}, {"newest", 9u}, {"oldest", 10u}, {"next", 11u}, {"ahead", 20u}}) {
      for (const Response& r : responses) {
        enter(state);
        feed(r.opcode, psn, r.syndrome, r.payload);
        run();
        text += std::string(state) + " | " + where + " | " + r.name + " | " + outcome(env) + "\n";
      }
    }
  }
  compare_with_approved("requester_states", text);
}

}  // namespace
}  // namespace softhca::transport

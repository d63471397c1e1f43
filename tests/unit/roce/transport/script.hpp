// SPDX-License-Identifier: Apache-2.0

// The small language of the packet tests: post requests, feed packets, let time pass, and say what
// must have come out since the last time one asked.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include "daemon/roce/transport/flush.hpp"
#include "daemon/roce/transport/reliable/requester.hpp"
#include "daemon/roce/transport/reliable/responder.hpp"
#include "daemon/roce/wire/opcode.hpp"
#include "tests/unit/roce/transport/fake_environment.hpp"
#include "tests/unit/roce/transport/own_replays.hpp"

namespace softhca::transport {

using Lines = std::vector<std::string>;
using std::chrono::microseconds;
using std::chrono::milliseconds;
using wire::Opcode;

inline constexpr std::uint64_t kRemoteAddr = 0x1000;
/// In one test: each has a PCB of its own.
inline constexpr std::uint32_t kRequests = 4096;

/// The place of the caller, as a default argument. (std::source_location is not in clang 14.)
struct Where {
  static constexpr Where current(const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
    return {file, line};
  }
  const char* file;
  int line;
};

/// Holds the environment and the questions about it that requester and responder tests share.
class ScriptTest : public testing::Test {
 protected:
  void expect_sent(const Lines& lines, Where at = Where::current()) { take(env.sent, lines, at); }
  void expect_nothing_sent(Where at = Where::current()) { take(env.sent, {}, at); }
  void expect_done(const Lines& lines, Where at = Where::current()) { take(env.done, lines, at); }
  void expect_received(const Lines& lines, Where at = Where::current()) {
    take(env.received, lines, at);
  }
  void expect_stored(const Lines& lines, Where at = Where::current()) {
    take(env.stored, lines, at);
  }
  void expect_events(const Lines& lines, Where at = Where::current()) {
    take(env.events, lines, at);
  }
  void expect_count(Count what, std::uint32_t n, Where at = Where::current()) {
    const testing::ScopedTrace trace(at.file, at.line, "asked here");
    EXPECT_EQ(env.counted(what), n);
  }

  static std::vector<std::byte> bytes(std::size_t n) { return std::vector<std::byte>(n); }

  FakeEnvironment env;
  Time now{};

 private:
  static void take(Lines& got, const Lines& wanted, Where at) {
    const testing::ScopedTrace trace(at.file, at.line, "asked here");
    EXPECT_EQ(std::exchange(got, {}), wanted);
  }
};

/// MTU 256, PSN from 0, timeout 4.096 us * 2^7, 3 retries, 2 reads in flight.
class RequesterTest : public ScriptTest {
 protected:
  RequesterTest() {
    attributes.mtu = 256;
    attributes.timeout = 7;
    attributes.retry_count = 3;
    attributes.rnr_retry = 2;
    attributes.max_rd_atomic = 2;
    start_at(0);
  }

  void expect_progress(SendObstacle obstacle, std::uint32_t unsent, std::uint32_t outstanding,
                       Where at = Where::current()) {
    const ::testing::ScopedTrace trace(at.file, at.line, "here");
    const SendProgress progress = requester.progress();
    EXPECT_EQ(progress.obstacle, obstacle);
    EXPECT_EQ(progress.unsent, unsent);
    EXPECT_EQ(progress.outstanding, outstanding);
  }
  void start_at(std::uint32_t psn) {
    requester.open(requests, 16);
    requester.configure(attributes);
    requester.reset(Psn(psn));
  }
  Request make(RequestKind kind, std::uint32_t length) {
    Request r;
    r.kind = kind;
    r.length = length;
    r.pcb = PcbId(number++);
    r.remote_addr = kRemoteAddr;
    return r;
  }
  void post(const Request& r) { requester.start(r); }
  void post(RequestKind kind, std::uint32_t length) { post(make(kind, length)); }
  bool run(unsigned budget = 1000) { return requester.transmit(env, now, budget); }
  void post_and_run(RequestKind kind, std::uint32_t length) {
    post(kind, length);
    run();
  }

  /// Packets that are sent now.
  std::size_t flight() {
    env.sent.clear();
    run();
    return std::exchange(env.sent, {}).size();
  }
  /// One packet after the other, of which the third is under way: the round trip was 1 ms, then 3
  /// ms.
  void send_through_a_queue() {
    attributes.psn_window = 1;
    start_at(0);
    post(RequestKind::kSend, 1000 * 256);
    flight();
    now += milliseconds(1);
    feed_ack(0);
    flight();
    now += milliseconds(3);
    feed_ack(1);
    flight();
  }
  void pass_deadline() {
    now = requester.deadline();
    requester.expire(env, now);
  }

  void feed(Opcode opcode, std::uint32_t psn, std::uint8_t syndrome = wire::kSyndromeNoCreditLimit,
            std::size_t payload = 0, std::uint32_t msn = 0) {
    wire::Headers h;
    h.opcode = wire::raw(opcode);
    h.psn = Psn(psn);
    h.syndrome = syndrome;
    h.msn = msn;
    h.original = 42;
    requester.receive(env, h, bytes(payload), now);
  }
  void feed_ack(std::uint32_t psn) { feed(Opcode::kRcAck, psn); }
  void feed_nak(std::uint32_t psn, std::uint8_t syndrome) { feed(Opcode::kRcAck, psn, syndrome); }
  void feed_read(Opcode opcode, std::uint32_t psn, std::size_t payload) {
    feed(opcode, psn, wire::kSyndromeNoCreditLimit, payload);
  }
  void pass(Duration time) {
    now += time;
    requester.expire(env, now);
    run();
  }

  static constexpr Duration kTimeout = std::chrono::nanoseconds(4096 << 7);
  RcAttributes attributes;
  RequestTable requests{kRequests};
  Requester requester;
  std::uint32_t number = 0;  ///< of the next request
};

/// MTU 256, expects PSN 0 first, remembers 2 reads or atomics, RNR timer code 12.
class ResponderTest : public ScriptTest {
 protected:
  ResponderTest() {
    attributes.mtu = 256;
    attributes.max_dest_rd_atomic = 2;
    start_at(0);
  }

  void start_at(std::uint32_t psn) {
    responder.configure(attributes, replays.places());
    responder.reset(Psn(psn));
  }
  static wire::Headers make(Opcode opcode, std::uint32_t psn) {
    wire::Headers h;
    h.opcode = wire::raw(opcode);
    h.psn = Psn(psn);
    h.remote_addr = kRemoteAddr;
    h.ack_request = wire::opcode_info(opcode).mask.has_all(wire::kEnd);
    h.flush = kFlushGlobal;
    return h;
  }
  void feed(const wire::Headers& h, std::size_t payload = 0) {
    responder.receive(env, h, bytes(payload), now);
  }
  void feed(Opcode opcode, std::uint32_t psn, std::size_t payload = 0, std::uint32_t length = 0) {
    wire::Headers h = make(opcode, psn);
    h.dma_length = length;
    feed(h, payload);
  }
  void feed_read(std::uint32_t psn, std::uint32_t length, std::uint32_t skip = 0) {
    wire::Headers h = make(Opcode::kRcReadRequest, psn);
    h.remote_addr += skip;
    h.dma_length = length;
    feed(h);
  }
  bool run(unsigned budget = 1000) { return responder.transmit(env, budget); }
  void expect_answer(const Lines& lines, Where at = Where::current()) {
    run();
    expect_sent(lines, at);
  }

  RcAttributes attributes;
  OwnReplays replays;
  Responder responder;
};

}  // namespace softhca::transport

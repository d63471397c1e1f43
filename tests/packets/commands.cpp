// SPDX-License-Identifier: Apache-2.0

// What a script does and expects.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "daemon/roce/wire/arp_nd.hpp"
#include "tests/packets/script.hpp"

namespace softhca::packets {
namespace {

using engine::Work;
using transport::Count;

template <class T>
struct Named {
  const char* name;
  T value;
};

/// The row called `name`.
template <class Rows>
auto find(const Rows& rows, const std::string& name) {
  const auto found = std::find_if(std::begin(rows), std::end(rows),
                                  [&](const auto& row) { return name == row.name; });
  EXPECT_NE(found, std::end(rows)) << "nobody knows " << name;
  return found == std::end(rows) ? std::begin(rows)->value : found->value;
}

constexpr Named<abi::Opcode> kRequests[] = {
    {"write", abi::Opcode::kRdmaWrite},    {"write_imm", abi::Opcode::kRdmaWriteWithImm},
    {"send", abi::Opcode::kSend},          {"send_imm", abi::Opcode::kSendWithImm},
    {"read", abi::Opcode::kRdmaRead},      {"compare_swap", abi::Opcode::kCompareSwap},
    {"fetch_add", abi::Opcode::kFetchAdd}, {"send_inv", abi::Opcode::kSendWithInvalidate},
};

using abi::CompletionStatus;
constexpr Named<CompletionStatus> kStatuses[] = {
    {"ok", CompletionStatus::kSuccess},
    {"flushed", CompletionStatus::kFlushError},
    {"local_length", CompletionStatus::kLocalLengthError},
    {"local_protection", CompletionStatus::kLocalProtectionError},
    {"bad_response", CompletionStatus::kBadResponseError},
    {"remote_invalid_request", CompletionStatus::kRemoteInvalidRequestError},
    {"remote_access", CompletionStatus::kRemoteAccessError},
    {"remote_operation", CompletionStatus::kRemoteOperationError},
    {"retry_exceeded", CompletionStatus::kRetryExceededError},
    {"rnr_retry_exceeded", CompletionStatus::kRnrRetryExceededError},
};

constexpr Named<Count> kCounts[] = {
    {"retransmitted", Count::kRetransmittedPackets},
    {"timeout", Count::kAckTimeouts},
    {"duplicate", Count::kDuplicateRequests},
    {"out_of_sequence", Count::kOutOfSequence},
    {"implied_nak", Count::kImpliedNak},
    {"acks_sent", Count::kAcksSent},
    {"rnr_nak_received", Count::kRnrNakReceived},
    {"sequence_nak_received", Count::kSequenceNakReceived},
    {"bad_opcode", Count::kBadOpcode},
    {"bad_state", Count::kBadState},
    {"bad_length", Count::kBadLength},
    {"bad_qkey", Count::kBadQkey},
    {"ghost", Count::kGhostAck},
    {"no_receive", Count::kReceiveDropped},
    {"rate_nak", Count::kRateNakSent},
    {"rate_dropped", Count::kRateDropped},
};

constexpr Named<Counter engine::CongestionCounters::*> kCongestionCounts[] = {
    {"marked", &engine::CongestionCounters::marked_packets},
    {"cnps_sent", &engine::CongestionCounters::cnps_sent},
    {"cnps_handled", &engine::CongestionCounters::cnps_handled},
    {"cnps_ignored", &engine::CongestionCounters::cnps_ignored},
};

constexpr Named<engine::EventType> kEvents[] = {
    {"qp_fatal", engine::EventType::kQpFatal},
    {"qp_request", engine::EventType::kQpRequestError},
    {"qp_access", engine::EventType::kQpAccessError},
    {"established", engine::EventType::kCommunicationEstablished},
};

std::uint8_t opcode_named(const std::string& name) {
  for (unsigned i = 0; i < 256; ++i)
    if (name == wire::opcode_info(static_cast<std::uint8_t>(i)).name)
      return static_cast<std::uint8_t>(i);
  ADD_FAILURE() << "no opcode is called " << name;
  return 0;
}

/// The value called `name` must be as given, if it is given.
void same(Arguments& a, const char* name, std::uint64_t value) {
  const auto wanted = a.number(name);
  if (wanted) {
    EXPECT_EQ(value, *wanted) << name;
  }
}

std::uint32_t whole(std::optional<std::uint64_t> n, std::uint32_t otherwise = 0) {
  return static_cast<std::uint32_t>(n.value_or(otherwise));
}

}  // namespace

/// > OPCODE field=value...
void Script::say(const std::vector<std::string>& words) {
  Arguments a({words.begin() + 1, words.end()});
  wire::Headers h;
  h.opcode = opcode_named(words[0]);
  const auto info = wire::opcode_info(h.opcode);
  h.destination = Qpn(whole(a.number("dqp"), qp_->qp.qpn.value));
  h.psn = Psn(whole(a.number("psn")));
  h.ack_request = a.has("ack");
  h.solicited = a.has("se");
  h.becn = a.has("becn");
  h.pkey = static_cast<std::uint16_t>(a.number("pkey", 0xffff));
  h.rkey = Rkey(whole(a.number("rkey"), memory_->key));
  h.remote_addr = a.has("address") ? *a.number("address") : memory_->addr() + a.number("va", 0);
  const std::size_t length = a.number("len", 0);
  h.dma_length = whole(a.number("dmalen"), static_cast<std::uint32_t>(length));
  h.swap_add = a.number("swap", a.number("add", 0));
  h.compare = a.number("compare", 0);
  h.syndrome = static_cast<std::uint8_t>(a.number("syndrome", wire::kSyndromeNoCreditLimit));
  h.msn = whole(a.number("msn"));
  h.original = a.number("original", 0);
  h.qkey = whole(a.number("qkey"), qp_->qp.qkey);
  h.source = Qpn(whole(a.number("sqp"), 0x123));
  h.imm = whole(a.number("imm"));
  h.invalidate = Rkey(whole(a.number("inv")));
  h.xrc_srq = whole(a.number("srq"), 1);
  ASSERT_TRUE(length == 0 || info.mask.has_any(wire::kPayload) || a.has("trailer"));
  const std::vector<std::byte> payload(length, std::byte(a.number("fill", 0xab)));
  peer_->send(h, payload, a);
  a.finish();
}

/// < OPCODE field=value...  or  < nothing
void Script::hear(const std::vector<std::string>& words) {
  step();
  const auto heard = peer_->next();
  if (words[0] == "nothing") {
    EXPECT_FALSE(heard) << wire::opcode_info(heard->parsed.headers.opcode).name << " psn "
                        << heard->parsed.headers.psn.value();
    return;
  }
  ASSERT_TRUE(heard) << "nothing comes";
  const wire::ParsedFrame& frame = heard->parsed;
  const wire::Headers& h = frame.headers;
  EXPECT_EQ(words[0], wire::opcode_info(h.opcode).name);
  Arguments a({words.begin() + 1, words.end()});
  if (const auto group = a.number("group")) {
    const Gid gid = group_of(*group, peer_gid_.is_ipv4());
    EXPECT_TRUE(frame.destination == gid);
    EXPECT_TRUE(frame.ethernet.destination == wire::multicast_mac(gid));
  } else {
    EXPECT_TRUE(frame.destination == peer_gid_);
  }
  EXPECT_EQ(h.destination.value, a.number("dqp", 0x123));
  EXPECT_EQ(h.pkey, a.number("pkey", 0xffff));
  same(a, "psn", h.psn.value());
  same(a, "ack", h.ack_request);
  same(a, "se", h.solicited);
  same(a, "syndrome", h.syndrome);
  same(a, "msn", h.msn);
  same(a, "original", h.original);
  same(a, "address", h.remote_addr);
  same(a, "rkey", h.rkey.value);
  same(a, "dmalen", h.dma_length);
  same(a, "swap", h.swap_add);
  same(a, "add", h.swap_add);
  same(a, "compare", h.compare);
  same(a, "imm", h.imm);
  same(a, "inv", h.invalidate.value);
  same(a, "srq", h.xrc_srq);
  same(a, "qkey", h.qkey);
  same(a, "sqp", h.source.value);
  same(a, "len", frame.payload.size());
  same(a, "pad", h.pad);
  same(a, "becn", h.becn);
  same(a, "mig", h.migrated);
  same(a, "tc", frame.traffic_class);
  same(a, "ttl", frame.hop_limit);
  same(a, "vlan", frame.ethernet.vlan.value_or(0));
  const auto fill = std::byte(a.number("fill", 0));
  EXPECT_TRUE(!a.has("fill") || std::all_of(frame.payload.begin(), frame.payload.end(),
                                            [&](std::byte b) { return b == fill; }));
  a.finish();
}

/// post KIND [len=] [at=] [address=] [rkey=] [imm=] [compare=] [swap=] [add=] [srq=] [fence] [se]
/// [group= qkey=]
void Script::post(Arguments& a) {
  Work work;
  work.opcode = find(kRequests, last_words_[1]);
  (void)a.has(last_words_[1]);
  if (a.has("fence")) work.flags |= abi::kCommandFence;
  if (a.has("se")) work.flags |= abi::kCommandSolicited;
  const bool atomic =
      work.opcode == abi::Opcode::kCompareSwap || work.opcode == abi::Opcode::kFetchAdd;
  const std::size_t length = a.number("len", atomic ? 8 : 0);
  if (length != 0) work.sge = {memory_->part(a.number("at", 0), length)};
  work.remote_addr = a.number("address", 0x1000);
  work.rkey = whole(a.number("rkey"), 0x77);
  work.imm = whole(a.number("imm"));
  work.compare_add = a.number("compare", a.number("add", 0));
  work.swap = a.number("swap", 0);
  work.remote_srq = whole(a.number("srq"));
  if (const auto group = a.number("group")) {
    work.address_handle = process_->make_ah(group_of(*group, peer_gid_.is_ipv4()));
    work.remote_qpn = engine::kMulticastQpn.value;
    work.remote_qkey = whole(a.number("qkey"), qp_->qp.qkey);
  }
  process_->post(*qp_, work);
  step();
}

/// receive len= [at=] [srq=]
void Script::receive(Arguments& a) {
  const std::size_t length = a.number("len", 0);
  if (const auto srq = a.number("srq")) {
    ASSERT_LE(*srq, srqs_.size());
    std::vector<abi::ScatterGather> list;
    if (length != 0) list = {memory_->part(a.number("at", 0), length)};
    srqs_[*srq - 1]->ring.post(0, list);
    return;
  }
  if (length == 0)
    process_->post_receive(*qp_, {});
  else
    process_->post_receive(*qp_, {memory_->part(a.number("at", 0), length)});
}

/// wait us=
void Script::wait(Arguments& a) {
  step();
  world_.run_for(std::chrono::microseconds(a.number("us", 0)));
  step();
}

/// Poll steps, until the adapter has nothing more to say at the time.
void Script::step() {
  for (int i = 0; i < 12; ++i) {
    world_.step(Duration(100));
    peer_->listen(world_.now);
  }
}

/// set at= word=VALUE | fill=BYTE len=
void Script::set(Arguments& a) {
  std::byte* const at = memory_->data() + a.number("at", 0);
  if (const auto word = a.number("word"))
    std::memcpy(at, &*word, sizeof *word);
  else
    std::memset(at, static_cast<int>(a.number("fill", 0)), a.number("len", 0));
}

/// holds at= word=VALUE | fill=BYTE len=
void Script::holds(Arguments& a) {
  step();
  const std::byte* const at = memory_->data() + a.number("at", 0);
  if (const auto wanted = a.number("word")) {
    std::uint64_t word;
    std::memcpy(&word, at, sizeof word);
    EXPECT_EQ(word, *wanted);
    return;
  }
  const auto fill = std::byte(a.number("fill", 0));
  const std::size_t length = a.number("len", 0);
  EXPECT_EQ(std::find_if(at, at + length, [&](std::byte b) { return b != fill; }) - at,
            static_cast<std::ptrdiff_t>(length));
}

/// completes receive|send STATUS [len=] [imm=], or completes nothing
void Script::completes(Arguments& a) {
  step();
  const auto got = cq_->poll();
  if (a.has("nothing")) {
    EXPECT_FALSE(got);
    return;
  }
  ASSERT_TRUE(got) << "no completion";
  const bool receives = a.has("receive");
  (void)a.has("send");
  EXPECT_EQ(got->is_receive, receives);
  ASSERT_GE(last_words_.size(), 3u);
  (void)a.has(last_words_[2]);
  EXPECT_EQ(got->status, find(kStatuses, last_words_[2]));
  same(a, "len", got->byte_len);
  same(a, "imm", got->imm);
}

/// counted NAME=N..., of the tenant or, as a reason to drop, of the port
void Script::counted(Arguments& a) {
  step();
  const engine::TenantCounters& tenant = process_->tenant.counters;
  for (const auto& row : kCounts)
    same(a, row.name, tenant.transport[static_cast<std::size_t>(row.value)].value());
  for (const auto& row : kCongestionCounts)
    same(a, row.name, (tenant.congestion.*row.value).value());
  same(a, "rx_packets", tenant.wire.rx_packets.value());
  const engine::PortDropCounters& drops = process_->adapter.engine.ports()[0]->drops;
  for (std::size_t i = 0; i < drops.parse.size(); ++i)
    same(a, wire::name(static_cast<wire::DropReason>(i)), drops.parse[i].value());
  for (std::size_t i = 0; i < drops.frame.size(); ++i)
    same(a, engine::name_of(static_cast<engine::FrameDrop>(i)), drops.frame[i].value());
}

/// state rts|error
void Script::state(Arguments& a) {
  step();
  const bool error = a.has("error");
  (void)a.has("rts");
  EXPECT_EQ(qp_->qp.state, error ? engine::QpState::kError : engine::QpState::kRts);
}

/// event NAME: raised once
void Script::event(Arguments& a) {
  step();
  (void)a.has(last_words_[1]);
  EXPECT_EQ(process_->adapter.sink.count(find(kEvents, last_words_[1]), qp_->qp.user_handle), 1u);
}

/// attach group=, detach group=
void Script::attach(Arguments& a) {
  const Gid group = group_of(a.number("group", 0), peer_gid_.is_ipv4());
  EXPECT_TRUE(process_->adapter.engine.multicast().attach(qp_->qp, group));
}

void Script::detach(Arguments& a) {
  const Gid group = group_of(a.number("group", 0), peer_gid_.is_ipv4());
  EXPECT_TRUE(process_->adapter.engine.multicast().detach(qp_->qp, group));
}

/// The registered memory is no longer to be reached.
void Script::deregister(Arguments&) { process_->adapter.engine.keys().remove(memory_->key); }

}  // namespace softhca::packets

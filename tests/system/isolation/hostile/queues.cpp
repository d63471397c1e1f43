// SPDX-License-Identifier: Apache-2.0

// What a life begins and ends with: its queues.
#include "tests/system/isolation/hostile/life.hpp"

namespace softhca::scribble {
namespace {

// enum ibv_qp_state and ibv_qp_attr_mask.
constexpr std::uint32_t kReset = 0, kInit = 1, kRtr = 2, kRts = 3;
enum Mask : std::uint32_t {
  kState = 1 << 0,
  kAccess = 1 << 3,
  kPkey = 1 << 4,
  kPort = 1 << 5,
  kQkey = 1 << 6,
  kAv = 1 << 7,
  kPathMtu = 1 << 8,
  kTimeout = 1 << 9,
  kRetry = 1 << 10,
  kRnrRetry = 1 << 11,
  kRqPsn = 1 << 12,
  kMaxReads = 1 << 13,
  kMinRnr = 1 << 15,
  kSqPsn = 1 << 16,
  kMaxDestReads = 1 << 17,
  kDestQpn = 1 << 20,
};
abi::AddressVector way_to(const std::array<std::uint8_t, 16>& gid) {
  abi::AddressVector av{};
  for (std::size_t i = 0; i < gid.size(); ++i) av.dgid[i] = gid[i];
  av.hop_limit = 64;
  av.is_global = 1;
  av.port_num = 1;
  return av;
}

}  // namespace

Life::Life(Session& session, Random& random, Score& score)
    : session_(session), random_(random), score_(score), calm_(4u << 2 * below(5)) {
  abi::HandleBody channel{};
  if (session.channel.ask(abi::Operation::kCreateChannel, abi::HandleBody{}, channel) != 0)
    die("completion channel");
  cqs_ = {make_cq(channel.handle), make_cq(abi::kNoHandle)};
  make_srq();
  if (abi::HandleBody made{};
      session.channel.ask(abi::Operation::kCreateAh,
                          abi::CreateAhRequest{session.pd, 0, way_to(session.gid)}, made) == 0)
    handle_ = made.handle;
  for (const auto& [type, peer, shared] : {std::tuple{kRc, 1u, false},
                                           {kRc, 0u, false},
                                           {kRc, 3u, true},
                                           {kRc, 2u, true},
                                           {kUc, 5u, false},
                                           {kUc, 4u, true},
                                           {kUd, 6u, false}})
    queues_.push_back(make_queue(type, peer, shared));
  for (Queue& queue : queues_) connect(queue);
  list_areas();
}

Life::~Life() {
  for (const Queue& queue : queues_)
    session_.channel.tell(abi::Operation::kDestroyQp, abi::HandleBody{queue.qpn, 0});
  session_.channel.tell(abi::Operation::kDestroySrq, abi::HandleBody{srq_, 0});
  for (const Completions& cq : cqs_)
    session_.channel.tell(abi::Operation::kDestroyCq, abi::HandleBody{cq.handle, 0});
  session_.channel.tell(abi::Operation::kDestroyAh, abi::HandleBody{handle_, 0});
}

Life::Completions Life::make_cq(std::uint32_t channel) {
  abi::CreateCqReply made{};
  if (session_.channel.ask(abi::Operation::kCreateCq,
                           abi::CreateCqRequest{1, 64u << below(4), channel}, made) != 0)
    die("completion queue");
  return {made.handle, made.entries, 0, session_.ring(made.ring, made.new_segment)};
}

void Life::make_srq() {
  abi::CreateSrqReply made{};
  if (session_.channel.ask(abi::Operation::kCreateSrq,
                           abi::CreateSrqRequest{2, session_.pd, 1u << below(8), 1 + below(4), 0},
                           made) != 0)
    die("shared receive queue");
  srq_ = made.handle;
  srq_entries_ = made.entries;
  srq_stride_ = abi::receive_stride(made.max_sge);
  srq_base_ = session_.ring(made.ring, made.new_segment);
}

Life::Queue Life::make_queue(std::uint32_t type, std::uint32_t peer, bool shared) {
  abi::CreateQpRequest request{};
  request.user_handle = 3;
  request.pd = session_.pd;
  request.type = type;
  request.send_cq = cqs_[below(2)].handle;
  request.receive_cq = cqs_[below(2)].handle;
  request.srq = shared ? srq_ : abi::kNoHandle;
  request.max_send_wr = 1u << below(7);
  request.max_receive_wr = shared ? 0 : 1u << below(7);
  request.max_send_sge = 1u << below(5);
  request.max_receive_sge = shared ? 0 : 1 + below(4);
  request.max_inline = 32u << below(4);
  request.signal_all = below(2);
  abi::CreateQpReply made{};
  if (session_.channel.ask(abi::Operation::kCreateQp, request, made) != 0) die("queue pair");
  Queue queue;
  queue.qpn = made.qpn;
  queue.type = type;
  queue.peer = peer;
  queue.shared = shared;
  queue.send_entries = made.send_entries;
  queue.max_sge = made.max_send_sge;
  queue.max_inline = made.max_inline;
  queue.send_stride = abi::send_stride(made.max_send_sge, made.max_inline);
  queue.send = session_.ring(made.send_ring, made.new_segment);
  if (shared) return queue;
  queue.receive_entries = made.receive_entries;
  queue.receive_stride = abi::receive_stride(made.max_receive_sge);
  queue.receive = session_.ring(made.receive_ring, 0);
  return queue;
}

/// From whatever state to RTS, all counters from 0 again. The values make waits short.
void Life::connect(Queue& queue) {
  const bool ud = queue.type == kUd, rc = queue.type == kRc;
  abi::ModifyQpRequest request{};
  request.qpn = queue.qpn;
  abi::QpAttributes& a = request.attributes;
  a.port_num = 1;
  a.qkey = kSharedKey;
  a.access_flags = 0xf;
  a.path_mtu = 1 + below(5);
  a.dest_qp_num = queues_[queue.peer].qpn;
  a.av = way_to(session_.gid);
  a.max_rd_atomic = a.max_dest_rd_atomic = static_cast<std::uint8_t>(1 + below(16));
  a.min_rnr_timer = 1;
  a.timeout = 10;
  a.retry_cnt = 1;
  a.rnr_retry = static_cast<std::uint8_t>(below(8));
  const auto go = [&](std::uint32_t state, std::uint32_t mask) {
    a.qp_state = state;
    a.mask = kState | mask;
    return session_.channel.tell(abi::Operation::kModifyQp, request) == 0;
  };
  // What was scribbled may fail it on the way: another try comes.
  queue.failed =
      !go(kReset, 0) || !go(kInit, kPkey | kPort | (ud ? kQkey : kAccess)) ||
      !go(kRtr, ud ? 0 : kAv | kPathMtu | kDestQpn | kRqPsn | (rc ? kMaxDestReads | kMinRnr : 0)) ||
      !go(kRts, kSqPsn | (rc ? kTimeout | kRetry | kRnrRetry | kMaxReads : 0));
  queue.next = queue.completed = queue.next_receive = 0;
  ++score_.reconnects;
}

void Life::list_areas() {
  const auto bytes = [](auto* p) { return reinterpret_cast<std::byte*>(p); };
  areas_["session header"] = {{bytes(&session_.header()), sizeof(abi::SessionHeader)}};
  areas_["doorbells"] = {
      {bytes(session_.doorbells()), abi::kDoorbellEntries * sizeof(abi::Doorbell)}};
  areas_["shared receive queue"] = {
      {srq_base_, sizeof(abi::ReceiveRingHeader) + std::size_t{srq_entries_} * srq_stride_}};
  for (std::uint32_t i = 0; i < session_.vcbs; ++i)
    areas_["VCB"].push_back({bytes(&session_.vcb(i)), offsetof(abi::VcbPage, rest)});
  for (const Completions& cq : cqs_) {
    areas_["completion queue indices"].push_back({cq.base, sizeof(abi::CompletionRingHeader)});
    areas_["completion queue"].push_back(
        {cq.base + sizeof(abi::CompletionRingHeader), cq.entries * sizeof(abi::CompletionElement)});
  }
  for (const Queue& queue : queues_) {
    const std::size_t ring = std::size_t{queue.send_entries} * queue.send_stride;
    areas_["send queue"].push_back({queue.send, ring});
    areas_["overflow place"].push_back({queue.send + (ring + 63) / 64 * 64, sizeof(abi::Doorbell)});
    if (queue.shared) continue;
    const std::size_t receives = std::size_t{queue.receive_entries} * queue.receive_stride;
    areas_["receive queue"].push_back({queue.receive, sizeof(abi::ReceiveRingHeader) + receives});
  }
}

}  // namespace softhca::scribble

// SPDX-License-Identifier: Apache-2.0

#include "bench/verbs/endpoint.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "bench/verbs/queue_pair.hpp"

namespace softhca::bench {
namespace {

constexpr std::uint32_t kLongestChain = 16;

}  // namespace

Device::Device(const std::string& name, int gid_index)
    : gid_index_(static_cast<std::uint8_t>(gid_index)) {
  int count = 0;
  ibv_device** devices = ibv_get_device_list(&count);
  for (int i = 0; i < count && !context_; ++i)
    if (name.empty() || name == ibv_get_device_name(devices[i]))
      context_ = ibv_open_device(devices[i]);
  if (devices) ibv_free_device_list(devices);
  if (!context_) die("no verbs device " + name);
  if (!(pd_ = ibv_alloc_pd(context_))) die("protection domain");
  ibv_port_attr port{};
  check(ibv_query_port(context_, 1, &port), "port");
  active_mtu_ = port.active_mtu;
  if (ibv_query_gid(context_, 1, gid_index, &gid_)) die("GID " + std::to_string(gid_index));
}

Device::~Device() {
  ibv_dealloc_pd(pd_);
  ibv_close_device(context_);
}

Buffer::Buffer(std::size_t bytes) : bytes_((bytes + 4095) / 4096 * 4096) {
  void* mapped = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) die("memory");
  data_ = static_cast<char*>(mapped);
  std::memset(data_, 1, bytes_);
}

Buffer::~Buffer() { munmap(data_, bytes_); }

std::uint32_t area_pairs(std::uint64_t size, std::uint32_t queue_pairs) {
  constexpr std::uint64_t kMost = 32u << 20;
  return static_cast<std::uint32_t>(std::clamp<std::uint64_t>(kMost / size, 1, queue_pairs));
}

Endpoint::Endpoint(const Device& device, const TestSpec& spec, Peer& peer)
    : spec_(spec),
      areas_(area_pairs(spec.size, spec.queue_pairs)),
      stride_((std::size_t{spec.size} + 63) / 64 * 64),
      buffer_(std::size_t{areas_} * 2 * stride_) {
  mr_ = ibv_reg_mr(device.pd(), buffer_.data(), buffer_.size(),
                   IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ);
  if (!mr_) die("memory region");
  const int entries = static_cast<int>(spec.queue_pairs * spec.depth * 3);
  if (spec.measure == Measure::kEcho && !(channel_ = ibv_create_comp_channel(device.context())))
    die("completion channel");
  cq_ = ibv_create_cq(device.context(), entries, nullptr, channel_, 0);
  if (!cq_) die("completion queue");
  if (channel_) check(ibv_req_notify_cq(cq_, 1), "req_notify_cq");

  std::vector<Address> local;
  for (std::uint32_t i = 0; i < spec.queue_pairs; ++i) {
    qps_.push_back(create_rc(device, cq_, spec.depth, 2 * spec.depth));
    local.push_back({qps_[i]->qp_num, 100 + i,
                     reinterpret_cast<std::uint64_t>(buffer_.data()) + offset(i) + stride_,
                     mr_->rkey, 0, device.gid()});
  }
  remote_.resize(spec.queue_pairs);
  peer.send_bytes(local.data(), local.size() * sizeof(Address));
  peer.receive_bytes(remote_.data(), remote_.size() * sizeof(Address));
  for (std::uint32_t i = 0; i < spec.queue_pairs; ++i)
    connect_rc(qps_[i], device, {remote_[i].qpn, remote_[i].psn, remote_[i].gid}, local[i].psn,
               static_cast<ibv_mtu>(spec.mtu));
}

Endpoint::~Endpoint() {
  for (ibv_qp* qp : qps_) ibv_destroy_qp(qp);
  if (channel_) ibv_ack_cq_events(cq_, events_);
  ibv_destroy_cq(cq_);
  if (channel_) ibv_destroy_comp_channel(channel_);
  ibv_dereg_mr(mr_);
}

void Endpoint::post(std::uint32_t qp, std::uint32_t count) {
  static constexpr ibv_wr_opcode kOpcodes[] = {IBV_WR_SEND, IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ};
  const bool reads = spec_.operation == Operation::kRead;
  volatile char* area = reads ? receive_area(qp) : send_area(qp);
  ibv_sge sge{reinterpret_cast<std::uint64_t>(area), spec_.size, mr_->lkey};
  while (count) {
    std::array<ibv_send_wr, kLongestChain> chain;
    const std::uint32_t n = std::min(count, kLongestChain);
    for (std::uint32_t i = 0; i < n; ++i) {
      ibv_send_wr& wr = chain[i];
      wr = {};
      wr.wr_id = qp;
      wr.next = i + 1 < n ? &chain[i + 1] : nullptr;
      wr.sg_list = &sge;
      wr.num_sge = 1;
      wr.opcode = kOpcodes[static_cast<std::size_t>(spec_.operation)];
      wr.send_flags = i + 1 == n && n == count ? IBV_SEND_SIGNALED : 0;
      if (channel_) wr.send_flags |= IBV_SEND_SOLICITED;  // only receives wake the other side
      wr.wr.rdma = {remote_[qp].addr, remote_[qp].rkey};
    }
    ibv_send_wr* bad = nullptr;
    check(ibv_post_send(qps_[qp], chain.data(), &bad), "post_send");
    count -= n;
  }
}

void Endpoint::post_receives(std::uint32_t qp, std::uint32_t count) {
  ibv_sge sge{reinterpret_cast<std::uint64_t>(receive_area(qp)), spec_.size, mr_->lkey};
  ibv_recv_wr wr{};
  wr.wr_id = qp;
  wr.sg_list = &sge;
  wr.num_sge = 1;
  for (; count; --count) {
    ibv_recv_wr* bad = nullptr;
    check(ibv_post_recv(qps_[qp], &wr, &bad), "post_recv");
  }
}

void Endpoint::await_receive() {
  ibv_cq* cq;
  void* context;
  if (ibv_get_cq_event(channel_, &cq, &context)) die("get_cq_event");
  ++events_;
  check(ibv_req_notify_cq(cq_, 1), "req_notify_cq");
}

Endpoint::Messages Endpoint::poll_messages() {
  ibv_wc completions[16];
  Messages messages;
  const int n = poll(completions, 16);
  for (int i = 0; i < n; ++i)
    ++(completions[i].opcode == IBV_WC_RECV ? messages.received : messages.sent);
  post_receives(0, messages.received);
  return messages;
}

int Endpoint::poll(ibv_wc* completions, int most) {
  const int n = ibv_poll_cq(cq_, most, completions);
  errno = 0;
  if (n < 0) die("poll_cq");
  for (int i = 0; i < n; ++i)
    if (completions[i].status != IBV_WC_SUCCESS)
      die(std::string("completion: ") + ibv_wc_status_str(completions[i].status));
  return n;
}

}  // namespace softhca::bench

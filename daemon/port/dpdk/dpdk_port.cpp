// SPDX-License-Identifier: Apache-2.0

#include "daemon/port/dpdk/dpdk_port.hpp"

#include <net/if.h>
#include <rte_alarm.h>
#include <rte_dev.h>
#include <rte_ethdev.h>
#include <rte_lcore.h>
#include <rte_mbuf.h>

#include <algorithm>
#include <cassert>
#include <cstring>
#include <utility>

#include "daemon/port/dpdk/memif_gate.hpp"
#include "daemon/port/kernel_guard.hpp"

namespace softhca::port {
namespace {

constexpr std::size_t kSourceMacOffset = 6;
constexpr std::uint32_t kEthernetHeader = 14;

constexpr std::uint64_t kRedialMicroseconds = 50'000;
/// A piece of up to this many bytes is copied: a copy costs less than one more buffer of the chain.
constexpr std::size_t kCopied = 512;

rte_mbuf* buffer_of(const Frame& frame) { return static_cast<rte_mbuf*>(frame.token); }

}  // namespace

DpdkPort::DpdkPort(DpdkDevice device)
    : device_(std::move(device)), outside_(std::make_unique<rte_mbuf_ext_shared_info>()) {
  outside_->free_cb = [](void*, void*) {};
  rte_mbuf_ext_refcnt_set(outside_.get(), 1);  // the port's own
  if (device_.dials) rte_eal_alarm_set(kRedialMicroseconds, redial, this);
}

DpdkPort::~DpdkPort() {
  if (device_.dials) rte_eal_alarm_cancel(redial, this);
  drop_backlog();
  for (; stash_begin_ < stash_end_; ++stash_begin_)
    rte_pktmbuf_free(buffer_of(stash_[stash_begin_]));
  rte_eth_dev_info info{};
  const bool known = rte_eth_dev_info_get(device_.id, &info) == 0;
  rte_eth_dev_stop(device_.id);
  rte_eth_dev_close(device_.id);
  if (known && info.device != nullptr) rte_dev_remove(info.device);
  rte_mempool_free(device_.pool);
  rte_mempool_free(device_.references);
}

/// Restarts a memif client that has no link: it connects only when it is started. Runs on DPDK's
/// interrupt thread, which does the other control work of memif. The engine does not touch the
/// device without a link.
void DpdkPort::redial(void* port) {
  const auto* self = static_cast<const DpdkPort*>(port);
  if (const std::lock_guard lock(self->device_calls_); !self->carrier()) {
    (void)rte_eth_dev_stop(self->device_.id);
    (void)rte_eth_dev_start(self->device_.id);
  }
  rte_eal_alarm_set(kRedialMicroseconds, redial, port);
}

/// Registers the thread with DPDK, which gives it a buffer cache. Without one, each buffer goes
/// through the shared ring of the pool.
void DpdkPort::adopt_thread() {
  adopted_ = true;
  if (rte_lcore_id() == LCORE_ID_ANY) (void)rte_thread_register();
}

bool DpdkPort::carrier() const {
  rte_eth_link link{};
  return rte_eth_link_get_nowait(device_.id, &link) == 0 && link.link_status == RTE_ETH_LINK_UP;
}

/// Returns the frame in `m`, or a null frame if it is dropped. Drops runts, frames of the port
/// itself that the kernel shows to all packet sockets, and frames in several buffers that do not
/// fit in the first.
Frame DpdkPort::accept(rte_mbuf* m) {
  const bool whole = m->nb_segs == 1 || rte_pktmbuf_linearize(m) == 0;
  auto* data = rte_pktmbuf_mtod(m, std::byte*);
  if (!whole || m->data_len < kEthernetHeader) {
    rx_dropped_.add();
    rte_pktmbuf_free(m);
    return {};
  }
  if (device_.wake && std::memcmp(data + kSourceMacOffset, device_.mac.bytes.data(),
                                  device_.mac.bytes.size()) == 0) {
    rte_pktmbuf_free(m);
    return {};
  }
  return {data, m->data_len, 0, m};
}

std::size_t DpdkPort::burst(std::span<Frame> out) {
  std::optional<BurstGuard> guard;
  if (device_.peer_may_vanish) {
    guard.emplace(device_.id);
    if (!carrier()) return 0;
  }
  std::array<rte_mbuf*, kBurst> got;
  const auto want = static_cast<std::uint16_t>(std::min(out.size(), got.size()));
  const std::uint16_t n = rte_eth_rx_burst(device_.id, 0, got.data(), want);
  std::size_t kept = 0;
  for (std::uint16_t i = 0; i < n; ++i)
    if (Frame f = accept(got[i])) out[kept++] = f;
  return kept;
}

std::size_t DpdkPort::receive(std::span<Frame> out) {
  if (!adopted_) [[unlikely]]
    adopt_thread();
  if (stash_begin_ == stash_end_) [[likely]]
    return burst(out);
  std::size_t n = 0;
  while (n < out.size() && stash_begin_ < stash_end_) out[n++] = stash_[stash_begin_++];
  return n;
}

void DpdkPort::release(std::span<const Frame> frames) {
  for (const Frame& f : frames) rte_pktmbuf_free(buffer_of(f));
}

Frame DpdkPort::allocate() {
  if (!has_room()) [[unlikely]] {
    send_backlog();
    if (!has_room()) return {};
  }
  rte_mbuf* m = rte_pktmbuf_alloc(device_.pool);
  if (m == nullptr) return {};
  return {rte_pktmbuf_mtod(m, std::byte*), 0, rte_pktmbuf_tailroom(m), m};
}

void DpdkPort::transmit(const Frame& frame) {
  rte_mbuf* m = buffer_of(frame);
  assert(frame.length <= frame.capacity);
  m->data_len = static_cast<std::uint16_t>(frame.length);
  m->pkt_len = frame.length;
  queue(m);
}

/// Queues a frame for transmission, or drops and counts it.
void DpdkPort::queue(rte_mbuf* m) {
  if (m->pkt_len > device_.longest_frame || backlog_count_ == kBacklog) [[unlikely]] {
    tx_dropped_.add();
    rte_pktmbuf_free(m);
    return;
  }
  backlog_[backlog_count_++] = m;
  if (backlog_count_ % kBurst == 0) send_backlog();
}

/// One packet at a time: these drivers have no segmentation.
TrainLimits DpdkPort::limits() const {
  return {.packets = has_room() ? 1u : 0u,
          .bytes = device_.longest_frame,
          .pieces = kSocketTrains.pieces};
}

void DpdkPort::transmit(const Train& train) {
  if (rte_mbuf* m = gather(train)) [[likely]]
    return queue(m);
  tx_dropped_.add();
}

/// Makes a frame of the train, which is one packet. Null: no buffer is free.
rte_mbuf* DpdkPort::gather(const Train& train) {
  assert(train.packets == 1);
  rte_mbuf* m = rte_pktmbuf_alloc(device_.pool);
  if (m == nullptr) return nullptr;
  std::memcpy(rte_pktmbuf_append(m, static_cast<std::uint16_t>(train.head.size())),
              train.head.data(), train.head.size());
  for (const iovec& piece : train.pieces) {
    if (append(*m, piece)) [[likely]]
      continue;
    rte_pktmbuf_free(m);
    return nullptr;
  }
  return m;
}

/// Appends a copy of the piece, or a reference to it. False: no buffer is free.
bool DpdkPort::append(rte_mbuf& frame, const iovec& piece) {
  const auto bytes = static_cast<std::uint16_t>(piece.iov_len);
  const bool copied = bytes <= kCopied;
  if (copied) {
    // Null behind a reference, which has no room.
    if (void* to = rte_pktmbuf_append(&frame, bytes)) {
      std::memcpy(to, piece.iov_base, bytes);
      return true;
    }
  }
  rte_mbuf* next = rte_pktmbuf_alloc(copied ? device_.pool : device_.references);
  if (next == nullptr) return false;
  if (copied) {
    std::memcpy(rte_pktmbuf_append(next, bytes), piece.iov_base, bytes);
  } else {
    rte_mbuf_ext_refcnt_update(outside_.get(), 1);
    rte_pktmbuf_attach_extbuf(next, piece.iov_base, RTE_BAD_IOVA, bytes, outside_.get());
    next->data_len = bytes;
    next->pkt_len = bytes;
  }
  if (rte_pktmbuf_chain(&frame, next) == 0) return true;
  rte_pktmbuf_free(next);
  return false;
}

void DpdkPort::flush() {
  send_backlog();
  if (backlog_count_ != 0 && device_.references != nullptr) [[unlikely]]
    own_backlog();
}

/// Copies what the frames that wait refer to, since it may change from now on.
void DpdkPort::own_backlog() {
  std::size_t kept = 0;
  for (rte_mbuf* m : std::span(backlog_).first(backlog_count_)) {
    if (m->nb_segs > 1) {
      rte_mbuf* const copy = rte_pktmbuf_copy(m, device_.pool, 0, UINT32_MAX);
      rte_pktmbuf_free(m);
      if (copy == nullptr) tx_dropped_.add();
      m = copy;
    }
    if (m != nullptr) backlog_[kept++] = m;
  }
  backlog_count_ = kept;
}

void DpdkPort::send_backlog() {
  if (backlog_count_ == 0) return;
  std::optional<BurstGuard> guard;
  if (device_.peer_may_vanish) {
    guard.emplace(device_.id);
    if (!carrier()) return drop_backlog();
  }
  std::size_t sent = 0;
  while (sent < backlog_count_) {
    const auto want = static_cast<std::uint16_t>(std::min(backlog_count_ - sent, kBurst));
    const std::uint16_t n = rte_eth_tx_burst(device_.id, 0, backlog_.data() + sent, want);
    sent += n;
    if (n < want) break;
  }
  std::copy(backlog_.begin() + sent, backlog_.begin() + backlog_count_, backlog_.begin());
  backlog_count_ -= sent;
}

void DpdkPort::drop_backlog() {
  rte_pktmbuf_free_bulk(backlog_.data(), static_cast<unsigned>(backlog_count_));
  tx_dropped_.add(backlog_count_);
  backlog_count_ = 0;
}

bool DpdkPort::link_up() const {
  if (!device_.interface.empty()) return interface_running(device_.interface);
  const std::lock_guard lock(device_calls_);
  return carrier();
}

PortCounters DpdkPort::counters() const {
  rte_eth_stats s{};
  {
    const std::lock_guard lock(device_calls_);
    rte_eth_stats_get(device_.id, &s);
  }
  return {.rx_frames = s.ipackets,
          .rx_bytes = s.ibytes,
          .tx_frames = s.opackets,
          .tx_bytes = s.obytes,
          .rx_missed = s.imissed + s.ierrors + s.rx_nombuf + rx_dropped_.value(),
          .tx_dropped = s.oerrors + tx_dropped_.value()};
}

/// Drains the wake socket, then polls once more: the drain removed the wake-up of frames that came
/// before it.
void DpdkPort::prepare_sleep() {
  if (!device_.wake) return;
  device_.wake->drain();
  if (stash_begin_ == stash_end_) {
    stash_begin_ = 0;
    stash_end_ = burst(stash_);
  }
  if (stash_begin_ < stash_end_) device_.wake->poke();
}

}  // namespace softhca::port

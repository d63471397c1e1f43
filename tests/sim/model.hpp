// SPDX-License-Identifier: Apache-2.0

// The adapter around the transport in a simulated world: memory is a vector, receives are numbers,
// frames are made and parsed by the real codecs. Every completion is checked as it comes.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <vector>

#include "daemon/base/time.hpp"
#include "daemon/roce/transport/upcalls.hpp"
#include "daemon/roce/wire/frame.hpp"
#include "tests/sim/failure.hpp"
#include "tests/sim/link.hpp"
#include "tests/sim/random.hpp"
#include "tests/sim/workload.hpp"

namespace softhca::sim {

/// By transport::Count.
using Counts = std::array<std::uint64_t, static_cast<unsigned>(transport::Count::kCount)>;

class Model final : public transport::PacketSink,
                    public transport::LocalMemory,
                    public transport::RemoteMemory,
                    public transport::ReceiveSource,
                    public transport::PeerLimits,
                    public transport::CompletionSink,
                    public transport::QueuePairEvents {
 public:
  /// `side` is 0 or 1. What the peer may do here is its workload.
  Model(int side, Link& link, Random& random, const Workload& own, const Workload& of_peer);

  // --- upcalls of transports
  transport::SendResult send(const wire::Headers& h,
                             const transport::PayloadSource& source) override;
  Verdict store_response(PcbId pcb, std::uint32_t offset,
                         std::span<const std::byte> payload) override;
  void complete_request(PcbId pcb, Verdict verdict) override;
  Verdict check_remote(Rkey rkey, std::uint64_t addr, std::uint64_t length,
                       transport::RemoteAccess access) override;
  Verdict write_remote(Rkey rkey, std::uint64_t addr, std::span<const std::byte> payload) override;
  Verdict atomic_remote(Rkey rkey, std::uint64_t addr, transport::RequestKind kind,
                        std::uint64_t compare_add, std::uint64_t swap, AtomicLog log) override;
  std::optional<std::uint64_t> draw_receive() override;
  Verdict store_receive(std::uint64_t offset, std::span<const std::byte> payload) override;
  Verdict store_routing_header() override;
  void complete_receive(const transport::ReceiveCompletion& completion) override;
  Verdict invalidate_key(Rkey rkey) override;
  std::optional<std::uint32_t> receive_credits() override;
  Duration request_wait(bool reads) override;
  bool drops_request() override;
  void took_request(std::uint32_t, bool) override { refused_ = false; }
  bool holds_response() override { return held |= is_over_rate(); }
  void sent_response(std::uint32_t, bool) override {}
  void enter_error(std::optional<transport::AsyncEvent> event) override;
  void raise_event(transport::AsyncEvent) override {}
  void count(transport::Count what, std::uint32_t n) override {
    counts_[static_cast<unsigned>(what)] += n;
  }

  Rkey rkey() const { return Rkey(0x1000u + static_cast<std::uint32_t>(side_)); }
  bool all_completed() const { return completed == own_.operations.size(); }
  std::uint64_t counted(transport::Count what) const {
    return counts_[static_cast<unsigned>(what)];
  }
  void add_counts(Counts& to) const {
    for (std::size_t i = 0; i < to.size(); ++i) to[i] += counts_[i];
  }
  void post_receives(std::uint32_t n);
  /// Our memory must be what the peer's whole workload, done once, leaves.
  void check_memory() const;
  /// The write of operation `index` of the peer's workload must stand in our memory.
  void check_write(std::uint32_t index) const;

  const Model* peer = nullptr;
  Time now{};
  std::uint32_t port_buffers = 0;  ///< frames that may still be queued in this step
  bool counts_receives = true;     ///< false: as with a shared receive queue
  bool may_drop = false;           ///< unreliable: messages may be missing
  bool may_fail = false;           ///< retries may run out
  bool datagrams = false;          ///< messages may also come late or again
  std::uint32_t receive_capacity = 0;
  double over_rate = 0;  ///< part of the packets of the peer that come, or are asked for, too fast
  bool held = false;     ///< a response, until the next step

  std::uint32_t completed = 0;  ///< operations
  std::uint32_t succeeded = 0;
  bool in_error = false;
  std::uint32_t received = 0;       ///< receive completions with kOk
  std::uint32_t next_expected = 0;  ///< peer's operation after the one received last

 private:
  std::span<std::byte> memory(std::uint64_t addr, std::uint64_t length);
  bool is_over_rate();
  void check_response(const Operation& op) const;
  std::uint32_t find_message(const transport::ReceiveCompletion& c) const;
  bool matches(const Operation& op, const transport::ReceiveCompletion& c) const;

  const int side_;
  Link& link_;
  Random& random_;
  const Workload& own_;
  const Workload& of_peer_;
  wire::FrameTemplate path_;
  std::uint16_t identification_ = 0;

  std::vector<std::byte> region_;
  std::vector<std::vector<std::byte>> responses_;  ///< by operation
  struct Receive {
    std::vector<std::byte> bytes;
    bool drawn = false;
  };
  std::deque<std::uint32_t> posted_;
  std::vector<Receive> receives_;  ///< in the order they were posted
  std::uint32_t drawn_ = 0;        ///< the latest
  bool errored_ = false;
  bool refused_ = false;  ///< the next request packet has waited
  Counts counts_{};
};

}  // namespace softhca::sim

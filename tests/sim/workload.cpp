// SPDX-License-Identifier: Apache-2.0

#include "tests/sim/workload.hpp"

#include <algorithm>
#include <array>

#include "daemon/roce/transport/segment.hpp"
#include "tests/sim/pool.hpp"

namespace softhca::sim {
namespace {

using transport::Request;
using transport::RequestKind;

class Maker {
 public:
  Maker(const WorkloadLimits& limits, Rkey rkey, Random& random)
      : limits_(limits), rkey_(rkey), random_(random) {
    workload_.region_bytes = kSliceStart;
  }

  Workload make() {
    for (std::uint32_t i = 0; i < limits_.operations; ++i) add(i);
    if (limits_.poison) poison();
    workload_.region_bytes += kGuardBytes;
    return std::move(workload_);
  }

 private:
  void add(std::uint32_t number) {
    Operation op;
    Request& r = op.request;
    r.kind = kind();
    r.pcb = PcbId(number);
    r.length = transport::is_atomic(r.kind) ? 8 : length();
    r.solicited = random_.chance(0.3);
    r.fence = random_.chance(0.2);
    r.imm = static_cast<std::uint32_t>(random_.next());
    r.rkey = rkey_;
    op.data = random_.below(kPoolBytes - r.length);
    if (r.kind == RequestKind::kSendInvalidate) r.rkey = Rkey(r.imm);
    if (transport::is_write(r.kind)) add_slice(r);
    if (r.kind == RequestKind::kRead) choose_source(op);
    if (transport::is_atomic(r.kind)) choose_counter(op);
    if (transport::draws_receive(r.kind) && !transport::is_write(r.kind))
      workload_.longest_send = std::max(workload_.longest_send, r.length);
    workload_.operations.push_back(op);
  }

  RequestKind kind() {
    if (limits_.kinds == Kinds::kReliable) return static_cast<RequestKind>(random_.below(8));
    constexpr RequestKind kUnreliable[] = {RequestKind::kSend, RequestKind::kSendImm,
                                           RequestKind::kWrite, RequestKind::kWriteImm};
    return kUnreliable[random_.below(limits_.kinds == Kinds::kDatagram ? 2 : 4)];
  }

  /// Empty, tiny, around whole packets, anything.
  std::uint32_t length() {
    const std::uint32_t most = limits_.mtu * limits_.max_packets;
    if (limits_.kinds == Kinds::kDatagram) return random_.below(most + 1);
    switch (random_.below(4)) {
      case 0:
        return random_.below(9);
      case 1:
        return random_.between(1, limits_.max_packets - 1) * limits_.mtu + random_.between(0, 2) -
               1;
      default:
        return random_.below(most);
    }
  }

  void add_slice(Request& r) {
    workload_.region_bytes += kGuardBytes + random_.below(8);
    r.remote_addr = kRegionBase + workload_.region_bytes;
    workload_.region_bytes += r.length;
  }

  /// Earlier writes are seen by later reads of the same queue pair (specification 10.8.3.3).
  void choose_source(Operation& op) {
    Request& r = op.request;
    const auto& done = workload_.operations;
    if (!done.empty()) {
      const Operation& earlier = done[random_.below(static_cast<std::uint32_t>(done.size()))];
      if (transport::is_write(earlier.request.kind) && earlier.request.length > 0) {
        const std::uint32_t skip = random_.below(earlier.request.length);
        r.length = random_.between(0, earlier.request.length - skip);
        r.remote_addr = earlier.request.remote_addr + skip;
        op.data = earlier.data + skip;
        return;
      }
    }
    r.length = std::min(r.length, kConstantBytes - 1);
    const std::uint32_t skip = random_.below(kConstantBytes - r.length);
    r.remote_addr = kRegionBase + skip;
    op.data = kReadableAs + skip;
  }

  void choose_counter(Operation& op) {
    Request& r = op.request;
    op.counter = random_.below(kCounters);
    std::uint64_t& value = counters_[op.counter];
    r.remote_addr = kRegionBase + kConstantBytes + op.counter * 8;
    op.expected_original = value;
    r.swap = random_.next();
    if (r.kind == RequestKind::kFetchAdd) {
      r.compare_add = random_.next();
      value += r.compare_add;
    } else {
      r.compare_add = random_.chance(0.7) ? value : random_.next();
      if (r.compare_add == value) value = r.swap;
    }
    op.expected_after = value;
  }

  /// Makes one operation one that the peer refuses.
  void poison() {
    Operation& op = workload_.operations[random_.below(limits_.operations)];
    Request& r = op.request;
    switch (r.kind) {
      case RequestKind::kSend:
      case RequestKind::kSendImm:
      case RequestKind::kSendInvalidate:
        r.length = workload_.longest_send + 1 + random_.below(3 * limits_.mtu);
        op.data = 0;
        op.expected = Verdict::kRemoteInvalidRequest;
        break;
      default:
        r.rkey = Rkey(r.rkey.value + 1);
        if (r.length == 0) r.length = 1;
        op.expected = Verdict::kRemoteAccess;
    }
  }

  const WorkloadLimits limits_;
  const Rkey rkey_;
  Random& random_;
  Workload workload_;
  std::array<std::uint64_t, kCounters> counters_{};
};

}  // namespace

Workload make_workload(const WorkloadLimits& limits, Rkey rkey, Random& random) {
  return Maker(limits, rkey, random).make();
}

}  // namespace softhca::sim

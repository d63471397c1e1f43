// SPDX-License-Identifier: Apache-2.0

// Model: what is received and what memory holds, against the workload.
#include <cstring>

#include "daemon/roce/transport/segment.hpp"
#include "tests/sim/model.hpp"
#include "tests/sim/pool.hpp"

namespace softhca::sim {

using transport::RequestKind;

namespace {

bool holds(const std::vector<std::byte>& memory, std::uint64_t offset,
           std::span<const std::byte> bytes) {
  if (bytes.empty()) return true;
  return offset + bytes.size() <= memory.size() &&
         std::memcmp(memory.data() + offset, bytes.data(), bytes.size()) == 0;
}

}  // namespace

void Model::complete_receive(const transport::ReceiveCompletion& c) {
  Receive& r = receives_.at(drawn_);
  require(r.drawn, "completion of a receive not drawn", drawn_);
  r.drawn = false;
  if (c.verdict != Verdict::kOk) {
    require(c.verdict == Verdict::kFlushed || may_fail, "receive failed",
            static_cast<std::uint64_t>(c.verdict));
    return;
  }
  require(!in_error, "receive completed after an error", drawn_);
  const std::uint32_t at = find_message(c);
  require(at < of_peer_.operations.size(), "received what was not sent, or again", drawn_);
  require(matches(of_peer_.operations[at], c), "received something else", at);
  if (c.from_write) check_write(at);
  next_expected = at + 1;
  ++received;
  r.bytes = {};
}

/// Reliable: the next of the peer's operations that draws a receive; writes before it must be in
/// memory. Unreliable: the next that looks like it; it may be missing, but never comes twice or
/// out of order. Datagrams: any.
std::uint32_t Model::find_message(const transport::ReceiveCompletion& c) const {
  const auto& operations = of_peer_.operations;
  std::uint32_t at = datagrams ? 0 : next_expected;
  for (; at < operations.size(); ++at) {
    const transport::Request& q = operations[at].request;
    if (may_drop ? matches(operations[at], c) : transport::draws_receive(q.kind)) break;
    if (!may_drop && transport::is_write(q.kind)) check_write(at);
  }
  return at;
}

bool Model::matches(const Operation& op, const transport::ReceiveCompletion& c) const {
  const transport::Request& q = op.request;
  const std::uint32_t grh = c.has_grh ? transport::kRoutingHeaderBytes : 0;
  if (!transport::draws_receive(q.kind) || c.byte_len != q.length + grh) return false;
  const bool imm = q.kind == RequestKind::kSendImm || q.kind == RequestKind::kWriteImm;
  if (c.from_write != transport::is_write(q.kind) || c.has_imm != imm) return false;
  if (c.invalidated != (q.kind == RequestKind::kSendInvalidate)) return false;
  if (c.solicited != q.solicited) return false;
  if (c.has_imm && c.imm != q.imm) return false;
  if (c.invalidated && c.imm != q.rkey.value) return false;
  if (c.from_write) return true;
  const std::vector<std::byte>& got = receives_[drawn_].bytes;
  return holds(got, 0, pool_bytes(0, grh)) && holds(got, grh, pool_bytes(op.data, q.length));
}

void Model::check_write(std::uint32_t index) const {
  const Operation& op = of_peer_.operations.at(index);
  const std::uint64_t offset = op.request.remote_addr - kRegionBase;
  require(holds(region_, offset, pool_bytes(op.data, op.request.length)),
          "write completed but not in memory", index);
}

void Model::check_memory() const {
  std::vector<std::byte> image(region_.size());
  const auto constant = pool_bytes(kReadableAs, kConstantBytes);
  std::memcpy(image.data(), constant.data(), constant.size());
  for (const Operation& op : of_peer_.operations) {
    const transport::Request& q = op.request;
    const std::uint64_t offset = q.remote_addr - kRegionBase;
    if (transport::is_write(q.kind))
      std::memcpy(image.data() + offset, pool_bytes(op.data, q.length).data(), q.length);
    if (transport::is_atomic(q.kind))
      std::memcpy(image.data() + offset, &op.expected_after, sizeof op.expected_after);
  }
  require(image == region_, "memory differs at the end");
}

}  // namespace softhca::sim

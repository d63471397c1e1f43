// Model: what is received and what memory holds, against the workload.
#include <cstring>

#include "daemon/transport/segment.hpp"
#include "tests/sim/model.hpp"
#include "tests/sim/pool.hpp"

namespace softhca::sim {

using transport::RequestKind;

/// Reliable: the peer's operations that draw a receive, each once and in order. Unreliable: some of
/// them, each at most once and in order. Datagrams: see the datagram world.
void Model::complete_receive(const transport::ReceiveCompletion& c) {
  Receive& r = receives_.at(c.cookie);
  require(r.drawn, "completion of a receive not drawn", c.cookie);
  r.drawn = false;
  if (c.verdict != Verdict::kOk) {
    require(c.verdict == Verdict::kFlushed || may_fail, "receive failed",
            static_cast<std::uint64_t>(c.verdict));
    return;
  }
  require(!in_error, "receive completed after an error", c.cookie);
  const auto& operations = of_peer_.operations;
  std::uint32_t at = next_expected;
  while (at < operations.size() && (!transport::draws_receive(operations[at].request.kind) ||
                                    (may_drop && !matches(operations[at], c)))) {
    if (!may_drop && transport::is_write(operations[at].request.kind)) check_write(at);
    ++at;
  }
  require(at < operations.size(), "received what was not sent, or again", c.cookie);
  require(matches(operations[at], c), "received something else", at);
  check_received(operations[at], c);
  next_expected = at + 1;
  ++received;
  r.bytes = {};
}

bool Model::matches(const Operation& op, const transport::ReceiveCompletion& c) const {
  const transport::Request& q = op.request;
  if (!transport::draws_receive(q.kind) || c.byte_len != q.length) return false;
  const bool imm = q.kind == RequestKind::kSendImm || q.kind == RequestKind::kWriteImm;
  if (c.from_write != transport::is_write(q.kind) || c.has_imm != imm) return false;
  if (c.invalidated != (q.kind == RequestKind::kSendInvalidate)) return false;
  if (c.solicited != q.solicited) return false;
  if (c.has_imm && c.imm != q.imm) return false;
  if (c.invalidated && c.imm != q.rkey.value) return false;
  if (c.from_write) return true;
  return std::memcmp(receives_[c.cookie].bytes.data(), pool_bytes(op.data, q.length).data(),
                     q.length) == 0;
}

void Model::check_received(const Operation& op, const transport::ReceiveCompletion& c) const {
  if (c.from_write) check_write(op.request.cookie);
}

void Model::check_write(std::uint32_t index) const {
  const Operation& op = of_peer_.operations.at(index);
  const std::uint64_t offset = op.request.remote_addr - kRegionBase;
  require(std::memcmp(region_.data() + offset, pool_bytes(op.data, op.request.length).data(),
                      op.request.length) == 0,
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

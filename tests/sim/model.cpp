// SPDX-License-Identifier: Apache-2.0

#include "tests/sim/model.hpp"

#include <cstring>

#include "daemon/roce/transport/segment.hpp"
#include "tests/sim/pool.hpp"

namespace softhca::sim {

using transport::RequestKind;
using transport::SendResult;

namespace {

wire::FrameTemplate make_path(int side) {
  wire::FramePath path;
  path.source_mac = {{2, 0, 0, 0, 0, static_cast<std::uint8_t>(side)}};
  path.destination_mac = {{2, 0, 0, 0, 0, static_cast<std::uint8_t>(1 - side)}};
  path.source = Gid::from_ipv4(0x0a000001u + static_cast<std::uint32_t>(side));
  path.destination = Gid::from_ipv4(0x0a000002u - static_cast<std::uint32_t>(side));
  path.udp_source_port = 0xc123;
  return wire::FrameTemplate(path);
}

std::uint64_t load(std::span<const std::byte> from) {
  std::uint64_t v;
  std::memcpy(&v, from.data(), sizeof v);
  return v;
}

bool same(std::span<const std::byte> a, std::span<const std::byte> b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size()) == 0);
}

}  // namespace

Model::Model(int side, Link& link, Random& random, const Workload& own, const Workload& of_peer)
    : side_(side),
      link_(link),
      random_(random),
      own_(own),
      of_peer_(of_peer),
      path_(make_path(side)),
      region_(of_peer.region_bytes),
      responses_(own.operations.size()) {
  const auto constant = pool_bytes(kReadableAs, kConstantBytes);
  std::memcpy(region_.data(), constant.data(), constant.size());
  for (const Operation& op : own.operations)
    if (transport::awaits_response(op.request.kind))
      responses_[op.request.pcb.value].resize(op.request.length);
}

bool Model::is_over_rate() { return over_rate != 0 && random_.chance(over_rate); }

/// The packet that has waited comes in.
Duration Model::request_wait(bool reads) {
  if (reads) return Duration::zero();
  refused_ = !refused_ && is_over_rate();
  return refused_ ? std::chrono::microseconds(random_.between(1, 50)) : Duration::zero();
}

bool Model::drops_request() { return is_over_rate(); }

SendResult Model::send(const wire::Headers& h, const transport::PayloadSource& source) {
  using From = transport::PayloadSource::From;
  if (port_buffers == 0) return SendResult::kNoBuffer;
  --port_buffers;
  Frame frame(path_.frame_length(h.opcode, source.length));
  wire::FrameBuilder builder(frame, path_, h, source.length, identification_++);
  std::span<const std::byte> bytes;
  if (source.from == From::kRequest) {
    require(source.pcb.value >= completed, "payload of a request that was complete",
            source.pcb.value);
    bytes = pool_bytes(own_.operations[source.pcb.value].data + source.offset, source.length);
  } else if (source.from == From::kRemote) {
    if (check_remote(source.rkey, source.addr, source.length, transport::RemoteAccess::kRead) !=
        Verdict::kOk)
      return SendResult::kNoAccess;
    bytes = memory(source.addr, source.length);
  }
  require(bytes.size() == source.length, "payload without source");
  if (!bytes.empty()) std::memcpy(builder.payload().data(), bytes.data(), bytes.size());
  builder.finish();
  link_.send(1 - side_, std::move(frame), now);
  return SendResult::kSent;
}

Verdict Model::store_response(PcbId pcb, std::uint32_t offset, std::span<const std::byte> payload) {
  std::vector<std::byte>& to = responses_.at(pcb.value);
  require(offset + payload.size() <= to.size(), "response beyond its request", pcb.value);
  std::memcpy(to.data() + offset, payload.data(), payload.size());
  return Verdict::kOk;
}

/// In order, once each: kOk until the first error, kFlushed after it.
void Model::complete_request(PcbId pcb, Verdict verdict) {
  const std::uint32_t number = pcb.value;
  require(number == completed, "request completed out of order", number);
  const Operation& op = own_.operations[number];
  ++completed;
  if (errored_ || in_error) {
    require(verdict == Verdict::kFlushed, "not flushed after an error", number);
  } else if (verdict == Verdict::kOk) {
    require(op.expected == Verdict::kOk, "success of a request that must fail", number);
    ++succeeded;
    check_response(op);
    if (transport::is_write(op.request.kind) && !may_drop) peer->check_write(number);
  } else {
    errored_ = true;
    const bool retries =
        verdict == Verdict::kRetryExceeded || verdict == Verdict::kRnrRetryExceeded;
    require(verdict == op.expected || (retries && may_fail), "wrong status",
            static_cast<std::uint64_t>(verdict));
  }
}

void Model::check_response(const Operation& op) const {
  const std::vector<std::byte>& got = responses_[op.request.pcb.value];
  if (op.request.kind == RequestKind::kRead)
    require(same(got, pool_bytes(op.data, op.request.length)), "wrong bytes read",
            op.request.pcb.value);
  if (transport::is_atomic(op.request.kind))
    require(load(got) == op.expected_original, "wrong result of an atomic", op.request.pcb.value);
}

Verdict Model::check_remote(Rkey key, std::uint64_t addr, std::uint64_t length,
                            transport::RemoteAccess) {
  if (length == 0) return Verdict::kOk;
  const bool inside = addr >= kRegionBase && length <= region_.size() &&
                      addr - kRegionBase <= region_.size() - length;
  return key == rkey() && inside ? Verdict::kOk : Verdict::kRemoteAccess;
}

std::span<std::byte> Model::memory(std::uint64_t addr, std::uint64_t length) {
  return std::span(region_).subspan(addr - kRegionBase, length);
}

Verdict Model::write_remote(Rkey key, std::uint64_t addr, std::span<const std::byte> payload) {
  const Verdict v = check_remote(key, addr, payload.size(), transport::RemoteAccess::kWrite);
  if (v == Verdict::kOk)
    std::memcpy(memory(addr, payload.size()).data(), payload.data(), payload.size());
  return v;
}

Verdict Model::atomic_remote(Rkey key, std::uint64_t addr, RequestKind kind,
                             std::uint64_t compare_add, std::uint64_t swap, AtomicLog log) {
  const Verdict v = check_remote(key, addr, 8, transport::RemoteAccess::kAtomic);
  if (v != Verdict::kOk) return v;
  const std::uint64_t original = load(memory(addr, 8));
  std::uint64_t after = original + compare_add;
  if (kind == RequestKind::kCompareSwap) after = original == compare_add ? swap : original;
  std::memcpy(memory(addr, 8).data(), &after, sizeof after);
  log.begin(original, after);
  log.end();
  return v;
}

void Model::post_receives(std::uint32_t n) {
  for (; n > 0; --n) {
    posted_.push_back(static_cast<std::uint32_t>(receives_.size()));
    receives_.emplace_back();
  }
}

std::optional<std::uint64_t> Model::draw_receive() {
  if (posted_.empty()) return std::nullopt;
  drawn_ = posted_.front();
  posted_.pop_front();
  receives_[drawn_].bytes.resize(receive_capacity);
  receives_[drawn_].drawn = true;
  return receive_capacity;
}

Verdict Model::store_receive(std::uint64_t offset, std::span<const std::byte> payload) {
  Receive& r = receives_.at(drawn_);
  require(r.drawn && offset + payload.size() <= r.bytes.size(), "stored beyond a receive", drawn_);
  std::memcpy(r.bytes.data() + offset, payload.data(), payload.size());
  return Verdict::kOk;
}

/// The GRH area of a simulated datagram is marked with its own pattern.
Verdict Model::store_routing_header() {
  return store_receive(0, pool_bytes(0, transport::kRoutingHeaderBytes));
}

Verdict Model::invalidate_key(Rkey key) {
  for (const Operation& op : of_peer_.operations)
    if (op.request.kind == RequestKind::kSendInvalidate && op.request.rkey == key)
      return Verdict::kOk;
  throw Failure("invalidated a key that no request named");
}

std::optional<std::uint32_t> Model::receive_credits() {
  if (!counts_receives) return std::nullopt;
  return static_cast<std::uint32_t>(posted_.size());
}

void Model::enter_error(std::optional<transport::AsyncEvent>) {
  require(!in_error, "second error");
  in_error = true;
}

}  // namespace softhca::sim

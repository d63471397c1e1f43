// SPDX-License-Identifier: Apache-2.0

#include "daemon/engine/diagnostics/captures.hpp"

#include <algorithm>

#include "daemon/engine/records/queue_pair.hpp"

namespace softhca::engine {

using abi::CaptureDirection;

namespace {

/// The interface of all packets for which no interface number is left.
constexpr std::uint16_t kOthers = abi::kCaptureInterfaces - 1;
constexpr std::size_t kPorts = std::size_t{1} << 8 * sizeof(PortId);

}  // namespace

// --- one capture

Capture::Capture(std::span<std::byte> memory, CaptureOptions options, const Sizes& sizes)
    : ring_(memory),
      options_(std::move(options)),
      of_tenant_(sizes.tenants),
      of_port_(kPorts),
      flows_(sizes.queue_pairs) {}

/// Another tenant may get its number next.
void Capture::forget(const Tenant& tenant) {
  if (tenant.id.value < of_tenant_.size()) of_tenant_[tenant.id.value] = {};
}

Capture::Interface* Capture::interface_of(const Passage& passage) {
  if (passage.tenant == nullptr) {
    return passage.port != nullptr ? &of_port_[passage.port->id.value] : nullptr;
  }
  if (passage.tenant->id.value >= of_tenant_.size()) return nullptr;
  OfTenant& of_tenant = of_tenant_[passage.tenant->id.value];
  return passage.port != nullptr ? &of_tenant.wire : &of_tenant.local;
}

void Capture::decide(Interface& at, const Passage& passage) {
  const bool is_wanted = options_.tenant.empty() ||
                         (passage.tenant != nullptr && passage.tenant->name == options_.tenant);
  at.state = is_wanted ? Interface::State::kNumbered : Interface::State::kUnwanted;
  if (!is_wanted) return;
  at.id = next_id_;
  if (next_id_ != kOthers) ++next_id_;
}

bool Capture::wants(const Passage& passage) {
  if (options_.port && (passage.port == nullptr || passage.port->id != *options_.port))
    return false;
  Interface* const at = interface_of(passage);
  if (at == nullptr) return false;
  if (at->state == Interface::State::kNew) decide(*at, passage);
  return at->state != Interface::State::kUnwanted;
}

bool Capture::announce(Interface& at, const Passage& passage) {
  if (at.id == kOthers && others_announced_) {
    at.state = Interface::State::kAnnounced;
    return true;
  }
  std::string name = "others";
  if (at.id != kOthers) {
    name = passage.tenant != nullptr ? passage.tenant->name : "port " + passage.port->name;
    if (passage.port == nullptr) name += " local";
  }
  if (!ring_.add_interface(at.id, name)) return false;
  at.state = Interface::State::kAnnounced;
  if (at.id == kOthers) others_announced_ = true;
  return true;
}

void Capture::add(const Passage& passage, std::span<const Part> parts, Time when) {
  if (!wants(passage)) return;
  Interface& at = *interface_of(passage);
  if (at.state == Interface::State::kNumbered && !announce(at, passage))
    return ring_.count_dropped(at.id);
  abi::CaptureRecord record{};
  record.interface_id = at.id;
  record.captured = options_.snaplen;
  record.time =
      static_cast<std::uint64_t>((when.time_since_epoch() + options_.time_of_day).count());
  record.direction = passage.direction;
  record.remark = static_cast<std::uint8_t>(passage.remark);
  if (!ring_.add_packet(record, parts)) ring_.count_dropped(at.id);
}

// --- all of them

void Captures::add(Capture& capture) {
  if (!on_) flows_.swap(capture.flows_);
  captures_.push_back(&capture);
  on_ = true;
}

void Captures::remove(Capture& capture) {
  std::erase(captures_, &capture);
  on_ = !captures_.empty();
}

void Captures::forget(const Tenant& tenant) {
  for (Capture* capture : captures_) capture->forget(tenant);
}

void Captures::add_to_all(const Capture::Passage& passage, std::span<const Part> parts) {
  for (Capture* capture : captures_) capture->add(passage, parts, clock_.now);
}

void Captures::sent(const PortBinding& port, const Tenant* tenant, std::span<const Part> parts,
                    CaptureRemark remark) {
  add_to_all({tenant, &port, CaptureDirection::kOutbound, remark}, parts);
}

void Captures::received(const PortBinding& port, const Tenant* tenant, std::span<const Part> parts,
                        CaptureRemark remark) {
  add_to_all({tenant, &port, CaptureDirection::kInbound, remark}, parts);
}

void Captures::received(const PortBinding& port, const Tenant* tenant,
                        const wire::ParsedFrame& frame, CaptureRemark remark) {
  std::array<std::byte, wire::kEthernetLength + wire::kVlanTagLength> ethernet;
  const std::size_t length = wire::encode_ethernet(frame.ethernet, ethernet.data());
  const Part parts[] = {{ethernet.data(), length}, frame.network, frame.datagram};
  received(port, tenant, parts, remark);
}

void Captures::local(const Tenant* from, const Tenant* to, std::span<const std::byte> frame,
                     CaptureRemark remark) {
  const Capture::Passage out{from, nullptr, CaptureDirection::kOutbound, remark};
  const Capture::Passage in{to, nullptr, CaptureDirection::kInbound, remark};
  for (Capture* capture : captures_) {
    const Capture::Passage& told = capture->wants(out) ? out : in;
    capture->add(told, {&frame, 1}, clock_.now);
  }
}

CapturedFlow& Captures::flow_of(const QueuePair& qp) {
  CapturedFlow& flow = flows_[qp.slot];
  if (!flow.begun) {
    flow.next = qp.connection.position.send;
    flow.begun = true;
  }
  return flow;
}

void Captures::restart(const QueuePair& qp) { flows_[qp.slot] = {}; }

}  // namespace softhca::engine

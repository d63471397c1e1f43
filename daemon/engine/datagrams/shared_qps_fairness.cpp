// SPDX-License-Identifier: Apache-2.0

#include "daemon/engine/datagrams/shared_qps_fairness.hpp"

#include <algorithm>
#include <cstring>

#include "daemon/engine/records/costs.hpp"

namespace softhca::engine {
namespace {

// How long the engine waits for a neighbour, and how often it asks for it. Other datagrams go on
// meanwhile.
constexpr Duration kResolveTimeout = std::chrono::seconds(1);
constexpr Duration kTry = std::chrono::milliseconds(1);
constexpr int kWaitingOfKind = ServiceEndpoint::kWaiting / 2;
constexpr int kWaitingOfTenant = kWaitingOfKind / 4;
constexpr int kWaitingForPeer = 4;
// Datagrams of the clients that are taken in one poll step, at most.
constexpr unsigned kSendsPerStep = 16;
// The time over which a share of the engine is measured, and what a queue pair may take beyond
// its share in it: some 50 datagrams, in cost units.
constexpr Duration kShareWindow = std::chrono::milliseconds(10);
constexpr double kShareSlack = 256 << 10;

}  // namespace

bool SharedQps::open(SharedQp& service) {
  ServiceEndpoint& own = service.endpoint();
  sessions_.install(own.session);
  sessions_.poll(own.session);
  if (!lifecycle_.install_own(own.qp)) {
    sessions_.remove(own.session);
    return false;
  }
  for (std::uint32_t i = 0; i < ServiceEndpoint::kSends; ++i)
    own.handles[i] = address_handles_.add(own.paths[i]);
  lifecycle_.enter_ready_to_receive(own.qp, Psn(0));
  lifecycle_.enter_ready_to_send(own.qp, Psn(0));
  services_.push_back(&service);
  return true;
}

void SharedQps::close(SharedQp& service) {
  ServiceEndpoint& own = service.endpoint();
  std::erase(services_, &service);
  for (const std::uint32_t handle : own.handles) address_handles_.remove(handle);
  lifecycle_.remove(own.qp);
  completion_queues_.remove(own.cq);
  sessions_.remove(own.session);
}

std::size_t SharedQps::take_back_buffers() {
  std::size_t taken = 0;
  for (SharedQp* service : services_) taken += service->take_back_buffers();
  return taken;
}

void SharedQps::announce() {
  for (SharedQp* service : services_)
    if (service->endpoint().news) service->announce();
}

bool SharedQps::has_work() const {
  return std::any_of(services_.begin(), services_.end(),
                     [](const SharedQp* service) { return service->has_work(); });
}

Time SharedQps::next_deadline() const {
  Time next = kNever;
  for (const SharedQp* service : services_) next = std::min(next, service->endpoint().next_try);
  return next;
}

// --- what clients send

std::size_t SharedQps::run() {
  std::size_t work = 0;
  for (SharedQp* service : services_) {
    if (clock_.now >= service->endpoint().next_try) work += try_waiting(*service);
    work += take_sends(*service);
  }
  return work;
}

/// Takes the datagrams that clients send. A command that waits for a neighbour would hold up those
/// behind it in the queue pair, so a datagram for an unknown neighbour waits beside it. If there is
/// no place for it there, it is lost. In that case the engine does not ask for the neighbour of a
/// datagram that gives way. It asks for that of others, so that the answer to a peer that tries
/// again finds the way.
std::size_t SharedQps::take_sends(SharedQp& service) {
  ServiceEndpoint& own = service.endpoint();
  std::size_t taken = 0;
  for (; taken < kSendsPerStep; ++taken) {
    const Datagram* datagram = service.next_send();
    if (datagram == nullptr || !cpu_.may_take_in(own.qp.qos_class)) break;
    const bool may_wait = has_place(service, *datagram);
    const Reach reach = packets_.reach_of(datagram->path, may_wait || !datagram->gives_way);
    if (reach == Reach::kReady) {
      if (!post(service, *datagram)) break;
    } else if (reach == Reach::kUnknown && may_wait) {
      own.waiting.push_back({*datagram, clock_.now + kResolveTimeout});
      own.next_try = std::min(own.next_try, clock_.now + kTry);
    } else {
      service.counters().unresolved.add();
    }
    service.pop_send();
  }
  return taken;
}

/// True if the datagram may wait for a neighbour. Those that give way have half of the places,
/// others the other half. A tenant has a part of that half, and a peer a part of the tenant's.
bool SharedQps::has_place(const SharedQp& service, const Datagram& datagram) {
  int of_kind = 0, of_tenant = 0, to_peer = 0;
  for (const auto& [other, until] : service.endpoint().waiting) {
    if (other.gives_way != datagram.gives_way) continue;
    ++of_kind;
    if (other.tenant != datagram.tenant) continue;
    ++of_tenant;
    to_peer += other.path.destination == datagram.path.destination;
  }
  return of_kind < kWaitingOfKind && of_tenant < kWaitingOfTenant && to_peer < kWaitingForPeer;
}

std::size_t SharedQps::try_waiting(SharedQp& service) {
  ServiceEndpoint& own = service.endpoint();
  const std::size_t before = own.waiting.size();
  std::erase_if(own.waiting, [&](const ServiceEndpoint::Waiting& waiting) {
    if (packets_.reach_of(waiting.datagram.path) == Reach::kReady)
      return post(service, waiting.datagram);
    if (clock_.now < waiting.until) return false;
    service.counters().unresolved.add();
    return true;
  });
  own.next_try = own.waiting.empty() ? kNever : clock_.now + kTry;
  return before - own.waiting.size();
}

/// Posts the datagram as a command that came by a VCB. False: it finds no room now.
bool SharedQps::post(SharedQp& service, const Datagram& datagram) {
  ServiceEndpoint& own = service.endpoint();
  QueuePair& qp = own.qp;
  const schedule::QpSlot slot(qp.slot);
  const std::uint32_t sequence = own.sequence;
  if (qp.sq.commands == ServiceEndpoint::kSends || !scheduler_.vcb_may_start(slot, sequence))
    return false;
  const auto pcb = pcbs_.allocate(qp.session->qos_class);
  if (!pcb) return false;
  if (!arbitrator_.kick(qp.sq.dedicated_tvl, *pcb)) {
    pcbs_.free(*pcb);
    return false;
  }
  scheduler_.vcb_kicked(slot);
  // Commands of one queue pair end in order, so the command kSends earlier does not use its path
  // now.
  AddressHandle& path = own.paths[sequence % ServiceEndpoint::kSends];
  path.route.path = datagram.path;
  path.route.invalidate();
  collect::Pcb& buffer = pcbs_.pcb(*pcb);
  buffer.header = {};
  buffer.header.opcode = static_cast<std::uint8_t>(abi::Opcode::kSend);
  buffer.header.flags = abi::kCommandInline;
  buffer.header.payload_bytes = datagram.length;
  buffer.header.qpn = qp.qpn.value;
  buffer.header.sequence = sequence;
  buffer.header.remote_qpn = datagram.peer.value;
  buffer.header.remote_qkey = datagram.qkey;
  buffer.header.address_handle = own.handles[sequence % ServiceEndpoint::kSends];
  std::memcpy(buffer.payload.data(), datagram.payload.data(), datagram.length);
  commands_.prepare(qp, *pcb);
  ++own.sequence;
  service.counters().sent.add();
  return true;
}

// --- receiving

/// Returns a buffer for a datagram to a client of the queue pair. Returns nothing if the datagram
/// is discarded, and counts why. A source over its limits costs hardly more than parsing its
/// packet.
std::optional<std::uint32_t> SharedQps::admit(SharedQp& service, const Tenant& tenant,
                                              std::span<const std::byte> start, std::size_t length,
                                              const Gid& source) {
  ServiceEndpoint& own = service.endpoint();
  if (length > Datagram::kBytes || start.size() < kSelectorBytes) {
    service.counters().bad_length.add();
    return std::nullopt;
  }
  const std::uint32_t selector = service.selector(start.first<kSelectorBytes>());
  const auto admission = service.pool().admit(client_key(tenant.id, selector), source, clock_.now);
  if (!admission) {
    // Not counted in the share, which is for other datagrams: the engine spends this even if none
    // of the share is left.
    cpu_.charge(own.session, kDiscardCost);
    return std::nullopt;
  }
  if (!is_within_share(service, admission.from_busy_source)) {
    service.pool().release(admission.buffer);
    service.counters().over_share.add();
    return std::nullopt;
  }
  cpu_.charge(own.session, packet_cost(length));
  own.share_used += packet_cost(length);
  return admission.buffer;
}

/// True if the queue pair is within its share. Peers decide when datagrams come, so turns do not
/// bound what they cost others. Sources that send much may use only half of the share.
bool SharedQps::is_within_share(SharedQp& service, bool from_busy_source) {
  ServiceEndpoint& own = service.endpoint();
  if (clock_.now - own.share_since >= kShareWindow) {
    own.share_since = clock_.now;
    own.share_start = cpu_.done();
    own.share_used = 0;
  }
  if (!cpu_.contended(own.qp.qos_class)) return true;
  const double all = static_cast<double>(cpu_.done() - own.share_start);
  const double share = kShareSlack + own.share * all;
  return static_cast<double>(own.share_used) <= (from_busy_source ? share / 2 : share);
}

void SharedQps::receive(QueuePair& qp, const Tenant& tenant, const wire::ParsedFrame& frame,
                        PortId port) {
  const wire::Headers& h = frame.headers;
  if (h.qkey != qp.qkey) return qp.count(transport::Count::kBadQkey);
  SharedQp& service = *qp.clients;
  const auto buffer = admit(service, tenant, frame.payload, frame.payload.size(), frame.source);
  if (!buffer) return;
  Datagram& datagram = service.fresh(*buffer);
  datagram.path = {.source = frame.destination,
                   .destination = frame.source,
                   .port = port,
                   .flow_label = frame.flow_label,
                   .traffic_class = frame.traffic_class};
  datagram.peer = h.source;
  datagram.tenant = tenant.id;
  datagram.length = static_cast<std::uint16_t>(frame.payload.size());
  std::copy(frame.payload.begin(), frame.payload.end(), datagram.payload.begin());
  service.hand_over(*buffer);
}

Verdict SharedQps::deliver(QueuePair& from, QueuePair& to, const Tenant& tenant,
                           const transport::Request& request, const AddressPath& path) {
  SharedQp& service = *to.clients;
  const collect::Pcb& command = pcbs_.pcb(request.pcb);
  // Read before admit() charges for the datagram: where memory is busy, the read is repeated.
  decltype(Datagram::payload) bytes;
  const std::span<std::byte> payload(bytes.data(),
                                     std::min<std::size_t>(request.length, bytes.size()));
  const Verdict read = memory_.gather(from, command, 0, payload);
  if (read == Verdict::kBusy) return read;
  if (read != Verdict::kOk) return Verdict::kLocalProtection;
  const auto buffer = admit(service, tenant, payload, request.length, path.source);
  if (!buffer) return Verdict::kOk;
  Datagram& datagram = service.fresh(*buffer);
  std::copy(payload.begin(), payload.end(), datagram.payload.begin());
  datagram.path = {.source = path.destination,
                   .destination = path.source,
                   .port = std::nullopt,
                   .flow_label = path.flow_label,
                   .traffic_class = path.traffic_class};
  datagram.peer = from.qpn;
  datagram.tenant = tenant.id;
  datagram.length = static_cast<std::uint16_t>(request.length);
  from.tenant->counters.local_messages.add();
  from.tenant->counters.local_bytes.add(request.length);
  service.hand_over(*buffer);
  return Verdict::kOk;
}

}  // namespace softhca::engine

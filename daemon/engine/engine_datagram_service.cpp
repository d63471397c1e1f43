// Queue pairs that several clients share, above all that of general services: datagrams to their
// receive pools, and from them.
#include <algorithm>
#include <cstring>

#include "daemon/engine/costs.hpp"
#include "daemon/engine/datagram_service.hpp"
#include "daemon/engine/engine.hpp"

namespace softhca::engine {
namespace {

// A neighbour is waited for so long, and asked for so often; others' datagrams go on meanwhile.
constexpr Duration kPatience = std::chrono::seconds(1);
constexpr Duration kTry = std::chrono::milliseconds(1);
constexpr int kWaitingOfKind = DatagramService::kWaiting / 2;
constexpr int kWaitingOfTenant = kWaitingOfKind / 4;
constexpr int kWaitingForPeer = 4;
// Datagrams of the clients taken in one poll step.
constexpr unsigned kSendsPerStep = 16;
// A share of the engine's time is looked at over so long; what may be taken beyond it then, in
// bytes of a local copy that take as long: some 50 datagrams.
constexpr Duration kShareWindow = std::chrono::milliseconds(10);
constexpr double kShareSlack = 256 << 10;

}  // namespace

bool Engine::open(DatagramService& service) {
  QueuePair& qp = service.qp_;
  if (!queue_pairs_.add_own(qp)) return false;
  install(service.session_);
  enter(qp);
  for (std::uint32_t i = 0; i < DatagramService::kSends; ++i)
    service.handles_[i] = address_handles_.add(service.paths_[i]);
  enter_ready_to_receive(qp, Psn(0));
  enter_ready_to_send(qp, Psn(0));
  datagram_services_.push_back(&service);
  return true;
}

void Engine::close(DatagramService& service) {
  std::erase(datagram_services_, &service);
  for (const std::uint32_t handle : service.handles_) address_handles_.remove(handle);
  remove(service.qp_);
  completion_events_.remove(service.cq_);
  remove(service.session_);
}

// --- what clients send

std::size_t Engine::give_back_buffers() {
  std::size_t work = 0;
  for (DatagramService* service : datagram_services_)
    for (; const std::uint32_t* buffer = service->released_.front(); ++work) {
      service->pool_.release(*buffer);
      service->released_.pop();
    }
  return work;
}

std::size_t Engine::run_datagram_services() {
  std::size_t work = 0;
  for (DatagramService* service : datagram_services_) {
    if (clock_.now >= service->next_try_) work += try_waiting(*service);
    work += take_sends(*service);
  }
  return work;
}

bool Engine::clients_wait() const {
  return std::any_of(datagram_services_.begin(), datagram_services_.end(),
                     [](const DatagramService* service) { return service->has_work(); });
}

Time Engine::next_neighbour_try() const {
  Time next = kNever;
  for (const DatagramService* service : datagram_services_)
    next = std::min(next, service->next_try());
  return next;
}

/// A command of the queue pair would keep those behind it waiting for a neighbour, so that what is
/// for one not known waits beside it. What has no place there is lost. A program's asks for nobody
/// then; the daemon's own does, so that an answer to a peer that tries again finds the way.
std::size_t Engine::take_sends(DatagramService& service) {
  std::size_t taken = 0;
  for (; taken < kSendsPerStep; ++taken) {
    const Datagram* datagram = service.sends_.front();
    if (datagram == nullptr || !cpu_.may_take_in(service.qp_.qos_class)) break;
    const bool may_wait = has_place(service, *datagram);
    const Reach reach = packets_.reach_of(datagram->path, may_wait || !datagram->of_program);
    if (reach == Reach::kReady) {
      if (!post(service, *datagram)) break;
    } else if (reach == Reach::kUnknown && may_wait) {
      service.waiting_.push_back({*datagram, clock_.now + kPatience});
      service.next_try_ = std::min(service.next_try_, clock_.now + kTry);
    } else {
      service.counters_.unresolved.add();
    }
    service.sends_.pop();
  }
  return taken;
}

/// May it wait for a neighbour? The daemon's own datagrams have half of the places and programs'
/// the other, of which those of a tenant have a part, and those for one peer a part of that.
bool Engine::has_place(const DatagramService& service, const Datagram& datagram) {
  int of_kind = 0, of_tenant = 0, to_peer = 0;
  for (const auto& [other, until] : service.waiting_) {
    if (other.of_program != datagram.of_program) continue;
    ++of_kind;
    if (other.tenant != datagram.tenant) continue;
    ++of_tenant;
    to_peer += other.path.destination == datagram.path.destination;
  }
  return of_kind < kWaitingOfKind && of_tenant < kWaitingOfTenant && to_peer < kWaitingForPeer;
}

std::size_t Engine::try_waiting(DatagramService& service) {
  const std::size_t before = service.waiting_.size();
  std::erase_if(service.waiting_, [&](const DatagramService::Waiting& waiting) {
    if (packets_.reach_of(waiting.datagram.path) == Reach::kReady)
      return post(service, waiting.datagram);
    if (clock_.now < waiting.until) return false;
    service.counters_.unresolved.add();
    return true;
  });
  service.next_try_ = service.waiting_.empty() ? kNever : clock_.now + kTry;
  return before - service.waiting_.size();
}

/// As a command that came by a VCB. False: nothing is free for it now.
bool Engine::post(DatagramService& service, const Datagram& datagram) {
  QueuePair& qp = service.qp_;
  const schedule::QpSlot slot(qp.slot);
  const std::uint32_t sequence = service.sequence_;
  if (qp.commands == DatagramService::kSends || !scheduler_.vcb_may_start(slot, sequence))
    return false;
  const auto pcb = pcbs_.allocate(qp.session->qos_class);
  if (!pcb) return false;
  if (!arbitrator_.kick(qp.dedicated_tvl, *pcb)) {
    pcbs_.free(*pcb);
    return false;
  }
  scheduler_.vcb_kicked(slot);
  // Commands of one queue pair end in order, so that of kSends before has done with it.
  AddressHandle& path = service.paths_[sequence % DatagramService::kSends];
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
  buffer.header.address_handle = service.handles_[sequence % DatagramService::kSends];
  std::memcpy(buffer.payload.data(), datagram.payload.data(), datagram.length);
  commands_.prepare(qp, *pcb);
  ++service.sequence_;
  service.counters_.sent.add();
  return true;
}

// --- what comes for them

/// A queue pair that several clients share has the addresses of all tenants.
Tenant* Engine::owner_of(const QueuePair& qp, const Gid& address,
                         std::optional<PortId> port) const {
  if (qp.clients != nullptr) return addresses_.owner(address, port);
  return qp.tenant->has_address(address, port) ? qp.tenant : nullptr;
}

/// A buffer for a datagram to a client of the queue pair; nothing: it is discarded, and why is
/// counted. A source over its limits costs hardly more than the look at its packet.
std::optional<std::uint32_t> Engine::admit(DatagramService& service, const Tenant& tenant,
                                           std::span<const std::byte> start, std::size_t length,
                                           const Gid& source) {
  if (length > Datagram::kBytes || start.size() < kSelectorBytes) {
    service.counters_.bad_length.add();
    return std::nullopt;
  }
  const std::uint32_t selector = service.queue_pair_.selector(start.first<kSelectorBytes>());
  const auto admission = service.pool_.admit(client_key(tenant.id, selector), source, clock_.now);
  if (!admission) {
    // Not of the share, which others are to have: it is spent whether there is any left or not.
    cpu_.charge(service.session_, kDiscardCost);
    return std::nullopt;
  }
  if (!is_within_share(service, admission.from_busy_source)) {
    service.pool_.release(admission.buffer);
    service.counters_.over_share.add();
    return std::nullopt;
  }
  cpu_.charge(service.session_, packet_cost(length));
  service.share_used_ += packet_cost(length);
  return admission.buffer;
}

/// Peers decide when datagrams come, so that turns do not bound what these cost others. Half of the
/// share is for sources that send little.
bool Engine::is_within_share(DatagramService& service, bool from_busy_source) {
  if (clock_.now - service.share_since_ >= kShareWindow) {
    service.share_since_ = clock_.now;
    service.share_start_ = cpu_.done();
    service.share_used_ = 0;
  }
  if (!cpu_.contended(service.qp_.qos_class)) return true;
  const double all = static_cast<double>(cpu_.done() - service.share_start_);
  const double share = kShareSlack + service.engine_share_ * all;
  return static_cast<double>(service.share_used_) <= (from_busy_source ? share / 2 : share);
}

void Engine::hand_over(DatagramService& service, std::uint32_t buffer) {
  service.counters_.received.add();
  service.arrivals_.push(buffer);
  service.news_ = true;
}

/// Tells the clients, once in a poll step.
void Engine::announce_datagrams() {
  for (DatagramService* service : datagram_services_)
    if (service->news_) service->announce();
}

/// A packet for a queue pair that several clients share, to an address of `tenant`.
void Engine::receive_for_clients(QueuePair& qp, const Tenant& tenant,
                                 const wire::ParsedFrame& frame, PortId port) {
  const wire::Headers& h = frame.headers;
  if (h.qkey != qp.qkey) return qp.count(transport::Count::kBadQkey);
  DatagramService& service = *qp.clients;
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
  hand_over(service, *buffer);
}

/// The same, from a queue pair of this daemon. How the datagram ends for its sender.
Verdict Engine::deliver_to_clients(QueuePair& from, QueuePair& to, const Tenant& tenant,
                                   const transport::Request& request, const AddressPath& path) {
  DatagramService& service = *to.clients;
  const collect::Pcb& command = pcbs_.pcb(request.pcb);
  const std::size_t looked = std::min<std::size_t>(request.length, kSelectorBytes);
  std::array<std::byte, kSelectorBytes> start{};
  const Verdict readable = memory_.gather(from, command, 0, {start.data(), looked});
  if (readable != Verdict::kOk) return Verdict::kLocalProtection;
  const auto buffer = admit(service, tenant, {start.data(), looked}, request.length, path.source);
  if (!buffer) return Verdict::kOk;
  Datagram& datagram = service.fresh(*buffer);
  const Verdict copied =
      memory_.gather(from, command, 0, {datagram.payload.data(), request.length});
  if (copied != Verdict::kOk) {
    service.pool_.release(*buffer);
    return Verdict::kLocalProtection;
  }
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
  hand_over(service, *buffer);
  return Verdict::kOk;
}

}  // namespace softhca::engine

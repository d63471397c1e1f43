#include "tests/unit/engine/process.hpp"

#include "tests/unit/engine/queue_pairs.hpp"

namespace softhca::engine {

std::optional<Completed> TestCq::poll() {
  auto* elements =
      reinterpret_cast<abi::CompletionElement*>(memory_.base() + sizeof(abi::CompletionRingHeader));
  const abi::CompletionElement& e = elements[consumer_ & (entries_ - 1)];
  const std::uint32_t owner = e.owner.load(std::memory_order_acquire);
  if ((owner & abi::kPhaseBit) != abi::phase_of(consumer_, entries_)) return std::nullopt;
  const Completed out{e.qpn,
                      e.index,
                      e.byte_len,
                      e.imm,
                      static_cast<abi::CompletionStatus>(e.status),
                      static_cast<abi::CompletionOpcode>(e.opcode),
                      e.flags,
                      e.is_receive != 0,
                      owner & 0xffffff};
  header().consumer.store(++consumer_, std::memory_order_release);
  return out;
}

std::vector<Completed> TestCq::poll_all() {
  std::vector<Completed> all;
  while (const auto c = poll()) all.push_back(*c);
  return all;
}

void ReceivePoster::post(std::uint32_t index, const std::vector<abi::ScatterGather>& list) {
  abi::ReceiveElement& e = element(count_);
  e = {index, static_cast<std::uint32_t>(list.size()), 0};
  std::copy(list.begin(), list.end(), reinterpret_cast<abi::ScatterGather*>(&e + 1));
  producer().store(++count_, std::memory_order_release);
}

Process::Process(Adapter& owner, Tenant& of, std::uint32_t vcbs)
    : Process(owner, of, vcbs, nullptr) {}

Process::Process(Adapter& owner, Tenant& of, std::uint32_t vcbs, Level* level)
    : adapter(owner), tenant(of), pd(owner.next_pd++), vcbs_(vcbs) {
  auto memory = SealedMemory::create("engine-test", abi::session_bytes(vcbs));
  EXPECT_TRUE(memory);
  memory_ = std::move(*memory);
  shm::SessionView::format(memory_.base(), vcbs);
  const QosClassId group = level != nullptr ? level->qos_class : tenant.qos_class;
  EXPECT_TRUE(
      adapter.engine.ingress().functions().assign(adapter.next_vcb, vcbs, tenant.id, group));
  session = std::make_unique<Session>(SessionId(adapter.next_session++), tenant,
                                      shm::SessionView(memory_.base(), vcbs), adapter.next_vcb);
  session->level = level;
  next_handle_ = session->id.value * 0x1000;
  session->async_fd = static_cast<int>(100 + session->id.value);
  adapter.next_vcb = VcbId(adapter.next_vcb.value + vcbs);
  adapter.engine.sessions().install(*session);
  adapter.engine.sessions().poll(*session);
}

void Process::end() {
  if (!session) return;
  Engine& engine = adapter.engine;
  for (const auto& qp : qps) engine.queue_pairs().remove(qp->qp);
  for (const std::uint32_t handle : ah_handles_) engine.address_handles().remove(handle);
  for (const auto& cq : cqs_) engine.completion_events().remove(cq->cq);
  for (const auto& srq : srqs_) remove(*srq);
  for (const auto& buffer : buffers_) engine.keys().erase(buffer->key);
  engine.sessions().remove(*session);
  EXPECT_TRUE(engine.ingress().functions().release(session->first_vcb, vcbs_));
  qps.clear();
  ah_handles_.clear();
  ahs_.clear();
  srqs_.clear();
  cqs_.clear();
  session.reset();
}

TestCq& Process::make_cq(std::uint32_t entries, int channel) {
  cqs_.push_back(std::make_unique<TestCq>(*session, entries, next_handle_++, channel));
  return *cqs_.back();
}

TestSrq& Process::make_srq(std::uint32_t entries, std::uint32_t max_sge, XrcDomainId domain,
                           TestCq* cq) {
  srqs_.push_back(std::make_unique<TestSrq>(entries, max_sge));
  TestSrq& srq = *srqs_.back();
  srq.srq.session = session.get();
  srq.srq.ring = shm::ReceiveRing(srq.ring.base(), entries, max_sge);
  srq.srq.user_handle = next_handle_++;
  srq.srq.pd = pd;
  srq.srq.xrc_domain = domain;
  if (cq != nullptr) srq.srq.cq = &cq->cq;
  adapter.engine.receive_queues().add(srq.srq);
  provision(adapter.engine, tenant, tenant.receive_policy);
  return srq;
}

TestQp& Process::make_qp(TestCq& send, TestCq& receive, const QpOptions& o) {
  qps.push_back(std::make_unique<TestQp>(o));
  TestQp& test = *qps.back();
  describe(test, o, *session, pd, send, receive);
  test.qp.user_handle = next_handle_++;
  EXPECT_TRUE(adapter.engine.queue_pairs().install(test.qp));
  return test;
}

void Process::destroy(TestQp& qp) {
  adapter.engine.queue_pairs().remove(qp.qp);
  std::erase_if(qps, [&](const auto& q) { return q.get() == &qp; });
}

void Process::reset(TestQp& qp) {
  adapter.engine.queue_pairs().reset(qp.qp, qp.sequence);
  qp.receives.restart();
  qp.next_receive = 0;
}

void Process::remove(TestSrq& srq) {
  ReceiveQueues& receives = adapter.engine.receive_queues();
  receives.retire(srq.srq);
  std::uint32_t slot = 0;
  while (!receives.drop_retired(*session, slot)) {
  }
  receives.remove(srq.srq);
}

void Process::destroy(TestSrq& srq) {
  remove(srq);
  std::erase_if(srqs_, [&](const auto& s) { return s.get() == &srq; });
}

std::uint32_t Process::make_ah(const Gid& destination) {
  ahs_.push_back(std::make_unique<AddressHandle>());
  AddressHandle& ah = *ahs_.back();
  ah.session = session.get();
  ah.pd = pd;
  ah.route.path.source = tenant.addresses[0].gid;
  ah.route.path.port = tenant.addresses[0].port;
  ah.route.path.destination = destination;
  ah_handles_.push_back(adapter.engine.address_handles().add(ah));
  return ah_handles_.back();
}

void Buffer::enter(memory::KeyTable& keys, TenantId tenant, memory::PdId pd, std::uint32_t access) {
  memory::RegionSpec spec;
  spec.tenant = tenant;
  spec.pd = pd;
  spec.access = access;
  spec.addr = spec.iova = addr();
  spec.length = size;
  spec.extents = {{addr(), size, data()}};
  auto region = memory::Region::make(std::move(spec));
  ASSERT_TRUE(region);
  auto inserted = keys.insert(std::move(*region));
  ASSERT_TRUE(inserted);
  key = (*inserted)->key();
}

Buffer& Process::make_buffer(std::size_t bytes, std::uint32_t access) {
  buffers_.push_back(std::make_unique<Buffer>());
  Buffer& b = *buffers_.back();
  b.words.resize((bytes + 7) / 8);
  b.size = bytes;
  b.enter(adapter.engine.keys(), tenant.id, pd, access);
  return b;
}

std::uint32_t Process::write_command(TestQp& qp, const Work& work) {
  return engine::write_command(qp, work);
}

void Process::ring(std::uint32_t qpn, std::uint32_t sequence_end) {
  const std::uint32_t at = header().doorbell_producer.load();
  auto* doorbells = reinterpret_cast<abi::Doorbell*>(memory_.base() + abi::kDoorbellOffset);
  doorbells[at % abi::kDoorbellEntries] = {qpn, sequence_end};
  header().doorbell_producer.store(at + 1);
}

void Process::fill_vcb(std::uint32_t i, TestQp& qp, std::uint32_t sequence, std::uint64_t mask) {
  const std::byte* from = qp.slot(sequence);
  abi::VcbPage& page = vcb(i);
  for (unsigned segment = 0; segment < abi::kSegments; ++segment) {
    if ((mask >> segment & 1) == 0 || segment * abi::kSegmentBytes >= qp.stride) continue;
    std::memcpy(page.command + segment * abi::kSegmentBytes, from + segment * abi::kSegmentBytes,
                abi::kSegmentBytes);
  }
  page.scoreboard.store(page.scoreboard.load() | mask, std::memory_order_release);
}

void Process::hand_over(std::uint32_t i) { header().active.fetch_xor(std::uint64_t{1} << i); }

bool Process::vcb_free(std::uint32_t i) const {
  return ((header().active.load() ^ header().released.load()) >> i & 1) == 0;
}

void Process::post(TestQp& qp, const Work& work, Way way) {
  const std::uint32_t sequence = write_command(qp, work);
  for (std::uint32_t i = 0; way == Way::kVcb && i < vcbs_; ++i) {
    if (!vcb_free(i)) continue;
    vcb(i).scoreboard.store(0);
    fill_vcb(i, qp, sequence);
    return hand_over(i);
  }
  ring(qp.qp.qpn.value, qp.sequence);
}

void bring_up(Process& process, TestQp& test, Qpn peer, const Gid& peer_gid, const Connection& c,
              bool to_send) {
  bring_up(process.adapter.engine.queue_pairs(), test, peer, peer_gid, c, to_send);
}

void connect(Process& a, TestQp& qa, Process& b, TestQp& qb, const Connection& connection) {
  bring_up(a, qa, qb.qp.qpn, b.tenant.addresses[0].gid, connection);
  bring_up(b, qb, qa.qp.qpn, a.tenant.addresses[0].gid, connection);
}

void bring_up_datagram(Process& process, TestQp& test, std::uint32_t qkey) {
  bring_up_datagram(process.adapter.engine.queue_pairs(), test, qkey);
}

void provision(Engine& engine, Tenant& tenant, const SrqPolicy& policy, const SrqRules& rules) {
  for (auto& [srq, made] : engine.receive_queues().make_provisioners(tenant, policy, rules))
    engine.receive_queues().start_provisioning(*srq, std::move(made));
  engine.receive_queues().set_policy(tenant, policy, rules);
}

Gid address(std::uint32_t host) { return Gid::from_ipv4(0x0a000000 + host); }

}  // namespace softhca::engine

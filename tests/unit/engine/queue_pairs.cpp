#include "tests/unit/engine/queue_pairs.hpp"

namespace softhca::engine {

void describe(TestQp& test, const QpOptions& o, Session& session, memory::PdId pd, TestCq& send,
              TestCq& receive) {
  QueuePair& qp = test.qp;
  qp.type = o.type;
  qp.session = &session;
  qp.tenant = session.tenant;
  qp.xrc_domain = o.xrc_domain;
  qp.signal_all = o.signal_all;
  if (qp.sends()) {
    qp.pd = pd;
    qp.sq.cq = &send.cq;
  }
  qp.sq.ring = shm::SendRing(test.send_memory.base(), o.send_entries, test.stride);
  qp.rq.ring = shm::ReceiveRing(test.receives.base(), o.receive_entries, o.max_sge);
  if (o.srq != nullptr) qp.srq = &o.srq->srq;
  if (!is_xrc(o.type)) qp.rq.cq = &receive.cq;
}

std::uint32_t write_command(TestQp& qp, const Work& w) {
  abi::CommandHeader h{};
  const bool in_line = (w.flags & abi::kCommandInline) != 0;
  const std::size_t payload = in_line ? w.bytes.size() : w.sge.size() * sizeof w.sge[0];
  h.opcode = static_cast<std::uint8_t>(w.opcode);
  h.flags = w.flags;
  h.payload_bytes = static_cast<std::uint16_t>(payload);
  h.qpn = qp.qp.qpn.value;
  h.sequence = qp.sequence;
  h.remote_addr = w.remote_addr;
  h.rkey = w.rkey;
  h.imm = w.imm;
  h.compare_add = w.compare_add;
  h.swap = w.swap;
  h.remote_qpn = w.remote_qpn;
  h.remote_qkey = w.remote_qkey;
  h.address_handle = w.address_handle;
  h.remote_srq = w.remote_srq;
  std::byte* to = qp.slot(qp.sequence);
  std::memcpy(to, &h, sizeof h);
  const void* from = in_line ? static_cast<const void*>(w.bytes.data()) : w.sge.data();
  if (payload != 0) std::memcpy(to + sizeof h, from, payload);
  return qp.sequence++;
}

void bring_up(QpLifecycle& lifecycle, TestQp& test, Qpn peer, const Gid& peer_gid,
              const Connection& c, bool to_send) {
  QueuePair& qp = test.qp;
  qp.access = c.access;
  qp.connection.destination = qp.rc.destination = peer;
  qp.connection.route.path.source = qp.tenant->addresses[0].gid;
  qp.connection.route.path.port = qp.tenant->addresses[0].port;
  qp.connection.route.path.destination = peer_gid;
  qp.rc.mtu = c.mtu;
  qp.rc.timeout = c.timeout;
  qp.rc.retry_count = c.retry_count;
  qp.rc.rnr_retry = c.rnr_retry;
  qp.rc.min_rnr_timer = c.min_rnr_timer;
  qp.rc.max_rd_atomic = qp.rc.max_dest_rd_atomic = c.max_rd_atomic;
  qp.state = QpState::kInit;
  lifecycle.enter_ready_to_receive(qp, Psn(0xfffff0));
  if (to_send) lifecycle.enter_ready_to_send(qp, Psn(0xfffff0));
}

void bring_up_datagram(QpLifecycle& lifecycle, TestQp& test, std::uint32_t qkey) {
  test.qp.qkey = qkey;
  test.qp.rc.mtu = 1024;
  test.qp.state = QpState::kInit;
  lifecycle.enter_ready_to_receive(test.qp, Psn(0));
  lifecycle.enter_ready_to_send(test.qp, Psn(0));
}

}  // namespace softhca::engine

// Queue pairs as the control layer makes them and a process posts to them, whoever drives them.
#pragma once

#include "tests/unit/engine/process.hpp"

namespace softhca::engine {

/// One of the session, with the rings of `test`; to be installed.
void describe(TestQp& test, const QpOptions& options, Session& session, memory::PdId pd,
              TestCq& send, TestCq& receive);
/// Writes the command into the send queue. Its number.
std::uint32_t write_command(TestQp& qp, const Work& work);
void bring_up(QpLifecycle& lifecycle, TestQp& qp, Qpn peer, const Gid& peer_gid,
              const Connection& connection = {}, bool to_send = true);
void bring_up_datagram(QpLifecycle& lifecycle, TestQp& qp, std::uint32_t qkey);

}  // namespace softhca::engine

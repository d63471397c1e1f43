// Makes queue pairs as the control layer does, and posts to them as a process does. Works with an
// engine and with single parts of it.
#pragma once

#include "tests/unit/engine/process.hpp"

namespace softhca::engine {

/// Fills in a queue pair of the session, with the rings of `test`. The caller installs it.
void describe(TestQp& test, const QpOptions& options, Session& session, memory::PdId pd,
              TestCq& send, TestCq& receive);
/// Writes the command into the send queue. Returns the number of the command.
std::uint32_t write_command(TestQp& qp, const Work& work);
void bring_up(QpLifecycle& lifecycle, TestQp& qp, Qpn peer, const Gid& peer_gid,
              const Connection& connection = {}, bool to_send = true);
void bring_up_datagram(QpLifecycle& lifecycle, TestQp& qp, std::uint32_t qkey);

}  // namespace softhca::engine

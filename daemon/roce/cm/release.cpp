// SPDX-License-Identifier: Apache-2.0

#include "daemon/roce/cm/release.hpp"

#include "daemon/roce/cm/compose.hpp"
#include "daemon/roce/cm/matching.hpp"

namespace softhca::management::cm {

Result Release::disconnect(CommId id, PrivateData private_data, Time now) {
  if (!fits<220>(private_data)) return Result::kTooLong;
  Connection* c = machine_.owned(id);
  if (c == nullptr) return Result::kUnknown;
  if (find_transition(c->state, Input::kDisconnect) == nullptr) return Result::kWrongState;
  const bool asked = c->state == State::kDreqReceived;
  if (!asked) c->transaction_id = sender_.draw_transaction_id(c->id);
  const wire::Mad mad = asked ? compose_drep(*c, private_data) : compose_dreq(*c, private_data);
  return machine_.call(id, Input::kDisconnect, now, {.given = &mad});
}

void Release::receive_dreq(const wire::CmDreq& m, std::uint64_t transaction_id, const Path& path,
                           Time now) {
  Connection* c = match(connections_, m.remote_comm_id, m.local_comm_id, path);
  if (c == nullptr) {
    ++counters_.unknown;
    const wire::CmDrep drep{m.remote_comm_id, m.local_comm_id, {}};
    sender_.reply_stateless(path, wire::encode_cm(drep, transaction_id), now);
    return;
  }
  if (m.remote_qpn != c->queue_pair.local_qpn) {
    ++counters_.unexpected;
    return;
  }
  const State before = c->state;
  if (find_transition(before, Input::kDreq) == nullptr) {
    ++counters_.unexpected;
    return;
  }
  if (before == State::kTimeWait || before == State::kDreqReceived) ++counters_.duplicates;
  c->transaction_id = transaction_id;  // for the answer
  const Event event{.dreq = &m};
  machine_.run(*c, Input::kDreq, now, {.message = &event});
}

}  // namespace softhca::management::cm

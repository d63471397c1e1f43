// SPDX-License-Identifier: Apache-2.0

#include "daemon/roce/cm/service_id_resolution.hpp"

#include <chrono>

#include "daemon/roce/cm/compose.hpp"
#include "daemon/roce/cm/matching.hpp"

namespace softhca::management::cm {
namespace {

/// How long a reply is kept for duplicates of the request. The request gives no time; Linux
/// retransmits every 4.1 s.
constexpr Duration kReplyKept = std::chrono::seconds(10);

}  // namespace

Started ServiceIdResolution::request(const SidrParameters& p, Time now) {
  if (!fits<216>(p.private_data)) return {Result::kTooLong, {}};
  Connection* c = factory_.make(p.path, State::kSidrReqSent);
  if (c == nullptr) return {Result::kNoPlace, {}};
  c->active = true;
  c->cookie = p.cookie;
  c->service_id = p.service_id;
  c->retransmission.set_retries(p.max_cm_retries);
  c->retransmission.set_timeout(local_.limits.bounded(duration_of(p.response_timeout)));
  machine_.begin(*c, compose_sidr_req(*c, p), now);
  return {Result::kOk, c->id};
}

Result ServiceIdResolution::reply(CommId id, const SidrReplyParameters& p, Time now) {
  if (!fits<72>(p.info) || !fits<136>(p.private_data)) return Result::kTooLong;
  const Connection* c = machine_.owned(id);
  if (c == nullptr) return Result::kUnknown;
  const wire::Mad rep = compose_sidr_rep(*c, p);
  return machine_.call(id, Input::kSidrReply, now, {.given = &rep});
}

void ServiceIdResolution::receive_req(const wire::CmSidrReq& m, std::uint64_t transaction_id,
                                      const Path& path, Time now) {
  if (Connection* c = connections_.find_peer({path.remote, 0, m.request_id, true})) {
    ++counters_.duplicates;
    if (!same_ends(c->path, path) || !machine_.run(*c, Input::kSidrReq, now))
      ++counters_.unexpected;
    return;
  }
  Connection* c = factory_.make_half_open(path, State::kSidrReqReceived,
                                          wire::encode_cm(m, transaction_id), now);
  if (c == nullptr) return;
  c->transaction_id = transaction_id;
  c->remote_comm_id = m.request_id;
  c->service_id = m.service_id;
  c->queue_pair.pkey = m.pkey;
  c->linger = local_.limits.bounded(kReplyKept);
  connections_.list_peer(*c);
  const CommId id = c->id;
  const Answer answer = user_.on_sidr_request({id, path, m, now});
  c = connections_.find(id);
  if (c == nullptr) return;
  if (answer.kind == Answer::Kind::kTake) {
    c->cookie = answer.cookie;
    return;
  }
  const wire::Mad refusal = compose_sidr_rep(*c, {.status = answer.status});
  connections_.remove(*c);
  if (answer.kind == Answer::Kind::kSilence) return;
  ++counters_.requests_refused;
  sender_.reply_stateless(path, refusal, now);
}

void ServiceIdResolution::receive_rep(const wire::CmSidrRep& m, const Path& path, Time now) {
  Connection* c = connections_.find(CommId(m.request_id));
  if (c == nullptr || !c->is_service_id_resolution() || !same_ends(c->path, path)) {
    ++counters_.unknown;
    return;
  }
  const Event event{.sidr_rep = &m};
  if (!machine_.run(*c, Input::kSidrRep, now, {.message = &event})) ++counters_.unexpected;
}

}  // namespace softhca::management::cm

// SPDX-License-Identifier: Apache-2.0

#include "daemon/roce/cm/manager.hpp"

#include "daemon/roce/cm/compose.hpp"
#include "daemon/roce/cm/matching.hpp"

namespace softhca::management::cm {

Manager::Manager(CmEnvironment& environment, User& user, std::uint64_t ca_guid,
                 const CmLimits& limits)
    : local_{.ca_guid = ca_guid, .limits = limits},
      connections_(environment.records()),
      sender_(environment, local_, counters_),
      validation_(environment, user, sender_, counters_),
      core_{.user = user,
            .local = local_,
            .connections = connections_,
            .sender = sender_,
            .counters = counters_},
      machine_(core_, validation_),
      factory_(core_, environment, validation_, machine_),
      active_(core_, factory_, machine_),
      passive_(core_, factory_, machine_),
      resolution_(core_, factory_, machine_),
      release_(connections_, machine_, sender_, counters_) {}

// --- messages

void Manager::receive(std::span<const std::byte> mad, const Path& path, Qpn source, Time now) {
  ++counters_.received;
  // A program's own queue pair may not speak for its host.
  if (source.value != wire::kGeneralServicesQpn) {
    ++counters_.wrong_source;
    return;
  }
  const auto header = wire::decode_mad_header(mad);
  if (!header || header->management_class != wire::ManagementClass::kCommunication ||
      header->class_version != wire::kCmClassVersion ||
      header->method != wire::MadMethod::kSendMessage) {
    ++counters_.malformed;
    return;
  }
  Path from = path;
  from.standing = validation_.standing_of(path.remote);
  dispatch(*header, mad.first<wire::kMadBytes>(), from, now);
}

void Manager::dispatch(const wire::MadHeader& header,
                       std::span<const std::byte, wire::kMadBytes> mad, const Path& path,
                       Time now) {
  const std::uint64_t id = header.transaction_id;
  switch (wire::CmAttribute{header.attribute_id}) {
    case wire::CmAttribute::kReq:
      return passive_.receive_req(wire::decode_cm<wire::CmReq>(mad), id, path, now);
    case wire::CmAttribute::kRep:
      return active_.receive_rep(wire::decode_cm<wire::CmRep>(mad), id, path, now);
    case wire::CmAttribute::kMra:
      return receive_mra(wire::decode_cm<wire::CmMra>(mad), path, now);
    case wire::CmAttribute::kRej:
      return receive_rej(wire::decode_cm<wire::CmRej>(mad), path, now);
    case wire::CmAttribute::kDreq:
      return release_.receive_dreq(wire::decode_cm<wire::CmDreq>(mad), id, path, now);
    case wire::CmAttribute::kSidrReq:
      return resolution_.receive_req(wire::decode_cm<wire::CmSidrReq>(mad), id, path, now);
    case wire::CmAttribute::kSidrRep:
      return resolution_.receive_rep(wire::decode_cm<wire::CmSidrRep>(mad), path, now);
    case wire::CmAttribute::kRtu: {
      const auto m = wire::decode_cm<wire::CmRtu>(mad);
      const Event event{.rtu = &m};
      return receive_for(m, Input::kRtu, path, now, {.message = &event});
    }
    case wire::CmAttribute::kDrep:
      return receive_drep(wire::decode_cm<wire::CmDrep>(mad), path, now);
    case wire::CmAttribute::kLap:
      return receive_for(wire::decode_cm<wire::CmLap>(mad), Input::kLap, path, now,
                         {.transaction_id = id});
    default:  // APR too: this side never sends LAP
      ++counters_.malformed;
  }
}

template <class Message>
void Manager::receive_for(const Message& m, Input input, const Path& path, Time now,
                          const Details& details) {
  Connection* c = match(connections_, m.remote_comm_id, m.local_comm_id, path);
  if (c == nullptr) {
    ++counters_.unknown;
    return;
  }
  const State before = c->state;
  if (!machine_.run(*c, input, now, details))
    ++counters_.unexpected;
  else if (input == Input::kRtu && before == State::kEstablished)
    ++counters_.duplicates;
}

/// Handles a DREP. If it belongs to no connection, it may answer a challenge; the requests that
/// waited for the answer are then processed as if they arrived now.
void Manager::receive_drep(const wire::CmDrep& m, const Path& path, Time now) {
  const std::vector<wire::Mad> requests = validation_.take_answer(m, path);
  for (const wire::Mad& request : requests)
    receive(request, path, Qpn(wire::kGeneralServicesQpn), now);
  if (!requests.empty()) return;
  const Event event{.drep = &m};
  receive_for(m, Input::kDrep, path, now, {.message = &event});
}

void Manager::receive_mra(const wire::CmMra& m, const Path& path, Time now) {
  Connection* c = match_answer(connections_, m.remote_comm_id, m.local_comm_id, path);
  if (c == nullptr) {
    ++counters_.unknown;
    return;
  }
  const auto about = c->active ? wire::CmMessage::kReq : wire::CmMessage::kRep;
  const Event event{.mra = &m};
  if (m.message != about ||
      !machine_.run(*c, Input::kMra, now,
                    {.service_timeout = m.service_timeout, .message = &event}))
    ++counters_.unexpected;
}

void Manager::receive_rej(const wire::CmRej& m, const Path& path, Time now) {
  Connection* c = match_rejected(connections_, m, path);
  if (c == nullptr) {
    ++counters_.unknown;
    return;
  }
  const Event event{.rej = &m};
  if (!machine_.run(*c, Input::kRej, now, {.message = &event})) ++counters_.unexpected;
}

void Manager::expire(Time now) { machine_.expire(now); }

// --- calls

Started Manager::connect(const ConnectParameters& parameters, Time now) {
  return active_.connect(parameters, now);
}

Result Manager::confirm(CommId id, Time now, PrivateData private_data) {
  return active_.confirm(id, private_data, now);
}

Started Manager::sidr_request(const SidrParameters& parameters, Time now) {
  return resolution_.request(parameters, now);
}

Result Manager::accept(CommId id, const AcceptParameters& parameters, Time now) {
  return passive_.accept(id, parameters, now);
}

Result Manager::notify_established(CommId id, Time now) {
  return machine_.call(id, Input::kNotifyEstablished, now);
}

Result Manager::send_mra(CommId id, std::uint8_t service_timeout, Time now) {
  return machine_.call(id, Input::kSendMra, now, {.service_timeout = service_timeout});
}

Result Manager::sidr_reply(CommId id, const SidrReplyParameters& parameters, Time now) {
  return resolution_.reply(id, parameters, now);
}

Result Manager::reject(CommId id, const RejectParameters& p, Time now) {
  if (!fits<72>(p.info) || !fits<148>(p.private_data)) return Result::kTooLong;
  const Connection* c = machine_.owned(id);
  if (c == nullptr) return Result::kUnknown;
  const wire::Mad rej = compose_rej(*c, p);
  return machine_.call(id, Input::kReject, now, {.given = &rej});
}

Result Manager::disconnect(CommId id, Time now, PrivateData private_data) {
  return release_.disconnect(id, private_data, now);
}

Result Manager::destroy(CommId id, Time now) { return machine_.call(id, Input::kDestroy, now); }

bool Manager::restore(std::span<const std::byte> state, Time now) {
  const Connection* restored = connections_.restore(state);
  if (restored == nullptr) return false;
  if (restored->state == State::kEstablished)
    validation_.note_established(restored->path.remote, now);
  return true;
}

// --- queries

namespace {

ConnectionView view_of(const Connection& c) {
  return {.id = c.id,
          .cookie = c.cookie,
          .has_user = c.has_user,
          .active = c.active,
          .state = c.state,
          .path = c.path,
          .service_id = c.service_id,
          .remote_comm_id = c.remote_comm_id,
          .local_qpn = c.queue_pair.local_qpn,
          .remote_qpn = c.queue_pair.remote_qpn};
}

}  // namespace

std::optional<State> Manager::state(CommId id) const {
  const Connection* c = connections_.find(id);
  return c == nullptr ? std::nullopt : std::optional(c->state);
}

std::optional<QueuePairAttributes> Manager::queue_pair_attributes(CommId id) const {
  const Connection* c = connections_.find(id);
  if (c == nullptr || c->is_service_id_resolution()) return std::nullopt;
  return c->queue_pair.attributes(c->state, c->path);
}

std::optional<ConnectionView> Manager::view(CommId id) const {
  const Connection* c = connections_.find(id);
  return c == nullptr ? std::nullopt : std::optional(view_of(*c));
}

void Manager::for_each(const std::function<void(const ConnectionView&)>& visit) const {
  connections_.for_each([&](const Connection& c) { visit(view_of(c)); });
}

}  // namespace softhca::management::cm

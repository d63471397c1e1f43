// SPDX-License-Identifier: Apache-2.0

#include "daemon/roce/cm/address_validation.hpp"

#include "daemon/base/endian.hpp"
#include "daemon/roce/cm/matching.hpp"

namespace softhca::management::cm {
namespace {

constexpr std::size_t kEstablishedPeers = 4096;
constexpr std::size_t kAnsweredPeers = 1024;

// A peer retransmits every few seconds. A request that waits longer is not worth its slot.
constexpr Duration kKeptFor = std::chrono::seconds(10);
// A challenge or its answer may be lost. It is sent again when the peer retransmits.
constexpr Duration kAskAgain = std::chrono::milliseconds(100);
// Interval at which the environment is reminded of an established peer: it may remember fewer
// peers.
constexpr Duration kRemind = std::chrono::seconds(10);

/// Returns the first field: the sender's communication id of a REQ, or the request id of a
/// SIDR_REQ.
std::uint32_t id_of(const wire::Mad& request) {
  return load_be<std::uint32_t>(request.data() + wire::kMadHeaderBytes);
}

}  // namespace

Time& RecentPeers::note(const Gid& peer) {
  const auto [at, added] = peers_.try_emplace(peer);
  if (!added) by_order_.erase(at->second.order);
  at->second.order = ++notes_;
  by_order_.emplace(notes_, peer);
  if (peers_.size() > most_) {
    peers_.erase(by_order_.begin()->second);
    by_order_.erase(by_order_.begin());
  }
  return at->second.marked;
}

AddressValidation::AddressValidation(CmEnvironment& environment, User& user, MadSender& sender,
                                     Counters& counters)
    : environment_(environment),
      user_(user),
      sender_(sender),
      counters_(counters),
      established_(kEstablishedPeers),
      answered_(kAnsweredPeers) {
  unasked_.set(kUnasked, Time{});
}

Standing AddressValidation::standing_of(const Gid& peer) const {
  if (established_.contains(peer)) return Standing::kEstablished;
  return answered_.contains(peer) ? Standing::kAnswered : Standing::kUnknown;
}

void AddressValidation::note_established(const Gid& peer, Time now) {
  Time& reminded = established_.note(peer);
  if (reminded != Time::min() && now - reminded < kRemind) return;
  reminded = now;
  environment_.note_established_peer(peer);
}

bool AddressValidation::may_offer_unasked(Time now) {
  if (unasked_.ready_at() > now) return false;
  unasked_.charge(1, now);
  return true;
}

AddressValidation::Question& AddressValidation::question_for(const Path& path, Time now) {
  const auto found = questions_.find(path.remote);
  if (found != questions_.end() && same_ends(found->second.path, path)) {
    if (now - found->second.asked >= kAskAgain) send(found->second, now);
    return found->second;
  }
  if (found != questions_.end()) {  // it asks another address of this side
    kept_ -= found->second.requests.size();
    by_order_.erase(found->second.order);
    questions_.erase(found);
  }
  Question& made = questions_[path.remote];
  made.path = path;
  while (made.id == 0) made.id = environment_.random();
  made.order = ++orders_;
  by_order_.emplace(made.order, path.remote);
  send(made, now);
  return made;
}

void AddressValidation::ask(const Path& path, const wire::Mad& request, Time now) {
  drop_old(now);
  while (kept_ >= kKept) drop_oldest();
  Question& question = question_for(path, now);
  if (question.requests.size() >= kKeptOfPeer) {
    ++counters_.requests_over_limit;
    return user_.on_over_limit(OverLimit::kHalfOpen);
  }
  const std::uint16_t attribute = wire::decode_mad_header(request)->attribute_id;
  kept_ += question.requests.emplace(RequestKey{attribute, id_of(request)}, request).second;
}

/// Sends the challenge. The peer's own id in it is random too, so that it matches no connection of
/// the peer.
void AddressValidation::send(Question& question, Time now) {
  question.asked = now;
  const wire::CmDreq dreq{.local_comm_id = question.id, .remote_comm_id = environment_.random()};
  const CommId id(question.id);
  sender_.send_question(question.path, wire::encode_cm(dreq, sender_.draw_transaction_id(id)), now);
}

void AddressValidation::drop_oldest() {
  const auto oldest = questions_.find(by_order_.begin()->second);
  const std::size_t dropped = oldest->second.requests.size();
  kept_ -= dropped;
  by_order_.erase(by_order_.begin());
  questions_.erase(oldest);
  for (std::size_t i = 0; i < dropped; ++i) {
    ++counters_.requests_over_limit;
    user_.on_over_limit(OverLimit::kHalfOpen);
  }
}

void AddressValidation::drop_old(Time now) {
  while (!by_order_.empty() &&
         now - questions_.find(by_order_.begin()->second)->second.asked >= kKeptFor)
    drop_oldest();
}

std::vector<wire::Mad> AddressValidation::take_answer(const wire::CmDrep& drep, const Path& path) {
  const auto found = questions_.find(path.remote);
  if (found == questions_.end() || found->second.id != drep.remote_comm_id ||
      !same_ends(found->second.path, path))
    return {};
  answered_.note(path.remote);
  std::vector<wire::Mad> requests;
  for (const auto& [key, request] : found->second.requests) requests.push_back(request);
  kept_ -= requests.size();
  by_order_.erase(found->second.order);
  questions_.erase(found);
  return requests;
}

}  // namespace softhca::management::cm

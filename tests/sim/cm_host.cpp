// SPDX-License-Identifier: Apache-2.0

#include "tests/sim/cm_host.hpp"

#include <algorithm>

#include "tests/sim/failure.hpp"

namespace softhca::sim {

using Kind = cm::Event::Kind;

namespace {

constexpr std::uint64_t kService = 0x0000000001060001;

std::uint64_t guid_of(int side) { return 0x0200000000000000u + static_cast<unsigned>(side); }

}  // namespace

CmHost::CmHost(int side, const CmHabits& habits, Link& link, Random& random, CmCounts& counts)
    : side_(side), habits_(habits), link_(link), random_(random), counts_(counts) {
  manager_ = std::make_unique<cm::Manager>(*this, *this, guid_of(side_));
}

void CmHost::restart() {
  add_counts();
  programs_.clear();
  plans_ = {};
  ++generation_;
  next_qpn_ = 1;  // so that queue pairs of before come again
  manager_ = std::make_unique<cm::Manager>(*this, *this, guid_of(side_));
}

void CmHost::close_all(Time now) {
  now_ = now;
  std::vector<std::uint32_t> ids;
  for (const auto& [id, program] : programs_) ids.push_back(id);
  for (const std::uint32_t id : ids) {
    const auto at = programs_.find(id);
    if (at == programs_.end()) continue;
    random_.chance(0.5) ? disconnect(cm::CommId(id), at->second) : die(cm::CommId(id));
  }
}

// --- the wire

/// A frame is the sender's side and the MAD.
void CmHost::send(const cm::Path& path, const wire::Mad& mad) {
  Frame frame(1 + mad.size());
  frame[0] = std::byte(side_);
  std::ranges::copy(mad, frame.begin() + 1);
  link_.send(path.remote == gid_of(0) ? 0 : 1, std::move(frame), now_);
}

void CmHost::receive(int from, std::span<const std::byte> mad, Time now) {
  now_ = now;
  manager_->receive(mad, {.local = gid_of(side_), .remote = gid_of(from)}, Qpn(1), now);
}

void CmHost::step(Time now) {
  now_ = now;
  manager_->expire(now);
  while (!plans_.empty() && plans_.top().at <= now) {
    const Plan next = plans_.top();
    plans_.pop();
    if (next.generation == generation_) carry_out(next);
  }
}

Time CmHost::next_event() const {
  return std::min(manager_->next_deadline(), plans_.empty() ? kNever : plans_.top().at);
}

// --- what the manager tells

cm::Answer CmHost::on_request(const cm::ConnectionRequest& request) {
  if (random_.chance(habits_.silence)) return cm::Answer::silence();
  if (random_.chance(habits_.refuse)) {
    count(CmCount::kRefused);
    return cm::Answer::refuse(wire::CmRejectReason::kInvalidServiceId);
  }
  require(programs_.count(request.id.value) == 0, "an id of a connection is given again");
  const int peer = request.path.remote == gid_of(0) ? 0 : 1;
  Program program{.peer = peer, .peer_generation = hosts[peer]->generation_};
  program.cookie = next_cookie_++;
  enter(request.id, programs_[request.id.value] = program, Phase::kRequested);
  return cm::Answer::take(program.cookie);
}

cm::Answer CmHost::on_sidr_request(const cm::SidrRequest& request) {
  if (random_.chance(habits_.silence)) return cm::Answer::silence();
  if (random_.chance(habits_.refuse)) return cm::Answer::refuse(wire::CmSidrStatus::kUnsupported);
  Program program{.cookie = next_cookie_++};
  enter(request.id, programs_[request.id.value] = program, Phase::kAsked);
  return cm::Answer::take(program.cookie);
}

void CmHost::on_event(const cm::Event& event) {
  const auto at = programs_.find(event.id.value);
  require(at != programs_.end(), "an event for what no program has", event.id.value);
  Program& p = at->second;
  require(p.cookie == event.cookie, "another program's id");
  const auto in = [&](std::initializer_list<Phase> phases) {
    require(std::ranges::find(phases, p.phase) != phases.end(), "event in a wrong phase",
            100 * static_cast<unsigned>(event.kind) + static_cast<unsigned>(p.phase));
  };
  switch (event.kind) {
    case Kind::kReplied:
      in({Phase::kConnecting});
      return enter(event.id, p, Phase::kReplied);
    case Kind::kEstablished:
      in({Phase::kAccepted});
      require(!p.active, "the active side confirms by itself");
      return enter(event.id, p, Phase::kEstablished);
    case Kind::kRejected:
      in({Phase::kConnecting, Phase::kReplied, Phase::kRequested, Phase::kAccepted,
          Phase::kEstablished});
      count(CmCount::kRejected);
      failed_ += p.active;  // a late duplicate may make the passive side accept what is over
      return forget(event.id);
    case Kind::kDelayed:
      return in({Phase::kConnecting, Phase::kAccepted});
    case Kind::kUnreachable:
      in({Phase::kConnecting, Phase::kAccepted, Phase::kDisconnecting, Phase::kEstablished,
          Phase::kAsking});
      count(CmCount::kUnreachable);
      ++failed_;
      if (event.state == cm::State::kDreqSent) return enter(event.id, p, Phase::kClosed);
      return forget(event.id);
    case Kind::kDisconnectRequested:
      in({Phase::kReplied, Phase::kAccepted, Phase::kEstablished});
      count(CmCount::kDisconnectRequested);
      return enter(event.id, p, Phase::kPeerAsked);
    case Kind::kDisconnected:  // also of a connection that was found stale
      in({Phase::kDisconnecting, Phase::kEstablished});
      count(CmCount::kDisconnected);
      return enter(event.id, p, Phase::kClosed);
    case Kind::kTimeWaitOver:
      in({Phase::kClosed});
      count(CmCount::kTimeWaitOver);
      return forget(event.id);
    case Kind::kSidrReplied:
      in({Phase::kAsking});
      count(CmCount::kSidrReplied);
      return forget(event.id);
  }
}

// --- what programs do

Time CmHost::later() {
  const auto longest = static_cast<std::uint64_t>(habits_.longest_thought.count());
  return now_ + Duration(static_cast<Duration::rep>(random_.next() % (longest + 1)));
}

void CmHost::plan(Plan next) {
  next.generation = generation_;
  plans_.push(next);
}

/// Plans what the program does in its new phase.
void CmHost::enter(cm::CommId id, Program& p, Phase phase) {
  p.phase = phase;
  if (phase == Phase::kEstablished) count(CmCount::kEstablished);
  const bool decides = phase == Phase::kReplied || phase == Phase::kRequested ||
                       phase == Phase::kPeerAsked || phase == Phase::kAsked;
  if (decides) plan({later(), Step::kDecide, id});
  if (phase == Phase::kEstablished && random_.chance(0.5)) plan({later(), Step::kDisconnect, id});
  if (random_.chance(habits_.die)) plan({later(), Step::kDie, id});
}

void CmHost::carry_out(const Plan& next) {
  if (next.step == Step::kConnect) return connect(next.to);
  if (next.step == Step::kAsk) return ask(next.to);
  const auto at = programs_.find(next.id.value);
  if (at == programs_.end()) return;
  Program& p = at->second;
  switch (next.step) {
    case Step::kDecide:
      return decide(next.id, p);
    case Step::kDisconnect:
      return disconnect(next.id, p);
    case Step::kDie:
      return die(next.id);
    default:  // a message on the queue pair is faster than RTU
      if (p.phase != Phase::kAccepted) return;
      count(CmCount::kEarly);
      expect(manager_->notify_established(next.id, now_), "established early");
  }
}

void CmHost::connect(int to) {
  const cm::ConnectParameters parameters{
      .cookie = next_cookie_++,
      .path = {.local = gid_of(side_), .remote = gid_of(to)},
      .service_id = kService,
      .local_qpn = Qpn(next_qpn_++),
      .starting_psn = Psn(static_cast<std::uint32_t>(random_.next())),
      .responder_resources = 4,
      .initiator_depth = 5};
  const auto started = manager_->connect(parameters, now_);
  expect(started.result, "connect");
  Program program{.active = true, .peer = to, .peer_generation = hosts[to]->generation_};
  program.cookie = parameters.cookie;
  enter(started.id, programs_[started.id.value] = program, Phase::kConnecting);
}

void CmHost::ask(int to) {
  Program program{.active = true, .peer = to};
  program.cookie = next_cookie_++;
  const auto started =
      manager_->sidr_request({.cookie = program.cookie,
                              .path = {.local = gid_of(side_), .remote = gid_of(to)},
                              .service_id = kService},
                             now_);
  expect(started.result, "ask");
  enter(started.id, programs_[started.id.value] = program, Phase::kAsking);
}

void CmHost::decide(cm::CommId id, Program& p) {
  const bool rejects = random_.chance(habits_.reject);
  const bool asked = p.phase == Phase::kReplied || p.phase == Phase::kRequested;
  if (asked && rejects) {
    expect(manager_->reject(id, {}, now_), "reject");
    return forget(id);
  }
  if (p.phase == Phase::kRequested) {
    expect(manager_->accept(id,
                            {.local_qpn = Qpn(next_qpn_++),
                             .starting_psn = Psn(static_cast<std::uint32_t>(random_.next())),
                             .responder_resources = 2,
                             .initiator_depth = 3},
                            now_),
           "accept");
    return enter(id, p, Phase::kAccepted);
  }
  if (p.phase == Phase::kReplied) {
    expect(manager_->confirm(id, now_), "confirm");
    const auto view = manager_->view(id);
    if (random_.chance(0.2))
      hosts[p.peer]->plan({now_, Step::kEarlyMessage, cm::CommId(view->remote_comm_id)});
    return enter(id, p, Phase::kEstablished);
  }
  if (p.phase == Phase::kPeerAsked) {
    expect(manager_->disconnect(id, now_), "answer to a disconnect");
    return enter(id, p, Phase::kClosed);
  }
  if (p.phase == Phase::kAsked) {
    expect(manager_->sidr_reply(id, {.qpn = Qpn(next_qpn_++)}, now_), "answer to a question");
    forget(id);
  }
}

void CmHost::disconnect(cm::CommId id, Program& p) {
  if (p.phase != Phase::kEstablished) return;
  // The manager itself ends a connection that is found stale.
  if (manager_->state(id) == cm::State::kDreqSent) return;
  expect(manager_->disconnect(id, now_), "disconnect");
  enter(id, p, Phase::kDisconnecting);
}

void CmHost::die(cm::CommId id) {
  count(CmCount::kDestroyed);
  expect(manager_->destroy(id, now_), "destroy");
  forget(id);
}

void CmHost::expect(cm::Result result, const char* what) const {
  require(result == cm::Result::kOk, what, static_cast<unsigned>(result));
}

// --- checks

void CmHost::check_settled() const {
  manager_->for_each([](const cm::ConnectionView& view) {
    require(view.has_user, "left without a user", static_cast<unsigned>(view.state));
    require(view.state == cm::State::kEstablished, "neither connected nor over",
            static_cast<unsigned>(view.state));
  });
  require(manager_->size() == programs_.size(), "programs wait for what is no more",
          programs_.size());
  require(manager_->half_open() == 0, "half open for ever", manager_->half_open());
}

void CmHost::check_empty() const {
  require(programs_.empty(), "programs are left", programs_.size());
  require(manager_->size() == 0, "connections are left", manager_->size());
  require(manager_->next_deadline() == kNever, "timers are left");
}

void CmHost::check_succeeded() const { require(failed_ == 0, "failed for no reason", failed_); }

void CmHost::add_counts() const {
  const cm::Counters& from = manager_->counters();
  const auto add = [this](CmCount to, std::uint64_t n) {
    counts_[static_cast<std::size_t>(to)] += n;
  };
  add(CmCount::kRetries, from.retries);
  add(CmCount::kDuplicates, from.duplicates);
  add(CmCount::kStale, from.stale);
  add(CmCount::kTimeouts, from.timeouts);
  add(CmCount::kUnknown, from.unknown);
}

}  // namespace softhca::sim

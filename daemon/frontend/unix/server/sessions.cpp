// SPDX-License-Identifier: Apache-2.0

#include "daemon/frontend/unix/server/sessions.hpp"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <iterator>
#include <string>
#include <utility>

#include "daemon/control_thread/process_name.hpp"
#include "daemon/device/adapter/control_clock.hpp"
#include "daemon/device/session/restore_sessions.hpp"
#include "daemon/device/session/session_restorer.hpp"
#include "daemon/frontend/unix/server/vcb_adjustment.hpp"
#include "daemon/frontend/unix/sockets/message.hpp"
#include "daemon/live_records/record_body.hpp"

namespace softhca::control {

void Sessions::add(Listener& listener, PeerSocket socket, const PeerIdentity& peer) {
  engine::Tenant& tenant = *listener.tenant;
  configuration::Accounts& accounts = tenant.control.accounts;
  auto descriptors = accounts.take(configuration::Kind::kDescriptors, DeviceSession::kDescriptors);
  const bool charged = static_cast<bool>(descriptors);
  if (!charged) {
    complain_(listener, describe(peer) + ": a session takes " +
                            std::to_string(DeviceSession::kDescriptors) +
                            " descriptors, and the tenant uses " +
                            std::to_string(accounts.in_use(configuration::Kind::kDescriptors)) +
                            " of tenant.descriptors = " +
                            std::to_string(accounts.limit(configuration::Kind::kDescriptors)) +
                            "; raise that, or pools.descriptors");
    if (std::exchange(listener.telling, true)) return;
  }
  UniqueFd pidfd = peer_pidfd(socket.get(), peer);
  if (!pidfd) {
    if (!charged) listener.telling = false;
    if (errno != ESRCH) complain_(listener, strerror(errno));
    return;
  }
  Entry& entry = enter(
      listener,
      std::make_unique<SocketPeer>(adapter_, tenant, std::move(socket), peer, std::move(pidfd)),
      std::move(descriptors));
  if (const auto kept = keep(entry); !kept) {
    complain_(listener, kept.error().message);
    return end(entry);
  }
  if (const auto started = start(entry); !started) {
    complain_(listener, started.error().message);
    end(entry);
  }
}

Sessions::Entry& Sessions::enter(Listener& listener, std::unique_ptr<SocketPeer> peer,
                                 configuration::Charge descriptors) {
  Entry& entry = entries_.emplace_back();
  entry.self = std::prev(entries_.end());
  entry.listener = &listener;
  entry.charged = static_cast<bool>(descriptors);
  ++listener.connections;
  entry.peer = std::move(peer);
  entry.session = std::make_unique<DeviceSession>(adapter_, shared_, *listener.tenant, *entry.peer,
                                                  std::move(descriptors));
  entry.session->set_socket_level(listener.level);
  entry.session->set_ready([this, &entry] { arm(entry, Interest::kWritable); });
  entry.second.record = [this, &entry] {
    if (entry.record && adapter_.records->reserve()) write(entry);
  };
  entry.socket.ready = [this, &entry] { serve(entry); };
  entry.process.ready = [this, &entry] { end(entry); };
  return entry;
}

/// Makes the connection outlive the adapter.
Outcome Sessions::keep(Entry& entry) {
  if (adapter_.keeping == nullptr) return {};
  if (auto reserved = adapter_.records->reserve(); !reserved) return reserved;
  if (auto kept = entry.peer->keep(); !kept) return kept;
  write(entry);
  return {};
}

/// Writes the record of a connection. REQUIRES: there is room.
void Sessions::write(Entry& entry) {
  const Listener& listener = *entry.listener;
  records::BodyWriter body;
  body.add(entry.peer->record())
      .add_text(listener.tenant->name)
      .add_text(listener.level != nullptr ? listener.level->name : "")
      .add(entry.second.may_wait);
  if (entry.record)
    entry.record.replace(body.bytes());
  else
    entry.record = adapter_.records->write(records::Kind::kConnection, body.bytes());
}

void Sessions::restore(records::Adopted& found, const FindListener& find_listener) {
  records::BodyReader body(found.body);
  SocketPeer::KeptPeer kept{};
  std::string tenant, level;
  std::uint8_t second = 0;
  const bool whole =
      body.read(kept) && body.read_text(tenant) && body.read_text(level) && body.read_added(second);
  Listener* const listener = whole ? find_listener(tenant, level) : nullptr;
  if (listener == nullptr)
    return adapter_.note_unfit(tenant,
                               "the record of a session does not fit; its connection is closed");
  if (found.state == records::SlotState::kDying) return;
  const WorkingOn working(adapter_.pulse, {Subject::Kind::kConnection, kept.socket});
  auto peer = SocketPeer::restore(adapter_, *listener->tenant, kept);
  if (peer == nullptr) return;  // the earlier adapter has ended it
  auto& accounts = listener->tenant->control.accounts;
  Entry& entry =
      enter(*listener, std::move(peer),
            accounts.take(configuration::Kind::kDescriptors, DeviceSession::kDescriptors));
  entry.record = std::move(found.record);
  entry.interest = Interest::kNothing;
  entry.second.may_wait = second != 0;
  settle_waiting(entry);
  if (!entry.charged) listener->telling = true;
}

/// Settles the request that waits in the socket.
void Sessions::settle_waiting(Entry& entry) {
  const int socket = entry.peer->socket();
  const auto waiting = peek_request(socket);
  if (!waiting) return;
  // A process waits for the reply to one request before it sends the next one.
  const bool has_reply = has_unread(socket) && !entry.second.may_wait;
  if (has_reply || waiting_bytes(socket) > waiting->bytes) return take_record(socket);
  // The process knows nothing of a session that it has not been told of.
  entry.greets_again =
      waiting->header.operation == static_cast<std::uint32_t>(abi::Operation::kHello);
  if (!entry.greets_again) SessionRestorer(*entry.session).expect_repetition();
}

Outcome Sessions::restore_objects(std::span<records::Adopted> left) {
  const auto unfit = restore_sessions(adapter_, shared_, left,
                                      [this](KeptId connection) { return find(connection); });
  if (!unfit) return unfit.error();
  for (const UnfitSession& session : *unfit) {
    const auto entry = std::ranges::find(entries_, session.connection,
                                         [](const Entry& each) { return each.peer->kept(); });
    ::shutdown(entry->peer->socket(), SHUT_RDWR);
    const std::string what = "is left out (" + session.why + "); its connection is closed";
    note(*entry->session, "culprit", what.c_str());
  }
  return {};
}

DeviceSession* Sessions::find(KeptId connection) const {
  for (const Entry& entry : entries_)
    if (entry.peer->kept() == connection && !entry.greets_again) return entry.session.get();
  return nullptr;
}

Outcome Sessions::start() {
  for (Entry& entry : entries_)
    if (auto started = start(entry); !started) return started;
  return {};
}

/// Serves a session from now on.
Outcome Sessions::start(Entry& entry) {
  engine::Tenant& tenant = *entry.listener->tenant;
  entry.interest = Interest::kReadable;
  auto watched = loops_.watch(tenant, entry.peer->socket(), entry.socket);
  if (!watched) return watched;
  return loops_.watch(tenant, entry.peer->pidfd(), entry.process);
}

void Sessions::serve(Entry& entry) {
  const WorkingOn working(adapter_.pulse, {Subject::Kind::kConnection, entry.peer->kept()});
  DeviceSession& session = *entry.session;
  const bool greeted = session.greeted();
  const bool goes_on = serve_session(*entry.peer, session, entry.second);
  if (const std::string refusal = session.take_refusal(); !refusal.empty())
    complain_(*entry.listener, describe(session.process()) + ": " + refusal);
  if (!greeted && session.greeted()) note(session, "session_opened", "connected");
  if (auto request = session.become_channel()) {
    engine::Tenant& tenant = *entry.listener->tenant;
    loops_.unwatch(tenant, entry.peer->socket());
    auto peer = entry.peer->take_for_channel();
    end(entry);
    return become_channel_(tenant, std::move(peer), std::move(*request));
  }
  if (!goes_on) return end(entry);
  Interest interest = session.has_more() ? Interest::kWritable : Interest::kReadable;
  if (session.is_waiting()) interest = Interest::kNothing;
  arm(entry, interest);
}

void Sessions::arm(Entry& entry, Interest interest) {
  if (entry.ending) return;
  if (std::exchange(entry.interest, interest) == interest) return;
  if (!loops_.arm(entry.session->tenant(), entry.peer->socket(), entry.socket, interest))
    end(entry);
}

/// Ends a session: its process has gone or has broken the protocol. Work for which the rest of
/// `turn` is too short is done in later turns of the tenant.
void Sessions::end(Entry& entry, const Turn& turn) {
  if (std::exchange(entry.ending, true)) return;
  const WorkingOn working(adapter_.pulse, {Subject::Kind::kConnection, entry.peer->kept()});
  DeviceSession& session = *entry.session;
  entry.record.set_state(records::SlotState::kDying);
  // softhca-run only checks that a daemon answers. Events of such connections would displace
  // others.
  if (session.greeted()) note(session, "session_closed", "left");
  if (entry.peer->socket() >= 0) loops_.unwatch(session.tenant(), entry.peer->socket());
  loops_.unwatch(session.tenant(), entry.peer->pidfd());
  if (!turn.is_over() && session.end(turn)) return finish(entry);
  loops_.add_work(session.tenant(), [this, &entry] {
    const bool over = entry.session->end(Turn());
    if (over) finish(entry);
    return !over;
  });
}

void Sessions::finish(Entry& entry) {
  --entry.listener->connections;
  if (!entry.charged) entry.listener->telling = false;
  entries_.erase(entry.self);
}

/// Adds an entry to the journal, for the operator.
void Sessions::note(const DeviceSession& session, const char* kind, const char* what) {
  const auto process = static_cast<std::uint32_t>(session.process().pid);
  adapter_.journal.add({.kind = kind,
                        .tenant = session.tenant().name,
                        .text = "process " + std::to_string(process) + " " + what,
                        .process = process});
}

void Sessions::tell_late_memory() {
  constexpr auto kInterval = std::chrono::seconds(10);
  if (now() - told_late_memory_ < kInterval) return;
  for (const auto& tenant : adapter_.tenants) {
    const auto tell = [&](std::uint64_t& told, std::uint64_t times, const char* kind,
                          const char* text) {
      if (std::exchange(told, times) == times) return;
      told_late_memory_ = now();
      adapter_.journal.add({.kind = kind, .tenant = tenant->name, .text = text});
    };
    tell(tenant->control.late_accesses_told, tenant->counters.memory.late_accesses.value(),
         "memory_late",
         "an access to its programs' memory timed out; until it returns, all accesses to memory "
         "that they do not share fail");
    tell(tenant->control.slow_memory_told, tenant->counters.memory.held.value(), "memory_slow",
         "its programs' memory is slow (page faults); its messages are delayed so that other "
         "tenants are not");
  }
}

std::vector<const DeviceSession*> Sessions::all() const {
  std::vector<const DeviceSession*> out;
  for (const Entry& entry : entries_) out.push_back(entry.session.get());
  return out;
}

bool Sessions::is_of(const Entry& entry, const engine::Level& level) {
  return entry.listener->level == &level || entry.session->object_counts().level == &level ||
         entry.session->has_queue_pairs_of(level);
}

std::uint64_t Sessions::count(const engine::Level& level) const {
  std::uint64_t count = 0;
  for (const Entry& entry : entries_) count += is_of(entry, level);
  return count;
}

std::uint64_t Sessions::undivided(const engine::Tenant& tenant) const {
  std::uint64_t count = 0;
  for (const Entry& entry : entries_) {
    const DeviceSession::ObjectCounts counts = entry.session->object_counts();
    count += &entry.session->tenant() == &tenant && counts.id != 0 && counts.level == nullptr;
  }
  return count;
}

std::uint32_t Sessions::oldest(const engine::Tenant& tenant) const {
  std::uint32_t oldest = adapter_.next_session;
  for (const Entry& entry : entries_) {
    const std::uint32_t id = entry.session->object_counts().id;
    if (&entry.session->tenant() == &tenant && id != 0) oldest = std::min(oldest, id);
  }
  return oldest;
}

template <class Which>
void Sessions::end_if(Which&& which) {
  const Turn turn;
  for (auto entry = entries_.begin(); entry != entries_.end();) {
    Entry& ending = *entry++;
    if (which(ending)) end(ending, turn);
  }
}

void Sessions::end(const engine::Tenant& tenant) {
  end_if([&](const Entry& entry) { return &entry.session->tenant() == &tenant; });
}

void Sessions::end(const engine::Level& level) {
  end_if([&](const Entry& entry) { return is_of(entry, level); });
}

void Sessions::adjust_vcbs() {
  std::vector<VcbHolder> holders;
  for (const Entry& entry : entries_)
    if (const VcbHolder holder = entry.session->vcb_holder();
        holder.session != nullptr && !entry.ending)
      holders.push_back(holder);
  control::adjust_vcbs(adapter_, holders);
}

void Sessions::report_link(const engine::Tenant& tenant, std::uint8_t device, std::uint8_t port,
                           bool up) {
  for (const Entry& entry : entries_)
    if (&entry.session->tenant() == &tenant) entry.session->report_link(device, port, up);
}

void Sessions::report_addresses(const engine::Tenant& tenant) {
  for (const Entry& entry : entries_)
    if (&entry.session->tenant() == &tenant) entry.session->report_addresses();
}

}  // namespace softhca::control

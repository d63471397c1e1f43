// SPDX-License-Identifier: Apache-2.0

#include "daemon/frontend/unix/server/channels.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

#include "daemon/frontend/unix/sockets/message.hpp"
#include "daemon/services/event_channel.hpp"

namespace softhca::control {
namespace {

/// Settles the request that waits in the socket of an open channel. One that opens a channel of
/// which its process does not know stays there, and ends the channel: the process connects again.
void settle_waiting(SocketPeer& peer, const TenantChannel& channel) {
  const auto waiting = peek_request(peer.socket());
  if (!waiting) return;
  const auto operation = static_cast<abi::Operation>(waiting->header.operation);
  // A datagram may be lost, but must not come twice.
  const bool may_have_left = channel.kind() == TenantChannel::Kind::kDatagrams &&
                             operation == abi::Operation::kSendDatagram;
  if (may_have_left) peer.answer(waiting->header.tag, 0, {});
  const bool has_opened = operation == abi::Operation::kOpenEventChannel ||
                          operation == abi::Operation::kOpenDatagramClient;
  if (may_have_left || (has_opened && channel.is_known())) take_record(peer.socket());
}

}  // namespace

void Channels::add(engine::Tenant& tenant, std::unique_ptr<SocketPeer> peer,
                   ChannelRequest request) {
  Kept kept;
  const auto open = [&](const ChannelRequest& asked, const Peer& of, Reply& reply,
                        std::unique_ptr<TenantChannel>& out) {
    const int error = asked.operation == abi::Operation::kOpenDatagramClient
                          ? DatagramClient::open(datagrams_, tenant, asked, of, reply, out)
                          : EventChannel::open(connections_, tenant, asked, of, reply, out);
    return error != 0 ? error : record(kept, out->kind(), SocketChannel::state_of(of, *out));
  };
  auto channel = SocketChannel::open(std::move(peer), std::move(request), open);
  if (channel != nullptr && !start(std::move(kept), std::move(channel)))
    end(entries_.back(), Turn());
}

/// Makes a channel outlive the adapter, or updates its record. Returns 0 or an errno value.
int Channels::record(Kept& kept, TenantChannel::Kind kind, std::vector<std::byte> state) {
  if (adapter_.keeping == nullptr || state == kept.state) return 0;
  if (const auto reserved = adapter_.records->reserve(); !reserved) return reserved.error().code;
  if (kept.record)
    kept.record.replace(state);
  else
    kept.record = adapter_.records->write(kind == TenantChannel::Kind::kEvents
                                              ? records::Kind::kEventChannel
                                              : records::Kind::kDatagramClient,
                                          state);
  kept.state = std::move(state);
  return 0;
}

Outcome Channels::restore(records::Adopted& found) {
  records::BodyReader body(found.body);
  KeptId connection = 0;
  std::string name;
  engine::Tenant* tenant = nullptr;
  const bool whole = body.read(connection) && body.read_text(name);
  for (const auto& each : adapter_.tenants)
    if (each->name == name) tenant = each.get();
  const auto unfit = [&] {
    adapter_.note_unfit(name, "the record of a channel does not fit; its connection is closed");
    return Outcome();
  };
  if (!whole || tenant == nullptr) return unfit();
  const WorkingOn working(adapter_.pulse, {Subject::Kind::kConnection, connection});
  auto peer = SocketPeer::restore(adapter_, *tenant, {.socket = connection});
  if (peer == nullptr || found.state == records::SlotState::kDying) return {};  // it has ended
  auto channel = found.kind == records::Kind::kEventChannel
                     ? EventChannel::restore(connections_, *tenant, body, *peer)
                     : DatagramClient::restore(datagrams_, *tenant, body, *peer);
  if (channel == nullptr) return unfit();
  settle_waiting(*peer, *channel);
  auto descriptors = tenant->control.accounts.take(configuration::Kind::kDescriptors,
                                                   ChannelRequest::kDescriptors);
  return start(
      {std::move(found.record), std::move(found.body)},
      SocketChannel::restored(std::move(peer), std::move(descriptors), std::move(channel)));
}

/// Serves a channel from now on.
Outcome Channels::start(Kept kept, std::unique_ptr<SocketChannel> channel) {
  Entry& entry = entries_.emplace_back();
  entry.self = std::prev(entries_.end());
  entry.kept = std::move(kept);
  entry.channel = std::move(channel);
  entry.watch.ready = [this, &entry] { serve(entry); };
  return loops_.watch(entry.channel->tenant(), entry.channel->socket(), entry.watch);
}

void Channels::serve(Entry& entry) {
  const WorkingOn working(adapter_.pulse, {Subject::Kind::kConnection, entry.channel->kept()});
  if (!entry.channel->serve()) return end(entry, Turn());
  // A request may have changed what restores it. The process has its reply: an error comes too
  // late.
  (void)record(entry.kept, entry.channel->kind(), entry.channel->state());
}

/// Ends a channel. Work for which the rest of `turn` is too short is done in later turns of the
/// tenant.
void Channels::end(Entry& entry, const Turn& turn) {
  const std::shared_ptr<SocketChannel> channel = entry.channel;
  entry.kept.record.set_state(records::SlotState::kDying);
  if (!std::exchange(entry.ending, true))
    loops_.unwatch(channel->tenant(), channel->socket());
  else if (!turn.is_endless())
    return;
  if (!turn.is_over() && channel->end(turn)) return void(entries_.erase(entry.self));
  loops_.add_work(channel->tenant(), [this, left = std::weak_ptr(channel), &entry] {
    const auto ending = left.lock();
    if (ending == nullptr) return false;  // an endless turn has ended it
    const bool over = ending->end(Turn());
    if (over) entries_.erase(entry.self);
    return !over;
  });
}

template <class Which>
void Channels::end_if(const Turn& turn, Which&& which) {
  for (auto entry = entries_.begin(); entry != entries_.end();) {
    Entry& ending = *entry++;
    if (which(*ending.channel)) end(ending, turn);
  }
}

std::uint64_t Channels::count(const engine::Tenant& tenant, TenantChannel::Kind kind) const {
  return static_cast<std::uint64_t>(
      std::count_if(entries_.begin(), entries_.end(), [&](const Entry& entry) {
        return &entry.channel->tenant() == &tenant && entry.channel->kind() == kind;
      }));
}

void Channels::end(const engine::Tenant& tenant) {
  end_if(Turn(), [&](const SocketChannel& channel) { return &channel.tenant() == &tenant; });
}

void Channels::end(const engine::Tenant& tenant, TenantChannel::Kind kind, const Turn& turn) {
  end_if(turn, [&](const SocketChannel& channel) {
    return &channel.tenant() == &tenant && channel.kind() == kind;
  });
}

}  // namespace softhca::control

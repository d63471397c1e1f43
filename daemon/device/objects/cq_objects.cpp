// SPDX-License-Identifier: Apache-2.0

#include "daemon/device/objects/cq_objects.hpp"

#include <algorithm>
#include <bit>
#include <cerrno>
#include <utility>
#include <vector>

#include "daemon/engine/requests/completion_queue_requests.hpp"

namespace softhca::control {

bool CqObjects::end(const Turn& turn) {
  if (!context_.remove_all(turn, cqs_, [](CqObject& cq) { return engine::RemoveCq{cq.engine}; }))
    return false;
  while (const auto channel = channels_.remove_last()) {
    context_.await_event(channel->events->number());
    if (turn.is_over()) return false;
  }
  return true;
}

int CqObjects::create_channel(const RequestBody& body, Reply& reply) {
  if (!body.empty()) return EINVAL;
  if (context_.peer().is_stuck())
    return context_.refuse(EBUSY, "too many closed channels of the tenant wait to be closed here");
  // Does not look at every call: the time to create many channels would grow with the square of
  // their number.
  if (channels_.size() >= enough_channels_) drop_closed_channels();
  auto channel = std::make_unique<Channel>();
  channel->descriptor = context_.take(configuration::Kind::kDescriptors);
  if (!channel->descriptor && drop_closed_channels())
    channel->descriptor = context_.take(configuration::Kind::kDescriptors);
  if (!channel->descriptor) return ENOMEM;
  if (const int error = context_.peer().make_events(channel->events, reply)) return error;
  Channel& made = *channel;
  const std::uint32_t handle = channels_.add(std::move(channel));
  made.record = context_.write_object(
      records::Kind::kCompletionChannel,
      record::CompletionChannel{
          .key = context_.record_key(), .events = made.events->kept(), .handle = handle});
  reply.write(abi::HandleBody{handle, 0});
  return 0;
}

bool CqObjects::restore_channel(const record::CompletionChannel& kept, records::Record record) {
  auto channel = std::make_unique<Channel>();
  channel->descriptor = context_.take(configuration::Kind::kDescriptors);
  channel->events = context_.peer().restore_events(kept.events);
  channel->record = std::move(record);
  return channel->events != nullptr &&
         channels_.add(std::move(channel), static_cast<std::uint32_t>(kept.handle)) != nullptr;
}

/// Drops the channels that the process has closed; no request destroys them. Returns true if there
/// were any.
bool CqObjects::drop_closed_channels() {
  std::vector<const EventEnd*> ends;
  std::vector<std::uint32_t> handles;
  channels_.for_each([&](std::uint32_t handle, const Channel& channel) {
    if (channel.users != 0) return;
    ends.push_back(channel.events.get());
    handles.push_back(handle);
  });
  const std::vector<bool> closed = context_.peer().are_closed(ends);
  for (std::size_t i = 0; i < ends.size(); ++i)
    if (closed[i]) channels_.remove(handles[i]);
  constexpr std::size_t kFew = 16;
  enough_channels_ = std::max<std::size_t>(kFew, 2 * channels_.size());
  return std::ranges::find(closed, true) != closed.end();
}

std::uint32_t CqObjects::max_entries() const {
  constexpr std::uint32_t kMost = configuration::DeviceConfig::kMaxCqe;
  if (context_.machine() == nullptr) return kMost;
  const std::size_t ring = context_.machine()->rings_bytes() / 2;
  return std::min(kMost, std::bit_floor(shm::CompletionRing::entries_in(ring)));
}

int CqObjects::check_entries(std::uint32_t entries) const {
  const std::uint32_t most = max_entries();
  if (entries != 0 && entries <= most) return 0;
  return context_.refuse(EINVAL, "cqe %u, must be 1 to %u", entries, most);
}

int CqObjects::create(const RequestBody& body, Reply& reply) {
  abi::CreateCqRequest request;
  if (!body.read(request)) return EINVAL;
  if (const int error = check_entries(request.entries)) return error;
  Channel* channel = nullptr;
  if (request.channel != abi::kNoHandle) {
    channel = channels_.find(request.channel);
    if (channel == nullptr) return context_.refuse_unknown("completion channel");
  }

  auto cq = std::make_unique<CqObject>();
  cq->charge = context_.take(configuration::Kind::kCompletionQueues);
  if (!cq->charge) return ENOMEM;
  const std::uint32_t entries = std::bit_ceil(request.entries);
  abi::CreateCqReply out{};
  const std::size_t bytes = shm::CompletionRing::bytes_for(entries);
  if (const int error = rings_.allocate(bytes, reply, cq->ring, out.new_segment)) return error;
  cq->engine.session = &context_.engine_session();
  cq->engine.ring = shm::CompletionRing(cq->ring.base, entries);
  cq->engine.user_handle = request.user_handle;
  cq->channel = request.channel;
  if (channel != nullptr) {
    cq->engine.completion_end = channel->events->number();
    ++channel->users;
  }
  out.entries = entries;
  out.ring = cq->ring.location;
  CqObject& made = *cq;
  out.handle = made.handle = cqs_.add(std::move(cq));
  write(made);
  reply.write(out);
  return 0;
}

/// Writes the record of a queue that is in `ring`, or that moves there from `retired`.
void CqObjects::write(CqObject& cq, const abi::RingLocation& ring,
                      const abi::RingLocation& retired) const {
  const record::CompletionQueue kept{.key = context_.record_key(),
                                     .user_handle = cq.engine.user_handle,
                                     .handle = cq.handle,
                                     .entries = shm::CompletionRing::entries_in(ring.bytes),
                                     .channel = cq.channel,
                                     .moderation_count = cq.moderation.count,
                                     .moderation_period = cq.moderation.period,
                                     .ring = ring,
                                     .retired = retired};
  if (cq.record)
    cq.record.replace(std::as_bytes(std::span(&kept, 1)));
  else
    cq.record = context_.write_object(records::Kind::kCompletionQueue, kept);
}

bool CqObjects::restore(const record::CompletionQueue& kept, records::Record record) {
  Channel* const channel = channels_.find(kept.channel);
  if ((channel == nullptr) != (kept.channel == abi::kNoHandle)) return false;
  if (!std::has_single_bit(kept.entries) ||
      kept.ring.bytes != shm::CompletionRing::bytes_for(kept.entries))
    return false;
  auto cq = std::make_unique<CqObject>();
  cq->charge = context_.take(configuration::Kind::kCompletionQueues);
  if (!rings_.restore(kept.ring, cq->ring)) return false;
  if (kept.retired.bytes != 0 && !rings_.restore(kept.retired, cq->retired)) return false;
  // The earlier adapter ended while it resized the queue, perhaps before its engine had moved it.
  const bool resizes = kept.retired.bytes != 0;
  if (resizes && shm::CompletionRing::moved_by(cq->ring.base) == 0)
    std::swap(cq->ring, cq->retired);
  const std::uint32_t entries = shm::CompletionRing::entries_in(cq->ring.location.bytes);
  if (!std::has_single_bit(entries) ||
      cq->ring.location.bytes != shm::CompletionRing::bytes_for(entries))
    return false;
  cq->engine.session = &context_.engine_session();
  cq->engine.ring = shm::CompletionRing(cq->ring.base, entries);
  cq->engine.user_handle = kept.user_handle;
  cq->channel = kept.channel;
  if (channel != nullptr) {
    cq->engine.completion_end = channel->events->number();
    ++channel->users;
  }
  cq->handle = kept.handle;
  cq->record = std::move(record);
  cq->moderation = {kept.handle, kept.moderation_count, kept.moderation_period};
  CqObject* const made = cqs_.add(std::move(cq), kept.handle);
  if (made == nullptr) return false;
  context_.on_engine(engine::RestoreCq{made->engine});
  moderate(*made);
  if (resizes) write(*made);
  return true;
}

int CqObjects::resize(const RequestBody& body, Reply& reply) {
  abi::ResizeCqRequest request;
  if (!body.read(request)) return EINVAL;
  CqObject* cq = cqs_.find(request.handle);
  if (cq == nullptr) return context_.refuse_unknown("completion queue");
  if (const int error = check_entries(request.entries)) return error;

  const std::uint32_t entries = std::bit_ceil(request.entries);
  abi::CreateCqReply out{};
  const auto answer = [&] {
    out.ring = cq->ring.location;
    out.handle = request.handle;
    out.entries = cq->engine.ring.entries();
    reply.write(out);
    return 0;
  };
  if (context_.repeats() && shm::CompletionRing::moved_by(cq->ring.base) == context_.request())
    return answer();  // the earlier adapter has done it
  Ring ring;
  const std::size_t bytes = shm::CompletionRing::bytes_for(entries);
  if (!rings_.has_sealed_room(bytes)) return rings_.reserve<abi::CreateCqReply>(bytes, reply);
  if (const int error = rings_.allocate(bytes, reply, ring, out.new_segment)) return error;
  // Commands posted before this request complete, if they can, before the backlog is read. Programs
  // expect a refusal because of completions that are certain to come.
  constexpr int kStepsOfACommand = 8;
  for (int i = 0; entries < cq->engine.ring.entries() && i < kStepsOfACommand; ++i)
    context_.on_engine(engine::UnparkSession{context_.engine_session()});
  // The record has both rings before the engine moves the queue. Only then the new one says so.
  write(*cq, ring.location, cq->ring.location);
  const bool resized = context_.on_engine(engine::ResizeCq{.cq = cq->engine,
                                                           .base = ring.base,
                                                           .entries = entries,
                                                           .most = request.entries,
                                                           .by = context_.request()});
  if (!resized) {
    write(*cq);
    rings_.release(ring);
    return context_.refuse(EINVAL, "cqe %u is below the completions in the queue", request.entries);
  }
  // The process reads the rest of the old ring before its next request, which may use the place.
  Ring former = std::exchange(cq->ring, std::move(ring));
  write(*cq);
  rings_.release(former);
  rings_.release(cq->retired);
  return answer();
}

int CqObjects::modify(const RequestBody& body, Reply&) {
  abi::ModifyCqRequest request;
  if (!body.read(request)) return EINVAL;
  CqObject* cq = cqs_.find(request.handle);
  if (cq == nullptr) return context_.refuse_unknown("completion queue");
  cq->moderation = request;
  moderate(*cq);
  write(*cq);
  return 0;
}

void CqObjects::moderate(CqObject& cq) const {
  context_.on_engine(engine::ModerateCq{.cq = cq.engine,
                                        .count = cq.moderation.count,
                                        .period = std::chrono::microseconds(cq.moderation.period)});
}

/// Refuses to destroy an unknown queue. The provider itself sends kNoHandle (CreateCqReply).
int CqObjects::refuse_destroy(std::uint32_t handle) const {
  return handle == abi::kNoHandle ? EINVAL : context_.refuse_unknown("completion queue");
}

int CqObjects::destroy(const RequestBody& body, Reply&) {
  abi::HandleBody request;
  if (!body.read(request)) return EINVAL;
  const CqObject* found = cqs_.find(request.handle);
  if (found == nullptr) return refuse_destroy(request.handle);
  if (found->queue_pairs != 0 || found->shared_receive_queues != 0)
    return context_.refuse(
        EBUSY, "in use by %s",
        found->queue_pairs != 0
            ? counted(found->queue_pairs, "queue pair").c_str()
            : counted(found->shared_receive_queues, "shared receive queue").c_str());
  const auto cq = cqs_.remove(request.handle);
  context_.on_engine(engine::RemoveCq{cq->engine});
  context_.await_event(cq->engine.completion_end);
  if (Channel* channel = channels_.find(cq->channel)) --channel->users;
  cq->record.erase();
  rings_.release(cq->ring);
  rings_.release(cq->retired);
  return 0;
}

}  // namespace softhca::control

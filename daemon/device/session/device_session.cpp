// SPDX-License-Identifier: Apache-2.0

#include "daemon/device/session/device_session.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <iterator>
#include <utility>

#include "daemon/base/sealed_memory.hpp"

namespace softhca::control {
DeviceSession::DeviceSession(Adapter& adapter, SharedObjects& shared, engine::Tenant& tenant,
                             Peer& peer, configuration::Charge descriptors)
    : adapter_(adapter),
      descriptors_(std::make_shared<configuration::Charge>(std::move(descriptors))),
      context_(adapter, tenant, peer),
      monitor_(adapter, context_),
      rings_(context_),
      buffers_(context_, shared.shared_names),
      pds_(context_, shared),
      attachment_(adapter, context_),
      regions_(context_, pds_, buffers_),
      windows_(context_, pds_),
      cqs_(context_, rings_),
      xrc_domains_(context_, shared.xrc_domains),
      srqs_(context_, rings_, pds_, cqs_, xrc_domains_),
      ahs_(context_, pds_),
      qps_(context_, rings_, pds_, cqs_, srqs_, xrc_domains_) {
  tenant.control.accounts.add(*this);
}

DeviceSession::~DeviceSession() {
  end(Turn::endless());
  context_.tenant().control.accounts.remove(*this);
}

bool DeviceSession::end(const Turn& turn) {
  context_.peer().end();
  sealing_ = nullptr;
  unfinished_.clear();
  // The engine drops objects before those that they use.
  const bool forgotten = qps_.end(turn) && ahs_.end(turn) && srqs_.end(turn) &&
                         xrc_domains_.end(turn) && cqs_.end(turn) && windows_.end(turn) &&
                         regions_.end(turn);
  if (!forgotten) return false;
  attachment_.close();
  if (!pds_.end(turn) || !buffers_.end(turn)) return false;
  monitor_.end();
  return true;
}

/// Queue pairs join and leave levels only by requests of this thread.
bool DeviceSession::has_queue_pairs_of(const engine::Level& level) const {
  return attachment_.is_open() && attachment_.session()->is_elsewhere_on(level);
}

DeviceSession::ObjectCounts DeviceSession::object_counts() const {
  const engine::Session* session = attachment_.session();
  return {.id = session != nullptr ? session->id.value : 0,
          .level = session != nullptr ? session->level : nullptr,
          .device = context_.device_index(),
          .vcbs = attachment_.vcbs().count(),
          .protection_domains = pds_.size(),
          .completion_queues = cqs_.size(),
          .shared_receive_queues = srqs_.size(),
          .memory_regions = regions_.size(),
          .address_handles = ahs_.size(),
          .queue_pairs = qps_.size()};
}

std::uint64_t DeviceSession::idle(configuration::Kind kind) const {
  if (kind == configuration::Kind::kSharedBytes) return buffers_.idle_bytes();
  return kind == configuration::Kind::kMappings ? buffers_.idle_count() + rings_.idle_count() : 0;
}

void DeviceSession::give_up_idle(configuration::Kind kind) {
  if (kind == configuration::Kind::kMappings && rings_.idle_count() != 0)
    rings_.give_up_idle();
  else
    buffers_.give_up_oldest();
}

bool DeviceSession::go_on() {
  if (const auto sealing = std::exchange(sealing_, nullptr); sealing && !sealing->outcome) {
    refusal_ = "the daemon cannot seal its memory: " + sealing->outcome.error().message;
    return false;
  }
  return answer(std::exchange(unfinished_, {}), true);
}

/// Seals memory on a thread of the tenant, behind the tenant's other calls. The session continues
/// when all is sealed. `accounts` end with the descriptors.
void DeviceSession::seal(std::vector<DescriptorToSeal> fds,
                         std::vector<std::shared_ptr<void>> accounts) {
  sealing_ = std::make_shared<Sealing>(Sealing{.fds = std::move(fds), .outcome = {}});
  const auto call = [sealing = sealing_, helpers = context_.helpers()] {
    for (const DescriptorToSeal& fd : sealing->fds)
      if (sealing->outcome && !SealedMemory::has_sealed_holes(fd.get()))
        sealing->outcome = control::seal(helpers, fd.get());
    sealing->fds.clear();
  };
  const auto then = [this, sealing = std::weak_ptr(sealing_), accounts = std::move(accounts)] {
    const auto ours = sealing.lock();
    if (ours == nullptr) return;  // the session is over
    ours->over = true;
    if (const auto ready = ready_) ready();  // may end the session
  };
  context_.make_blocking_call(call, then);
}

/// Keeps the descriptors that the process has not sealed itself. Another thread closes the others:
/// locks that a process has set on a file make that slow.
void DeviceSession::close_sealed(std::vector<DescriptorToSeal>& fds,
                                 const std::vector<std::shared_ptr<void>>& accounts) {
  const auto first_sealed = std::partition(fds.begin(), fds.end(), [](const DescriptorToSeal& fd) {
    return !SealedMemory::has_sealed_holes(fd.get());
  });
  if (first_sealed == fds.end()) return;
  const auto sealed = std::make_shared<std::vector<DescriptorToSeal>>(
      std::make_move_iterator(first_sealed), std::make_move_iterator(fds.end()));
  fds.erase(first_sealed, fds.end());
  closing_ = sealed;
  context_.make_blocking_call([sealed] { sealed->clear(); }, [accounts] {});
}

/// Seals the memory that the process has mapped. A process maps what a reply announces before it
/// sends another request (abi/control.hpp). Returns false if there is nothing to seal.
bool DeviceSession::seal_mapped() {
  std::vector<DescriptorToSeal> fds = rings_.to_seal();
  if (DescriptorToSeal own = attachment_.to_seal()) fds.push_back(std::move(own));
  if (fds.empty()) return false;
  // The session waits for the last ones to be closed: more are not charged for.
  if (closing_.expired()) close_sealed(fds, {descriptors_});
  if (fds.empty()) return false;
  seal(std::move(fds), {descriptors_});
  return true;
}

/// Answers a request. `again`: the session continues it. Returns false if the peer breaks the
/// protocol or does not take the answer.
bool DeviceSession::answer(std::span<const std::byte> record, bool again) {
  abi::RequestHeader header;
  if (record.size() < sizeof header) return false;
  std::memcpy(&header, record.data(), sizeof header);
  const RequestBody body(record.subspan(sizeof header));
  if (header.operation == static_cast<std::uint32_t>(abi::Operation::kOpenEventChannel))
    return ask_for_event_channel(header.tag, body);
  if (header.operation == static_cast<std::uint32_t>(abi::Operation::kOpenDatagramClient))
    return ask_for_datagrams(header.tag, body);
  const RequestKind request = kind_of(header.operation);
  const bool hello = header.operation == static_cast<std::uint32_t>(abi::Operation::kHello);
  if (request.handler == nullptr) return false;
  const bool comes_first = hello || request.is_monitors;
  if (comes_first == greeted() || (hello && monitor_.is_active())) return false;
  const auto go_on_later = [&] {
    unfinished_.assign(record.begin(), record.end());
    return true;
  };
  if (greeted()) {
    if (!again && seal_mapped()) return go_on_later();
    attachment_.begin();
  }
  Reply reply;
  context_.forget_refusal();
  context_.set_request(header.tag);
  int error = context_.reserve_records();
  if (error == 0) error = request.handler(*this, body, reply);
  if (error == kUnfinished || error == kNoRoomYet) {
    rings_.replied(false);
    auto [fds, accounts] = regions_.to_seal();
    const auto add = [&](std::pair<DescriptorToSeal, std::shared_ptr<void>> more) {
      if (!more.first) return;
      fds.push_back(std::move(more.first));
      accounts.push_back(std::move(more.second));
    };
    add(buffers_.to_seal());
    add(monitor_.to_seal());
    close_sealed(fds, accounts);
    if (!fds.empty() || error == kNoRoomYet) seal(std::move(fds), std::move(accounts));
    return go_on_later();
  }
  // The earlier adapter has done it: what the request names has ended.
  if (error == EINVAL && request.ends && context_.repeats()) error = 0;
  context_.set_repeats(false);
  // The front end reports a refused connection.
  if (error != 0) context_.explain_refusal(reply, refusal_.empty() ? request.verb : nullptr);
  const bool sent = context_.peer().answer(header.tag, error, reply);
  rings_.replied(error == 0 && sent);
  return sent;
}

bool DeviceSession::ask_for_event_channel(std::uint32_t tag, const RequestBody& body) {
  abi::HelloWithDevice asked;
  Reply refusal;
  if (greeted()) return false;
  if (const int error = read_hello(body, asked, refusal))
    return error == EPROTO && context_.peer().answer(tag, error, refusal);
  channel_ = {
      .operation = abi::Operation::kOpenEventChannel, .tag = tag, .protocol_version = version_};
  channel_->refusal = tenant().control.leaving ? ENODEV : 0;
  if (tenant().control.leaving) return true;
  const auto level = find_level(asked.named);
  if (!level)
    channel_->refusal = level.error().code;
  else if (*level != nullptr)
    channel_->level = (*level)->name;
  return true;
}

bool DeviceSession::ask_for_datagrams(std::uint32_t tag, const RequestBody& body) {
  abi::OpenDatagramClientRequest request;
  Reply refusal;
  if (!body.read(request, true) || greeted()) return false;
  const abi::VersionRange library = abi::stated_range({request.oldest, request.newest});
  if (const int error = agree_on_version(request.magic, library, refusal))
    return context_.peer().answer(tag, error, refusal);
  if (!body.read(request)) return false;
  channel_ = {.operation = abi::Operation::kOpenDatagramClient,
              .tag = tag,
              .protocol_version = version_,
              .datagrams = request};
  channel_->refusal = tenant().control.leaving ? ENODEV : 0;
  return true;
}

std::optional<ChannelRequest> DeviceSession::become_channel() {
  if (!channel_) return std::nullopt;
  channel_->descriptors =
      context_.take(configuration::Kind::kDescriptors, ChannelRequest::kDescriptors);
  return std::move(channel_);
}

}  // namespace softhca::control

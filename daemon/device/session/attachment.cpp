// SPDX-License-Identifier: Apache-2.0

#include "daemon/device/session/attachment.hpp"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "daemon/engine/requests/session_requests.hpp"

namespace softhca::control {

void Attachment::close() {
  if (!is_open()) return;
  if (has_begun()) adapter_.worker.unwatch(*session_);
  context_.on_engine(engine::RemoveSession{*session_});
  session_ = nullptr;
  vcbs_.close();  // its level may go next
}

int Attachment::charge() {
  charge_ = {};
  charge_ = context_.take(configuration::Kind::kSessions);
  if (!charge_) return ENOMEM;
  mapping_ = {};
  mapping_ = context_.take(configuration::Kind::kMappings);
  return mapping_ ? 0 : ENOMEM;
}

int Attachment::open(engine::Level* level, std::uint32_t version, Reply& reply) {
  vcbs_.close();  // releases those of an earlier attempt that failed later
  vcbs_.open(level, vcb_bounds(adapter_.settings(context_.tenant())).base);
  auto memory = SealedMemory::create("softhca-session", abi::session_bytes(vcbs_.places()),
                                     context_.lock_memory());
  if (!memory) return context_.refuse(memory.error());
  memory_ = std::move(*memory);
  if (const int error = make_ways(reply)) return error;
  install(level, version);
  reply.write(abi::HelloReply{.vcbs = vcbs_.places(),
                              .session = session_->id.value,
                              .daemon_pid = static_cast<std::uint32_t>(::getpid()),
                              .version = version});
  return 0;
}

/// Adds the memory and the process's ends of the ways to the reply, in the order of the ABI.
int Attachment::make_ways(Reply& reply) {
  reply.share(memory_.fd());
  if (const int error = context_.peer().make_wake(wake_, reply)) return error;
  return context_.peer().make_events(async_, reply);
}

void Attachment::install(engine::Level* level, std::uint32_t version) {
  shm::SessionView::format(memory_.base(), vcbs_.places(), version);
  session_ = std::make_unique<engine::Session>(
      SessionId(adapter_.next_session++), context_.tenant(),
      shm::SessionView(memory_.base(), vcbs_.places()), vcbs_.first());
  session_->view.revoke(vcbs_.count());
  session_->process = static_cast<std::uint32_t>(context_.identity().pid);
  session_->user = context_.identity().uid;
  session_->level = level;
  session_->async_end = async_->number();
  session_->wake_fd = wake_.get();
  adapter_.worker.run(engine::InstallSession{*session_});
  context_.set_engine_session(*session_);
}

void Attachment::begin() {
  if (std::exchange(begun_, true)) return;
  context_.on_engine(engine::PollSession{*session_});
  adapter_.worker.watch(*session_);
}

void Attachment::raise(engine::EventType type) {
  if (!is_open()) return;
  adapter_.worker.run(engine::RaisePortEvent{*session_, type});
}

}  // namespace softhca::control

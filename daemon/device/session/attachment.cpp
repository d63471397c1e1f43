// SPDX-License-Identifier: Apache-2.0

#include "daemon/device/session/attachment.hpp"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string>
#include <utility>

#include "daemon/engine/requests/session_requests.hpp"
#include "daemon/live_records/record_body.hpp"

namespace softhca::control {

void Attachment::close() {
  if (!is_open()) return;
  if (has_begun()) adapter_.worker.unwatch(*session_);
  context_.on_engine(engine::RemoveSession{*session_});
  session_ = nullptr;
  record_.erase();
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

int Attachment::open(engine::Level* level, std::uint32_t version, const record::Session& kept,
                     Reply& reply) {
  vcbs_.close();  // releases those of an earlier attempt that failed later
  vcbs_.open(level, vcb_bounds(adapter_.settings(context_.tenant())).base);
  if (auto made = make_memory(); !made) return context_.refuse(made.error());
  if (const int error = make_ways(reply)) return error;
  shm::SessionView::format(memory_.base(), vcbs_.places(), version);
  install(level, SessionId(adapter_.next_session++), shm::SessionView(places(), vcbs_.places()));
  if (const auto done = keep(level, kept); !done) {
    adapter_.worker.run(engine::RemoveSession{*session_});
    session_ = nullptr;
    return context_.refuse(done.error());
  }
  reply.write(abi::HelloReply{.vcbs = vcbs_.places(),
                              .session = session_->id.value,
                              .daemon_pid = static_cast<std::uint32_t>(::getpid()),
                              .version = version});
  return 0;
}

/// Makes and keeps the memory.
Outcome Attachment::make_memory() {
  const memory::MemorySource source = context_.memory_source();
  const bool apart = context_.machine() != nullptr;
  auto memory = source.create("softhca-session", abi::session_bytes(apart ? 0 : vcbs_.places()));
  if (!memory) return memory.error();
  memory_ = std::move(*memory);
  if (!apart) return {};
  auto pages = context_.machine()->take_vcbs();
  if (!pages) return pages.error();
  vcb_pages_ = std::move(*pages);
  return {};
}

/// Adds the memory and the process's ends of the ways to the reply, in the order of the ABI.
int Attachment::make_ways(Reply& reply) {
  reply.share(memory_);
  reply.share_vcbs(vcb_pages_);
  if (const int error = context_.peer().make_wake(wake_, reply)) return error;
  return context_.peer().make_events(async_, reply);
}

/// Makes the session outlive the adapter, if anything does.
Outcome Attachment::keep(const engine::Level* level, record::Session kept) {
  auto wake = Kept::descriptor(adapter_.keeping, wake_.get());
  if (!wake) return wake.error();
  kept_wake_ = std::move(*wake);
  kept.key = context_.record_key();
  kept.memory = memory_.kept();
  kept.wake = kept_wake_.id();
  kept.events = async_->kept();
  kept.number = session_->id.value;
  kept.vcbs = vcbs_.places();
  records::BodyWriter body;
  body.add(kept).add_text(level != nullptr ? level->name : "").add(vcb_pages_.kept());
  record_ = context_.write(records::Kind::kSession, body.bytes());
  return {};
}

Outcome Attachment::restore(const record::Session& kept, engine::Level* level, KeptId vcb_pages,
                            records::Record record) {
  const auto damaged = [&](const char* why) {
    return Error{"session " + std::to_string(kept.number) + ": " + why, EBADMSG};
  };
  if (is_open() || kept.vcbs > abi::kMaxVcbsPerSession || kept.number == 0)
    return damaged("its record is damaged");
  const memory::MemorySource source = context_.memory_source();
  auto memory = source.adopt(kept.memory);
  if (!memory) return memory.error();
  memory_ = std::move(*memory);
  if (vcb_pages != 0) {
    auto pages = source.adopt(vcb_pages);
    if (!pages) return pages.error();
    vcb_pages_ = std::move(*pages);
  }
  const std::size_t vcb_bytes = kept.vcbs * abi::kPageBytes;
  const bool fits = vcb_pages != 0 ? vcb_pages_.bytes() >= vcb_bytes
                                   : memory_.bytes() >= abi::session_bytes(kept.vcbs);
  if (!fits) return damaged("its memory is too small");
  wake_ = adapter_.keeping->descriptor(kept.wake);
  kept_wake_ = Kept(adapter_.keeping, kept.wake);
  async_ = context_.peer().restore_events(kept.events);
  if (!wake_ || async_ == nullptr) return damaged("its descriptors are not kept");
  record_ = std::move(record);
  (void)charge();
  const auto view = shm::SessionView::resume(places(), kept.vcbs);
  vcbs_.open(level, view.granted());
  adapter_.next_session = std::max(adapter_.next_session, kept.number + 1);
  install(level, SessionId(kept.number), view);
  if (memory_.fd() < 0 || vcb_pages != 0) begin();
  return {};
}

void Attachment::install(engine::Level* level, SessionId id, shm::SessionView view) {
  session_ = std::make_unique<engine::Session>(id, context_.tenant(), view, vcbs_.first());
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

void Attachment::raise(engine::EventType type, std::uint8_t port) {
  if (!is_open()) return;
  adapter_.worker.run(engine::RaisePortEvent{*session_, type, port});
}

}  // namespace softhca::control

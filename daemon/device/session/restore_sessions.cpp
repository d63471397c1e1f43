// SPDX-License-Identifier: Apache-2.0

#include "daemon/device/session/restore_sessions.hpp"

#include <sys/eventfd.h>

#include <array>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "daemon/base/system_error.hpp"
#include "daemon/base/unique_fd.hpp"
#include "daemon/device/session/session_restorer.hpp"
#include "daemon/live_records/record_body.hpp"

namespace softhca::control {
namespace {

using records::Adopted;
using records::Kind;

class Restoration {
 public:
  Restoration(SharedObjects& shared, const FindSession& find) : shared_(shared), find_(find) {}

  Expected<std::vector<UnfitSession>> run(std::span<Adopted> left);

 private:
  using RestoreOne = bool (Restoration::*)(Adopted&);

  template <class IsWanted>
  Outcome restore_all(std::span<Adopted> left, IsWanted&& is_wanted, RestoreOne restore_one);
  bool restore_monitor(Adopted& monitor);
  bool open(Adopted& session);
  bool restore(Adopted& object);
  bool restore_file(Adopted& file);
  bool restore_buffer(Adopted& buffer);
  bool restore_in_file(Adopted& object);
  bool restore_queue_pair(Adopted& queue_pair);
  bool restore_opened(Adopted& opened);

  /// Returns the session that the head of each record names. Null: it has gone.
  SessionRestorer* session_of(const Adopted& object) {
    record::SessionKey key = 0;
    records::BodyReader body(object.body);
    if (!body.read(key)) return nullptr;
    const auto found = sessions_.find(key);
    if (found == sessions_.end()) return nullptr;
    concerned_.push_back(key);
    return &found->second;
  }
  SessionRestorer* session_with(std::uint32_t file);
  void give_up(record::SessionKey key, const std::string& why);
  template <class T>
  static bool read_head(const Adopted& object, T& head) {
    return records::BodyReader(object.body).read(head);
  }
  std::shared_ptr<memory::SharedBuffer> buffer_for(SessionRestorer& session, KeptId kept);

  SharedObjects& shared_;
  const FindSession& find_;
  std::unordered_map<record::SessionKey, SessionRestorer> sessions_;
  std::vector<SessionRestorer> unfit_sessions_;  ///< no longer in sessions_
  std::vector<UnfitSession> unfit_;
  std::vector<record::SessionKey> concerned_;  ///< with the object that is being restored
  std::unordered_map<std::uint32_t, std::shared_ptr<DeviceFile>> files_;  ///< by number
  std::unordered_map<const DeviceFile*, std::vector<record::SessionKey>> users_;
  /// Buffers by the number of their memory. They are held until their regions are there.
  std::unordered_map<KeptId, std::shared_ptr<memory::SharedBuffer>> buffers_;
  /// Those that no session has a handle for. Regions that other sessions share may use them.
  std::unordered_map<KeptId, Adopted> left_buffers_;
  /// Targets of XRC, by number, that their makers no longer have.
  std::unordered_map<std::uint32_t, Adopted> left_targets_;
};

/// True for what objects may use that were made before it: a queue that was resized, a region that
/// was registered again.
bool is_used_by_earlier(Kind kind) {
  return kind == Kind::kRingSegment || kind == Kind::kSharedHandles ||
         kind == Kind::kSharedBuffer || kind == Kind::kOfferedMemory ||
         kind == Kind::kProtectionDomain;
}

Expected<std::vector<UnfitSession>> Restoration::run(std::span<Adopted> left) {
  const auto is_monitor = [](Kind kind) { return kind == Kind::kMachine; };
  const auto is_session = [](Kind kind) { return kind == Kind::kSession; };
  const auto is_file = [](Kind kind) { return kind == Kind::kDeviceFile; };
  const auto is_other = [](Kind kind) { return !is_used_by_earlier(kind); };
  if (auto done = restore_all(left, is_monitor, &Restoration::restore_monitor); !done)
    return done.error();
  if (auto done = restore_all(left, is_session, &Restoration::open); !done) return done.error();
  if (auto done = restore_all(left, is_file, &Restoration::restore_file); !done)
    return done.error();
  for (auto& [key, session] : sessions_)
    users_[session.protection_domains().file().get()].push_back(key);
  if (auto done = restore_all(left, is_used_by_earlier, &Restoration::restore); !done)
    return done.error();
  if (auto done = restore_all(left, is_other, &Restoration::restore); !done) return done.error();
  for (auto& [key, session] : sessions_) session.finish();
  for (SessionRestorer& session : unfit_sessions_) session.finish();
  return std::move(unfit_);
}

/// Checks that there are descriptors for what a session needs. Error: EMFILE, ENFILE.
Outcome check_descriptors() {
  std::array<UniqueFd, 16> room;
  for (UniqueFd& each : room) {
    each = UniqueFd(::eventfd(0, EFD_CLOEXEC));
    if (!each) return system_error("descriptors of sessions");
  }
  return {};
}

/// Restores each object of some kinds. If one does not fit, the sessions that have it are given up.
/// The rest of the tenants must not pay for a record of one. An adapter that lacks descriptors
/// gives up none: another one may have them.
template <class IsWanted>
Outcome Restoration::restore_all(std::span<Adopted> left, IsWanted&& is_wanted,
                                 RestoreOne restore_one) {
  for (Adopted& each : left) {
    if (!is_wanted(each.kind)) continue;
    concerned_.clear();
    if ((this->*restore_one)(each)) continue;
    if (auto room = check_descriptors(); !room) return room;
    for (const record::SessionKey key : concerned_)
      give_up(key, std::string("the record of an object does not fit: ") + name_of(each.kind));
    each.record.erase();
  }
  return {};
}

/// Leaves a session out from now on. What it has already stays until it ends.
void Restoration::give_up(record::SessionKey key, const std::string& why) {
  const auto found = sessions_.find(key);
  if (found == sessions_.end()) return;
  unfit_.push_back({key, why});
  unfit_sessions_.push_back(found->second);
  sessions_.erase(found);
}

bool Restoration::restore_monitor(Adopted& monitor) {
  record::Machine kept;
  if (!read_head(monitor, kept)) return false;
  DeviceSession* const found = find_(kept.key);
  if (found != nullptr)
    return SessionRestorer(*found).restore_monitor(kept, std::move(monitor.record));
  monitor.record.erase();
  return true;
}

bool Restoration::open(Adopted& session) {
  record::Session kept;
  if (!read_head(session, kept)) return false;
  DeviceSession* const found = find_(kept.key);
  if (found == nullptr) {
    session.record.erase();
    return true;
  }
  const auto [restorer, is_new] = sessions_.emplace(kept.key, *found);
  if (!is_new) {
    give_up(kept.key, "session " + std::to_string(kept.number) + " has two records");
    return false;
  }
  if (auto opened = restorer->second.open(session); !opened) {
    give_up(kept.key, opened.error().message);
    return false;
  }
  files_[kept.file] = restorer->second.protection_domains().file();
  return true;
}

bool Restoration::restore_file(Adopted& file) {
  record::DeviceFile kept;
  if (!read_head(file, kept)) return false;
  SessionRestorer* const session = session_of(file);
  if (session == nullptr) {
    file.record.erase();
    return true;
  }
  std::shared_ptr<DeviceFile>& known = files_[kept.file];
  if (known == nullptr) known = shared_.device_files.make(kept.file);
  return session->protection_domains().restore_file(kept, known, std::move(file.record));
}

/// Returns a session that has a device file. Null: none has it. All that have it are concerned.
SessionRestorer* Restoration::session_with(std::uint32_t file) {
  const auto found = files_.find(file);
  if (found == files_.end()) return nullptr;
  SessionRestorer* with = nullptr;
  for (const record::SessionKey key : users_[found->second.get()]) {
    const auto user = sessions_.find(key);
    if (user == sessions_.end()) continue;
    concerned_.push_back(key);
    with = &user->second;
  }
  return with;
}

bool Restoration::restore(Adopted& object) {
  switch (object.kind) {
    case Kind::kProtectionDomain:
    case Kind::kMemoryRegion:
      return restore_in_file(object);
    case Kind::kSharedBuffer:
      return restore_buffer(object);
    case Kind::kQueuePair:
      return restore_queue_pair(object);
    case Kind::kOpenedQueuePair:
      return restore_opened(object);
    case Kind::kRingSegment:
    case Kind::kSharedHandles:
    case Kind::kMemoryWindow:
    case Kind::kCompletionChannel:
    case Kind::kCompletionQueue:
    case Kind::kXrcDomain:
    case Kind::kSharedReceiveQueue:
    case Kind::kAddressHandle:
    case Kind::kOfferedMemory:
      break;
    default:
      return true;  // another part's, or restored already
  }
  if (SessionRestorer* const session = session_of(object)) return session->restore(object);
  object.record.erase();
  return true;
}

/// Restores a domain or a region in a session that has its device file.
bool Restoration::restore_in_file(Adopted& object) {
  std::uint32_t file = 0;
  if (object.kind == Kind::kProtectionDomain) {
    record::ProtectionDomain kept;
    if (!read_head(object, kept)) return false;
    file = kept.file;
  } else {
    record::MemoryRegion kept;
    if (!read_head(object, kept)) return false;
    file = kept.file;
  }
  SessionRestorer* const session = session_with(file);
  if (session == nullptr) {
    object.record.erase();
    return true;
  }
  if (object.kind == Kind::kProtectionDomain) return session->restore(object);
  return session->restore_region(
      object, {.buffer = [&](KeptId kept) { return buffer_for(*session, kept); },
               .memory = [&](record::SessionKey key) -> std::shared_ptr<memory::ProcessMemory> {
                 const auto found = sessions_.find(key);
                 return found != sessions_.end() ? found->second.regions().process() : nullptr;
               }});
}

bool Restoration::restore_buffer(Adopted& buffer) {
  record::SharedBuffer kept;
  if (!read_head(buffer, kept)) return false;
  SessionRestorer* const session = session_of(buffer);
  if (session == nullptr || kept.handle == 0)
    return left_buffers_.emplace(kept.memory, std::move(buffer)).second;
  auto& made = buffers_[kept.memory];
  if (made != nullptr) return false;
  made = session->buffers().restore(kept, true, std::move(buffer.record));
  return made != nullptr;
}

/// Returns a use of a buffer for a region. Null: no record names the buffer.
std::shared_ptr<memory::SharedBuffer> Restoration::buffer_for(SessionRestorer& session,
                                                              KeptId kept) {
  if (memory::Machine::is_piece(kept))
    return session.machine() != nullptr ? session.machine()->shared() : nullptr;
  if (const auto left = left_buffers_.find(kept); left != left_buffers_.end()) {
    record::SharedBuffer head;
    if (read_head(left->second, head))
      buffers_[kept] = session.buffers().restore(head, false, std::move(left->second.record));
    left_buffers_.erase(left);
  }
  const auto found = buffers_.find(kept);
  if (found == buffers_.end() || found->second == nullptr) return nullptr;
  return memory::SharedBufferPool::use(found->second);
}

bool Restoration::restore_queue_pair(Adopted& queue_pair) {
  if (SessionRestorer* const session = session_of(queue_pair)) return session->restore(queue_pair);
  record::QueuePair kept;
  if (!read_head(queue_pair, kept)) return false;
  if (kept.xrc_domain != 0)
    left_targets_.emplace(kept.number, std::move(queue_pair));
  else
    queue_pair.record.erase();
  return true;
}

bool Restoration::restore_opened(Adopted& opened) {
  SessionRestorer* const session = session_of(opened);
  record::OpenedQueuePair kept;
  if (!read_head(opened, kept)) return false;
  if (session == nullptr) {
    opened.record.erase();
    return true;
  }
  if (const auto left = left_targets_.find(kept.number);
      left != left_targets_.end() && !session->queue_pairs().has_target(kept)) {
    KeptQueuePair target;
    if (!target.read(left->second.body) ||
        !session->queue_pairs().restore_target(target, kept, std::move(left->second.record)))
      return false;
    left_targets_.erase(left);
  }
  return session->restore(opened);
}

}  // namespace

Expected<std::vector<UnfitSession>> restore_sessions(Adapter& adapter, SharedObjects& shared,
                                                     std::span<Adopted> left,
                                                     const FindSession& find) {
  if (adapter.keeping == nullptr) return std::vector<UnfitSession>();
  return Restoration(shared, find).run(left);
}

KeptId connection_of(Subject subject, std::span<const Adopted> left) {
  if (subject.kind() == Subject::Kind::kConnection) return subject.number();
  if (subject.kind() != Subject::Kind::kSession) return 0;
  for (const Adopted& each : left) {
    record::Session kept;
    if (each.kind == Kind::kSession && records::BodyReader(each.body).read(kept) &&
        kept.number == subject.number())
      return kept.key;
  }
  return 0;
}

}  // namespace softhca::control

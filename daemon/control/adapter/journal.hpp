// What happened lately, for the operator: sessions opened and closed, what the engine reports,
// reloads. Bounded for each tenant, so that one that makes many events pushes out only its own.
// Belongs to the control thread.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "daemon/base/time.hpp"
#include "daemon/control/adapter/qp_past.hpp"

namespace softhca::control {

struct JournalEntry {
  std::uint64_t number = 0;  ///< counts from 1 over all tenants; given by the journal
  std::chrono::system_clock::time_point time{};
  std::string kind;    ///< one word: "session_opened", "queue_pair_error", "reload"
  std::string tenant;  ///< empty: of the daemon as a whole
  std::string text;    ///< for people
  std::uint32_t queue_pair = 0;
  std::uint32_t process = 0;
  std::string peer;  ///< address of the queue pair's peer
  std::uint32_t peer_queue_pair = 0;
  std::vector<PastEvent> past{};  ///< what came before, if the queue pair failed
};

/// When the operator is told again of what keeps happening: a tenant that is refused again and
/// again must not fill the journal.
class ComplaintLimit {
 public:
  /// True at most once in ten seconds.
  bool allows(Time now) {
    if (now < next_) return false;
    next_ = now + std::chrono::seconds(10);
    return true;
  }

 private:
  Time next_{};
};

class Journal {
 public:
  explicit Journal(std::size_t per_tenant = 256) : per_tenant_(per_tenant) {}

  /// `told` is called with each entry that is added.
  void tell(std::function<void(const JournalEntry&)> told) { told_ = std::move(told); }
  /// An entry without time happened now; others may come late.
  void add(JournalEntry entry);
  /// The tenant is gone. All that are gone have together as many entries as one that is there.
  void forget(const std::string& tenant);

  struct Page {
    std::vector<JournalEntry> entries;  ///< in the order in which they happened
    std::uint64_t last = 0;             ///< to be asked with next time
    bool lost = false;                  ///< some after `after` are no longer kept
  };
  /// Entries with numbers beyond `after`, the oldest `most` of them.
  Page after(std::uint64_t after, std::size_t most) const;
  /// The latest failure of a queue pair of this number. Null: none is kept.
  const JournalEntry* failure_of(std::uint32_t queue_pair) const;

 private:
  struct TenantEntries {
    std::deque<JournalEntry> entries;
    std::uint64_t dropped = 0;  ///< number of the latest that was
  };
  void drop_beyond(TenantEntries& kept) const;

  std::function<void(const JournalEntry&)> told_;
  std::size_t per_tenant_;
  std::uint64_t last_ = 0;
  std::map<std::string, TenantEntries> by_tenant_;
  TenantEntries gone_;  ///< of tenants that are gone, in the order in which they went
};

}  // namespace softhca::control

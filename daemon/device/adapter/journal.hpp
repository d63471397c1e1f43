// SPDX-License-Identifier: Apache-2.0

// Recent events for the operator: sessions opened and closed, reports of the engine, reloads. The
// number of events is limited per tenant, so that a tenant with many events displaces only its own.
// The control thread owns the journal.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "daemon/base/expected.hpp"
#include "daemon/base/time.hpp"
#include "daemon/device/adapter/qp_past.hpp"
#include "daemon/live_records/record_store.hpp"

namespace softhca::control {

struct JournalEntry {
  std::uint64_t number = 0;  ///< counts from 1 over all tenants; set by the journal
  std::chrono::system_clock::time_point time{};
  std::string kind;    ///< one word: "session_opened", "queue_pair_error", "reload"
  std::string tenant;  ///< empty: the daemon as a whole
  std::string text;    ///< for the operator
  std::uint32_t queue_pair = 0;
  std::uint32_t process = 0;
  std::string peer;  ///< address of the queue pair's peer
  std::uint32_t peer_queue_pair = 0;
  std::string cause;  ///< of a failed queue pair: the check that failed, in one word, if known
  std::uint32_t vendor_error = 0;
  std::vector<PastEvent> past{};  ///< earlier events of the queue pair, if it failed
};

/// Limits how often a repeated event is reported: a tenant that is refused again and again must not
/// fill the journal.
class ComplaintLimit {
 public:
  ComplaintLimit() = default;
  /// `most`: reports in ten seconds.
  explicit ComplaintLimit(unsigned most) : most_(most) {}

  /// True if the event is to be reported.
  bool allows(Time now) {
    if (now >= next_) {
      next_ = now + std::chrono::seconds(10);
      left_ = most_;
    }
    if (left_ == 0) return false;
    --left_;
    return true;
  }
  /// True if the next events are not reported, until the ten seconds are over.
  bool is_exhausted() const { return left_ == 0; }

 private:
  unsigned most_ = 1;
  unsigned left_ = 0;
  Time next_{};
};

class Journal {
 public:
  explicit Journal(std::size_t per_tenant = 256) : per_tenant_(per_tenant) {}

  /// Sets the function that is called with each added entry.
  void tell(std::function<void(const JournalEntry&)> told) { told_ = std::move(told); }
  /// Takes up the entries of an earlier adapter, in `left`, and records all entries from now on for
  /// the one that follows. Error: EBADMSG.
  Outcome keep(records::RecordStore& records, std::span<records::Adopted> left);
  /// Adds an entry. An entry without time gets the current time. Others may have happened earlier.
  void add(JournalEntry entry);
  /// Moves the entries of a tenant that is gone to the shared list. All gone tenants together have
  /// as many entries as one tenant.
  void forget(const std::string& tenant);

  struct Page {
    std::vector<JournalEntry> entries;  ///< in the order in which they happened
    std::uint64_t last = 0;             ///< `after` for the next call
    bool lost = false;                  ///< the journal has dropped entries beyond `after`
  };
  /// Returns the oldest `most` entries with numbers beyond `after`, of `tenant` if it is given.
  Page after(std::uint64_t after, std::size_t most, const std::string& tenant = {}) const;
  /// Returns the latest failure of the queue pair with this number. Null: the journal has none.
  const JournalEntry* failure_of(std::uint32_t queue_pair) const;

 private:
  struct Kept {
    JournalEntry entry;
    records::Record record;
  };
  struct TenantEntries {
    std::deque<Kept> entries;
    std::uint64_t dropped = 0;  ///< number of the latest dropped entry
  };
  records::Record record(const JournalEntry& entry) const;
  void drop_beyond(TenantEntries& kept) const;

  std::function<void(const JournalEntry&)> told_;
  std::size_t per_tenant_;
  records::RecordStore* records_ = nullptr;
  std::uint64_t last_ = 0;
  std::map<std::string, TenantEntries> by_tenant_;
  TenantEntries gone_;  ///< entries of gone tenants, in the order in which the tenants went
};

}  // namespace softhca::control

// SPDX-License-Identifier: Apache-2.0

// Descriptors that outlive the adapter (daemon/base/keeping.hpp), by what they are for: listening
// sockets, ports, guards. Runs on the control thread.
#pragma once

#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "daemon/base/expected.hpp"
#include "daemon/base/kept.hpp"
#include "daemon/base/unique_fd.hpp"
#include "daemon/live_records/record_store.hpp"

namespace softhca::control {

/// A descriptor that is kept. Its end ends the keeping. Empty: nothing is kept.
struct KeptDescriptor {
  records::Record record;  ///< erased after what it names
  Kept kept;
};

/// Without a keeper, it keeps nothing and has nothing of an earlier adapter.
class KeptDescriptors {
 public:
  KeptDescriptors() = default;
  KeptDescriptors(Keeping* keeping, records::RecordStore& records)
      : keeping_(keeping), records_(&records) {}

  /// Takes the records of descriptors that an earlier adapter kept. Error: EBADMSG.
  Outcome adopt(std::span<records::Adopted> left);
  /// True if there was an earlier adapter.
  bool follows() const { return follows_; }
  /// True if an earlier adapter kept a descriptor under this name, and this one has not called
  /// keep() for it.
  bool has_earlier(records::Kind kind, const std::string& name) const {
    return earlier_.contains({kind, name});
  }
  /// Takes this descriptor. Empty: there is none, or it is taken.
  UniqueFd take_earlier(records::Kind kind, const std::string& name);
  /// Returns the names for which has_earlier() is true.
  std::vector<std::string> all_earlier(records::Kind kind) const;
  /// Ends the keeping of these descriptors.
  void forget_earlier(records::Kind kind);

  /// Keeps a descriptor in place of the earlier one. Errors: those of Keeping::keep() and
  /// RecordStore::reserve().
  Expected<KeptDescriptor> keep(records::Kind kind, const std::string& name, int fd);

 private:
  Outcome adopt(records::Adopted& found);

  using Key = std::pair<records::Kind, std::string>;

  Keeping* keeping_ = nullptr;
  records::RecordStore* records_ = nullptr;
  std::map<Key, KeptDescriptor> earlier_;
  bool follows_ = false;
};

}  // namespace softhca::control

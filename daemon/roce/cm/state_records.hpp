// SPDX-License-Identifier: Apache-2.0

// Records of the state of a connection manager and its user, by which the ones of the adapter that
// follows go on. The state changes in calls; at the end of a call, what was touched is recorded as
// one change.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "daemon/base/net.hpp"
#include "daemon/base/time.hpp"
#include "daemon/base/types.hpp"
#include "daemon/live_records/record_body.hpp"

namespace softhca::management::cm {

/// The objects that have state, in the order in which they are restored.
enum class StateKind : std::uint8_t {
  kChannel = 1,
  kIdentifier,
  kMembership,
  kEvent,
  kConnection,
  kAnswer,  ///< to the last command of a channel
};

class StateRecords {
 public:
  virtual ~StateRecords() = default;
  /// Records an object in place of what was recorded of it.
  virtual void record(StateKind kind, std::uint64_t number, std::span<const std::byte> state) = 0;
  /// Drops what was recorded of an object, if anything was.
  virtual void forget(StateKind kind, std::uint64_t number) = 0;
  /// Ends a call: what was recorded and dropped in it counts, all at once.
  virtual void commit() = 0;
};

/// The numbers of objects that may have changed. Null records: none is noted.
class Touched {
 public:
  explicit Touched(const StateRecords* records) : noted_(records != nullptr) {}
  void add(std::uint64_t number) {
    if (noted_ && (numbers_.empty() || numbers_.back() != number)) numbers_.push_back(number);
  }
  /// Returns them, each once.
  std::vector<std::uint64_t> take() {
    std::sort(numbers_.begin(), numbers_.end());
    numbers_.erase(std::unique(numbers_.begin(), numbers_.end()), numbers_.end());
    return std::exchange(numbers_, {});
  }

 private:
  bool noted_;
  std::vector<std::uint64_t> numbers_;
};

/// Writes values. A function that lists the members of a type, for a StateWriter and a StateReader,
/// writes and reads it.
class StateWriter {
 public:
  template <class... T>
  void operator()(const T&... values) {
    (put(values), ...);
  }
  std::span<const std::byte> bytes() const { return body_.bytes(); }

 private:
  template <class T>
  void put(const T& value) {
    // Structures of the kernel's interface have a fixed layout.
    static_assert(std::is_arithmetic_v<T> || std::is_enum_v<T> || std::is_standard_layout_v<T>);
    body_.add(value);
  }
  template <class Tag, class Rep>
  void put(const Id<Tag, Rep>& value) {
    put(value.value);
  }
  void put(const Psn& value) { put(value.value()); }
  void put(const Duration& value) { put(value.count()); }
  void put(const Time& value) { put(value.time_since_epoch()); }
  void put(const std::string& value) { body_.add_text(value); }
  void put(const std::vector<std::byte>& value) { body_.add_bytes(value); }
  template <class T>
  void put(const std::optional<T>& value) {
    put(value.has_value());
    if (value) put(*value);
  }

  records::BodyWriter body_;
};

class StateReader {
 public:
  explicit StateReader(std::span<const std::byte> state) : body_(state) {}
  template <class... T>
  void operator()(T&... values) {
    (get(values), ...);
  }
  /// True if all that was read was there.
  bool is_complete() const { return good_; }

 private:
  template <class T>
  void get(T& value) {
    good_ = good_ && body_.read(value);
  }
  void get(bool& value) {
    std::uint8_t byte = 0;
    get(byte);
    value = byte != 0;
  }
  template <class Tag, class Rep>
  void get(Id<Tag, Rep>& value) {
    get(value.value);
  }
  void get(Psn& value) {
    std::uint32_t number = 0;
    get(number);
    value = Psn(number);
  }
  void get(Duration& value) {
    Duration::rep count = 0;
    get(count);
    value = Duration(count);
  }
  void get(Time& value) {
    Duration since{};
    get(since);
    value = Time(since);
  }
  void get(std::string& value) { good_ = good_ && body_.read_text(value); }
  void get(std::vector<std::byte>& value) {
    std::span<const std::byte> bytes;
    good_ = good_ && body_.read_bytes(bytes);
    value.assign(bytes.begin(), bytes.end());
  }
  template <class T>
  void get(std::optional<T>& value) {
    bool has = false;
    get(has);
    value.reset();
    if (has) get(value.emplace());
  }

  records::BodyReader body_;
  bool good_ = true;
};

}  // namespace softhca::management::cm

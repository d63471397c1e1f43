// SPDX-License-Identifier: Apache-2.0

// The message that a connection retransmits until it is answered, and the number of retries
// (12.9.8.4, "CM retries"). A message that answers duplicates is kept in the same way.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "daemon/base/time.hpp"
#include "daemon/roce/wire/cm_messages.hpp"
#include "daemon/roce/wire/mad.hpp"

namespace softhca::management::cm {

class Retransmission {
 public:
  /// Sets the number of retries for messages kept from now on.
  void set_retries(std::uint8_t most) { most_ = most; }
  void set_timeout(Duration timeout) { timeout_ = timeout; }
  /// Returns the time after which the message is retransmitted.
  Duration timeout() const { return timeout_; }

  /// Keeps a message, with all retries left. Omits the zeros at its end, which are most of a MAD.
  void keep(const wire::Mad& mad) {
    const auto last =
        std::find_if(mad.rbegin(), mad.rend(), [](std::byte b) { return b != std::byte{}; });
    bytes_.assign(mad.begin(), last.base());
    bytes_.shrink_to_fit();
    left_ = most_;
  }
  void forget() { bytes_ = {}; }
  bool has_message() const { return !bytes_.empty(); }
  wire::Mad message() const {
    wire::Mad mad{};
    std::copy_n(bytes_.begin(), std::min(bytes_.size(), mad.size()), mad.begin());
    return mad;
  }
  bool is(wire::CmAttribute attribute) const {
    if (!has_message()) return false;
    const auto header = wire::decode_mad_header(message());
    return header->attribute_id == static_cast<std::uint16_t>(attribute);
  }

  /// Counts a retry. Returns false if none is left.
  bool retry() {
    if (left_ == 0) return false;
    --left_;
    return true;
  }

  /// Lists the members for a StateWriter or a StateReader.
  template <class Archive>
  void list_state(Archive& archive) const {
    archive(bytes_, left_, most_, timeout_);
  }
  template <class Archive>
  void list_state(Archive& archive) {
    archive(bytes_, left_, most_, timeout_);
  }

 private:
  std::vector<std::byte> bytes_;
  std::uint8_t left_ = 0;
  std::uint8_t most_ = 0;
  Duration timeout_{};
};

}  // namespace softhca::management::cm

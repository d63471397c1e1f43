// SPDX-License-Identifier: Apache-2.0

// The message that a connection retransmits until it is answered, and the number of retries
// (12.9.8.4, "CM retries"). A message that answers duplicates is kept in the same way.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>

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
    length_ = static_cast<std::uint16_t>(mad.rend() - last);
    bytes_ = std::make_unique<std::byte[]>(length_);
    std::memcpy(bytes_.get(), mad.data(), length_);
    left_ = most_;
  }
  void forget() {
    bytes_.reset();
    length_ = 0;
  }
  bool has_message() const { return length_ != 0; }
  wire::Mad message() const {
    wire::Mad mad{};
    std::memcpy(mad.data(), bytes_.get(), length_);
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

 private:
  std::unique_ptr<std::byte[]> bytes_;
  std::uint16_t length_ = 0;
  std::uint8_t left_ = 0;
  std::uint8_t most_ = 0;
  Duration timeout_{};
};

}  // namespace softhca::management::cm

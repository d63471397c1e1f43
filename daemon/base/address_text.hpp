// SPDX-License-Identifier: Apache-2.0

// Network addresses as text.
#pragma once

#include <arpa/inet.h>

#include <string>

#include "daemon/base/net.hpp"

namespace softhca {

/// Returns "10.0.0.1" or "fd00::1".
inline std::string address_text(const Gid& address) {
  char text[INET6_ADDRSTRLEN] = {};
  if (address.is_ipv4())
    inet_ntop(AF_INET, address.bytes.data() + 12, text, sizeof text);
  else
    inet_ntop(AF_INET6, address.bytes.data(), text, sizeof text);
  return text;
}

/// The addresses of one family as text: the first three, and the number of the others.
class AddressList {
 public:
  /// `remark`: what follows the address.
  void add(const Gid& address, const std::string& remark = {}) {
    if (++count_ > kMost) return;
    if (count_ > 1) text_ += ", ";
    text_ += address_text(address) + remark;
  }
  std::string text() const {
    if (count_ == 0) return "no address of this family";
    return count_ <= kMost ? text_ : text_ + " and " + std::to_string(count_ - kMost) + " more";
  }

 private:
  static constexpr unsigned kMost = 3;

  std::string text_;
  unsigned count_ = 0;
};

}  // namespace softhca

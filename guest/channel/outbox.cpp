// SPDX-License-Identifier: Apache-2.0

#include "guest/channel/outbox.hpp"

namespace softhca::guest {

void Outbox::add(FrameKind kind, std::uint32_t stream, Parts payload) {
  std::size_t length = 0;
  for (const auto part : payload) length += part.size();
  const FrameHeader header{static_cast<std::uint32_t>(length), static_cast<std::uint16_t>(kind), 0,
                           stream};
  add_raw(bytes_of(header));
  for (const auto part : payload) add_raw(part);
}

void Outbox::add_raw(std::span<const std::byte> bytes) {
  bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
}

void Outbox::written(std::size_t bytes) {
  begin_ += bytes;
  if (begin_ == bytes_.size()) return clear();
  // Moving the rest costs less than what was written.
  if (begin_ < bytes_.size() / 2) return;
  bytes_.erase(bytes_.begin(), bytes_.begin() + static_cast<std::ptrdiff_t>(begin_));
  begin_ = 0;
}

void Outbox::clear() {
  bytes_.clear();
  begin_ = 0;
}

}  // namespace softhca::guest

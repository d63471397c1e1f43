// SPDX-License-Identifier: Apache-2.0

#include "guest/channel/frame_reader.hpp"

#include <algorithm>

namespace softhca::guest {

std::span<std::byte> FrameReader::room() {
  if (begin_ != 0) {
    std::memmove(buffer_.data(), buffer_.data() + begin_, end_ - begin_);
    end_ -= begin_;
    begin_ = 0;
  }
  return std::span(buffer_).subspan(end_);
}

void FrameReader::reset() {
  begin_ = end_ = 0;
  searching_ = true;
}

/// Drops bytes up to and with the magic. Returns false if it has not come; its first bytes may
/// have.
bool FrameReader::find_magic() {
  const auto magic = std::as_bytes(std::span(kMagic));
  const auto from = buffer_.begin() + static_cast<std::ptrdiff_t>(begin_);
  const auto to = buffer_.begin() + static_cast<std::ptrdiff_t>(end_);
  const auto found = std::search(from, to, magic.begin(), magic.end());
  if (found != to) {
    begin_ = static_cast<std::size_t>(found - buffer_.begin()) + magic.size();
    searching_ = false;
    return true;
  }
  begin_ = std::max(begin_, end_ - std::min(end_, magic.size() - 1));
  return false;
}

FrameReader::Result FrameReader::next(Frame& frame) {
  if (searching_ && !find_magic()) return Result::kMore;
  FrameHeader header;
  if (end_ - begin_ < sizeof header) return Result::kMore;
  std::memcpy(&header, buffer_.data() + begin_, sizeof header);
  const bool known = header.kind != 0 && header.kind < kFrameKinds;
  if (!known || header.length > kMaxPayload || header.reserved != 0) {
    search();
    return header.length == 0 && header.kind == 0 && header.stream == 0 ? Result::kReset
                                                                        : Result::kLost;
  }
  if (end_ - begin_ < sizeof header + header.length) return Result::kMore;
  frame.kind = static_cast<FrameKind>(header.kind);
  frame.stream = header.stream;
  frame.payload = std::span(buffer_).subspan(begin_ + sizeof header, header.length);
  begin_ += sizeof header + header.length;
  return Result::kFrame;
}

}  // namespace softhca::guest

// SPDX-License-Identifier: Apache-2.0

#include "daemon/engine/diagnostics/capture_ring.hpp"

#include <algorithm>
#include <bit>
#include <cassert>
#include <cstring>
#include <new>

namespace softhca::engine {
namespace {

constexpr std::size_t kAlignment = 8;

std::size_t rounded(std::size_t bytes) { return (bytes + kAlignment - 1) & ~(kAlignment - 1); }

}  // namespace

CaptureRing::CaptureRing(std::span<std::byte> memory)
    : header_(new (memory.data()) abi::CaptureHeader()),
      ring_(memory.data() + abi::kCaptureRing),
      size_(memory.size() - abi::kCaptureRing) {
  assert(std::has_single_bit(size_) && size_ >= sizeof(abi::CaptureRecord));
}

bool CaptureRing::add_interface(std::uint16_t id, std::string_view name) {
  abi::CaptureRecord record{};
  record.kind = abi::CaptureKind::kInterface;
  record.interface_id = id;
  record.captured = static_cast<std::uint32_t>(name.size());
  const Part part = std::as_bytes(std::span(name));
  return add(record, {&part, 1});
}

bool CaptureRing::add_packet(abi::CaptureRecord record, std::span<const Part> parts) {
  record.kind = abi::CaptureKind::kPacket;
  record.length = 0;
  for (const Part& part : parts) record.length += static_cast<std::uint32_t>(part.size());
  record.captured = std::min(record.captured, record.length);
  return add(record, parts);
}

void CaptureRing::count_dropped(std::uint16_t interface_id) {
  header_->dropped[interface_id].store(++dropped_[interface_id], std::memory_order_relaxed);
}

bool CaptureRing::add(abi::CaptureRecord record, std::span<const Part> parts) {
  const std::size_t bytes = rounded(sizeof record + record.captured);
  std::byte* at = reserve(bytes);
  if (at == nullptr) return false;
  record.bytes = static_cast<std::uint32_t>(bytes);
  std::memcpy(at, &record, sizeof record);
  at += sizeof record;
  std::size_t left = record.captured;
  for (const Part& part : parts) {
    const std::size_t take = std::min(left, part.size());
    at = std::ranges::copy(part.first(take), at).out;  // an empty part may have a null pointer
    left -= take;
    if (left == 0) break;
  }
  written_ += bytes;
  header_->written.store(written_, std::memory_order_release);
  return true;
}

/// Returns room for a record, or null if there is none. The read position comes from the reader and
/// is only checked for overflow: a false one gives that reader garbage and harms no other.
std::byte* CaptureRing::reserve(std::size_t bytes) {
  const std::size_t offset = written_ & (size_ - 1);
  const std::size_t to_end = size_ - offset;
  const std::size_t needed = bytes <= to_end ? bytes : to_end + bytes;
  if (size_ - (written_ - read_) < needed) {
    const std::uint64_t read = header_->read.load(std::memory_order_acquire);
    if (written_ - read > size_) return nullptr;
    read_ = read;
    if (size_ - (written_ - read_) < needed) return nullptr;
  }
  if (bytes <= to_end) return ring_ + offset;
  // The reader sees the filler together with the record behind it.
  abi::CaptureRecord filler{};
  filler.bytes = static_cast<std::uint32_t>(to_end);
  filler.kind = abi::CaptureKind::kFiller;
  std::memcpy(ring_ + offset, &filler, kAlignment);
  written_ += to_end;
  return ring_;
}

}  // namespace softhca::engine

// SPDX-License-Identifier: Apache-2.0

#include "daemon/tenant_memory/segment_pool.hpp"

#include <algorithm>
#include <cassert>
#include <limits>
#include <utility>

namespace softhca::shm {

namespace {

std::size_t round_up(std::size_t n, std::size_t unit) { return (n + unit - 1) / unit * unit; }

}  // namespace

SegmentPool::~SegmentPool() {
  for (Segment& segment : segments_) give_up(segment);
}

/// The record in the account ends before the memory that it names.
void SegmentPool::give_up(Segment& segment) {
  segment.account.reset();
  if (unmap_ && segment.memory.base() != nullptr) unmap_(std::move(segment.memory));
  segment = {};
}

bool SegmentPool::has_room(std::size_t bytes) const {
  const std::size_t room = round_up(bytes, kAlignment);
  return std::any_of(segments_.begin(), segments_.end(),
                     [&](const Segment& segment) { return segment.gaps.has_room(room); });
}

bool SegmentPool::has_sealed_room(std::size_t bytes) const {
  const std::size_t room = round_up(bytes, kAlignment);
  const auto first = std::find_if(segments_.begin(), segments_.end(),
                                  [&](const Segment& each) { return each.gaps.has_room(room); });
  return first != segments_.end() && first->announced;  // allocate() takes this segment
}

Expected<SegmentPool::Allocation> SegmentPool::allocate(std::size_t bytes,
                                                        std::shared_ptr<void> account) {
  if (bytes == 0 || bytes > std::numeric_limits<std::uint32_t>::max())
    return Error{"ring of " + std::to_string(bytes) + " bytes: not between 1 and 2^32-1", EINVAL};
  const std::size_t room = round_up(bytes, kAlignment);
  for (std::uint32_t i = 0; i < segments_.size(); ++i)
    if (const auto offset = segments_[i].gaps.take(room)) {
      segments_[i].memory.clear(*offset, bytes);  // an earlier ring or the tenant wrote there
      return finish(i, *offset, bytes);
    }

  const auto index = add_segment(room, std::move(account));
  if (!index) return index.error();
  Allocation allocation = finish(*index, *segments_[*index].gaps.take(room), bytes);
  allocation.kept = segments_[*index].memory.kept();
  return allocation;
}

/// Returns the number of a segment that was given up, or the next number. Numbers thus stay small,
/// however many segments come and go.
std::uint32_t SegmentPool::unused_number() {
  const auto unused = std::find_if(segments_.begin(), segments_.end(), [](const Segment& segment) {
    return segment.memory.base() == nullptr;
  });
  const auto number = static_cast<std::uint32_t>(unused - segments_.begin());
  if (number == segments_.size()) segments_.emplace_back();
  return number;
}

Expected<std::uint32_t> SegmentPool::add_segment(std::size_t bytes, std::shared_ptr<void> account) {
  std::size_t size = std::max(next_segment_, SealedMemory::round_to_pages(bytes));
  // The segments of a session grow in size. Near the budget, a segment may be as small as the ring.
  if (size > budget_ - segment_bytes_) size = SealedMemory::round_to_pages(bytes);
  if (size > budget_ - segment_bytes_) give_up_idle();
  if (size > budget_ - segment_bytes_)
    return Error{"ring of " + std::to_string(bytes) + " bytes: the session has " +
                     std::to_string(budget_ - segment_bytes_) + " of " + std::to_string(budget_) +
                     " bytes of ring memory left",
                 ENOMEM};
  auto memory = source_.create("softhca-rings", size);
  if (!memory) return memory.error();
  const std::uint32_t index = unused_number();
  segments_[index] = {std::move(*memory), {0, size}, std::move(account), false};
  segment_bytes_ += size;
  next_segment_ = std::min(next_segment_ * 2, kLargestSegment);
  return index;
}

SegmentPool::Allocation SegmentPool::finish(std::uint32_t index, std::size_t offset,
                                            std::size_t bytes) {
  if (index == idle_) idle_ = kNone;
  Segment& segment = segments_[index];
  const bool is_new = !segment.announced;
  return {{index, static_cast<std::uint32_t>(bytes), offset},
          segment.memory.base() + offset,
          is_new,
          is_new ? segment.memory.fd() : -1,
          0,
          &segment.memory};
}

Outcome SegmentPool::adopt_segment(std::uint32_t number, KeptId kept, std::shared_ptr<void> account,
                                   bool announced) {
  const bool is_known = number < segments_.size() && segments_[number].memory.base() != nullptr;
  if (is_known || number >= kMaxSegments)
    return Error{"ring segment " + std::to_string(number) + ": the number is in use or too large",
                 EBADMSG};
  auto memory = source_.adopt(kept);
  if (!memory) return memory.error();
  if (number >= segments_.size()) segments_.resize(number + 1);
  const std::size_t size = memory->bytes();
  // A sealed segment was announced, even if the earlier pool has not recorded it.
  if (announced && memory->fd() >= 0) unsealed_.push_back(number);
  announced |= memory->fd() < 0;
  segments_[number] = {std::move(*memory), {0, size}, std::move(account), announced};
  segment_bytes_ += size;
  next_segment_ = std::min(next_segment_ * 2, kLargestSegment);
  return {};
}

std::byte* SegmentPool::adopt_ring(const abi::RingLocation& location) {
  if (location.segment >= segments_.size() || location.bytes == 0 ||
      location.offset % kAlignment != 0)
    return nullptr;
  Segment& segment = segments_[location.segment];
  if (!segment.gaps.take_at(location.offset, round_up(location.bytes, kAlignment))) return nullptr;
  return segment.memory.base() + location.offset;
}

void SegmentPool::end_adoption() {
  for (std::uint32_t i = 0; i < segments_.size(); ++i) {
    if (segments_[i].memory.base() == nullptr || !segments_[i].idle()) continue;
    give_up_idle();
    idle_ = i;
  }
}

void SegmentPool::release(const abi::RingLocation& location) {
  assert(location.segment < segments_.size());
  Segment& segment = segments_[location.segment];
  segment.gaps.give_back(location.offset, round_up(location.bytes, kAlignment));
  if (!segment.idle()) return;
  give_up_idle();
  idle_ = location.segment;
  // The tenant may not have mapped the segment, and cannot map it after sealing.
  const bool unmapped =
      std::find(sealed_now_.begin(), sealed_now_.end(), idle_) != sealed_now_.end();
  const bool large = segment.announced && segment.memory.bytes() > kLargestSegment;
  if (unmapped || large) give_up_idle();
}

void SegmentPool::give_up_idle() {
  if (idle_ == kNone) return;
  segment_bytes_ -= segments_[idle_].memory.bytes();
  give_up(segments_[idle_]);
  std::erase(unsealed_, idle_);
  std::erase(sealed_now_, idle_);
  idle_ = kNone;
}

void SegmentPool::announced(std::uint32_t segment) {
  assert(segment < segments_.size());
  if (!std::exchange(segments_[segment].announced, true)) unsealed_.push_back(segment);
}

std::vector<DescriptorToSeal> SegmentPool::to_seal() {
  // The segment was made for a ring that the tenant did not request again. The tenant may not have
  // mapped the segment.
  if (std::find(sealed_now_.begin(), sealed_now_.end(), idle_) != sealed_now_.end()) give_up_idle();
  sealed_now_ = std::exchange(unsealed_, {});
  std::vector<DescriptorToSeal> fds;
  for (const std::uint32_t segment : sealed_now_)
    if (auto fd = segments_[segment].memory.take_to_seal()) fds.push_back(std::move(fd));
  return fds;
}

}  // namespace softhca::shm

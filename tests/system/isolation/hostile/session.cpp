// SPDX-License-Identifier: Apache-2.0

#include <sys/mman.h>
#include <unistd.h>

#include "tests/system/isolation/hostile/life.hpp"

namespace softhca::scribble {

Session::Session(const std::string& socket) : channel(socket) {
  vcbs = channel.greet().vcbs;
  memory_ = channel.map(0);
  wake_ = ::dup(channel.fds()[1].get());
  abi::HandleBody made{};
  if (channel.ask(abi::Operation::kAllocPd, abi::HandleBody{}, made) != 0) die("pd");
  pd = made.handle;

  abi::AllocSharedReply shared{};
  if (channel.ask(abi::Operation::kAllocShared, abi::AllocSharedRequest{kBuffer}, shared) != 0)
    die("shared memory");
  buffer_ = channel.map(0);
  address = reinterpret_cast<std::uint64_t>(buffer_.base);
  constexpr std::uint32_t kAllAccess = 0xf;
  const struct {
    abi::RegisterMrRequest request;
    abi::MrExtent extent;
  } registration{
      {address, kBuffer, address, kAllAccess, pd, 1, 0},
      {address, kBuffer, 0, shared.handle, static_cast<std::uint32_t>(abi::ExtentKind::kShared)}};
  abi::RegisterMrReply mr{};
  if (channel.ask(abi::Operation::kRegisterMr, registration, mr) != 0) die("memory region");
  key = mr.lkey;
}

std::byte* Session::ring(const abi::RingLocation& location, std::uint32_t new_segment) {
  if (new_segment != 0) segments_[location.segment] = channel.map(0);
  return segments_.at(location.segment).base + location.offset;
}

void Session::punch_holes(Score& score) {
  const auto punch = [&](const Mapping& mapping) {
    const bool made = ::madvise(mapping.base, mapping.bytes, MADV_REMOVE) == 0;
    ++(made ? score.holes : score.holes_refused);
  };
  punch(memory_);
  punch(buffer_);
  for (const auto& [number, segment] : segments_) punch(segment);
}

void Session::wake() {
  const std::uint64_t one = 1;
  if (::write(wake_, &one, sizeof one) < 0) die("wake");
}

}  // namespace softhca::scribble

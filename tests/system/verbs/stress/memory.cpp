// SPDX-License-Identifier: Apache-2.0

#include "tests/system/verbs/stress/memory.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>

namespace softhca::stress {
namespace {

constexpr std::size_t kSpanWord = sizeof(std::uint64_t);
constexpr std::uint64_t kBlank = 0xb1a9b1a9b1a9b1a9;

std::uint64_t word(std::uint64_t number, std::size_t index) {
  std::uint64_t z = (number + 1) * 0x9e3779b97f4a7c15 + index * 0xd1342543de82ef95;
  z = (z ^ (z >> 29)) * 0xbf58476d1ce4e5b9;
  return z ^ (z >> 32);
}

constexpr std::size_t kPage = 4096;

}  // namespace

void write_pattern(std::byte* to, std::size_t bytes, std::uint64_t number) {
  for (std::size_t done = 0; done < bytes; done += kSpanWord) {
    const std::uint64_t value = word(number, done / kSpanWord);
    std::memcpy(to + done, &value, std::min(kSpanWord, bytes - done));
  }
}

std::size_t match_pattern(const std::byte* at, std::size_t bytes, std::uint64_t number) {
  for (std::size_t done = 0; done < bytes; done += kSpanWord) {
    const std::uint64_t value = word(number, done / kSpanWord);
    if (std::memcmp(at + done, &value, std::min(kSpanWord, bytes - done)) != 0) return done;
  }
  return bytes;
}

Slots::Slots(unsigned count, std::size_t bytes, std::size_t offset)
    : count_(count),
      bytes_(bytes),
      mapped_((offset + count * bytes + kPage - 1) / kPage * kPage),
      mapping_(static_cast<std::byte*>(
          mmap(nullptr, mapped_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0))),
      first_(mapping_ + offset) {
  if (mapping_ == MAP_FAILED) fail_to_make("mmap");
  blank_all();
}

Slots::~Slots() {
  region_.reset();
  munmap(mapping_, mapped_);
}

void Slots::blank(unsigned slot) {
  for (std::size_t i = 0; i < bytes_; i += kSpanWord) {
    const std::uint64_t value = kBlank ^ (address(slot) + i);
    std::memcpy(at(slot) + i, &value, kSpanWord);
  }
}

void Slots::blank_all() {
  for (unsigned slot = 0; slot < count_; ++slot) blank(slot);
}

/// Whole words only between, so that the two ends are the rare case.
std::size_t Slots::first_not_blank(unsigned slot, std::size_t from, std::size_t to) const {
  for (std::size_t i = from; i < to;) {
    const std::size_t start = i / kSpanWord * kSpanWord;
    const std::size_t end = std::min(start + kSpanWord, to);
    const std::uint64_t value = kBlank ^ (address(slot) + start);
    if (std::memcmp(at(slot) + i, reinterpret_cast<const std::byte*>(&value) + (i - start),
                    end - i) != 0)
      return i;
    i = end;
  }
  return to;
}

void Slots::check(unsigned slot, const char* what, std::size_t offset, std::size_t bytes,
                  std::uint64_t number) const {
  const auto tell = [&](const char* which, std::size_t where) {
    throw Fault(std::string(what) + which,
                "slot " + std::to_string(slot) + " of " + std::to_string(count_) + ", byte " +
                    std::to_string(where) + "; " + std::to_string(bytes) + " bytes at " +
                    std::to_string(offset) + ", number " + std::to_string(number));
  };
  if (const auto i = first_not_blank(slot, 0, offset); i != offset) tell(": written before it", i);
  if (const auto i = match_pattern(at(slot) + offset, bytes, number); i != bytes)
    tell(": wrong contents", offset + i);
  if (const auto i = first_not_blank(slot, offset + bytes, bytes_); i != bytes_)
    tell(bytes == 0 ? ": written" : ": written behind it", i);
}

void Slots::check_all_blank(const char* what) const {
  for (unsigned slot = 0; slot < count_; ++slot) check(slot, what);
}

}  // namespace softhca::stress

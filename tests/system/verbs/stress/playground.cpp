// SPDX-License-Identifier: Apache-2.0

#include "tests/system/verbs/stress/playground.hpp"

#include <algorithm>

namespace softhca::stress {

Stripes::Stripes(const Playground& ground, unsigned owner)
    : ground_(ground), owner_(owner), numbers_(ground.bytes() / kBytes / ground.owners()) {
  restore();
}

void Stripes::restore() {
  for (std::size_t i = 0; i < numbers_.size(); ++i) write_pattern(at(i), kBytes, numbers_[i]);
}

std::byte* Stripes::within(const std::byte* begin, const std::byte* end,
                           std::uint32_t choice) const {
  std::vector<std::byte*> fit;
  for (std::size_t i = 0; i < numbers_.size(); ++i)
    if (at(i) >= begin && at(i) + kBytes <= end) fit.push_back(at(i));
  return fit.empty() ? nullptr : fit[choice % fit.size()];
}

void Stripes::wrote(const std::byte* stripe, std::uint64_t number) {
  numbers_[index(stripe)] = number;
}

void Stripes::check(const char* what) const {
  for (std::size_t i = 0; i < numbers_.size(); ++i)
    if (match_pattern(at(i), kBytes, numbers_[i]) != kBytes)
      throw Fault(what, "stripe " + std::to_string(i));
}

void Stripes::adopt(const std::vector<std::uint64_t>& numbers) {
  for (std::size_t i = 0; i < numbers_.size(); ++i) {
    const auto found = std::find_if(numbers.begin(), numbers.end(), [&](std::uint64_t number) {
      return match_pattern(at(i), kBytes, number) == kBytes;
    });
    if (found != numbers.end()) numbers_[i] = *found;
  }
}

}  // namespace softhca::stress

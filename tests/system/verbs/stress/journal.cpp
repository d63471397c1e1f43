// SPDX-License-Identifier: Apache-2.0

#include "tests/system/verbs/stress/journal.hpp"

#include <cerrno>
#include <cstdio>
#include <cstring>

namespace softhca::stress {
namespace {

std::mutex mutex;
std::map<std::string, unsigned> faults;
std::map<std::string, std::uint64_t> counts;

constexpr unsigned kTold = 3;  // of each kind, with all that is known of it

}  // namespace

void must(int error, const std::string& what) {
  if (error != 0) throw Fault(what + ": " + std::strerror(error));
}

void fail_to_make(const char* what) {
  throw Fault(std::string(what) + ": " + std::strerror(errno));
}

void complain(const std::string& what, const std::string& detail) {
  const std::lock_guard guard(mutex);
  if (++faults[what] > kTold) return;
  std::fprintf(stderr, "%s, round %lu: %s%s%s\n", here().worker.c_str(), here().round, what.c_str(),
               detail.empty() ? "" : ": ", detail.c_str());
}

Place& here() {
  thread_local Place place;
  return place;
}

void count(const std::string& what, std::uint64_t times) {
  const std::lock_guard guard(mutex);
  counts[what] += times;
}

bool report() {
  const std::lock_guard guard(mutex);
  for (const auto& [what, times] : counts) std::printf("%8lu %s\n", times, what.c_str());
  for (const auto& [what, times] : faults) std::printf("fault: %u x %s\n", times, what.c_str());
  return faults.empty();
}

}  // namespace softhca::stress

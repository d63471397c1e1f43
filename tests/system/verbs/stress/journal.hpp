// SPDX-License-Identifier: Apache-2.0

// What a run finds: a fault ends the round in which it shows, not the run, and is counted by what
// it says.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <stdexcept>
#include <string>

namespace softhca::stress {

/// Ends a round. `what()` is the same each time. The detail varies and is reported once.
class Fault : public std::runtime_error {
 public:
  explicit Fault(const std::string& what, std::string detail = {})
      : runtime_error(what), detail_(std::move(detail)) {}
  const std::string& detail() const { return detail_; }

 private:
  std::string detail_;
};

/// A verb's result: 0 or an errno value.
void must(int error, const std::string& what);
/// One that makes something: null is a fault, and errno says why.
template <class T>
T* made(T* object, const char* what);
[[noreturn]] void fail_to_make(const char* what);

/// A fault that cannot end its round, or belongs to another thread's.
void complain(const std::string& what, const std::string& detail = {});

/// Where this thread is, for what it finds.
struct Place {
  std::string worker;
  std::uint64_t round = 0;
};
Place& here();

/// How often what was done; for the end, too.
void count(const std::string& what, std::uint64_t times = 1);

/// Prints all of it; false if there were faults.
bool report();

template <class T>
T* made(T* object, const char* what) {
  if (object == nullptr) fail_to_make(what);
  return object;
}

}  // namespace softhca::stress

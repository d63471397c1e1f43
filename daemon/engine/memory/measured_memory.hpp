// SPDX-License-Identifier: Apache-2.0

// Memory of a process that the engine's thread accesses itself. Measures how long it waits there.
#pragma once

#include <functional>
#include <memory>
#include <utility>

#include "daemon/base/time.hpp"
#include "daemon/tenant_memory/process_memory.hpp"

namespace softhca::engine {

class MeasuredMemory final : public memory::ProcessMemory {
 public:
  /// Called with the time that the thread waited, on that thread.
  using Waited = std::function<void(Duration)>;

  /// `suspected_until`: until when the tenant's memory counts as slow; of the thread.
  MeasuredMemory(std::shared_ptr<memory::ProcessMemory> reached, Waited waited,
                 Time& suspected_until)
      : reached_(std::move(reached)),
        waited_(std::move(waited)),
        suspected_until_(suspected_until) {}

  Verdict read(std::span<iovec> local, std::span<iovec> remote) override;
  Verdict write(std::span<iovec> local, std::span<iovec> remote) override;

 private:
  Verdict transfer(bool writes, std::span<iovec> local, std::span<iovec> remote);

  std::shared_ptr<memory::ProcessMemory> reached_;
  Waited waited_;
  Time& suspected_until_;
};

}  // namespace softhca::engine

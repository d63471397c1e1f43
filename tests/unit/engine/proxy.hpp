// A MemoryProxy and its process, a child of this one, which reaches the memory of this process.
#pragma once

#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <iterator>
#include <memory>
#include <stdexcept>
#include <string>

#include "daemon/engine/memory_proxy.hpp"
#include "daemon/engine/memory_proxy_process.hpp"
#include "tests/unit/memory/tenant_process.hpp"

namespace softhca::engine {

/// Moves bytes between this process (`here`) and the other one (`there`).
inline Verdict move(memory::ProcessMemory& process, bool writes, void* here, void* there,
                    std::size_t bytes) {
  iovec local{here, bytes};
  iovec remote{there, bytes};
  return writes ? process.write({&local, 1}, {&remote, 1})
                : process.read({&local, 1}, {&remote, 1});
}

class Proxy {
  MemoryCounters own_counters_;
  std::unique_ptr<MemoryWaits> own_waits_ = std::make_unique<MemoryWaits>(64);

 public:
  explicit Proxy(const AccessBounds& bounds = {}) : Proxy(nullptr, nullptr, bounds) {}
  /// Uses the counters and waits of an engine's tenant.
  Proxy(MemoryCounters* of, MemoryWaits* in, const AccessBounds& bounds = {})
      : counters(of != nullptr ? *of : own_counters_), waits(in != nullptr ? *in : *own_waits_) {
    auto made =
        MemoryProxy::create([this](int area, int socket) { return start(area, socket); },
                            {counters, waits, [this](Duration time) { waited += time; }}, bounds);
    if (!made) throw std::runtime_error(made.error().message);
    proxy = std::move(*made);
  }
  ~Proxy() {
    proxy = nullptr;
    own_waits_.reset();                             // accesses under way keep it
    if (child_ > 0) ::waitpid(child_, nullptr, 0);  // it ends by itself
  }
  Proxy(const Proxy&) = delete;
  Proxy& operator=(const Proxy&) = delete;

  std::shared_ptr<memory::ProcessMemory> add() {
    const UniqueFd socket = memory::offer(memory::own_memory());
    auto added = MemoryProxy::add(proxy, socket.get());
    return added ? *added : nullptr;
  }
  int add_error() {
    const UniqueFd socket = memory::offer(memory::own_memory());
    const auto added = MemoryProxy::add(proxy, socket.get());
    return added ? 0 : added.error().code;
  }
  void kill() {
    ::kill(child_, SIGKILL);
    ::waitpid(child_, nullptr, 0);
    child_ = -1;
  }
  void stop() {
    ::kill(child_, SIGSTOP);
    siginfo_t state;
    ::waitid(P_PID, static_cast<id_t>(child_), &state, WSTOPPED);
  }
  void go_on() { ::kill(child_, SIGCONT); }
  /// Descriptors of the process.
  std::ptrdiff_t descriptors() const {
    const std::filesystem::directory_iterator all("/proc/" + std::to_string(child_) + "/fd");
    return std::distance(begin(all), end(all));
  }

  MemoryCounters& counters;
  MemoryWaits& waits;
  Duration waited{};
  std::shared_ptr<MemoryProxy> proxy;

 private:
  Outcome start(int area, int socket) {
    child_ = ::fork();
    if (child_ == 0) {
      // Not the other ends, which it would keep open.
      constexpr int kArea = 200, kSocket = 201;
      ::dup2(area, kArea);
      ::dup2(socket, kSocket);
      ::close_range(3, kArea - 1, 0);
      ::close_range(kSocket + 1, ~0u, 0);
      serve_memory_proxy(UniqueFd(kArea), UniqueFd(kSocket));
    }
    return {};
  }
  pid_t child_ = -1;
};

}  // namespace softhca::engine

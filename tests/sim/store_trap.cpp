// SPDX-License-Identifier: Apache-2.0

#include "tests/sim/store_trap.hpp"

#include <setjmp.h>
#include <signal.h>
#include <sys/mman.h>
#include <ucontext.h>

#include <array>
#include <cstdlib>

namespace softhca::sim {
namespace {

constexpr std::uintptr_t kPage = 4096;
[[maybe_unused]] constexpr unsigned long kTrapFlag = 0x100;

/// One for the process, since signal handlers reach nothing else.
struct State {
  std::vector<std::span<std::byte>> watched;
  std::array<std::uintptr_t, 2> open{};  ///< pages that the current store may write
  std::uint64_t stores = 0;
  const std::function<bool(std::uint64_t)>* ends = nullptr;
  sigjmp_buf out;
  bool runs = false;
};
State state;

bool is_watched(std::uintptr_t at) {
  for (const auto& pages : state.watched) {
    const auto first = reinterpret_cast<std::uintptr_t>(pages.data());
    if (at >= first && at < first + pages.size()) return true;
  }
  return false;
}

void protect(std::uintptr_t page, int how) {
  if (::mprotect(reinterpret_cast<void*>(page), kPage, how) != 0) std::abort();
}

void protect_all(int how) {
  for (const auto& pages : state.watched)
    if (::mprotect(pages.data(), pages.size(), how) != 0) std::abort();
}

#if defined(__x86_64__)
void on_fault(int signal, siginfo_t* info, void* context) {
  const auto at = reinterpret_cast<std::uintptr_t>(info->si_addr);
  if (!state.runs || !is_watched(at)) {  // a fault of the code under test
    ::signal(signal, SIG_DFL);
    return;
  }
  // A store across two pages faults twice.
  const bool is_second = state.open[0] != 0;
  if (!is_second && (*state.ends)(++state.stores)) siglongjmp(state.out, 1);
  state.open[is_second ? 1 : 0] = at / kPage * kPage;
  protect(at / kPage * kPage, PROT_READ | PROT_WRITE);
  static_cast<ucontext_t*>(context)->uc_mcontext.gregs[REG_EFL] |= kTrapFlag;
}

void on_step(int, siginfo_t*, void* context) {
  for (std::uintptr_t& page : state.open) {
    if (page != 0) protect(page, PROT_READ);
    page = 0;
  }
  static_cast<ucontext_t*>(context)->uc_mcontext.gregs[REG_EFL] &= ~static_cast<greg_t>(kTrapFlag);
}
#endif

}  // namespace

StoreTrap::StoreTrap() {
#if defined(__x86_64__)
  struct sigaction action {};
  action.sa_flags = SA_SIGINFO | SA_NODEFER;
  action.sa_sigaction = on_fault;
  ::sigaction(SIGSEGV, &action, nullptr);
  action.sa_sigaction = on_step;
  ::sigaction(SIGTRAP, &action, nullptr);
#endif
}

StoreTrap::~StoreTrap() {
  ::signal(SIGSEGV, SIG_DFL);
  ::signal(SIGTRAP, SIG_DFL);
  state = State();
}

void StoreTrap::watch(std::span<std::byte> pages) { state.watched.push_back(pages); }

const std::vector<std::span<std::byte>>& StoreTrap::watched() const { return state.watched; }

bool StoreTrap::run(const std::function<void()>& f,
                    const std::function<bool(std::uint64_t)>& ends) {
  state.stores = 0;
  state.ends = &ends;
  state.open = {};
  const bool ended = sigsetjmp(state.out, 1) != 0;
  if (!ended) {
    protect_all(PROT_READ);
    state.runs = true;
    f();
  }
  state.runs = false;
  protect_all(PROT_READ | PROT_WRITE);
  return ended;
}

}  // namespace softhca::sim

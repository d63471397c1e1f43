// SPDX-License-Identifier: Apache-2.0

#include "daemon/keeper/fault_signals.hpp"

#include <sys/syscall.h>
#include <unistd.h>

#include <array>

namespace softhca::keeper {
namespace {

Pulse* shown_engine = nullptr;
Pulse* shown_control = nullptr;
std::array<struct sigaction, kFaultSignals.size()> before;

void take_fault(int signal, siginfo_t* info, void*) {
  const auto thread = static_cast<std::int32_t>(::syscall(SYS_gettid));
  const std::int32_t control = shown_control->thread.load();
  if (info->si_code == SI_USER && info->si_pid != ::getpid()) {
    // Another process has sent it.
  } else if (shown_engine->thread.load() == thread) {
    shown_engine->fault.store(1);
  } else if (control == thread || control == 0) {
    shown_control->fault.store(1);
  }
  for (std::size_t i = 0; i < kFaultSignals.size(); ++i)
    if (kFaultSignals[i] == signal) ::sigaction(signal, &before[i], nullptr);
  // An instruction that faults does so again. A signal that was sent is sent again.
  if (info->si_code <= 0) ::raise(signal);
}

}  // namespace

void show_fault_signals(Pulse& engine, Pulse& control) {
  shown_engine = &engine;
  shown_control = &control;
  struct sigaction action = {};
  action.sa_sigaction = take_fault;
  action.sa_flags = SA_SIGINFO;
  for (std::size_t i = 0; i < kFaultSignals.size(); ++i)
    ::sigaction(kFaultSignals[i], &action, &before[i]);
}

}  // namespace softhca::keeper

// SPDX-License-Identifier: Apache-2.0

// A library to which an upgrade may fail at any place of the restoration: the adapter, which can
// open few descriptors until it serves. The file beside this library with the ending ".free" has
// their number, and the path of the adapter's library.
#include <dlfcn.h>
#include <pthread.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstddef>
#include <cstdio>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "daemon/keeper/handover.hpp"

namespace {

using namespace softhca::keeper;

constexpr rlim_t kMostDescriptors = 1000;

struct Adapter {
  std::size_t free = 0;
  void* library = nullptr;
};

std::vector<int> taken;

void close_taken() {
  for (const int fd : taken) ::close(fd);
}

Adapter load() {
  Dl_info here{};
  ::dladdr(reinterpret_cast<void*>(&load), &here);
  std::ifstream file(std::string(here.dli_fname) + ".free");
  Adapter adapter;
  std::string path;
  file >> adapter.free >> path;
  adapter.library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  return adapter;
}

}  // namespace

extern "C" [[gnu::visibility("default")]] int softhca_adapter(const Handover* handover, int argc,
                                                              char** argv) {
  Adapter adapter = load();
  const rlimit limit{kMostDescriptors, kMostDescriptors};
  ::setrlimit(RLIMIT_NOFILE, &limit);
  for (int fd; (fd = ::dup(STDERR_FILENO)) >= 0;) taken.push_back(fd);
  for (; adapter.free != 0 && !taken.empty(); taken.pop_back(), --adapter.free)
    ::close(taken.back());
  const auto& upgrades = handover->shared->restarts.of[static_cast<int>(Cause::kUpgrade)];
  std::thread([&upgrades, served = upgrades.load()] {
    while (upgrades.load() == served) ::usleep(200);
    close_taken();
  }).detach();
  ::pthread_atfork(nullptr, nullptr, close_taken);  // processes that it starts lack nothing
  return reinterpret_cast<AdapterFunction>(::dlsym(adapter.library, kAdapterFunction))(handover,
                                                                                       argc, argv);
}

extern "C" [[gnu::visibility("default")]] bool softhca_adapter_fits(const Handover* handover,
                                                                    int argc, char** argv,
                                                                    char* why, std::size_t room) {
  return reinterpret_cast<TrialFunction>(::dlsym(load().library, kTrialFunction))(handover, argc,
                                                                                  argv, why, room);
}

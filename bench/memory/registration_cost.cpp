// SPDX-License-Identifier: Apache-2.0

// softhca-registration-cost [DEVICE [COUNT]]: the cost of registering a page, for the first time
// and again, and of deregistering it. Run it by softhca-run. Prints medians in microseconds.
#include <infiniband/verbs.h>
#include <sys/mman.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kPage = 4096;

double median(std::vector<double>& values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

double microseconds(Clock::duration time) {
  return std::chrono::duration<double, std::micro>(time).count();
}

int fail(const char* what) {
  std::perror(what);
  return 1;
}

ibv_context* open_device(const char* name) {
  ibv_device** const list = ibv_get_device_list(nullptr);
  ibv_context* context = nullptr;
  for (ibv_device** device = list; list != nullptr && *device != nullptr; ++device)
    if (context == nullptr &&
        (name == nullptr || std::strcmp(ibv_get_device_name(*device), name) == 0))
      context = ibv_open_device(*device);
  return context;
}

}  // namespace

int main(int arguments, char** argument) {
  const std::size_t count = arguments > 2 ? std::strtoul(argument[2], nullptr, 10) : 1000;
  ibv_context* const context = open_device(arguments > 1 ? argument[1] : nullptr);
  if (context == nullptr) return fail("open device");
  ibv_pd* const pd = ibv_alloc_pd(context);
  // No two pages share a mapping.
  auto* const memory =
      static_cast<std::byte*>(mmap(nullptr, 2 * kPage * count, PROT_READ | PROT_WRITE,
                                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
  if (pd == nullptr || memory == MAP_FAILED) return fail("memory");
  for (const char* round : {"first", "again"}) {
    std::vector<double> registered, deregistered;
    for (std::size_t i = 0; i < count; ++i) {
      std::byte* const page = memory + 2 * kPage * i;
      *page = std::byte{1};
      const auto begin = Clock::now();
      ibv_mr* const mr = ibv_reg_mr(pd, page, kPage, IBV_ACCESS_LOCAL_WRITE);
      if (mr == nullptr) return fail("register");
      const auto between = Clock::now();
      if (ibv_dereg_mr(mr) != 0) return fail("deregister");
      registered.push_back(microseconds(between - begin));
      deregistered.push_back(microseconds(Clock::now() - between));
    }
    std::printf("%s: register %.1f us, deregister %.1f us\n", round, median(registered),
                median(deregistered));
  }
  return 0;
}

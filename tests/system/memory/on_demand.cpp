// SPDX-License-Identifier: Apache-2.0

// Regions that are paged on demand: what is mapped there when a message comes counts, whatever was
// there when the region was registered.
//
// usage: on-demand DEVICE GID-INDEX
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <initializer_list>

#include "tests/system/memory/pair.hpp"
#include "tests/system/programs.hpp"

namespace {

constexpr std::size_t kBytes = 1 << 20;
// No other code maps memory here while this test has unmapped its own.
constexpr std::uintptr_t kFarAway = std::uintptr_t{1} << 40;
constexpr int kAccess = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_ON_DEMAND;

char* map(std::uintptr_t at) {
  void* memory = mmap(reinterpret_cast<void*>(at), kBytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
  expect(memory == reinterpret_cast<void*>(at), "memory");
  return static_cast<char*>(memory);
}

/// Writes `from` to `to` by two regions; the status.
ibv_wc_status copy(ibv_pd* pd, int gid_index, char* to, const ibv_mr* to_mr, char* from,
                   const ibv_mr* from_mr) {
  const Pair pair = make_pair(pd, gid_index);
  const ibv_sge list{reinterpret_cast<std::uintptr_t>(from), kBytes, from_mr->lkey};
  const ibv_wc_status status =
      write_to(pair, list, reinterpret_cast<std::uintptr_t>(to), to_mr->rkey);
  end_pair(pair);
  return status;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return std::fprintf(stderr, "usage: on-demand DEVICE GID-INDEX\n"), 2;
  ibv_context* context = open_device(argv[1]);
  const int gid_index = std::atoi(argv[2]);
  ibv_pd* pd = ibv_alloc_pd(context);
  char* source = map(kFarAway + 2 * kBytes);
  char* target = reinterpret_cast<char*>(kFarAway);
  ibv_mr* all = ibv_reg_mr(pd, nullptr, SIZE_MAX, kAccess);
  ibv_mr* explicit_mr = ibv_reg_mr(pd, target, kBytes, kAccess);
  expect(all != nullptr && explicit_mr != nullptr, "the regions");
  for (const ibv_mr* mr : {all, explicit_mr}) {
    expect(copy(pd, gid_index, target, mr, source, all) == IBV_WC_REM_ACCESS_ERR,
           "writing where nothing is mapped");
    for (char mark = 'a'; mark < 'd'; ++mark) {
      map(kFarAway);
      std::memset(source, mark, kBytes);
      expect(copy(pd, gid_index, target, mr, source, all) == IBV_WC_SUCCESS, "writing");
      expect(std::memcmp(source, target, kBytes) == 0, "what is there now");
      munmap(target, kBytes);
    }
  }
  // A region of shared pages beside it, of the same memory: both see the same.
  map(kFarAway);
  ibv_mr* shared = ibv_reg_mr(pd, target, kBytes, kAccess & ~IBV_ACCESS_ON_DEMAND);
  expect(shared != nullptr, "a region not on demand");
  std::memset(source, 'x', kBytes);
  expect(copy(pd, gid_index, target, all, source, all) == IBV_WC_SUCCESS, "writing");
  std::memset(source, 'y', kBytes);
  expect(copy(pd, gid_index, source, all, target, shared) == IBV_WC_SUCCESS, "writing back");
  expect(source[0] == 'x' && std::memcmp(source, target, kBytes) == 0, "one memory");
  // The child's memory is its own, and the region is of the parent's.
  const pid_t child = fork();
  if (child == 0) {
    std::memset(source, 'c', kBytes);
    _exit(0);
  }
  int status = 0;
  expect(waitpid(child, &status, 0) == child && status == 0, "the child");
  expect(copy(pd, gid_index, target, all, source, all) == IBV_WC_SUCCESS && target[0] == 'x',
         "after a fork");
  for (ibv_mr* mr : {all, explicit_mr, shared}) expect(ibv_dereg_mr(mr) == 0, "deregistering");
  expect(ibv_dealloc_pd(pd) == 0 && ibv_close_device(context) == 0, "closing");
  return 0;
}

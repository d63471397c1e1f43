// SPDX-License-Identifier: Apache-2.0

// Keeps the memory of its session busy while the daemon seals it. The process writes to that memory
// from a page that is absent until the process provides it (userfaultfd). Meanwhile the kernel
// holds the lock that sealing needs.
//
// usage: busy SOCKET
// Says "held" when the lock is held and a request waits for it. Goes on when its input ends, and
// says "answered" when the request is answered. Exit code 77: userfaultfd is not allowed here.
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdio>
#include <thread>

#include "daemon/base/unique_fd.hpp"
#include "tests/system/isolation/hostile/channel.hpp"

namespace {

using namespace softhca;
using scribble::die;

constexpr std::size_t kPage = 4096;

/// A page that blocks each access until it is provided.
class AbsentPage {
 public:
  AbsentPage() : faults_(static_cast<int>(::syscall(SYS_userfaultfd, O_CLOEXEC))) {
    uffdio_api api{UFFD_API, 0, 0};
    if (!faults_ || ::ioctl(faults_.get(), UFFDIO_API, &api) != 0) {
      std::perror("userfaultfd");
      ::_exit(77);
    }
    at_ = ::mmap(nullptr, kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at_ == MAP_FAILED) die("a page");
    uffdio_register watched{range(), UFFDIO_REGISTER_MODE_MISSING, 0};
    if (::ioctl(faults_.get(), UFFDIO_REGISTER, &watched) != 0) die("watching a page");
  }

  const void* at() const { return at_; }
  void wait_until_touched() const {
    uffd_msg event;
    if (::read(faults_.get(), &event, sizeof event) != sizeof event) die("a page fault");
  }
  void appear() const {
    uffdio_zeropage zeros{range(), 0, 0};
    if (::ioctl(faults_.get(), UFFDIO_ZEROPAGE, &zeros) != 0) die("the page");
  }

 private:
  uffdio_range range() const { return {reinterpret_cast<std::uintptr_t>(at_), kPage}; }

  UniqueFd faults_;
  void* at_ = nullptr;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return std::fprintf(stderr, "usage: busy SOCKET\n"), 2;
  const AbsentPage page;
  scribble::Channel channel(argv[1]);
  channel.greet();
  channel.map(0);
  const UniqueFd memory(::dup(channel.fds()[0].get()));
  std::thread writer([&] {
    if (::pwrite(memory.get(), page.at(), 1, 0) != 1) die("a write to the session's memory");
  });
  page.wait_until_touched();
  std::thread asking([&] {
    abi::DeviceReply device{};
    if (channel.ask(abi::Operation::kQueryDevice, abi::HandleBody{}, device) != 0) die("query");
    std::puts("answered");
  });
  std::puts("held");
  std::fflush(stdout);
  while (std::getchar() != EOF) {
  }
  page.appear();
  writer.join();
  asking.join();
}

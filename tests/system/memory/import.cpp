// SPDX-License-Identifier: Apache-2.0

// Two processes with one protection domain and its regions, by ibv_import_device() and its kin.
//
// usage: import DEVICE GID-INDEX SOCKET export|use|refused
//
//   export   makes the objects, and sends a copy of its device file to each process that
//            connects to SOCKET, until one of them tells it to end.
//   use      writes to and from the exporter's memory, while the exporter lives and afterwards.
//   refused  receives the file, too, but can use nothing.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string_view>

#include "tests/system/memory/pair.hpp"
#include "tests/system/programs.hpp"

namespace {

constexpr std::size_t kBytes = 64 << 10;
constexpr int kAccess = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;

/// What goes with the descriptor.
struct Offer {
  std::uint32_t pd;
  std::uint32_t mr;         ///< of whole pages, shared with the daemon
  std::uint32_t on_demand;  ///< of all addresses
  std::uint32_t reserved;
  std::uint64_t memory;
};

int unix_socket(const char* path, sockaddr_un& address) {
  address = {};
  address.sun_family = AF_UNIX;
  std::strncpy(address.sun_path, path, sizeof address.sun_path - 1);
  return socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
}

/// Sends the offer with `fd`, or (fd < 0) receives both; the descriptor.
int pass(int connection, Offer& offer, int fd) {
  iovec part{&offer, sizeof offer};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof fd)] = {};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  cmsghdr* c = CMSG_FIRSTHDR(&message);
  c->cmsg_level = SOL_SOCKET;
  c->cmsg_type = SCM_RIGHTS;
  c->cmsg_len = CMSG_LEN(sizeof fd);
  std::memcpy(CMSG_DATA(c), &fd, sizeof fd);
  const ssize_t done =
      fd >= 0 ? sendmsg(connection, &message, 0) : recvmsg(connection, &message, MSG_CMSG_CLOEXEC);
  expect(done == sizeof offer, "passing the file");
  std::memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof fd);
  return fd;
}

/// A child makes a context of its own of the file that it inherited.
void use_in_a_child(const ibv_context* context, const Offer& offer) {
  const pid_t child = fork();
  if (child == 0) {
    ibv_context* mine = ibv_import_device(dup(context->cmd_fd));
    expect(mine != nullptr, "importing in a child");
    ibv_pd* pd = ibv_import_pd(mine, offer.pd);
    ibv_mr* mr = pd != nullptr ? ibv_import_mr(pd, offer.mr) : nullptr;
    expect(mr != nullptr && mr->length == kBytes, "the region in a child");
    expect(ibv_dealloc_pd(pd) == EBUSY, "a domain in use");
    ibv_unimport_mr(mr);
    ibv_unimport_pd(pd);
    expect(ibv_close_device(mine) == 0, "closing in a child");
    _exit(0);
  }
  int status = 0;
  expect(waitpid(child, &status, 0) == child && status == 0, "the child");
}

int make_objects(const char* device, const char* path) {
  sockaddr_un address;
  const int listener = unix_socket(path, address);
  umask(0);  // the process to be refused connects, too
  expect(bind(listener, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0 &&
             listen(listener, 4) == 0,
         path);
  ibv_context* context = open_device(device);
  auto* memory = static_cast<char*>(
      mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  std::memset(memory, 'e', kBytes);
  ibv_pd* pd = ibv_alloc_pd(context);
  ibv_mr* mr = ibv_reg_mr(pd, memory, kBytes, kAccess);
  ibv_mr* on_demand = ibv_reg_mr(pd, nullptr, SIZE_MAX, kAccess | IBV_ACCESS_ON_DEMAND);
  expect(mr != nullptr && on_demand != nullptr, "the regions");
  Offer offer{pd->handle, mr->handle, on_demand->handle, 0,
              reinterpret_cast<std::uintptr_t>(memory)};
  use_in_a_child(context, offer);
  for (char last = 0; last == 0;) {
    const int connection = accept(listener, nullptr, nullptr);
    pass(connection, offer, context->cmd_fd);
    expect(read(connection, &last, 1) == 1, "the answer");
    if (last != 0) expect(memory[0] == 'u' && memory[kBytes - 1] == 'e', "what the other wrote");
    close(connection);
  }
  return 0;  // without a word to the daemon, as a process that is killed
}

int connect_to(const char* path) {
  sockaddr_un address;
  const int connection = unix_socket(path, address);
  for (const std::time_t end = std::time(nullptr) + kPatience;; usleep(10000)) {
    if (connect(connection, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0) break;
    expect(std::time(nullptr) < end, path);
  }
  return connection;
}

int use_objects(int gid_index, int connection) {
  Offer offer{};
  ibv_context* context = ibv_import_device(pass(connection, offer, -1));
  expect(context != nullptr, "importing the device");
  ibv_pd* pd = ibv_import_pd(context, offer.pd);
  expect(pd != nullptr, "importing the domain");
  ibv_mr* theirs = ibv_import_mr(pd, offer.mr);
  ibv_mr* everywhere = ibv_import_mr(pd, offer.on_demand);
  expect(theirs != nullptr && everywhere != nullptr && theirs->length == kBytes, "the regions");
  errno = 0;
  expect(ibv_import_mr(pd, 4711) == nullptr && errno == EINVAL, "a region that is none");
  static char memory[kBytes];
  std::memset(memory, 'u', sizeof memory);
  ibv_mr* mine = ibv_reg_mr(pd, memory, sizeof memory, kAccess);
  expect(mine != nullptr, "a region in the other's domain");
  const Pair pair = make_pair(pd, gid_index);
  const auto here = reinterpret_cast<std::uintptr_t>(memory);
  // Their memory by its key for peers, then by its key for us.
  expect(write_to(pair, {here, 1, mine->lkey}, offer.memory, theirs->rkey) == IBV_WC_SUCCESS,
         "writing to the other");
  expect(
      write_to(pair, {offer.memory, kBytes, everywhere->lkey}, here, mine->rkey) == IBV_WC_SUCCESS,
      "writing from the other");
  expect(memory[0] == 'u' && memory[1] == 'e' && memory[kBytes - 1] == 'e', "what came");

  const char last = 1;
  char end = 0;
  expect(write(connection, &last, 1) == 1 && read(connection, &end, 1) == 0, "its end");
  std::memset(memory, 0, sizeof memory);
  expect(write_to(pair, {offer.memory, kBytes, theirs->lkey}, here, mine->rkey) == IBV_WC_SUCCESS,
         "writing from memory that is left");
  expect(memory[0] == 'u' && memory[kBytes - 1] == 'e', "what is left");
  // The process may still be ending when its socket has been closed.
  const std::time_t patience = std::time(nullptr) + kPatience;
  while (write_to(pair, {offer.memory, 1, everywhere->lkey}, here, mine->rkey) == IBV_WC_SUCCESS)
    expect(std::time(nullptr) < patience, "the address space of a process that has ended");
  end_pair(pair);
  expect(ibv_dereg_mr(mine) == 0, "ending one's own");
  expect(ibv_dealloc_pd(pd) == EBUSY, "a domain in use");
  expect(ibv_dereg_mr(theirs) == 0 && ibv_dereg_mr(everywhere) == 0 && ibv_dealloc_pd(pd) == 0,
         "ending the other's");
  expect(ibv_close_device(context) == 0, "closing the device");
  return 0;
}

int be_refused(const char* device, int connection) {
  Offer offer{};
  const int fd = pass(connection, offer, -1);
  errno = 0;
  expect(ibv_import_device(fd) == nullptr && errno == EACCES, "the device of another user");
  ibv_context* context = open_device(device);
  errno = 0;
  expect(ibv_import_pd(context, offer.pd) == nullptr && errno == EINVAL, "a domain of its own");
  const char more = 0;
  expect(write(connection, &more, 1) == 1, "the answer");
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string_view role = argc == 5 ? argv[4] : "";
  if (role == "export") return make_objects(argv[1], argv[3]);
  if (role == "use") return use_objects(std::atoi(argv[2]), connect_to(argv[3]));
  if (role == "refused") return be_refused(argv[1], connect_to(argv[3]));
  return std::fprintf(stderr, "usage: import DEVICE GID-INDEX SOCKET export|use|refused\n"), 2;
}

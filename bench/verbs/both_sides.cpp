// SPDX-License-Identifier: Apache-2.0

#include "bench/verbs/both_sides.hpp"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <filesystem>

#include "bench/verbs/peer.hpp"

namespace softhca::bench {
namespace {

struct SocketPair {
  SocketPair() {
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0) die("socket");
  }
  std::array<int, 2> ends{};
};

/// Starts this program with more words, by the program `as` if there is one. It inherits the
/// sockets.
void start_side(const std::string& as, std::vector<std::string> words, SideSockets sockets) {
  if (as.empty())
    words.insert(words.begin(), "softhca-bench");
  else
    words.insert(words.begin(), {as, std::filesystem::read_symlink("/proc/self/exe")});
  words.insert(words.end(), {"--side-fd", std::to_string(sockets.peer), "--begin-fd",
                             std::to_string(sockets.begin)});
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  const pid_t process = ::fork();
  if (process < 0) die("fork");
  if (process != 0) return;
  for (const int socket : {sockets.peer, sockets.begin})
    if (socket >= 0) ::fcntl(socket, F_SETFD, 0);
  ::execv(as.empty() ? "/proc/self/exe" : as.c_str(), pointers.data());
  die(as);
}

/// Lets the clients begin each test together, until one has ended.
void begin_together(const std::vector<int>& clients) {
  char byte = 0;
  for (;;) {
    for (const int client : clients)
      if (::recv(client, &byte, 1, 0) != 1) return;
    for (const int client : clients) ::send(client, &byte, 1, MSG_NOSIGNAL);
  }
}

}  // namespace

int run_both_sides(const BothSides& sides, const std::vector<std::string>& words) {
  std::vector<std::string> clients = sides.clients_as;
  if (clients.empty()) clients.emplace_back();
  std::vector<int> begin;
  for (const std::string& client_as : clients) {
    const SocketPair peers, begins;
    std::vector<std::string> server_words = words;
    server_words.push_back("--server");
    start_side(sides.server_as, server_words, {.peer = peers.ends[0], .begin = -1});
    start_side(client_as, words, {.peer = peers.ends[1], .begin = begins.ends[1]});
    for (const int end : {peers.ends[0], peers.ends[1], begins.ends[1]}) ::close(end);
    begin.push_back(begins.ends[0]);
  }
  begin_together(begin);
  for (const int client : begin) ::close(client);
  bool failed = false;
  for (int status = 0; ::wait(&status) > 0;) failed |= status != 0;
  return failed ? 1 : 0;
}

void await_others(int begin) {
  char byte = 0;
  ::send(begin, &byte, 1, MSG_NOSIGNAL);
  if (::recv(begin, &byte, 1, 0) == 1) return;
  errno = 0;
  die("another client has ended");
}

}  // namespace softhca::bench

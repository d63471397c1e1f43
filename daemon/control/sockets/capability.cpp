#include "daemon/control/sockets/capability.hpp"

#include <linux/capability.h>
#include <sys/stat.h>

#include <cstdint>
#include <fstream>
#include <string>

namespace softhca::control {
namespace {

bool in_our_user_namespace(const std::string& process) {
  struct stat ours, theirs;
  return ::stat("/proc/self/ns/user", &ours) == 0 &&
         ::stat((process + "/ns/user").c_str(), &theirs) == 0 && ours.st_ino == theirs.st_ino;
}

}  // namespace

bool may_bind_low_ports(const PeerIdentity& peer) {
  const std::string process = "/proc/" + std::to_string(peer.pid);
  std::ifstream status(process + "/status");
  for (std::string word; status >> word;) {
    if (word != "CapEff:") continue;
    std::uint64_t effective = 0;
    status >> std::hex >> effective;
    return (effective >> CAP_NET_BIND_SERVICE & 1) != 0 && in_our_user_namespace(process);
  }
  return false;
}

}  // namespace softhca::control

// SPDX-License-Identifier: Apache-2.0

#include "daemon/frontend/unix/sockets/kept_listener.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <utility>

namespace softhca::control {
namespace {

constexpr auto kKind = records::Kind::kListener;

}  // namespace

Expected<KeptListener> take_up_or_listen(KeptDescriptors& kept, const std::string& path,
                                         const SocketPermissions& permissions, int type) {
  KeptListener listener;
  struct stat file {};
  if (::lstat(path.c_str(), &file) == 0 && S_ISSOCK(file.st_mode))
    listener.socket = kept.take_earlier(kKind, path);
  listener.is_earlier = static_cast<bool>(listener.socket);
  if (!listener.is_earlier) {
    auto made = listen_at(path, permissions, type);
    if (!made) return made.error();
    listener.socket = std::move(*made);
  }
  auto keeping = kept.keep(kKind, path, listener.socket.get());
  if (!keeping) {
    ::unlink(path.c_str());
    return keeping.error();
  }
  listener.kept = std::move(*keeping);
  return listener;
}

bool is_earlier(const KeptDescriptors& kept, const std::string& path) {
  return kept.has_earlier(kKind, path);
}

void remove_earlier(KeptDescriptors& kept) {
  for (const std::string& path : kept.all_earlier(kKind)) ::unlink(path.c_str());
  kept.forget_earlier(kKind);
}

}  // namespace softhca::control

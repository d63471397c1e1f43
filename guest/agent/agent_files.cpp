// SPDX-License-Identifier: Apache-2.0

// The tenant's folder: device tree and sockets.
#include "guest/agent/agent.hpp"
#include "guest/channel/tree_path.hpp"

namespace softhca::guest {
namespace {

std::string take_text(Frame& frame, std::size_t bytes) {
  const auto text = frame.payload.first(bytes);
  frame.payload = frame.payload.subspan(bytes);
  return {reinterpret_cast<const char*>(text.data()), text.size()};
}

}  // namespace

bool Agent::receive_file(Frame frame) {
  FileHead head;
  if (!frame.take(head) || head.path_bytes > frame.payload.size()) return false;
  const std::string path = take_text(frame, head.path_bytes);
  const std::string content = take_text(frame, frame.payload.size());
  const auto kind = static_cast<FileKind>(head.kind);
  if (kind == FileKind::kDone) {
    tree_.remove_others();
    options_.serving();
    return true;
  }
  if (!is_tree_path(path)) return false;
  if (!lay_out(kind, path, content)) report_("cannot write " + tree_.folder() + "/" + path);
  return true;
}

/// Returns false if the file cannot be written, or is not one of a device tree.
bool Agent::lay_out(FileKind kind, const std::string& path, const std::string& content) {
  switch (kind) {
    case FileKind::kRegular:
      return tree_.write(path, guest_content(path, content));
    case FileKind::kLink:
      return is_inner_link(path, content) && tree_.link(path, content);
    case FileKind::kSocket:
      tree_.keep(path);
      return is_socket_name(path) && sockets_.open(tree_.folder(), path);
    case FileKind::kRemoved:
      sockets_.close(path);
      tree_.remove(path);
      return true;
    default:
      return false;
  }
}

/// Returns the content of a file in the guest: the path of a socket is another one here.
std::string Agent::guest_content(const std::string& path, const std::string& content) const {
  if (!path.ends_with("/softhca_socket") && !path.ends_with("/softhca_device")) return content;
  const std::size_t begin = content.find('/'), last = content.rfind('/');
  if (begin == content.npos) return content;
  return content.substr(0, begin) + tree_.folder() + content.substr(last);
}

}  // namespace softhca::guest

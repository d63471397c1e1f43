// Protection domains and regions that several sessions of one user have in common.
#include <cerrno>
#include <utility>

#include "daemon/control/session/session.hpp"

namespace softhca::control {

int Session::share_context(const RequestBody& body, Reply& reply) {
  if (!body.empty()) return EINVAL;
  const auto token = shared_.device_files.share(file_, file_user());
  if (!token) return token.error().code;
  reply.write(*token);
  return 0;
}

/// Having the token is not enough: whoever got hold of a descriptor of another user's must not
/// reach that user's memory.
int Session::join_context(const RequestBody& body, Reply&) {
  abi::ContextToken token;
  if (!body.read(token)) return EINVAL;
  if (file_->pds.size() != 0 || file_->mrs.size() != 0) return EBUSY;
  auto file = shared_.device_files.find(token, file_user());
  if (file == nullptr) return EACCES;
  forget_file();
  file_ = std::move(file);
  return 0;
}

/// The token of a file ends with the last session that has the file.
void Session::forget_file() {
  if (file_.use_count() == 1) shared_.device_files.forget(*file_, file_user());
}

int Session::import_pd(const RequestBody& body, Reply&) {
  abi::HandleBody request;
  if (!body.read(request)) return EINVAL;
  return file_->pds.find(request.handle) != nullptr ? 0 : EINVAL;
}

int Session::import_mr(const RequestBody& body, Reply& reply) {
  abi::HandleBody request;
  if (!body.read(request)) return EINVAL;
  const Mr* mr = file_->mrs.find(request.handle);
  if (mr == nullptr) return EINVAL;
  const memory::Region& region = *mr->region;
  reply.write(abi::ImportMrReply{.length = region.length(),
                                 .iova = region.iova(),
                                 .lkey = mr->key,
                                 .rkey = mr->rkey(),
                                 .access = region.access(),
                                 .reserved = 0});
  return 0;
}

}  // namespace softhca::control

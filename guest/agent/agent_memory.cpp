// SPDX-License-Identifier: Apache-2.0

// Requests that the agent answers itself.
#include <fcntl.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "abi/session.hpp"
#include "guest/agent/agent.hpp"

namespace softhca::guest {
namespace {

/// Copies the body of a request. Returns false if it has another length.
template <class Body>
bool read_body(std::span<const std::byte> bytes, Body& body) {
  if (bytes.size() != sizeof body) return false;
  std::memcpy(&body, bytes.data(), sizeof body);
  return true;
}

}  // namespace

bool Agent::answer(Stream& stream, std::span<const std::byte> record) {
  abi::RequestHeader header;
  if (record.size() < sizeof header) return false;
  std::memcpy(&header, record.data(), sizeof header);
  const auto body = record.subspan(sizeof header);
  switch (static_cast<abi::Operation>(header.operation)) {
    case abi::Operation::kAllocShared:
      allocate(stream, header.tag, body);
      return true;
    case abi::Operation::kFreeShared:
      free(stream, header.tag, body);
      return true;
    case abi::Operation::kNameShared:
    case abi::Operation::kJoinShared:
      refuse(stream, header.tag, EOPNOTSUPP,
             "programs of a virtual machine cannot share registered memory");
      return true;
    case abi::Operation::kOfferMemory:
      offers_[stream.number] = header.tag;  // the daemon gives the memory a number
      return false;
    default:
      return false;
  }
}

void Agent::reply(Stream& stream, std::uint32_t tag, std::span<const std::byte> body,
                  std::vector<UniqueFd> fds) {
  const abi::ReplyHeader header{tag, 0};
  std::vector<std::byte> record(sizeof header);
  std::memcpy(record.data(), &header, sizeof header);
  record.insert(record.end(), body.begin(), body.end());
  streams_.deliver(stream, std::move(record), std::move(fds));
}

void Agent::refuse(Stream& stream, std::uint32_t tag, int error, const std::string& text) {
  const abi::ReplyHeader header{tag, error};
  std::vector<std::byte> record(sizeof header);
  std::memcpy(record.data(), &header, sizeof header);
  const auto bytes = std::as_bytes(std::span(text))
                         .first(std::min<std::size_t>(text.size(), abi::kMaxRefusalText));
  record.insert(record.end(), bytes.begin(), bytes.end());
  streams_.deliver(stream, std::move(record), {});
}

void Agent::allocate(Stream& stream, std::uint32_t tag, std::span<const std::byte> body) {
  abi::AllocSharedRequest request;
  if (!read_body(body, request)) return refuse(stream, tag, EINVAL, "");
  abi::MemoryPlace piece{};
  const int error = clients_.allocate(stream.number, request.bytes, piece);
  if (error == ENOMEM)
    return refuse(stream, tag, error,
                  "the machine's region has no free piece of " + std::to_string(request.bytes) +
                      " bytes; " + std::to_string(clients_.free_bytes()) + " bytes are free");
  if (error != 0)
    return refuse(
        stream, tag, error,
        "shared memory of " + std::to_string(request.bytes) + " bytes: must be whole pages");
  struct {
    abi::AllocSharedReply reply;
    abi::MemoryPlaces places;
  } answer{{static_cast<std::uint32_t>(piece.offset / abi::kPageBytes), 0, region_.inode()},
           {piece, {}}};
  static_assert(sizeof answer == sizeof answer.reply + sizeof answer.places);
  std::vector<UniqueFd> fds;
  fds.emplace_back(::fcntl(region_.fd(), F_DUPFD_CLOEXEC, 0));
  if (!fds.front()) {
    clients_.free(stream.number, answer.reply.handle, true);
    return refuse(stream, tag, ENOMEM, "softhca-guest has too many descriptors");
  }
  reply(stream, tag, bytes_of(answer), std::move(fds));
}

/// Completes the daemon's reply to kOfferMemory: the program gets a socket by which it offers its
/// memory to the process that makes the accesses. Returns false if that cannot be.
bool Agent::complete_offer(std::uint32_t stream, Delivery& delivery) {
  const auto offer = offers_.find(stream);
  abi::ReplyHeader header;
  if (offer == offers_.end() || delivery.bytes.size() < sizeof header) return true;
  std::memcpy(&header, delivery.bytes.data(), sizeof header);
  if (header.tag != offer->second) return true;
  offers_.erase(offer);
  abi::OfferMemoryReply reply;
  if (header.error != 0 || delivery.bytes.size() != sizeof header + sizeof reply) return true;
  std::memcpy(&reply, delivery.bytes.data() + sizeof header, sizeof reply);
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) return false;
  const UniqueFd ours(ends[0]);
  UniqueFd theirs(ends[1]);
  if (!memory_.add(reply.memory, ours)) return false;
  delivery.bytes.resize(sizeof header);
  delivery.fds.push_back(std::move(theirs));
  return true;
}

void Agent::free(Stream& stream, std::uint32_t tag, std::span<const std::byte> body) {
  abi::HandleBody request;
  if (!read_body(body, request)) return refuse(stream, tag, EINVAL, "");
  const bool is_unmapped = (request.reserved & abi::kIsUnmapped) != 0;
  if (const int error = clients_.free(stream.number, request.handle, is_unmapped); error != 0)
    return refuse(stream, tag, error, "the process has no shared memory of this handle");
  reply(stream, tag, {});
}

}  // namespace softhca::guest

// SPDX-License-Identifier: Apache-2.0

// The control messages of a process: any operations with any bodies, in any order. What it may not
// have it is refused, and when it ends nothing of it is left.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>

#include "tests/fuzz/input.hpp"
#include "tests/unit/device/session/client.hpp"

namespace softhca::control {
namespace {

using fuzz::Input;
using fuzz::require;

/// What a word of a request names, so that it can be one that there is.
enum class Word : std::uint8_t {
  kNumber,
  kPd,
  kShared,
  kMr,
  kChannel,
  kCq,
  kSrq,
  kQp,
  kAh,
  kMw,
  kXrcDomain,
  kOpenedQp
};
constexpr std::size_t kWords = 12;

struct Request {
  Operation operation;
  std::uint32_t bytes;  ///< of the body
  Word makes = Word::kNumber;
  std::array<std::pair<std::uint8_t, Word>, 5> names = {};  ///< at which word what is named
};

constexpr Request kRequests[] = {
    {Operation::kQueryDevice, sizeof(abi::HandleBody)},
    {Operation::kQueryPort, sizeof(abi::HandleBody)},
    {Operation::kAllocPd, sizeof(abi::HandleBody), Word::kPd},
    {Operation::kDeallocPd, sizeof(abi::HandleBody), {}, {{{0, Word::kPd}}}},
    {Operation::kAllocShared, sizeof(abi::AllocSharedRequest), Word::kShared},
    {Operation::kFreeShared, sizeof(abi::HandleBody), {}, {{{0, Word::kShared}}}},
    {Operation::kRegisterMr, sizeof(abi::RegisterMrRequest), Word::kMr, {{{7, Word::kPd}}}},
    {Operation::kReregisterMr,
     sizeof(abi::ReregisterMrRequest),
     {},
     {{{0, Word::kMr}, {9, Word::kPd}}}},
    {Operation::kDeregisterMr, sizeof(abi::HandleBody), {}, {{{0, Word::kMr}}}},
    {Operation::kCreateChannel, sizeof(abi::HandleBody), Word::kChannel},
    {Operation::kCreateCq, sizeof(abi::CreateCqRequest), Word::kCq, {{{3, Word::kChannel}}}},
    {Operation::kResizeCq, sizeof(abi::ResizeCqRequest), {}, {{{0, Word::kCq}}}},
    {Operation::kDestroyCq, sizeof(abi::HandleBody), {}, {{{0, Word::kCq}}}},
    {Operation::kCreateSrq, sizeof(abi::CreateSrqRequest), Word::kSrq, {{{2, Word::kPd}}}},
    {Operation::kModifySrq, sizeof(abi::ModifySrqRequest), {}, {{{0, Word::kSrq}}}},
    {Operation::kQuerySrq, sizeof(abi::HandleBody), {}, {{{0, Word::kSrq}}}},
    {Operation::kDestroySrq, sizeof(abi::HandleBody), {}, {{{0, Word::kSrq}}}},
    {Operation::kCreateQp,
     sizeof(abi::CreateQpRequest),
     Word::kQp,
     {{{2, Word::kPd}, {4, Word::kCq}, {5, Word::kCq}, {6, Word::kSrq}, {13, Word::kXrcDomain}}}},
    {Operation::kModifyQp, sizeof(abi::ModifyQpRequest), {}, {{{0, Word::kQp}, {10, Word::kQp}}}},
    {Operation::kQueryQp, sizeof(abi::HandleBody), {}, {{{0, Word::kQp}}}},
    {Operation::kDestroyQp, sizeof(abi::DestroyQpRequest), {}, {{{0, Word::kQp}}}},
    {Operation::kCreateAh, sizeof(abi::CreateAhRequest), Word::kAh, {{{0, Word::kPd}}}},
    {Operation::kDestroyAh, sizeof(abi::HandleBody), {}, {{{0, Word::kAh}}}},
    {Operation::kAllocWindow, sizeof(abi::AllocWindowRequest), Word::kMw, {{{0, Word::kPd}}}},
    {Operation::kDeallocWindow, sizeof(abi::HandleBody), {}, {{{0, Word::kMw}}}},
    {Operation::kOpenXrcDomain, sizeof(abi::OpenXrcDomainRequest), Word::kXrcDomain},
    {Operation::kCloseXrcDomain, sizeof(abi::HandleBody), {}, {{{0, Word::kXrcDomain}}}},
    {Operation::kCreateSrq,
     sizeof(abi::CreateXrcSrqRequest),
     Word::kSrq,
     {{{2, Word::kPd}, {6, Word::kXrcDomain}, {7, Word::kCq}}}},
    {Operation::kOpenQp,
     sizeof(abi::OpenQpRequest),
     Word::kOpenedQp,
     {{{2, Word::kXrcDomain}, {3, Word::kQp}}}},
    {Operation::kCloseQp, sizeof(abi::HandleBody), {}, {{{0, Word::kOpenedQp}}}},
    {Operation::kModifyCq, sizeof(abi::ModifyCqRequest), {}, {{{0, Word::kCq}}}},
    {Operation::kAllocNullMr, sizeof(abi::HandleBody), Word::kMr, {{{0, Word::kPd}}}},
    {Operation::kAttachMulticast, sizeof(abi::MulticastRequest), {}, {{{0, Word::kQp}}}},
    {Operation::kDetachMulticast, sizeof(abi::MulticastRequest), {}, {{{0, Word::kQp}}}},
    {Operation::kShareContext, sizeof(abi::HandleBody)},
    {Operation::kJoinContext, sizeof(abi::ContextToken)},
    {Operation::kImportPd, sizeof(abi::HandleBody), {}, {{{0, Word::kPd}}}},
    {Operation::kImportMr, sizeof(abi::HandleBody), {}, {{{0, Word::kMr}}}},
    {Operation::kNameShared, sizeof(abi::HandleBody), {}, {{{0, Word::kShared}}}},
    {Operation::kJoinShared, sizeof(abi::SharedToken)},
    {Operation::kResizeSrq, sizeof(abi::ResizeSrqRequest), {}, {{{0, Word::kSrq}}}},
    {Operation::kOfferMemory, sizeof(abi::HandleBody)},
};

/// Little enough that many runs are made a second.
configuration::Config config() {
  configuration::Config config = small_config();
  for (configuration::TenantConfig& tenant : config.tenants) {
    tenant.limits[configuration::Kind::kQueueBytes] = 16 << 20;
    tenant.limits[configuration::Kind::kSharedBytes] = 16 << 20;
  }
  return config;
}

Daemon& daemon() {
  static Daemon the_daemon(config());
  return the_daemon;
}

void nothing_is_left() {
  for (const auto& tenant : daemon().adapter.tenants) {
    require(tenant->counters.sessions.value() == 0, "no session");
    require(tenant->counters.queue_pairs.value() == 0, "no queue pair");
    require(tenant->counters.memory_regions.value() == 0, "no region");
    require(tenant->counters.memory.registered_bytes.value() == 0, "nothing registered");
    require(tenant->control.vcbs.in_use.value() == 0, "no VCB");
    configuration::for_each_kind([&](configuration::Kind kind) {
      require(tenant->control.accounts.in_use(kind) == 0, "nothing charged");
    });
  }
  engine::Engine& engine = daemon().engine;
  require(engine.intake().functions().unassigned() == engine.intake().functions().size(),
          "functions are free");
  require(engine.keys().size() == 0, "keys are free");
}

class Run {
 public:
  explicit Run(Input& input) : input_(input), client_(daemon()) {}

  void run() {
    bool open = input_.byte() == 0xff ? odd_greeting() : client_.greet() == 0;
    for (int i = 0; i < kMostRequests && open && !input_.done(); ++i) open = step();
    client_.end();
    nothing_is_left();
  }

 private:
  static constexpr int kMostRequests = 64;
  static constexpr std::uint32_t kMostMade = 8;

  bool odd_greeting() {
    std::vector<std::byte> body = words(sizeof(abi::HelloWithLevel), nullptr);
    body.resize(input_.flag() ? sizeof(abi::HelloWithLevel) : sizeof(abi::HelloRequest));
    const abi::HelloRequest hello{abi::kSessionMagic, {abi::kAbiVersion, 0}};
    const std::size_t valid = input_.flag() ? sizeof hello : input_.flag() ? sizeof hello.magic : 0;
    std::memcpy(body.data(), &hello, valid);
    return send(static_cast<std::uint32_t>(Operation::kHello), body, nullptr);
  }

  bool step() {
    const std::uint8_t choice = input_.byte();
    if (choice == 0xff) {  // any record
      const std::uint32_t operation = input_.flag() ? input_.byte() : input_.take<std::uint32_t>();
      const auto body = std::as_bytes(input_.bytes(input_.take<std::uint16_t>() % abi::kMaxRecord));
      return send(operation, {body.begin(), body.end()}, nullptr);
    }
    if (choice == 0xfe) return client_.send(std::as_bytes(input_.bytes(input_.byte() % 8)));
    const Request& request = kRequests[choice % std::size(kRequests)];
    std::vector<std::byte> body = words(request.bytes, &request);
    if (request.operation == Operation::kRegisterMr) add_extents<abi::RegisterMrRequest>(body);
    if (request.operation == Operation::kReregisterMr) add_extents<abi::ReregisterMrRequest>(body);
    return send(static_cast<std::uint32_t>(request.operation), body, &request);
  }

  bool send(std::uint32_t operation, const std::vector<std::byte>& body, const Request* request) {
    if (!client_.send(static_cast<Operation>(operation), body)) return false;
    std::vector<std::byte> reply;
    const int error = client_.receive(reply);
    require(error >= 0, "every request has a reply");
    client_.keep_descriptors();
    if (error == 0 && request != nullptr && request->makes != Word::kNumber) {
      require(reply.size() >= sizeof(std::uint32_t), "a handle");
      std::uint32_t handle = 0;
      std::memcpy(&handle, reply.data(), sizeof handle);
      auto& made = made_[static_cast<std::size_t>(request->makes)];
      if (made.size() < kMostMade) made.push_back(handle);
    }
    return true;
  }

  /// So many bytes, word by word: numbers of any size, or what there is of the kind.
  std::vector<std::byte> words(std::size_t bytes, const Request* request) {
    std::vector<std::byte> body(bytes);
    for (std::size_t i = 0; i < bytes / 4; ++i) {
      const std::uint32_t word = word_at(i, request);
      std::memcpy(body.data() + 4 * i, &word, sizeof word);
    }
    return body;
  }

  std::uint32_t word_at(std::size_t i, const Request* request) {
    const std::uint8_t choice = input_.byte();
    if (request != nullptr && choice < 0xe0)
      for (const auto& [at, what] : request->names)
        if (what != Word::kNumber && at == i) return one_of(what, choice);
    switch (choice) {
      case 0xff:
        return ~0u;
      case 0xfe:
        return input_.take<std::uint32_t>();
      case 0xfd:
        return input_.take<std::uint16_t>();
      case 0xfc:
        return 1u << (input_.byte() % 32);
      default:
        return choice;
    }
  }

  std::uint32_t one_of(Word what, std::uint8_t choice) const {
    const auto& made = made_[static_cast<std::size_t>(what)];
    return made.empty() ? abi::kNoHandle : made[choice % made.size()];
  }

  /// As many as the head says, or nearly; of shared memory or of the process.
  template <class Head>
  void add_extents(std::vector<std::byte>& body) {
    constexpr std::size_t kRegion = sizeof(Head) - sizeof(abi::RegisterMrRequest);
    abi::RegisterMrRequest region;
    std::memcpy(&region, body.data() + kRegion, sizeof region);
    if (input_.flag()) region = fitting(region);
    const std::uint32_t count = std::min(region.extents, abi::kMaxMrExtents);
    std::vector<abi::MrExtent> extents(count);
    std::uint64_t at = region.addr;
    for (std::uint32_t i = 0; i < count; ++i) {
      const std::uint64_t rest = region.addr + region.length - at;
      extents[i] = {.addr = at,
                    .length = i + 1 == count ? rest : std::min<std::uint64_t>(rest, 4096),
                    .offset = std::uint64_t{input_.byte()} << 12,
                    .handle = one_of(Word::kShared, input_.byte()),
                    .kind = input_.byte() % 2u};
      at += extents[i].length;
    }
    if (input_.byte() == 0xff && count != 0) extents[count / 2].addr = input_.take<std::uint64_t>();
    std::memcpy(body.data() + kRegion, &region, sizeof region);
    const auto tail = std::as_bytes(std::span(extents));
    body.insert(body.end(), tail.begin(), tail.end());
  }

  static abi::RegisterMrRequest fitting(abi::RegisterMrRequest region) {
    region.extents %= 4;
    region.length %= 1 << 16;
    region.addr = 0x10000000 + (region.addr & 0xffff000);
    region.access &= 0xf;
    region.reserved = 0;
    return region;
  }

  Input& input_;
  Client client_;
  std::array<std::vector<std::uint32_t>, kWords> made_;
};

}  // namespace
}  // namespace softhca::control

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace softhca;
  GTEST_FLAG_SET(break_on_failure, true);  // what Client expects must hold
  fuzz::Input input(data, size);
  control::Run(input).run();
  return 0;
}

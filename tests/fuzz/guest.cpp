// SPDX-License-Identifier: Apache-2.0

// Any bytes on the channel of a virtual machine, at the relay or at the agent, while programs and
// the daemon connect, send and close. All stays bounded, and a relay serves the next agent.
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "daemon/base/passed_descriptors.hpp"
#include "guest/agent/agent.hpp"
#include "guest/relay/relay.hpp"
#include "tests/folder.hpp"
#include "tests/fuzz/input.hpp"

namespace softhca::guest {
namespace {

using fuzz::Input;
using fuzz::require;
using Bytes = std::vector<std::byte>;

constexpr std::uint64_t kRegionBytes = 1 << 20;
constexpr abi::StartMachineReply kReply{{65536, 16 * 4096}, {}};

UniqueFd make_region() {
  UniqueFd region(::memfd_create("region", MFD_CLOEXEC));
  require(::ftruncate(region.get(), kRegionBytes) == 0, "there is memory");
  return region;
}

/// A socket pair of which the test has one end.
std::pair<UniqueFd, UniqueFd> make_pair(int type) {
  int ends[2];
  require(::socketpair(AF_UNIX, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) == 0,
          "there are descriptors");
  return {UniqueFd(ends[0]), UniqueFd(ends[1])};
}

/// The other end of the channel, and the processes beside the end that is tested.
class World {
 public:
  explicit World(Input& input) : input_(input) { require(!!loop_.open(), "there is an epoll"); }
  virtual ~World() = default;

  void run() {
    while (!input_.done()) {
      step();
      turn();
    }
  }

 protected:
  virtual void flush() = 0;
  virtual void begin() = 0;         ///< sends a proper kStart or kStarted
  virtual void connect() = 0;       ///< a process connects, or accepts
  virtual void send_local() = 0;    ///< a process sends
  virtual void send_special() = 0;  ///< sends the frame that only this end sends, well formed

  Bytes bytes(std::size_t most) {
    const auto got = std::as_bytes(input_.bytes(input_.take<std::uint16_t>() % most));
    return {got.begin(), got.end()};
  }
  std::uint32_t number() {
    const std::uint32_t which = input_.below(12);
    return which < 4    ? which
           : which < 11 ? kFirstOfRelay + which - 4
                        : input_.take<std::uint32_t>();
  }
  void send(std::span<const std::byte> bytes) {
    for (int i = 0; i < 100 && !bytes.empty(); ++i) {
      const ssize_t sent = ::send(channel_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent > 0) bytes = bytes.subspan(static_cast<std::size_t>(sent));
      if (sent < 0 && errno != EAGAIN) return;
      turn();
    }
  }
  void send_frame(FrameKind kind, std::uint32_t stream, Outbox::Parts payload) {
    Outbox outbox;
    outbox.add(kind, stream, payload);
    send(outbox.front());
  }
  void step() {
    switch (input_.below(10)) {
      case 0:
        return send(bytes(64));
      case 1: {
        const auto kind = static_cast<FrameKind>(input_.below(kFrameKinds + 1));
        const std::uint32_t stream = number();
        return send_frame(kind, stream, {bytes(1000)});
      }
      case 2:
        return send_record();
      case 3:
        return begin();
      case 4:
        return connect();
      case 5:
        return send_local();
      case 6:
        if (!peers_.empty()) peers_.erase(peers_.begin() + input_.below(peers_.size()));
        return;
      case 7: {
        const CreditBody body{input_.flag() ? input_.take<std::uint32_t>() : 1000, 0};
        return send_frame(FrameKind::kCredit, number(), {bytes_of(body)});
      }
      case 8: {
        const FrameKind kind = input_.flag() ? FrameKind::kClose : FrameKind::kWake;
        return send_frame(kind, number(), {});
      }
      default:
        return send_special();
    }
  }
  void send_record() {
    std::vector<PassedDescriptor> descriptors(input_.below(4));
    for (PassedDescriptor& each : descriptors) {
      each.kind = input_.below(6);
      each.stream = number();
    }
    const RecordHead head{static_cast<std::uint32_t>(descriptors.size()), 0};
    const std::uint32_t stream = number();
    send_frame(FrameKind::kRecord, stream,
               {bytes_of(head), std::as_bytes(std::span(descriptors)), bytes(17'000)});
  }
  /// Reads what the end sends, and what processes get.
  void turn() {
    for (int i = 0; i < 8; ++i) {
      flush();
      require(!!loop_.step(0), "the loop goes on");
    }
    for (;;) {
      const auto room = reader_.room();
      const ssize_t got = ::recv(channel_.get(), room.data(), room.size(), MSG_DONTWAIT);
      if (got <= 0) break;
      reader_.filled(static_cast<std::size_t>(got));
      Frame frame;
      for (FrameReader::Result result;
           (result = reader_.next(frame)) != FrameReader::Result::kMore;)
        if (result == FrameReader::Result::kFrame) note(frame);
    }
  }
  virtual void note(Frame frame) = 0;

  Input& input_;
  EventLoop loop_;
  Report report_{""};
  control::Folder folder_;
  UniqueFd region_ = make_region();
  UniqueFd channel_;
  FrameReader reader_;
  std::vector<UniqueFd> peers_;
};

class RelayWorld final : public World {
 public:
  explicit RelayWorld(Input& input) : World(input) {
    std::filesystem::create_directories(folder_.path() + "/t");
    const std::string path = folder_.path() + "/t/socket";
    auto listener = listen_on(path, SOCK_SEQPACKET, 0600);
    require(!!listener, "the daemon listens");
    listener_ = std::move(*listener);
    take(path);
    relay_ = std::make_unique<Relay>(loop_, *machine_,
                                     RelayOptions{folder_.path() + "/t", "t", false}, report_);
    auto [ours, theirs] = make_pair(SOCK_STREAM);
    channel_ = std::move(ours);
    relay_->connect(std::move(theirs));
  }
  ~RelayWorld() override {
    require(relay_->streams() <= kMaxStreams, "streams are bounded");
    peers_.clear();
    nonce_ = 0x5eed;
    started_ = false;
    send_start(nonce_);
    for (int i = 0; i < 100 && !started_; ++i) {
      for (UniqueFd late; (late = accept()); late.reset()) {
      }
      turn();
    }
    require(started_, "the relay serves the next agent");
  }

 private:
  UniqueFd accept() {
    return UniqueFd(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  }
  void take(const std::string& path) {
    std::thread daemon([&] {
      while (!(monitor_ = accept())) std::this_thread::yield();
      abi::RequestHeader request;
      while (::recv(monitor_.get(), &request, sizeof request, 0) < 0) std::this_thread::yield();
      struct {
        abi::ReplyHeader header;
        abi::TakeMachineReply body;
      } reply{{request.tag, 0}, {kRegionBytes}};
      send_with_descriptors(monitor_.get(), bytes_of(reply), std::array{region_.get()});
    });
    auto machine = Machine::take(path);
    daemon.join();
    require(!!machine, "the machine is taken");
    machine_.emplace(std::move(*machine));
  }
  void send_start(std::uint64_t nonce) {
    send(Bytes(kMaxFrame));
    send(std::as_bytes(std::span(kMagic)));
    const StartBody body{nonce, 0, kRegionBytes, kChannelVersion, 0};
    send_frame(FrameKind::kStart, 0, {bytes_of(body)});
  }

  void flush() override {
    relay_->flush();
    struct {
      abi::RequestHeader header;
      abi::StartMachineRequest body;
    } request;
    if (::recv(monitor_.get(), &request, sizeof request, MSG_DONTWAIT) != sizeof request) return;
    struct {
      abi::ReplyHeader header;
      abi::StartMachineReply body;
    } reply{{request.header.tag, 0}, kReply};
    send_with_descriptors(monitor_.get(), bytes_of(reply), {});
  }
  void begin() override { send_start(input_.take<std::uint64_t>()); }
  void connect() override {
    if (UniqueFd peer = accept(); peer && peers_.size() < 64) peers_.push_back(std::move(peer));
  }
  void send_local() override {
    if (peers_.empty()) return;
    const int peer = peers_[input_.below(peers_.size())].get();
    std::vector<UniqueFd> fds;
    for (std::uint32_t left = input_.below(4); left != 0; --left) fds.push_back(descriptor());
    std::vector<int> numbers;
    for (const UniqueFd& fd : fds) numbers.push_back(fd.get());
    send_with_descriptors(peer, bytes(17'000), numbers);
  }
  UniqueFd descriptor() {
    const std::uint32_t kind = input_.below(8);
    if (kind == 0) return make_region();
    if (kind == 1) return UniqueFd(::dup(region_.get()));
    if (kind == 2) return UniqueFd(::eventfd(0, EFD_NONBLOCK));
    auto [ours, theirs] = make_pair(kind < 6 ? SOCK_SEQPACKET : SOCK_STREAM);
    if (peers_.size() < 64) peers_.push_back(std::move(ours));
    return std::move(theirs);
  }
  void send_special() override {
    const std::string name = input_.flag() ? "socket" : "x.socket";
    send_frame(FrameKind::kOpen, number(), {std::as_bytes(std::span(name))});
  }
  void note(Frame frame) override {
    StartedBody body;
    if (frame.kind == FrameKind::kStarted && frame.take(body) && body.nonce == nonce_)
      started_ = body.error == 0;
  }

  UniqueFd listener_, monitor_;
  std::optional<Machine> machine_;
  std::unique_ptr<Relay> relay_;
  std::uint64_t nonce_ = 0;
  bool started_ = false;
};

class AgentWorld final : public World {
 public:
  explicit AgentWorld(Input& input) : World(input) {
    auto region = Region::open("/proc/self/fd/" + std::to_string(region_.get()));
    require(!!region, "the region opens");
    std::filesystem::create_directory(folder_.path() + "/run");
    guest_region_.emplace(std::move(*region));
    agent_ = std::make_unique<Agent>(loop_, *guest_region_,
                                     AgentOptions{.runtime_directory = folder_.path() + "/run",
                                                  .group = std::nullopt,
                                                  .open_channel = [this]() -> Expected<UniqueFd> {
                                                    auto [ours, theirs] = make_pair(SOCK_STREAM);
                                                    channel_ = std::move(ours);
                                                    return std::move(theirs);
                                                  }},
                                     report_);
    agent_->begin();
    turn();
    begin();
  }
  ~AgentWorld() override {
    require(agent_->streams() <= kMaxStreams, "streams are bounded");
    for (const auto& entry : std::filesystem::directory_iterator(folder_.path()))
      require(entry.path().filename() == "run", "the agent writes to its folder only");
    for (const auto& entry : std::filesystem::recursive_directory_iterator(folder_.path() + "/run"))
      if (entry.is_symlink())
        require(std::filesystem::weakly_canonical(entry.path())
                    .string()
                    .starts_with(std::filesystem::canonical(folder_.path() + "/run").string()),
                "links stay in the folder");
  }

 private:
  void flush() override { agent_->flush(); }
  void begin() override {
    send(std::as_bytes(std::span(kMagic)));
    StartedBody body{nonce_, kChannelVersion, 0, kReply};
    if (input_.below(4) == 3) body.machine.shared.bytes = input_.take<std::uint64_t>();
    const std::string name = input_.below(8) == 7 ? ".." : "t";
    send_frame(FrameKind::kStarted, 0, {bytes_of(body), std::as_bytes(std::span(name))});
    const FileHead socket{static_cast<std::uint32_t>(FileKind::kSocket), 6};
    send_frame(FrameKind::kFile, 0, {bytes_of(socket), std::as_bytes(std::span("socket", 6))});
  }
  void connect() override {
    auto program = connect_to(folder_.path() + "/run/t/socket", SOCK_SEQPACKET);
    if (program && peers_.size() < 64) peers_.push_back(std::move(*program));
  }
  void send_local() override {
    if (peers_.empty()) return;
    const int peer = peers_[input_.below(peers_.size())].get();
    const auto operation =
        input_.flag() ? abi::Operation::kAllocShared : abi::Operation::kFreeShared;
    const abi::RequestHeader header{static_cast<std::uint32_t>(operation), 1};
    const std::uint64_t value = input_.flag() ? input_.below(20) : input_.below(20) * 4096;
    Bytes record;
    for (const auto part : {bytes_of(header), bytes_of(value)})
      record.insert(record.end(), part.begin(), part.end());
    if (input_.below(4) == 3) record = bytes(200);
    send_with_descriptors(peer, record, {});
  }
  void send_special() override {
    static const std::vector<std::string> kPaths = {
        "a", "a/b", "a/b/c", "../a", "socket", "x.socket", "", "sysfs/softhca_socket", "/a"};
    static const std::vector<std::string> kContents = {
        "x", "b", "../a", "../../..", "/etc", "/run/t/socket\n", ""};
    const std::string& path = kPaths[input_.below(kPaths.size())];
    const std::string& content = kContents[input_.below(kContents.size())];
    const FileHead head{input_.below(7), static_cast<std::uint32_t>(path.size())};
    send_frame(FrameKind::kFile, 0,
               {bytes_of(head), std::as_bytes(std::span(path)), std::as_bytes(std::span(content))});
  }
  void note(Frame frame) override {
    StartBody body;
    if (frame.kind == FrameKind::kStart && frame.take(body)) nonce_ = body.nonce;
  }

  std::optional<Region> guest_region_;
  std::unique_ptr<Agent> agent_;
  std::uint64_t nonce_ = 0;
};

}  // namespace
}  // namespace softhca::guest

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace softhca::guest;
  softhca::fuzz::Input input(data, size);
  if (input.flag())
    RelayWorld(input).run();
  else
    AgentWorld(input).run();
  return 0;
}

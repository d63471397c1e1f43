// SPDX-License-Identifier: Apache-2.0

// A connection manager that peers send MADs, of their own making or nearly right ones, while its
// user connects, accepts, refuses and destroys, also within the calls that tell it of something.
#include "daemon/roce/cm/manager.hpp"

#include <set>
#include <vector>

#include "tests/fuzz/input.hpp"

namespace softhca::management::cm {
namespace {

using fuzz::Input;
using fuzz::require;

constexpr std::uint32_t kConnections = 12;
constexpr std::uint32_t kHalfOpen = 5;
constexpr std::size_t kIdsKept = 8;

Gid ours(bool other) { return Gid::from_ipv4(other ? 0x0a090002 : 0x0a090001); }
Gid theirs(bool other) { return Gid::from_ipv4(other ? 0x0a090004 : 0x0a090003); }

/// What a codec reads it writes, and reads the same again.
template <class Message>
void check_codec(const wire::Mad& mad) {
  const auto message = wire::decode_cm<Message>(mad);
  const wire::Mad again = wire::encode_cm(message, 1);
  require(wire::decode_cm<Message>(again) == message, "a message survives the codec");
}

void check_codecs(const wire::Mad& mad) {
  check_codec<wire::CmReq>(mad);
  check_codec<wire::CmMra>(mad);
  check_codec<wire::CmRej>(mad);
  check_codec<wire::CmRep>(mad);
  check_codec<wire::CmRtu>(mad);
  check_codec<wire::CmDreq>(mad);
  check_codec<wire::CmDrep>(mad);
  check_codec<wire::CmLap>(mad);
  check_codec<wire::CmApr>(mad);
  check_codec<wire::CmSidrReq>(mad);
  check_codec<wire::CmSidrRep>(mad);
}

class Run final : public CmEnvironment, public User {
 public:
  explicit Run(Input& input)
      : input_(input),
        manager_(*this, *this, 1, {.connections = kConnections, .half_open = kHalfOpen}) {}

  void run() {
    while (!input_.done()) {
      step();
      check();
    }
    end();
  }

  // Environment
  void send(const Path&, const wire::Mad& mad) override {
    ++sent_;
    const auto header = wire::decode_mad_header(mad);
    require(header && header->management_class == wire::ManagementClass::kCommunication,
            "only messages are sent");
  }
  std::uint32_t random() override { return next_random_ += 0x01000193; }

  // User
  Answer on_request(const ConnectionRequest& request) override { return answer(request.id); }
  Answer on_sidr_request(const SidrRequest& request) override { return answer(request.id); }
  void on_event(const Event& event) override {
    require(owned_.count(event.id.value) == 1, "events are for connections that have a user");
    const bool ends = event.kind == Event::Kind::kRejected ||
                      event.kind == Event::Kind::kTimeWaitOver ||
                      event.kind == Event::Kind::kSidrReplied ||
                      (event.kind == Event::Kind::kUnreachable && event.state != State::kDreqSent);
    if (ends) owned_.erase(event.id.value);
    if (input_.below(8) == 0) call();
  }

 private:
  Answer answer(CommId id) {
    const std::uint32_t what = input_.below(8);
    if (what == 0) return Answer::silence();
    if (what == 1) return Answer::refuse(wire::CmRejectReason{input_.byte()});
    if (what == 2) call();
    own(id);
    return Answer::take(id.value);
  }

  void own(CommId id) {
    owned_.insert(id.value);
    if (ids_.size() < kIdsKept)
      ids_.push_back(id);
    else
      ids_[next_place_++ % kIdsKept] = id;
  }

  CommId pick() { return ids_.empty() ? CommId(input_.byte()) : ids_[input_.byte() % ids_.size()]; }

  void step() {
    switch (input_.below(5)) {
      case 0:
        return receive_raw();
      case 1:
      case 2:
        return receive_made();
      case 3:
        return call();
      case 4:
        return pass_time();
    }
  }

  void pass_time() {
    now_ = input_.flag() && manager_.next_deadline() != kNever
               ? std::max(now_, manager_.next_deadline())
               : now_ + std::chrono::milliseconds(input_.take<std::uint16_t>());
    manager_.expire(now_);
    require(manager_.next_deadline() > now_, "what was due is done");
  }

  void receive(std::span<const std::byte> mad, const Path& path, Qpn source) {
    sent_ = calls_ = 0;
    manager_.receive(mad, path, source, now_);
    // REJ to a new connection and DREQ to the old one, at most; and what the user did.
    require(sent_ <= 2 + calls_, "a message costs no more than two");
  }

  void receive_raw() {
    const auto bytes = input_.bytes(wire::kMadBytes);
    const std::vector<std::byte> mad(
        reinterpret_cast<const std::byte*>(bytes.data()),
        reinterpret_cast<const std::byte*>(bytes.data() + bytes.size()));
    if (mad.size() == wire::kMadBytes) {
      wire::Mad whole;
      std::ranges::copy(mad, whole.begin());
      check_codecs(whole);
    }
    receive(mad, {.local = ours(false), .remote = theirs(false)}, Qpn(input_.flag() ? 2 : 1));
  }

  /// A message of a kind, of the input's bytes, with the ids of a connection that there is.
  void receive_made() {
    constexpr std::uint16_t kFirst = static_cast<std::uint16_t>(wire::CmAttribute::kReq);
    wire::Mad mad{};
    encode(wire::MadHeader{.management_class = wire::ManagementClass::kCommunication,
                           .class_version = wire::kCmClassVersion,
                           .method = wire::MadMethod::kSendMessage,
                           .transaction_id = input_.byte(),
                           .attribute_id = static_cast<std::uint16_t>(kFirst + input_.below(11))},
           mad);
    const auto body = input_.bytes(input_.byte());
    std::memcpy(mad.data() + wire::kMadHeaderBytes, body.data(),
                std::min(body.size(), mad.size() - wire::kMadHeaderBytes));
    const Path path{.local = ours(input_.below(8) == 0), .remote = theirs(input_.below(8) == 0)};
    if (wire::CmAttribute{static_cast<std::uint16_t>(wire::decode_mad_header(mad)->attribute_id)} ==
        wire::CmAttribute::kReq)
      mend_req(mad, path);
    else if (input_.below(8) != 0)
      mend_ids(mad);
    receive(mad, path, Qpn(1));
  }

  /// Few ids and few queue pairs, so that duplicates and stale connections come about.
  void mend_req(wire::Mad& mad, const Path& path) {
    auto req = wire::decode_cm<wire::CmReq>(mad);
    req.local_comm_id = 1 + input_.below(6);
    req.local_ca_guid = 2;
    req.local_qpn = Qpn(input_.below(4));
    if (input_.below(8) != 0) {
      req.path_mtu = 3;
      req.transport = wire::CmTransport{static_cast<std::uint8_t>(input_.below(2))};
      req.primary.local_gid = path.remote;
      req.primary.remote_gid = path.local;
    }
    mad = wire::encode_cm(req, 1);
  }

  /// All messages have the peer's id and ours at the front, questions one of them.
  void mend_ids(wire::Mad& mad) {
    const CommId id = pick();
    const auto view = manager_.view(id);
    const std::uint32_t remote =
        view && view->remote_comm_id != 0 ? view->remote_comm_id : 1 + input_.below(6);
    auto m = wire::decode_cm<wire::CmRtu>(mad);
    m.local_comm_id = remote;
    m.remote_comm_id = id.value;
    const wire::Mad ids = wire::encode_cm(m, 1);
    std::copy_n(ids.begin() + wire::kMadHeaderBytes, 8, mad.begin() + wire::kMadHeaderBytes);
    // The queue pair of a DREQ, which is 0 as the user made it.
    if (input_.flag()) std::fill_n(mad.begin() + wire::kMadHeaderBytes + 8, 3, std::byte{0});
  }

  PrivateData data() {
    static const std::array<std::byte, 256> kBytes{};
    return std::span(kBytes).first(input_.below(16) == 0 ? 250 : input_.byte() % 64);
  }

  void call() {
    ++calls_;
    const std::uint32_t what = input_.below(11);
    if (what == 0) return connect();
    if (what == 1) return ask();
    const CommId id = pick();
    const bool mine = owned_.count(id.value) == 1;
    const Result result = call(what, id);
    if (!mine) require(result == Result::kUnknown || result == Result::kTooLong, "not the user's");
    const bool leaves = what == 2 || what == 3 || what == 4;
    if (leaves && result == Result::kOk) owned_.erase(id.value);
  }

  Result call(std::uint32_t what, CommId id) {
    switch (what) {
      case 2:
        return manager_.destroy(id, now_);
      case 3:
        return manager_.reject(id, {wire::CmRejectReason{input_.byte()}, data().first(0), data()},
                               now_);
      case 4:
        return manager_.sidr_reply(id, {.private_data = data()}, now_);
      case 5:
        return manager_.accept(id, {.private_data = data()}, now_);
      case 6:
        return manager_.confirm(id, now_, data());
      case 7:
        return manager_.disconnect(id, now_, data());
      case 8:
        return manager_.notify_established(id, now_);
      default:
        return manager_.send_mra(id, input_.byte() & 0x1f, now_);
    }
  }

  void connect() {
    const auto started =
        manager_.connect({.path = {.local = ours(false), .remote = theirs(false)},
                          .service_id = input_.byte(),
                          .max_cm_retries = static_cast<std::uint8_t>(input_.below(4)),
                          .private_data = data()},
                         now_);
    if (started.result == Result::kOk) own(started.id);
  }

  void ask() {
    const auto started =
        manager_.sidr_request({.path = {.local = ours(false), .remote = theirs(false)},
                               .max_cm_retries = static_cast<std::uint8_t>(input_.below(4)),
                               .private_data = data()},
                              now_);
    if (started.result == Result::kOk) own(started.id);
  }

  void check() {
    require(manager_.size() <= kConnections, "connections are bounded");
    require(manager_.half_open() <= kHalfOpen, "half-open connections are bounded");
    std::size_t with_user = 0;
    std::uint32_t half_open = 0;
    manager_.for_each([&](const ConnectionView& view) {
      with_user += view.has_user;
      require(view.has_user == (owned_.count(view.id.value) == 1),
              "the user owns the connections that have a user");
      const bool waits = view.state == State::kReqReceived || view.state == State::kMraReqSent ||
                         view.state == State::kRepSent || view.state == State::kMraRepReceived ||
                         view.state == State::kSidrReqReceived;
      half_open += waits && view.has_user && !view.active;
      (void)manager_.queue_pair_attributes(view.id);
    });
    require(with_user == owned_.size(), "the user has what it was told of");
    require(half_open == manager_.half_open(), "half-open connections are counted");
  }

  /// The user leaves all: in the end nothing remains.
  void end() {
    const std::set<std::uint32_t> left = owned_;
    for (const std::uint32_t id : left) manager_.destroy(CommId(id), now_);
    owned_.clear();
    for (unsigned steps = 0; manager_.next_deadline() != kNever; ++steps) {
      require(steps < 1000, "it comes to an end");
      now_ = std::max(now_, manager_.next_deadline());
      manager_.expire(now_);
    }
    require(manager_.size() == 0, "nothing remains");
  }

  Input& input_;
  Time now_{};
  std::uint32_t next_random_ = 1;
  unsigned sent_ = 0;
  unsigned calls_ = 0;
  std::set<std::uint32_t> owned_;
  std::vector<CommId> ids_;
  std::size_t next_place_ = 0;
  Manager manager_;
};

}  // namespace
}  // namespace softhca::management::cm

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  softhca::fuzz::Input input(data, size);
  softhca::management::cm::Run(input).run();
  return 0;
}

// SPDX-License-Identifier: Apache-2.0

// Connections of every shape, and all that can be done to them.
#include "tests/system/verbs/stress/link.hpp"
#include "tests/system/verbs/stress/worker.hpp"

namespace softhca::stress {
namespace {

class LinkWorker : public Worker {
 public:
  explicit LinkWorker(const Stage& stage) : stage_(stage) {}

  void round() override {
    current_ = random_.below(kLinks);
    std::unique_ptr<Link>& link = links_[current_];
    if (random_.below(32) == 0) link.reset();  // whatever is under way
    if (!link) link = std::make_unique<Link>(stage_, random_shape(random_, stage_.lossy), random_);
    if (link->room() != 0 && random_.below(4) != 0)
      link->post(random_.below(2) == 0 ? link->room() : random_.between(1, link->room()));
    change(*link);
  }
  void recover() override { links_[current_].reset(); }

 private:
  static constexpr unsigned kLinks = 2;

  void change(Link& link) {
    switch (random_.below(12)) {
      case 0:
        return link.reset();
      case 1:
      case 2:
        return link.reset_often();
      case 3:
        return link.recreate();
      case 4:
        return link.break_down();
      case 5:
        return link.drain();
      case 6:
        link.resize();
        return link.settle();
      case 7:
        link.settle();
        return link.enroll_again();
      case 8:
        return;
      default:
        return link.settle();
    }
  }

  const Stage stage_;
  unsigned current_ = 0;
  std::unique_ptr<Link> links_[kLinks];
};

/// Polls and resizes what others' queue pairs complete to.
class CrowdWorker : public Worker {
 public:
  explicit CrowdWorker(Station& station) : station_(station) {}

  void round() override {
    Completions& queue = *station_.queues[random_.below(Station::kSharedQueues)];
    for (std::uint32_t polls = random_.below(50); polls > 0; --polls) {
      queue.poll();
      pause();
    }
    queue.resize(static_cast<int>(Station::kLeastEntries * random_.between(1, 4)));
    std::this_thread::sleep_for(std::chrono::milliseconds(random_.below(10)));
  }
  void recover() override {}

 private:
  Station& station_;
};

}  // namespace

std::unique_ptr<Worker> make_link_worker(const Stage& stage) {
  return std::make_unique<LinkWorker>(stage);
}
std::unique_ptr<Worker> make_crowd_worker(Station& station) {
  return std::make_unique<CrowdWorker>(station);
}

}  // namespace softhca::stress

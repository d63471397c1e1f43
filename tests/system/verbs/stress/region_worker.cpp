// SPDX-License-Identifier: Apache-2.0

// Regions and windows that come and go, change, overlap and adjoin, beside those of other threads:
// what a key allows happens, and what it does not allow fails and changes nothing.
#include <algorithm>
#include <cstring>

#include "tests/system/verbs/stress/loop.hpp"
#include "tests/system/verbs/stress/playground.hpp"
#include "tests/system/verbs/stress/worker.hpp"

namespace softhca::stress {
namespace {

constexpr unsigned kMost = 6;  // regions, and windows
constexpr unsigned kDepth = 32;
constexpr int kRemote = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;

class RegionWorker : public Worker {
 public:
  RegionWorker(Station& station, const Playground& ground, unsigned owner)
      : station_(station),
        ground_(ground),
        stripes_(ground, owner),
        pd_(made(ibv_alloc_pd(station.device.context.get()), "ibv_alloc_pd")),
        own_(2, Stripes::kBytes, Stripes::kBytes),
        completions_(station.device, kDepth) {}
  ~RegionWorker() override { end(); }

  void round() override {
    if (!loop_) start();
    switch (random_.below(12)) {
      case 0:
      case 1:
        enroll();
        break;
      case 2:
        leave();
        break;
      case 3:
        change();
        break;
      case 4:
        bind();
        break;
      case 5:
        unbind();
        break;
      case 6:
        leave_under_way();
        break;
      case 7:
        deallocate_under_way();
        break;
      default:
        access();
    }
    stripes_.check("memory beside what was written");
  }

  void recover() override {
    end();
    windows_.clear();
    regions_.clear();
    stale_.clear();
    own_.disenroll();
    stripes_.restore();
  }

 private:
  struct Range {
    std::byte *begin, *end;
    int access;
  };
  struct Enrolled {
    Region region;
    Range range;
  };
  struct Bound {
    Window window;
    std::uint32_t key;
    Range range;
    const ibv_mr* region;
  };
  struct Key {
    std::uint32_t key;
    Range range;
  };

  void start() {
    own_.enroll(pd_.get());
    loop_ = std::make_unique<Loop>(station_.device, pd_.get(), completions_,
                                   ibv_qp_cap{kDepth, 1, 1, 1, Stripes::kBytes});
    station_.watch.admit(loop_->qp(), this);
  }

  void end() {
    if (!loop_) return;
    const ibv_qp* const was = loop_->qp();
    loop_.reset();
    station_.watch.forget(was, this);
  }

  Range choose_range() {
    const auto bytes = static_cast<std::uint32_t>(ground_.bytes());
    const std::uint32_t begin = random_.below(bytes - 4096);
    const std::uint32_t most = random_.below(4) == 0 ? bytes - begin : 4096;
    const int access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND |
                       (random_.below(4) == 0 ? 0 : IBV_ACCESS_REMOTE_WRITE) |
                       (random_.below(4) == 0 ? 0 : IBV_ACCESS_REMOTE_READ);
    return {ground_.begin() + begin, ground_.begin() + begin + random_.between(1, most), access};
  }

  void enroll() {
    if (regions_.size() == kMost) return leave();
    const Range range = choose_range();
    regions_.push_back(
        {Region(made(ibv_reg_mr(pd_.get(), range.begin,
                                static_cast<std::size_t>(range.end - range.begin), range.access),
                     "ibv_reg_mr")),
         range});
  }

  /// Windows that are bound to it stay, and allow nothing any more.
  void leave() {
    if (regions_.empty()) return;
    const auto gone = regions_.begin() + random_.below(static_cast<std::uint32_t>(regions_.size()));
    stale_.push_back({gone->region->rkey, gone->range});
    forget_windows_of(gone->region.get());
    regions_.erase(gone);
  }

  void forget_windows_of(const ibv_mr* region) {
    std::erase_if(windows_, [&](const Bound& bound) {
      if (bound.region == region) stale_.push_back({bound.key, bound.range});
      return bound.region == region;
    });
  }

  /// The keys stay; nothing else need do.
  void change() {
    if (regions_.empty()) return enroll();
    Enrolled& changed = regions_[random_.below(static_cast<std::uint32_t>(regions_.size()))];
    const Range range = choose_range();
    const int flags = random_.below(2) == 0
                          ? IBV_REREG_MR_CHANGE_ACCESS
                          : IBV_REREG_MR_CHANGE_ACCESS | IBV_REREG_MR_CHANGE_TRANSLATION;
    forget_windows_of(changed.region.get());
    must(ibv_rereg_mr(changed.region.get(), flags, nullptr, range.begin,
                      static_cast<std::size_t>(range.end - range.begin), range.access),
         "ibv_rereg_mr");
    changed.range.access = range.access;
    if ((flags & IBV_REREG_MR_CHANGE_TRANSLATION) != 0) changed.range = range;
  }

  /// A window of either type on a part of a region.
  void bind() {
    if (regions_.empty()) return enroll();
    if (windows_.size() == kMost) return unbind();
    const Enrolled& in = regions_[random_.below(static_cast<std::uint32_t>(regions_.size()))];
    const auto bytes = static_cast<std::uint32_t>(in.range.end - in.range.begin);
    std::byte* const begin = in.range.begin + random_.below(bytes);
    const auto left = static_cast<std::uint32_t>(in.range.end - begin);
    Bound bound;
    bound.range = {begin, begin + random_.between(1, left),
                   random_.below(2) == 0 ? kRemote : IBV_ACCESS_REMOTE_READ};
    bound.region = in.region.get();
    const bool by_call = random_.below(2) == 0;
    bound.window.reset(make_window(by_call ? IBV_MW_TYPE_1 : IBV_MW_TYPE_2));
    bound.key = loop_->bind(bound.window.get(), in.region.get(), begin,
                            static_cast<std::size_t>(bound.range.end - begin), bound.range.access);
    must_succeed(loop_->finish(), "binding a window");
    windows_.push_back(std::move(bound));
  }

  void unbind() {
    if (windows_.empty()) return;
    const auto gone = windows_.begin() + random_.below(static_cast<std::uint32_t>(windows_.size()));
    if (gone->window->type == IBV_MW_TYPE_2 && random_.below(2) == 0) {
      loop_->invalidate(gone->key);
      must_succeed(loop_->finish(), "invalidating a window");
    }
    stale_.push_back({gone->key, gone->range});
    windows_.erase(gone);
  }

  /// By any key that there is or was, where it is good for and elsewhere.
  void access() {
    const Key key = choose_key();
    const bool anywhere = random_.below(8) == 0;
    std::byte* const stripe = anywhere ? choose_stripe(everywhere()) : choose_stripe(key.range);
    if (stripe == nullptr) return;
    const bool write = random_.below(2) == 0;
    const int needed = write ? IBV_ACCESS_REMOTE_WRITE : IBV_ACCESS_REMOTE_READ;
    const bool inside = stripe >= key.range.begin && stripe + Stripes::kBytes <= key.range.end;
    const bool allowed = inside && (key.range.access & needed) != 0;
    const std::uint64_t number = random_.next();
    const ibv_wc_status status = access(stripe, key.key, write, number);
    count(allowed ? "accesses that are allowed" : "accesses that are not allowed");
    if (!allowed) return must_be_refused(status);
    must_succeed(status, "an access that is allowed");
    if (write)
      stripes_.wrote(stripe, number);
    else
      own_.check(1, "what was read", 0, Stripes::kBytes, stripes_.number_of(stripe));
  }

  ibv_wc_status access(const std::byte* stripe, std::uint32_t key, bool write,
                       std::uint64_t number) {
    write_pattern(own_.at(0), Stripes::kBytes, number);
    own_.blank(1);
    station_.watch.expect(loop_->qp(), IBV_EVENT_QP_ACCESS_ERR);
    if (write)
      loop_->write(entry_of(own_.address(0), Stripes::kBytes, own_.region()), stripe, key);
    else
      loop_->read(entry_of(own_.address(1), Stripes::kBytes, own_.region()), stripe, key);
    return loop_->finish();
  }

  void must_be_refused(ibv_wc_status status) {
    if (status != IBV_WC_REM_ACCESS_ERR)
      throw Fault(std::string("an access that is not allowed: ") + ibv_wc_status_str(status));
    own_.check(1, "what was not to be read");
    reconnect(status);
  }

  Range everywhere() const { return {ground_.begin(), ground_.begin() + ground_.bytes(), 0}; }

  std::byte* choose_stripe(const Range& range) {
    return stripes_.within(range.begin, range.end, random_.below(1 << 16));
  }

  Key choose_key() {
    const auto regions = static_cast<std::uint32_t>(regions_.size());
    const auto windows = static_cast<std::uint32_t>(windows_.size());
    const auto stale = static_cast<std::uint32_t>(stale_.size());
    if (regions + windows + stale == 0) return {0, everywhere()};
    const std::uint32_t choice = random_.below(regions + windows + std::min(stale, 2u));
    if (choice < regions) return key_of(regions_[choice]);
    if (choice < regions + windows) return key_of(windows_[choice - regions]);
    return current(stale_[stale - 1 - (choice - regions - windows)]);
  }

  static Key key_of(const Enrolled& enrolled) { return {enrolled.region->rkey, enrolled.range}; }
  static Key key_of(const Bound& bound) { return {bound.key, bound.range}; }

  /// Returns what the key allows now. A stale key allows nothing, unless the adapter has assigned
  /// it again.
  Key current(Key key) const {
    for (const Enrolled& enrolled : regions_)
      if (enrolled.region->rkey == key.key) return key_of(enrolled);
    for (const Bound& bound : windows_)
      if (bound.key == key.key) return key_of(bound);
    key.range.access = 0;
    return key;
  }

  /// Resets the queue pair after a failure. A remote access error must have raised an event.
  /// Windows of type 2 belong to their queue pair and go with it.
  void reconnect(ibv_wc_status failure) {
    if (failure == IBV_WC_REM_ACCESS_ERR)
      station_.watch.await(loop_->qp(), IBV_EVENT_QP_ACCESS_ERR);
    loop_->reset();
    std::erase_if(windows_, [](const Bound& bound) { return bound.window->type == IBV_MW_TYPE_2; });
  }

  /// Not waited for. What they write.
  std::vector<std::uint64_t> post_writes(const Key& key) {
    std::vector<std::uint64_t> numbers;
    station_.watch.expect(loop_->qp(), IBV_EVENT_QP_ACCESS_ERR);
    for (std::uint32_t left = random_.between(1, kDepth - 1); left > 0; --left) {
      std::byte* const stripe = choose_stripe(key.range);
      if (stripe == nullptr) break;
      numbers.push_back(random_.next());
      std::byte bytes[Stripes::kBytes];
      write_pattern(bytes, sizeof bytes, numbers.back());
      loop_->write(entry_of(reinterpret_cast<std::uintptr_t>(bytes), sizeof bytes, nullptr), stripe,
                   key.key, IBV_SEND_INLINE);
    }
    return numbers;
  }

  /// While commands are under way that use it. When that has returned nothing is written any more,
  /// also where the next region has the same key.
  void leave_under_way() {
    if (regions_.empty()) return enroll();
    const auto gone = regions_.begin() + random_.below(static_cast<std::uint32_t>(regions_.size()));
    if ((gone->range.access & IBV_ACCESS_REMOTE_WRITE) == 0) return;
    const auto numbers = post_writes(key_of(*gone));
    forget_windows_of(gone->region.get());
    stale_.push_back(key_of(*gone));
    regions_.erase(gone);
    stripes_.adopt(numbers);
    own_.disenroll();
    own_.enroll(pd_.get());
    const ibv_wc_status status = loop_->finish();
    if (status != IBV_WC_SUCCESS) reconnect(status);
  }

  /// Before it is bound. The next window is not bound by what was meant for it.
  void deallocate_under_way() {
    if (regions_.empty()) return enroll();
    const Enrolled& in = regions_[random_.below(static_cast<std::uint32_t>(regions_.size()))];
    std::byte* const stripe = choose_stripe(in.range);
    if (stripe == nullptr || (in.range.access & IBV_ACCESS_REMOTE_WRITE) == 0) return;
    const auto numbers = post_writes(key_of(in));
    Window window(make_window(IBV_MW_TYPE_2));
    const std::uint32_t key =
        loop_->bind(window.get(), in.region.get(), stripe, Stripes::kBytes, kRemote);
    window.reset();
    const Window next(make_window(IBV_MW_TYPE_2));
    const ibv_wc_status status = loop_->finish();
    stripes_.adopt(numbers);
    if (status != IBV_WC_SUCCESS) reconnect(status);
    must_be_refused(access(stripe, key, false, 0));
  }

  ibv_mw* make_window(ibv_mw_type type) {
    return made(ibv_alloc_mw(pd_.get(), type), "ibv_alloc_mw");
  }

  static void must_succeed(ibv_wc_status status, const char* what) {
    if (status != IBV_WC_SUCCESS) throw Fault(std::string(what) + ": " + ibv_wc_status_str(status));
  }

  Station& station_;
  const Playground& ground_;
  Stripes stripes_;
  Domain pd_;  ///< keys of other threads are good for nothing here
  Slots own_;
  Completions completions_;
  std::unique_ptr<Loop> loop_;
  std::vector<Enrolled> regions_;
  std::vector<Bound> windows_;
  std::vector<Key> stale_;
};

}  // namespace

std::unique_ptr<Worker> make_region_worker(Station& station, const Playground& ground,
                                           unsigned owner) {
  return std::make_unique<RegionWorker>(station, ground, owner);
}

}  // namespace softhca::stress

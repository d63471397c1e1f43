// The preload library, linked in front of the C library as LD_PRELOAD puts it: which paths it
// redirects in which functions, and how madvise and mremap treat shared memory.
#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/netlink.h>
#include <rdma/rdma_netlink.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/uio.h>
#include <unistd.h>

#include <climits>
#include <filesystem>
#include <fstream>
#include <functional>

#include "libverbs-provider/device_file.hpp"
#include "tests/unit/provider_share/fake_daemon.hpp"

extern "C" {
struct nl_sock;
int nl_connect(nl_sock*, int);
int nl_send_simple(nl_sock*, int, int, void*, std::size_t);
int __xstat(int, const char*, struct stat*);
int __lxstat(int, const char*, struct stat*);
int __fxstat(int, int, struct stat*);
int __fxstat64(int, int, struct stat64*);
int __fxstatat(int, int, const char*, struct stat*, int);
int __open_2(const char*, int);
int __openat_2(int, const char*, int);
}

namespace softhca::provider {
namespace {

namespace fs = std::filesystem;

/// A tenant's tree with device softhca0 and a link to a real one.
class Preload : public testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/softhca-preload-XXXXXX";
    root_ = ::mkdtemp(name);
    fs::create_directories(root_ / "class/infiniband/softhca0/ports/1");
    fs::create_directories(root_ / "class/infiniband_verbs/softhca0");
    fs::create_directories(root_ / "elsewhere/uverbs7");
    fs::create_symlink(root_ / "elsewhere/uverbs7", root_ / "class/infiniband_verbs/uverbs7");
    fs::create_symlink("softhca0", root_ / "class/infiniband/alias");
    std::ofstream(root_ / "class/infiniband/softhca0/node_type") << "1: CA\n";
    ::setenv("SOFTHCA_SYSFS", root_.c_str(), 1);
  }
  void TearDown() override {
    ::unsetenv("SOFTHCA_SYSFS");
    fs::remove_all(root_);
  }

  fs::path root_;
};

constexpr char kNode[] = "/sys/class/infiniband/softhca0/node_type";
constexpr char kDevice[] = "/dev/infiniband/softhca0";

std::string text_of(int fd) {
  char text[32];
  const ssize_t got = fd < 0 ? -1 : ::read(fd, text, sizeof(text));
  if (fd >= 0) ::close(fd);
  return got < 0 ? "error" : std::string(text, static_cast<std::size_t>(got));
}

std::string names_in(DIR* directory) {
  std::set<std::string> names;
  while (dirent* entry = directory == nullptr ? nullptr : ::readdir(directory)) {
    if (entry->d_name[0] != '.') names.insert(entry->d_name);
  }
  if (directory != nullptr) ::closedir(directory);
  std::string all;
  for (const std::string& name : names) all += name + " ";
  return all;
}

/// A memfd with `bytes` of what a device file holds.
int device_file(std::size_t bytes, const char* magic = kDeviceFileMagic) {
  struct {
    DeviceFileContent content;
    char more[8];
  } whole{};
  std::strcpy(whole.content.magic, magic);
  whole.content.number = makedev(1, 3);
  const int fd = ::memfd_create("test", MFD_CLOEXEC);
  EXPECT_EQ(::write(fd, &whole, bytes), static_cast<ssize_t>(bytes));
  return fd;
}

TEST_F(Preload, DeviceFilesLookLikeTheDevice) {
  const int fd = device_file(sizeof(DeviceFileContent));
  const auto expect_device = [](int result, const auto& found) {
    EXPECT_EQ(result, 0);
    EXPECT_TRUE(S_ISCHR(found.st_mode));
    EXPECT_EQ(found.st_rdev, makedev(1, 3));
  };
  struct stat found {};
  struct stat64 found64 {};
  expect_device(::fstat(fd, &found), found);
  expect_device(::fstat64(fd, &found64), found64);
  found = {};
  found64 = {};
  expect_device(__fxstat(1, fd, &found), found);
  expect_device(__fxstat64(1, fd, &found64), found64);
  ::close(fd);
}

TEST_F(Preload, OtherFilesLookLikeWhatTheyAre) {
  struct stat found {};
  for (const int fd :
       {device_file(sizeof(DeviceFileContent) - 1), device_file(sizeof(DeviceFileContent) + 8),
        device_file(sizeof(DeviceFileContent), "another magic")}) {
    EXPECT_EQ(::fstat(fd, &found), 0);
    EXPECT_TRUE(S_ISREG(found.st_mode));
    EXPECT_EQ(found.st_rdev, 0u);
    ::close(fd);
  }
  EXPECT_EQ(::fstat(-1, &found), -1);
  EXPECT_EQ(errno, EBADF);
}

TEST_F(Preload, OpensFilesOfTheTree) {
  EXPECT_EQ(text_of(::open(kNode, O_RDONLY)), "1: CA\n");
  EXPECT_EQ(text_of(::open64(kNode, O_RDONLY)), "1: CA\n");
  EXPECT_EQ(text_of(::openat(AT_FDCWD, kNode, O_RDONLY)), "1: CA\n");
  EXPECT_EQ(text_of(::openat64(AT_FDCWD, kNode, O_RDONLY)), "1: CA\n");
  EXPECT_EQ(text_of(__open_2(kNode, O_RDONLY)), "1: CA\n");
  EXPECT_EQ(text_of(__openat_2(AT_FDCWD, kNode, O_RDONLY)), "1: CA\n");
  FILE* file = ::fopen(kNode, "r");
  ASSERT_NE(file, nullptr);
  EXPECT_EQ(std::fgetc(file), '1');
  std::fclose(file);
}

TEST_F(Preload, ListsTheTree) {
  EXPECT_EQ(names_in(::opendir("/sys/class/infiniband")), "alias softhca0 ");
  EXPECT_EQ(names_in(::opendir("/sys/class/infiniband/")), "alias softhca0 ");
  EXPECT_EQ(names_in(::opendir("/sys/class/infiniband_verbs")), "softhca0 uverbs7 ");
  EXPECT_EQ(names_in(::opendir("/sys/class/infiniband/softhca0/ports")), "1 ");
  const fs::path before = fs::current_path();
  ASSERT_EQ(::chdir("/sys/class/infiniband"), 0);
  EXPECT_EQ(names_in(::opendir(".")), "alias softhca0 ");
  fs::current_path(before);
  dirent** names = nullptr;
  const int count = ::scandir("/sys/class/infiniband", &names, nullptr, alphasort);
  EXPECT_EQ(count, 4);  // with . and ..
  for (int i = 0; i < count; ++i) std::free(names[i]);
  std::free(names);
  const int directory = ::open("/sys/class/infiniband/softhca0", O_RDONLY | O_DIRECTORY);
  EXPECT_EQ(text_of(::openat(directory, "node_type", O_RDONLY)), "1: CA\n");
  ::close(directory);
}

TEST_F(Preload, FindsTheTreeByEveryTest) {
  struct stat found;
  EXPECT_EQ(::stat(kNode, &found), 0);
  EXPECT_EQ(found.st_size, 6);
  EXPECT_EQ(__xstat(1, kNode, &found), 0);
  EXPECT_EQ(::fstatat(AT_FDCWD, kNode, &found, 0), 0);
  EXPECT_EQ(__fxstatat(1, AT_FDCWD, kNode, &found, 0), 0);
  struct statx extended;
  EXPECT_EQ(::statx(AT_FDCWD, kNode, 0, STATX_SIZE, &extended), 0);
  EXPECT_EQ(extended.stx_size, 6u);
  EXPECT_EQ(::lstat("/sys/class/infiniband/alias", &found), 0);
  EXPECT_TRUE(S_ISLNK(found.st_mode));
  EXPECT_EQ(__lxstat(1, "/sys/class/infiniband/alias", &found), 0);
  EXPECT_TRUE(S_ISLNK(found.st_mode));
  EXPECT_EQ(::access(kNode, R_OK), 0);
  EXPECT_EQ(::euidaccess(kNode, R_OK), 0);
  EXPECT_EQ(::faccessat(AT_FDCWD, kNode, R_OK, 0), 0);
}

TEST_F(Preload, ResolvesLinksOfTheTree) {
  char target[PATH_MAX] = {};
  EXPECT_EQ(::readlink("/sys/class/infiniband/alias", target, sizeof(target)), 8);
  EXPECT_STREQ(target, "softhca0");
  EXPECT_EQ(::readlinkat(AT_FDCWD, "/sys/class/infiniband/alias", target, sizeof(target)), 8);
  ASSERT_NE(::realpath("/sys/class/infiniband/alias", target), nullptr);
  EXPECT_EQ(target, (root_ / "class/infiniband/softhca0").string());
}

TEST_F(Preload, TheDeviceFileIsDevNull) {
  struct stat found;
  ASSERT_EQ(::stat(kDevice, &found), 0);
  EXPECT_TRUE(S_ISCHR(found.st_mode));
  EXPECT_EQ(found.st_rdev, makedev(1, 3));
  const int fd = ::open(kDevice, O_RDWR | O_CLOEXEC);
  ASSERT_GE(fd, 0);
  ASSERT_EQ(::fstat(fd, &found), 0);
  EXPECT_EQ(found.st_rdev, makedev(1, 3));
  ::close(fd);
  EXPECT_EQ(::access(kDevice, R_OK | W_OK), 0);
}

TEST_F(Preload, LeavesEverythingElse) {
  struct stat found;
  for (const char* path :
       {"/dev/infiniband/uverbs7", "/dev/infiniband/other", "/dev/infiniband/../null/x",
        "/dev/infiniband/.", "/dev/infiniband/", "/dev/infiniband/softhca0/x",
        "/sys/class/infiniband_cm_none", "/sys/class/infiniband/none", "", "/", "/s"}) {
    struct stat real;
    const long expected = ::syscall(SYS_newfstatat, AT_FDCWD, path, &real, 0);
    EXPECT_EQ(::stat(path, &found), expected) << path;
  }
  EXPECT_EQ(::stat("/sys/class/net", &found), 0);
  EXPECT_EQ(text_of(::open("/dev/null", O_RDONLY)), "");
}

TEST_F(Preload, PassesNullAndModeOn) {
  const char* volatile nothing = nullptr;
  struct stat found;
  EXPECT_EQ(::open(nothing, O_RDONLY), -1);
  EXPECT_EQ(errno, EFAULT);
  EXPECT_EQ(::stat(nothing, &found), -1);
  EXPECT_EQ(errno, EFAULT);
  const mode_t mask = ::umask(0);
  const std::string file = root_ / "new";
  ::close(::open(file.c_str(), O_CREAT | O_WRONLY, 0640));
  ::umask(mask);
  ASSERT_EQ(::stat(file.c_str(), &found), 0);
  EXPECT_EQ(found.st_mode & 0777, 0640u);
}

TEST_F(Preload, ALongNameIsNotCutOff) {
  const std::string name = "/sys/class/infiniband/" + std::string(PATH_MAX, 'x');
  EXPECT_EQ(::access(name.c_str(), F_OK), -1);
  EXPECT_EQ(errno, ENAMETOOLONG);
}

TEST_F(Preload, DoesNothingWithoutATenant) {
  ::unsetenv("SOFTHCA_SYSFS");
  EXPECT_EQ(::access(kNode, F_OK), -1);
  EXPECT_EQ(::access(kDevice, F_OK), -1);
}

TEST_F(Preload, RdmaNetlink_AskedForDevices_Refuses) {
  void* libnl = ::dlopen("libnl-3.so.200", RTLD_NOW | RTLD_LOCAL);
  if (libnl == nullptr) GTEST_SKIP() << "no libnl here";
  const auto allocate = reinterpret_cast<nl_sock* (*)()>(::dlsym(libnl, "nl_socket_alloc"));
  const auto release = reinterpret_cast<void (*)(nl_sock*)>(::dlsym(libnl, "nl_socket_free"));
  nl_sock* rdma = allocate();
  ASSERT_EQ(nl_connect(rdma, NETLINK_RDMA), 0);
  constexpr int kDevices = RDMA_NL_GET_TYPE(RDMA_NL_NLDEV, RDMA_NLDEV_CMD_GET);
  EXPECT_LT(nl_send_simple(rdma, kDevices, NLM_F_DUMP, nullptr, 0), 0);
  release(rdma);
  // Found although libnl is in no global scope.
  nl_sock* route = allocate();
  EXPECT_EQ(nl_connect(route, NETLINK_ROUTE), 0);
  release(route);
  ::dlclose(libnl);
}

TEST_F(Preload, SharedMemoryBehavesAsPrivateMemory) {
  FakeDaemon daemon;
  MemoryRegistry registry(daemon.source(), {.idle_bytes = 0}, KernelCalls::real());
  Anonymous memory(8);
  ExtentList extents;
  ASSERT_EQ(registry.prepare(region(memory.base(), memory.bytes()), extents), 0);
  ASSERT_EQ(shape(memory.base(), memory.bytes(), extents), "S");
  daemon.seal();
  ASSERT_EQ(::madvise(memory.base(), 2 * kPage, MADV_DONTNEED), 0);
  for (std::size_t i = 0; i < 2 * kPage; ++i) ASSERT_EQ(memory.base()[i], 0);
  EXPECT_EQ(memory.base()[2 * kPage], Anonymous::value(2 * kPage, 1));
  // Sharing anew drops pages, too; not through this library.
  registry.release(extents.all());
  Anonymous::fill(memory.base(), memory.bytes(), 3);
  ASSERT_EQ(registry.prepare(region(memory.base(), memory.bytes()), extents), 0);
  EXPECT_EQ(shape(memory.base(), memory.bytes(), extents), "S");
  daemon.seal();
  EXPECT_TRUE(memory.intact(3));
  registry.release(extents.all());
  auto* grown = static_cast<char*>(::mremap(memory.base(), 8 * kPage, 16 * kPage, MREMAP_MAYMOVE));
  ASSERT_NE(grown, MAP_FAILED);
  EXPECT_TRUE(Anonymous::holds(grown, 8 * kPage, 3));
  std::memset(grown, 0, 16 * kPage);
  ::munmap(grown, 16 * kPage);
}

TEST_F(Preload, TakesAdviceByEveryFunction) {
  FakeDaemon daemon;
  MemoryRegistry registry(daemon.source());
  Anonymous memory(8);
  ExtentList extents;
  ASSERT_EQ(registry.prepare(region(memory.base(), memory.bytes()), extents), 0);
  daemon.seal();
  for (const int advice : {MADV_FREE, MADV_WIPEONFORK, MADV_KEEPONFORK})
    EXPECT_EQ(::madvise(memory.base(), memory.bytes(), advice), 0) << advice;
  EXPECT_EQ(::posix_madvise(memory.base(), memory.bytes(), POSIX_MADV_DONTNEED), 0);
  EXPECT_TRUE(memory.intact()) << "POSIX keeps the content";
  errno = 0;
  EXPECT_EQ(::madvise(memory.base(), memory.bytes(), MADV_REMOVE), -1);
  EXPECT_EQ(errno, EINVAL);

  const int self = static_cast<int>(::syscall(SYS_pidfd_open, ::getpid(), 0));
  const iovec ranges[] = {{memory.base(), kPage}, {memory.base() + 4 * kPage, kPage}};
  const auto advise = [&](int pidfd, int advice) {
    return ::process_madvise(pidfd, ranges, 2, advice, 0);
  };
  EXPECT_EQ(advise(self, MADV_COLD), static_cast<ssize_t>(2 * kPage));
  EXPECT_EQ(advise(-1, MADV_COLD), -1);
  EXPECT_TRUE(memory.intact());
  Anonymous other(1);
  const iovec private_range{other.base(), kPage};
  if (::syscall(SYS_process_madvise, self, &private_range, 1, MADV_DONTNEED, 0) == kPage) {
    EXPECT_EQ(advise(self, MADV_FREE), static_cast<ssize_t>(2 * kPage));
    EXPECT_EQ(advise(self, MADV_DONTNEED), static_cast<ssize_t>(2 * kPage));
    EXPECT_EQ(memory.base()[0], 0);
    EXPECT_EQ(memory.base()[4 * kPage], 0);
    EXPECT_EQ(memory.base()[kPage], Anonymous::value(kPage, 1));
  }
  ::close(self);
}

}  // namespace
}  // namespace softhca::provider

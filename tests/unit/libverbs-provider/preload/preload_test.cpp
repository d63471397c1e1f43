// SPDX-License-Identifier: Apache-2.0

// The preload library, linked in front of the C library as LD_PRELOAD puts it: which paths it
// redirects in which functions, and how madvise and mremap treat shared memory.
#include <arpa/inet.h>
#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <glob.h>
#include <gtest/gtest.h>
#include <ifaddrs.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <rdma/rdma_netlink.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/uio.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <climits>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "libverbs-provider/device_file.hpp"
#include "libverbs-provider/share/process.hpp"
#include "tests/unit/libverbs-provider/share/fake_daemon.hpp"

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
    fs::create_directories(root_ / "devices/softhca/softhca0");
    fs::create_directories(root_ / "elsewhere/uverbs7");
    fs::create_symlink(root_ / "elsewhere/uverbs7", root_ / "class/infiniband_verbs/uverbs7");
    fs::create_symlink("softhca0", root_ / "class/infiniband/alias");
    std::ofstream(root_ / "class/infiniband/softhca0/node_type") << "1: CA\n";
    std::ofstream(root_ / "class/infiniband/softhca0/softhca_socket") << "/none\n";
    ::setenv("SOFTHCA_SYSFS", root_.c_str(), 1);
  }
  void TearDown() override {
    ::unsetenv("SOFTHCA_SYSFS");
    fs::remove_all(root_);
  }

  fs::path root_;
};

/// The tree names an address that no interface has, one of the loopback, and one that is missing
/// there.
class PreloadInterfaces : public Preload {
 protected:
  void SetUp() override {
    Preload::SetUp();
    const fs::path port = root_ / "class/infiniband/softhca0/ports/1";
    fs::create_directories(port / "gids");
    fs::create_directories(port / "gid_attrs/ndevs");
    fs::create_directories(root_ / "class/net/softhca0");
    std::ofstream(root_ / "class/net/softhca0/ifindex") << "61440\n";
    std::ofstream(root_ / "class/net/softhca0/mtu") << "9000\n";
    std::ofstream(root_ / "class/net/softhca0/address") << "02:11:22:55:66:77\n";
    add("0000:0000:0000:0000:0000:ffff:c612:0001", "softhca0");
    add("fd18:0000:0000:0000:0000:0000:0000:0001", "softhca0");
    add("0000:0000:0000:0000:0000:ffff:7f00:0001", "lo");
    add("0000:0000:0000:0000:0000:ffff:c612:0001", "softhca0");
    add("0000:0000:0000:0000:0000:ffff:c612:0002", "lo");
  }
  void add(const char* gid, const char* interface) {
    const fs::path port = root_ / "class/infiniband/softhca0/ports/1";
    std::ofstream(port / "gids" / std::to_string(gids_)) << gid << '\n';
    std::ofstream(port / "gid_attrs/ndevs" / std::to_string(gids_)) << interface << '\n';
    ++gids_;
  }

  int gids_ = 0;
};

std::string text_of(const sockaddr* address) {
  char text[INET6_ADDRSTRLEN] = "";
  if (address == nullptr) return text;
  const void* bytes = &reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr;
  if (address->sa_family == AF_INET)
    bytes = &reinterpret_cast<const sockaddr_in*>(address)->sin_addr;
  else if (address->sa_family != AF_INET6)
    return "link";
  return ::inet_ntop(address->sa_family, bytes, text, sizeof text);
}

/// "name address" of all that getifaddrs lists in the name of softhca, or as one of its addresses.
std::vector<std::string> listed_addresses() {
  std::vector<std::string> found;
  ifaddrs* list = nullptr;
  EXPECT_EQ(::getifaddrs(&list), 0);
  for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next) {
    const std::string text = entry->ifa_name + (" " + text_of(entry->ifa_addr));
    if (text.starts_with("softhca0 ") || text.find("198.18") != std::string::npos)
      found.push_back(text);
  }
  ::freeifaddrs(list);
  return found;
}

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
  EXPECT_GE(::listxattr(kNode, nullptr, 0), 0);
  EXPECT_GE(::llistxattr(kNode, nullptr, 0), 0);
}

TEST_F(Preload, ResolvesLinksOfTheTree) {
  char target[PATH_MAX] = {};
  EXPECT_EQ(::readlink("/sys/class/infiniband/alias", target, sizeof(target)), 8);
  EXPECT_STREQ(target, "softhca0");
  EXPECT_EQ(::readlinkat(AT_FDCWD, "/sys/class/infiniband/alias", target, sizeof(target)), 8);
  ASSERT_NE(::realpath("/sys/class/infiniband/alias", target), nullptr);
  EXPECT_STREQ(target, "/sys/class/infiniband/softhca0") << "as a program parses it";
  EXPECT_EQ(text_of(::open((std::string(target) + "/node_type").c_str(), O_RDONLY)), "1: CA\n");
  char* const whole = ::canonicalize_file_name("/sys/class/infiniband/alias");
  EXPECT_STREQ(whole, "/sys/class/infiniband/softhca0");
  std::free(whole);
  ASSERT_NE(::realpath(root_.c_str(), target), nullptr);
  EXPECT_EQ(target, root_.string()) << "named by the program itself";
}

TEST_F(Preload, DeviceOnThePciBus_IsFoundByItsAddress) {
  const fs::path device = root_ / "devices/pcifffe:01/fffe:01:00.0";
  fs::create_directories(device / "infiniband/mlx5_0");
  std::ofstream(device / "numa_node") << "1\n";
  fs::create_directories(root_ / "bus/pci/devices");
  fs::create_directories(root_ / "class/pci_bus");
  fs::create_directories(device.parent_path() / "pci_bus/fffe:01");
  const fs::path from = "../../../devices/pcifffe:01";
  fs::create_symlink(from / "fffe:01:00.0", root_ / "bus/pci/devices/fffe:01:00.0");
  fs::create_symlink("../../devices/pcifffe:01/pci_bus/fffe:01", root_ / "class/pci_bus/fffe:01");
  fs::create_symlink("../../devices/pcifffe:01/fffe:01:00.0/infiniband/mlx5_0",
                     root_ / "class/infiniband/mlx5_0");
  fs::create_symlink("../../../fffe:01:00.0", device / "infiniband/mlx5_0/device");
  const char* const paths[] = {"/sys/class/infiniband/mlx5_0/device",
                               "/sys/bus/pci/devices/fffe:01:00.0",
                               "/sys/class/pci_bus/fffe:01/../../fffe:01:00.0"};
  for (const char* path : paths) {
    char target[PATH_MAX] = {};
    ASSERT_NE(::realpath(path, target), nullptr) << path;
    EXPECT_STREQ(target, "/sys/devices/pcifffe:01/fffe:01:00.0");
    EXPECT_EQ(text_of(::open((std::string(target) + "/numa_node").c_str(), O_RDONLY)), "1\n");
  }
  const int root = ::open("/", O_PATH);
  EXPECT_EQ(text_of(::openat(root, "sys/bus/pci/devices/fffe:01:00.0/numa_node", O_RDONLY)), "1\n");
  ::close(root);
  EXPECT_EQ(names_in(::opendir("/sys/bus/pci/devices")), "fffe:01:00.0 ");
}

TEST_F(Preload, FileOfAnotherDeviceThanTheFirst_HasItsNumber) {
  const fs::path device = root_ / "class/infiniband/mlx5_3";
  fs::create_directories(device);
  fs::create_directories(root_ / "class/infiniband_verbs/mlx5_3");
  std::ofstream(device / "softhca_device") << "3 /none\n";
  std::ofstream(root_ / "class/infiniband_verbs/mlx5_3/dev") << "127:3\n";
  const int fd = ::open("/dev/infiniband/mlx5_3", O_RDWR | O_CLOEXEC);
  ASSERT_GE(fd, 0);
  struct stat found;
  ASSERT_EQ(::fstat(fd, &found), 0);
  EXPECT_TRUE(S_ISCHR(found.st_mode));
  EXPECT_EQ(found.st_rdev, makedev(127, 3));
  ::close(fd);
  EXPECT_EQ(::access("/dev/infiniband/mlx5_3", R_OK | W_OK), 0);
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

TEST_F(PreloadInterfaces, AddressesOnNoInterface_AreListed) {
  const std::vector<std::string> expected = {"softhca0 link", "softhca0 198.18.0.1",
                                             "softhca0 fd18::1", "lo 198.18.0.2"};
  EXPECT_EQ(listed_addresses(), expected);
  ::unsetenv("SOFTHCA_SYSFS");
  EXPECT_TRUE(listed_addresses().empty());
}

TEST_F(PreloadInterfaces, InterfaceThatTheKernelDoesNotList_HasNameIndexAndFlags) {
  EXPECT_EQ(::if_nametoindex("softhca0"), 61440u);
  EXPECT_NE(::if_nametoindex("lo"), 0u);
  EXPECT_EQ(::if_nametoindex("softhca1"), 0u);
  char name[IFNAMSIZ] = "";
  EXPECT_STREQ(::if_indextoname(61440, name), "softhca0");
  EXPECT_EQ(::if_indextoname(61441, name), nullptr);
  EXPECT_EQ(errno, ENXIO);
  struct if_nameindex* list = ::if_nameindex();
  std::vector<std::string> names;
  for (const auto* entry = list; entry->if_name != nullptr; ++entry)
    names.push_back(entry->if_name);
  ::if_freenameindex(list);
  EXPECT_EQ(names.back(), "softhca0");
  EXPECT_EQ(std::count(names.begin(), names.end(), "softhca0"), 1);
  ifaddrs* all = nullptr;
  ASSERT_EQ(::getifaddrs(&all), 0);
  for (const ifaddrs* entry = all; entry != nullptr; entry = entry->ifa_next)
    if (std::strcmp(entry->ifa_name, "softhca0") == 0) {
      EXPECT_EQ(entry->ifa_flags & (IFF_UP | IFF_RUNNING | IFF_LOOPBACK),
                static_cast<unsigned>(IFF_UP | IFF_RUNNING));
    }
  ::freeifaddrs(all);
}

TEST_F(PreloadInterfaces, IoctlAnswersForThem) {
  const int fd = ::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  ifreq entry{};
  std::strcpy(entry.ifr_name, "softhca0");
  ASSERT_EQ(::ioctl(fd, SIOCGIFADDR, &entry), 0);
  EXPECT_EQ(text_of(&entry.ifr_addr), "198.18.0.1");
  ASSERT_EQ(::ioctl(fd, SIOCGIFMTU, &entry), 0);
  EXPECT_EQ(entry.ifr_mtu, 9000);
  ASSERT_EQ(::ioctl(fd, SIOCGIFHWADDR, &entry), 0);
  EXPECT_EQ(entry.ifr_hwaddr.sa_data[5], 0x77);
  std::strcpy(entry.ifr_name, "softhca1");
  EXPECT_EQ(::ioctl(fd, SIOCGIFFLAGS, &entry), -1);
  EXPECT_EQ(errno, ENODEV);

  ifconf list{};
  ASSERT_EQ(::ioctl(fd, SIOCGIFCONF, &list), 0);
  std::vector<ifreq> entries(static_cast<std::size_t>(list.ifc_len) / sizeof(ifreq));
  ASSERT_GE(entries.size(), 2u);
  list.ifc_req = entries.data();
  ASSERT_EQ(::ioctl(fd, SIOCGIFCONF, &list), 0);
  EXPECT_EQ(static_cast<std::size_t>(list.ifc_len), entries.size() * sizeof(ifreq));
  EXPECT_EQ(text_of(&entries[entries.size() - 2].ifr_addr), "198.18.0.1");
  EXPECT_EQ(text_of(&entries.back().ifr_addr), "198.18.0.2");
  list.ifc_len -= static_cast<int>(sizeof(ifreq));
  ASSERT_EQ(::ioctl(fd, SIOCGIFCONF, &list), 0);
  EXPECT_EQ(static_cast<std::size_t>(list.ifc_len), (entries.size() - 1) * sizeof(ifreq));
  ::close(fd);
}

/// What route netlink answers to a request: types of messages, the error of the last.
struct Answer {
  std::vector<int> types;
  int error = 0;
  std::string last;                 ///< address or name
  std::vector<std::string> routes;  ///< "family/prefix length interface priority"
  bool mixed = false;  ///< a datagram ends with NLMSG_DONE, but begins with another type
};
std::string text_of_route(const nlmsghdr* header) {
  const auto* body = static_cast<const rtmsg*>(NLMSG_DATA(header));
  std::uint32_t interface = 0, priority = 0;
  auto left = static_cast<unsigned>(RTM_PAYLOAD(header));
  for (const rtattr* attribute = RTM_RTA(body); RTA_OK(attribute, left);
       attribute = RTA_NEXT(attribute, left)) {
    if (attribute->rta_type == RTA_OIF)
      std::memcpy(&interface, RTA_DATA(attribute), sizeof interface);
    if (attribute->rta_type == RTA_PRIORITY)
      std::memcpy(&priority, RTA_DATA(attribute), sizeof priority);
  }
  return std::to_string(body->rtm_family) + '/' + std::to_string(body->rtm_dst_len) + ' ' +
         std::to_string(interface) + ' ' + std::to_string(priority);
}
/// Asks in two parts, as UCX does.
template <class Body>
Answer ask(int type, int flags, const Body& body, bool peeks, int strict = 1) {
  struct {
    nlmsghdr header;
    Body body;
  } request{{sizeof request, static_cast<std::uint16_t>(type),
             static_cast<std::uint16_t>(NLM_F_REQUEST | flags), 7, 0},
            body};
  const int fd = ::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
  ::setsockopt(fd, SOL_NETLINK, NETLINK_GET_STRICT_CHK, &strict, sizeof strict);
  iovec parts[] = {{&request.header, sizeof request.header}, {&request.body, sizeof request.body}};
  msghdr sent{};
  sent.msg_iov = parts;
  sent.msg_iovlen = 2;
  EXPECT_EQ(::sendmsg(fd, &sent, 0), static_cast<ssize_t>(sizeof request));
  Answer answer;
  for (bool done = false; !done;) {
    std::vector<char> data(65536);
    const ssize_t whole = peeks ? ::recv(fd, nullptr, 0, MSG_PEEK | MSG_TRUNC) : 0;
    sockaddr_nl from{};
    iovec place{data.data(), data.size()};
    msghdr message{&from, sizeof from, &place, 1, nullptr, 0, 0};
    const ssize_t got = ::recvmsg(fd, &message, 0);
    if (peeks) {
      EXPECT_EQ(got, whole);
    }
    EXPECT_EQ(message.msg_namelen, sizeof from);
    auto left = static_cast<unsigned>(got);
    for (auto* header = reinterpret_cast<nlmsghdr*>(data.data()); NLMSG_OK(header, left);
         header = NLMSG_NEXT(header, left)) {
      answer.types.push_back(header->nlmsg_type);
      if (header->nlmsg_type == RTM_NEWROUTE) answer.routes.push_back(text_of_route(header));
      if (header->nlmsg_type == NLMSG_DONE)
        answer.mixed = reinterpret_cast<char*>(header) != data.data();
      done = header->nlmsg_type == NLMSG_DONE || (header->nlmsg_flags & NLM_F_MULTI) == 0;
      if (header->nlmsg_type == NLMSG_ERROR || header->nlmsg_type == NLMSG_DONE)
        std::memcpy(&answer.error, NLMSG_DATA(header), sizeof answer.error);
      if (header->nlmsg_type == RTM_NEWADDR) {
        const auto* attribute = IFA_RTA(NLMSG_DATA(header));
        char text[INET6_ADDRSTRLEN];
        answer.last = ::inet_ntop(static_cast<ifaddrmsg*>(NLMSG_DATA(header))->ifa_family,
                                  RTA_DATA(attribute), text, sizeof text);
      }
    }
  }
  ::close(fd);
  return answer;
}

TEST_F(PreloadInterfaces, RouteNetlinkListsThem) {
  for (const bool peeks : {false, true}) {
    const Answer all = ask(RTM_GETADDR, NLM_F_DUMP, ifaddrmsg{}, peeks);
    EXPECT_EQ(all.last, "198.18.0.2");
    EXPECT_EQ(all.error, 0);
    EXPECT_EQ(all.types.back(), NLMSG_DONE);
    const Answer one = ask(RTM_GETADDR, NLM_F_DUMP, ifaddrmsg{0, 0, 0, 0, 61440}, peeks);
    EXPECT_EQ(one.types, (std::vector<int>{RTM_NEWADDR, RTM_NEWADDR, NLMSG_DONE}));
    EXPECT_EQ(one.error, 0);
    const Answer v4 = ask(RTM_GETADDR, NLM_F_DUMP, ifaddrmsg{AF_INET, 0, 0, 0, 61440}, peeks);
    EXPECT_EQ(v4.last, "198.18.0.1");
    EXPECT_EQ(v4.types.size(), 2u);
    const Answer link = ask(RTM_GETLINK, 0, ifinfomsg{0, 0, 0, 61440, 0, 0}, peeks);
    EXPECT_EQ(link.types, std::vector<int>{RTM_NEWLINK});
    const Answer none = ask(RTM_GETLINK, 0, ifinfomsg{0, 0, 0, 61441, 0, 0}, peeks);
    EXPECT_EQ(none.types, std::vector<int>{NLMSG_ERROR});
    EXPECT_EQ(none.error, -ENODEV);
    const auto with = ask(RTM_GETLINK, NLM_F_DUMP, ifinfomsg{}, peeks).types.size();
    ::unsetenv("SOFTHCA_SYSFS");
    EXPECT_EQ(ask(RTM_GETLINK, NLM_F_DUMP, ifinfomsg{}, peeks).types.size() + 1, with);
    EXPECT_NE(ask(RTM_GETADDR, NLM_F_DUMP, ifaddrmsg{}, peeks).last, "198.18.0.2");
    ::setenv("SOFTHCA_SYSFS", root_.c_str(), 1);
  }
}

// UCX lists all routes, and takes a peer without one for unreachable.
TEST_F(PreloadInterfaces, RouteNetlinkListsARouteOverEachInterfaceOfMissingAddresses) {
  const std::string v4 = "2/0 61440 4294967295", v6 = "10/0 61440 4294967295";
  const std::string of_loopback =
      "2/0 " + std::to_string(::if_nametoindex("lo")) + " 4294967295";  // 198.18.0.2
  const auto count = [](const Answer& answer, const std::string& route) {
    return std::count(answer.routes.begin(), answer.routes.end(), route);
  };
  for (const bool peeks : {false, true}) {
    const Answer all = ask(RTM_GETROUTE, NLM_F_DUMP, rtmsg{}, peeks, 0);
    EXPECT_EQ(count(all, v4), 1);
    EXPECT_EQ(count(all, v6), 1);
    EXPECT_EQ(count(all, of_loopback), 1);
    EXPECT_EQ(all.types.back(), NLMSG_DONE);
    rtmsg body{};
    body.rtm_family = AF_INET6;
    const Answer of_v6 = ask(RTM_GETROUTE, NLM_F_DUMP, body, peeks, 0);
    EXPECT_EQ(count(of_v6, v4), 0);
    EXPECT_EQ(count(of_v6, v6), 1);
    body.rtm_table = RT_TABLE_LOCAL;
    EXPECT_EQ(count(ask(RTM_GETROUTE, NLM_F_DUMP, body, peeks, 0), v6), 1) << "not strict";
    EXPECT_EQ(count(ask(RTM_GETROUTE, NLM_F_DUMP, body, peeks, 1), v6), 0) << "another table";
    body = {};
    body.rtm_flags = RTM_F_CLONED;
    EXPECT_EQ(count(ask(RTM_GETROUTE, NLM_F_DUMP, body, peeks, 0), v4), 0) << "the cache";
    ::unsetenv("SOFTHCA_SYSFS");
    const Answer kernels = ask(RTM_GETROUTE, NLM_F_DUMP, rtmsg{}, peeks, 0);
    EXPECT_EQ(kernels.types.size() + 3, all.types.size());
    EXPECT_EQ(kernels.mixed, all.mixed);
    ::setenv("SOFTHCA_SYSFS", root_.c_str(), 1);
  }
}

TEST_F(Preload, GlobFindsTheTree) {
  for (const char* pattern : {"/sys/class/infiniband/*", "/sys/class/infiniband/softhca0/node*",
                              "/sys/class/infiniband/[a-z]*/node_type"}) {
    glob_t found{};
    EXPECT_EQ(::glob(pattern, 0, nullptr, &found), 0) << pattern;
    EXPECT_GE(found.gl_pathc, 1u);
    ::globfree(&found);
    glob64_t found64{};
    EXPECT_EQ(::glob64(pattern, 0, nullptr, &found64), 0) << pattern;
    ::globfree64(&found64);
  }
  glob_t found{};
  EXPECT_EQ(::glob("/sys/class/infiniband/none*", 0, nullptr, &found), GLOB_NOMATCH);
  EXPECT_EQ(::glob("/sys/class/n[e]t", 0, nullptr, &found), 0);
  ::globfree(&found);
}

TEST_F(Preload, RelativePathsLeadIntoTheTree) {
  const int root = ::open("/", O_PATH | O_DIRECTORY);
  const int classes = ::open("/sys/class", O_PATH | O_DIRECTORY);
  EXPECT_EQ(text_of(::openat(root, kNode + 1, O_RDONLY)), "1: CA\n");
  EXPECT_EQ(text_of(::openat(classes, "infiniband/softhca0/node_type", O_RDONLY)), "1: CA\n");
  struct stat found;
  EXPECT_EQ(::fstatat(classes, "./infiniband/softhca0/node_type", &found, 0), 0);
  EXPECT_EQ(::faccessat(root, "dev/infiniband/softhca0", R_OK, 0), 0);
  char target[PATH_MAX] = {};
  EXPECT_EQ(::readlinkat(classes, "infiniband/alias", target, sizeof target), 8);
  const fs::path before = fs::current_path();
  ASSERT_EQ(::chdir("/sys/class"), 0);
  EXPECT_EQ(text_of(::open("infiniband/softhca0/node_type", O_RDONLY)), "1: CA\n");
  fs::current_path(before);
  EXPECT_EQ(::openat(root, "nowhere/infiniband", O_RDONLY), -1);
  EXPECT_EQ(::openat(-1, "infiniband", O_RDONLY), -1);
  EXPECT_EQ(errno, EBADF);
  ::close(root);
  ::close(classes);
}

TEST_F(Preload, InterfacesOfTheTree_StandBehindThoseOfTheKernel) {
  for (const char* name : {"softhca0", "lo"}) {
    fs::create_directories(root_ / "class/net" / name);
    std::ofstream(root_ / "class/net" / name / "mtu") << "1\n";
  }
  EXPECT_EQ(text_of(::open("/sys/class/net/softhca0/mtu", O_RDONLY)), "1\n");
  EXPECT_NE(text_of(::open("/sys/class/net/lo/mtu", O_RDONLY)), "1\n");
  EXPECT_EQ(::open("/sys/class/net/softhca1/mtu", O_RDONLY), -1);
}

/// Calls `transfer` in a second thread while `memory` is registered again and again, as in a
/// process without privileges. Returns the number of registrations that shared it.
std::size_t shares_beside(Anonymous& memory, const std::function<void()>& transfer) {
  KernelCalls kernel = KernelCalls::real();
  kernel.userfaultfd = [](int flags) {
    return (flags & 1) != 0 ? KernelCalls::real().userfaultfd(flags) : -1;
  };
  FakeDaemon daemon;
  MemoryRegistry registry(daemon.source(), {.idle_bytes = 0}, kernel);
  std::atomic<bool> stop{false};
  std::thread thread([&] {
    while (!stop) transfer();
  });
  std::size_t shared = 0;
  for (int round = 0; round < 200; ++round) {
    ExtentList extents;
    EXPECT_EQ(registry.prepare(region(memory.base(), memory.bytes()), extents), 0);
    shared += shape(memory.base(), memory.bytes(), extents) == "S";
    registry.release(extents.all());
  }
  stop = true;
  thread.join();
  return shared;
}

TEST_F(Preload, SystemCallsThatMeetPagesThatAreAway_AreRepeated) {
  const int zeros = ::open("/dev/zero", O_RDONLY | O_CLOEXEC);
  const int null = ::open("/dev/null", O_WRONLY | O_CLOEXEC);
  Anonymous memory(512);
  std::size_t failed = 0, page = 0;
  const auto transfer = [&] {
    char* at = memory.base() + page * kPage;
    page = (page + 1) % 512;
    failed += ::read(zeros, at, 8) <= 0;  // a device may read less
    failed += ::pread(zeros, at, 8, 0) <= 0;
    failed += ::write(null, at, 8) != 8;
  };
  EXPECT_NE(shares_beside(memory, transfer), 0u);
  EXPECT_EQ(failed, 0u);
  errno = 0;
  EXPECT_EQ(::read(zeros, nullptr, 8), -1);
  EXPECT_EQ(errno, EFAULT);
  ::close(zeros);
  ::close(null);
}

TEST_F(Preload, TransfersOfFilesThatMeetPagesThatAreAway_AreWhole) {
  constexpr std::size_t kBytes = 64 * kPage;
  const std::string path = root_ / "file";
  const int file = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  std::string content(kBytes, '\0');
  for (std::size_t i = 0; i < kBytes; ++i) content[i] = static_cast<char>(i / 7);
  ASSERT_EQ(::pwrite(file, content.data(), kBytes, 0), static_cast<ssize_t>(kBytes));
  Anonymous memory(128);
  char* const to = memory.base();
  std::size_t failed = 0;
  const auto check = [&](ssize_t result) {
    failed +=
        result != static_cast<ssize_t>(kBytes) || std::memcmp(to, content.data(), kBytes) != 0;
    std::memset(to, 0, kBytes);
  };
  const auto transfer = [&] {
    const iovec list[] = {{to, 0}, {to, 5000}, {to + 5000, 0}, {to + 5000, kBytes - 5000}};
    check(::pread(file, to, kBytes, 0));
    check(::preadv(file, list, 4, 0));
    ::lseek(file, 0, SEEK_SET);
    check(::readv(file, list, 4));
    ::lseek(file, 0, SEEK_SET);
    check(::read(file, to, kBytes + kPage));  // the file ends before the buffer
    std::memcpy(to, content.data(), kBytes);
    failed += ::ftruncate(file, 0) != 0;
    failed += ::pwrite(file, to, kBytes, 0) != static_cast<ssize_t>(kBytes);
    ::lseek(file, 0, SEEK_SET);
    failed += ::writev(file, list, 4) != static_cast<ssize_t>(kBytes);
    check(::pread(file, to, kBytes, 0));
  };
  EXPECT_NE(shares_beside(memory, transfer), 0u);
  EXPECT_EQ(failed, 0u);
  errno = 0;
  EXPECT_EQ(::readv(file, nullptr, 2), -1);
  EXPECT_EQ(errno, EFAULT);
  ::close(file);
}

TEST_F(Preload, DeviceFile_ExaminedWhilePagesAreAway_LooksLikeTheDevice) {
  ASSERT_TRUE(install_process_handlers());
  const int fd = device_file(sizeof(DeviceFileContent));
  struct stat found {};
  {
    const ProcessLock lock;
    const PagesAway away;
    EXPECT_EQ(::fstat(fd, &found), 0);
  }
  EXPECT_TRUE(S_ISCHR(found.st_mode));
  ::close(fd);
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

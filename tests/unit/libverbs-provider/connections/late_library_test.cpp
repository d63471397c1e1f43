// SPDX-License-Identifier: Apache-2.0

// librdmacm loaded by a program that has long been using the device.
#include <dlfcn.h>
#include <rdma/rdma_cma.h>

#include <thread>

#include "tests/unit/libverbs-provider/device_fixture.hpp"

namespace softhca::provider::test {
namespace {

using LateLibrary = DeviceTest;

/// One that this executable is not linked with.
class Librdmacm {
 public:
  Librdmacm() : handle_(::dlopen("librdmacm.so.1", RTLD_NOW | RTLD_LOCAL)) {}
  ~Librdmacm() {
    if (handle_ != nullptr) ::dlclose(handle_);
  }
  template <class Function>
  Function* get(const char* name) {
    return reinterpret_cast<Function*>(::dlsym(handle_, name));
  }
  explicit operator bool() const { return handle_ != nullptr; }

 private:
  void* handle_;
};

TEST_F(LateLibrary, LoadedAfterTheProviderAndAgain) {
  const std::size_t sessions = daemon().session_count();
  for (int round = 0; round < 3; ++round) {
    Librdmacm library;
    ASSERT_TRUE(library) << ::dlerror();
    rdma_event_channel* channel =
        library.get<decltype(rdma_create_event_channel)>("rdma_create_event_channel")();
    ASSERT_NE(channel, nullptr) << std::strerror(errno);
    rdma_cm_id* id = nullptr;
    EXPECT_EQ(
        library.get<decltype(rdma_create_id)>("rdma_create_id")(channel, &id, nullptr, RDMA_PS_TCP),
        0);
    EXPECT_EQ(library.get<decltype(rdma_destroy_id)>("rdma_destroy_id")(id), 0);
    library.get<decltype(rdma_destroy_event_channel)>("rdma_destroy_event_channel")(channel);
    while (daemon().session_count() != sessions) std::this_thread::yield();
  }
}

}  // namespace
}  // namespace softhca::provider::test

// The device file of rdma_cm, which is not there: open(), fstat(), write() and close() of
// librdmacm.so.1 come here first. What is not about an event channel goes on to the C library.
#pragma once

namespace softhca::provider {

/// Event channels are opened by this tenant's socket from now on. Redirects the imports of
/// librdmacm, now if it is loaded, else when libibverbs is next asked for devices: librdmacm does
/// so before it opens the file.
void serve_connections(const char* tenant_socket);

}  // namespace softhca::provider

// SPDX-License-Identifier: Apache-2.0

// Emulates the device file of rdma_cm: open(), fstat(), write() and close() of librdmacm.so.1
// arrive here first. Calls that are not about an event channel go on to the C library.
#pragma once

namespace softhca::provider {

/// From now on, opens event channels by this tenant's socket. Redirects the imports of librdmacm:
/// now if it is loaded, else at the next scan of libibverbs for devices, which librdmacm requests
/// before it opens the file.
void serve_connections(const char* tenant_socket);

}  // namespace softhca::provider

// SPDX-License-Identifier: Apache-2.0

#include "daemon/qos/gsa/client_table.hpp"

#include <algorithm>
#include <utility>

namespace softhca::management::gsa {

ClientTable::ClientTable(std::uint32_t most) : clients_(most) { by_key_.reserve(most); }

std::optional<ClientId> ClientTable::add(Client&& client) {
  const auto id = clients_.allocate();
  if (!id) return std::nullopt;
  clients_[id->index] = std::move(client);
  by_key_.emplace(clients_[id->index].key.value, id->index);
  return id;
}

void ClientTable::remove(ClientId id) {
  by_key_.erase(clients_[id.index].key.value);
  clients_.free(id.index);
}

const Client* ClientTable::find(ClientId id) const {
  const bool current = id.index < clients_.capacity() && clients_.is_used(id.index) &&
                       clients_.handle(id.index) == id;
  return current ? &clients_[id.index] : nullptr;
}

std::optional<ClientId> ClientTable::find(ClientKey key) const {
  const auto found = by_key_.find(key.value);
  if (found == by_key_.end()) return std::nullopt;
  return clients_.handle(found->second);
}

std::vector<ClientView> ClientTable::view() const {
  std::vector<ClientView> all;
  for (std::uint32_t i = 0; i < capacity(); ++i) {
    if (!is_used(i)) continue;
    const Client& client = clients_[i];
    all.push_back({id_of(i), client.key, client.name, client.borrowed, client.counters});
  }
  std::ranges::sort(all, {}, &ClientView::key);
  return all;
}

}  // namespace softhca::management::gsa

// SPDX-License-Identifier: Apache-2.0

#include "daemon/operate/admin/diagnoses.hpp"

#include "daemon/live_records/record_body.hpp"

namespace softhca::control {

records::Record record_diagnosis(const Adapter& adapter, const char* kind,
                                 const std::string& text) {
  if (adapter.records == nullptr || !adapter.records->reserve()) return {};
  records::BodyWriter body;
  body.add_text(kind).add_text(text);
  return adapter.records->write(records::Kind::kDiagnosis, body.bytes());
}

void report_ended_diagnoses(Adapter& adapter, std::span<records::Adopted> left) {
  for (records::Adopted& each : left) {
    if (each.kind != records::Kind::kDiagnosis) continue;
    records::BodyReader body(each.body);
    std::string kind, text;
    if (body.read_text(kind) && body.read_text(text))
      adapter.journal.add({.kind = kind, .text = text + " ended: the adapter was replaced"});
    each.record.erase();
  }
}

}  // namespace softhca::control

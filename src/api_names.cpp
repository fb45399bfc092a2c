// C shims: what things are called.
#include "src/methods.h"
#include "src/names.h"

using namespace sparsecoll;

namespace {

const char* orUnknown(const char* name) { return name != nullptr ? name : "unknown"; }

}  // namespace

const char* sparsecollGetErrorString(sparsecollResult_t result) {
  const char* const name = resultName(result);
  return name != nullptr ? name : "unknown result";
}

const char* sparsecollSelectorName(int32_t selector) { return orUnknown(selectorName(selector)); }
const char* sparsecollCollectiveName(int32_t collective) { return orUnknown(collectiveName(collective)); }
const char* sparsecollDataTypeName(int32_t type) { return orUnknown(dataTypeName(type)); }
const char* sparsecollBackendName(int32_t backend) { return orUnknown(backendName(backend)); }
const char* sparsecollTransportName(int32_t transport) { return orUnknown(transportName(transport)); }

const char* sparsecollPresetName(uint32_t i) {
  const PresetRow* const row = presetRow(i);
  return row != nullptr ? row->name : nullptr;
}

const char* sparsecollPresetPaper(uint32_t i) {
  const PresetRow* const row = presetRow(i);
  return row != nullptr ? row->paper : nullptr;
}

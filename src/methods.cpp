#include "src/methods.h"

#include <string>
#include <string_view>

#include "src/names.h"

namespace sparsecoll {

namespace {

template <class Row>
Result<const Row*> found(const Row* row, int32_t id, const char* what, const char* name) {
  if (row != nullptr) return row;
  if (name == nullptr) return invalid("params.{} is {}", what, id);
  return unsupported("{} {} is not in this version of the library", what, name);
}

// The i-th preset of the rows, or nullptr, and i less what was passed over.
template <class Row>
const PresetRow* presetIn(std::span<const Row* const> rows, uint32_t& i) {
  for (const Row* const row : rows) {
    if (i < row->presets.size()) return &row->presets[i];
    i -= static_cast<uint32_t>(row->presets.size());
  }
  return nullptr;
}

// No published method: not listed among them.
constexpr PresetRow kAuto = {"auto", "the fastest of several methods, found by trials", "", sparsecollSelectAuto,
                             sparsecollCollAuto};

}  // namespace

Result<const SelectorRow*> findSelector(int32_t id) { return found(selectorRow(id), id, "selector", selectorName(id)); }
Result<const SelectorRow*> findSelector(const sparsecollParams_t& params) {
  SC_TRY(const SelectorRow* const row, findSelector(params.selector));
  if (params.faithful > row->publishedRules)
    return invalid("params.faithful is {}, of selector {} there is no such rule", params.faithful, row->name);
  return row;
}
Result<const CollectiveRow*> findCollective(int32_t id) {
  return found(collectiveRow(id), id, "collective", collectiveName(id));
}

const PresetRow* presetRow(uint32_t i) {
  if (const PresetRow* const row = presetIn(collectiveRows(), i)) return row;
  return presetIn(selectorRows(), i);
}

const PresetRow* presetLike(int32_t selector, int32_t collective, int32_t distribution) {
  for (uint32_t i = 0; const PresetRow* const row = presetRow(i); ++i)
    if (row->selector == selector && row->collective == collective &&
        (row->distribution == distribution || selector != sparsecollSelectSidco))
      return row;
  return nullptr;
}

Result<const PresetRow*> findPreset(const char* name) {
  if (name == nullptr) return invalid("the preset's name is NULL");
  if (std::string_view(name) == kAuto.name) return &kAuto;
  std::string known = kAuto.name;  // the text has room for all of them
  for (uint32_t i = 0; const PresetRow* const row = presetRow(i); ++i) {
    if (std::string_view(name) == row->name) return row;
    known.append(" ").append(row->name);
  }
  return invalid("no preset \"{:.20}\" but: {}", name, known);
}

}  // namespace sparsecoll

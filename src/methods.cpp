#include "src/methods.h"

#include <algorithm>
#include <string>
#include <string_view>

#include "src/names.h"

namespace sparsecoll {

namespace {

constexpr SelectorRow kSelectors[] = {
    {sparsecollSelectTopK, "topk", planTopK, sparsecollCollAllGather, false, true, true, {1, 16}, {1, 16}},
    {sparsecollSelectThreshold,
     "threshold",
     planThreshold,
     sparsecollCollIndexUnion,
     false,
     false,
     false,
     {1, 40},
     {1, 40}},
    {sparsecollSelectMicro, "micro", planMicro, sparsecollCollIndexUnion, true, false, false, {1, 40}, {9, 40}},
    {sparsecollSelectExDyna, "exdyna", planExDyna, sparsecollCollIndexUnion, true, false, false, {1, 40}, {12, 40}},
    {sparsecollSelectReusedTopK,
     "reused_topk",
     planReusedTopK,
     sparsecollCollAllGather,
     false,
     false,
     false,
     {1, 20},
     {1, 20}},
    {sparsecollSelectRandom, "random", planRandom, sparsecollCollAllGather, false, false, false, {1, 16}, {1, 16}},
    {sparsecollSelectChunkTopK,
     "chunk_topk",
     planChunkTopK,
     sparsecollCollAllGather,
     false,
     false,
     false,
     {2, 20},
     {2, 20}},
    {sparsecollSelectDeft, "deft", planDeft, sparsecollCollIndexUnion, true, false, false, {1, 40}, {1, 40}},
    {sparsecollSelectSampled, "sampled", planSampled, sparsecollCollAllGather, false, false, false, {1, 16}, {1, 16}},
    {sparsecollSelectSidco, "sidco", planSidco, sparsecollCollAllGather, false, false, false, {1, 16}, {1, 200}},
    {sparsecollSelectSage, "sage", planSage, sparsecollCollIndexUnion, false, false, false, {1, 40}, {1, 400}},
    {sparsecollSelectGaussian,
     "gaussian",
     planGaussian,
     sparsecollCollAllGather,
     false,
     false,
     false,
     {1, 16},
     {1, 200}},
    {sparsecollSelectRedSync, "redsync", planRedSync, sparsecollCollAllGather, false, false, false, {1, 16}, {1, 200}},
    {sparsecollSelectLeaderTopK,
     "leader_topk",
     planLeaderTopK,
     sparsecollCollIndexUnion,
     true,
     false,
     false,
     {1, 40},
     {1, 40}},
};

constexpr CollectiveRow kCollectives[] = {
    {sparsecollCollDense, "dense", nullptr, Contributors::kAll, true, 0},
    {sparsecollCollAllGather, "allgather", makeAllGather, Contributors::kLists, true, 0},
    {sparsecollCollIndexUnion, "index_union", makeIndexUnion, Contributors::kAll, true, 8},
    {sparsecollCollSparDL, "spardl", makeSparDL, Contributors::kUnknown, false, 24, true},
    {sparsecollCollGTopk, "gtopk", makeGTopK, Contributors::kUnknown, false, 24},
    {sparsecollCollOkTopk, "ok_topk", makeOkTopk, Contributors::kUnknown, false, 64, false, true},
    {sparsecollCollSparCML, "sparcml", makeRecursiveDoubling, Contributors::kUnknown, false, 24},
    {sparsecollCollSplitGather, "split_gather", makeSplitGather, Contributors::kUnknown, false, 64},
    {sparsecollCollTopkDSA, "topkdsa", makeTopkDSA, Contributors::kUnknown, false, 64},
};

constexpr PresetRow kPresets[] = {
    {"dense", sparsecollSelectTopK, sparsecollCollDense, "the engine's dense all-reduce: the baseline",
     "Rabenseifner 2004; ring: Patarasuk and Yuan 2009"},
    {"topka", sparsecollSelectTopK, sparsecollCollAllGather, "exact top-k on every rank, pairs gathered by all",
     "Renggli et al. 2019 (SparCML), section 5.1; Shi et al. 2019"},
    {"threshold", sparsecollSelectThreshold, sparsecollCollIndexUnion, "a fixed threshold, values summed at the union",
     "Dutta et al. 2021"},
    {"micro", sparsecollSelectMicro, sparsecollCollIndexUnion,
     "exclusive partitions in rotation, one threshold steered to k", "Yoon and Oh 2023 (MiCRO), arXiv:2310.00967"},
    {"exdyna", sparsecollSelectExDyna, sparsecollCollIndexUnion,
     "exclusive partitions of blocks, cut so that all find as much", "Yoon and Oh 2024 (ExDyna), arXiv:2402.13781"},
    {"deft", sparsecollSelectDeft, sparsecollCollIndexUnion, "top-k in fragments, as many as their norms call for",
     "Yoon and Oh 2023 (DEFT), arXiv:2307.03500"},
    {"sage", sparsecollSelectSage, sparsecollCollIndexUnion, "a threshold that follows the mean magnitude",
     "Yoon, Jeong and Oh 2023 (SAGE), doi:10.1007/s11227-023-05120-7"},
    {"sidco-e", sparsecollSelectSidco, sparsecollCollAllGather, "threshold from fitted exponential tails",
     "Abdelmoniem et al. 2021 (SIDCo), arXiv:2101.10761", sparsecollDistributionExponential},
    {"sidco-gp", sparsecollSelectSidco, sparsecollCollAllGather, "threshold from a gamma fit, then Pareto tails",
     "Abdelmoniem et al. 2021 (SIDCo), arXiv:2101.10761", sparsecollDistributionGammaPareto},
    {"sidco-p", sparsecollSelectSidco, sparsecollCollAllGather, "threshold from fitted generalised Pareto tails",
     "Abdelmoniem et al. 2021 (SIDCo), arXiv:2101.10761", sparsecollDistributionPareto},
    {"gaussiank", sparsecollSelectGaussian, sparsecollCollAllGather, "threshold from a normal fit and a few trials",
     "Shi et al. 2019 (GaussianK), arXiv:1911.08772"},
    {"redsync", sparsecollSelectRedSync, sparsecollCollAllGather, "threshold searched between mean and maximum",
     "Fang et al. 2019 (RedSync), arXiv:1808.04357"},
    {"cltk", sparsecollSelectLeaderTopK, sparsecollCollIndexUnion,
     "one rank's top k in rotation, all ranks' values there", "Chen et al. 2020 (ScaleCom), arXiv:2104.11125"},
    {"randomk", sparsecollSelectRandom, sparsecollCollAllGather, "k entries drawn without regard to their size",
     "Stich et al. 2018, arXiv:1809.07599"},
    {"chunk-topk", sparsecollSelectChunkTopK, sparsecollCollAllGather,
     "exact top-k of every chunk, 16-bit indices inside them", "Peng et al. 2024 (DeMo), arXiv:2411.19870"},
    {"gtopk", sparsecollSelectTopK, sparsecollCollGTopk, "lists merged on a tree, cut to k at every step",
     "Shi et al. 2019 (gTop-k), arXiv:1901.04359"},
    {"oktopk", sparsecollSelectReusedTopK, sparsecollCollOkTopk,
     "regions reduced by their owners, their largest entries gathered",
     "Li and Hoefler 2022 (Ok-Topk), arXiv:2201.07598"},
    {"sparcml-rd", sparsecollSelectTopK, sparsecollCollSparCML, "streams by recursive doubling, dense once shorter",
     "Renggli et al. 2019 (SparCML), arXiv:1802.08021"},
    {"sparcml-split", sparsecollSelectTopK, sparsecollCollSplitGather,
     "regions reduced by their owners, then gathered, dense once shorter",
     "Renggli et al. 2019 (SparCML), arXiv:1802.08021"},
    {"topkdsa", sparsecollSelectTopK, sparsecollCollTopkDSA, "the same with the switch at a third of the length",
     "Renggli et al. 2019 (SparCML); Li and Hoefler 2022 (Ok-Topk), arXiv:2201.07598"},
    {"spardl", sparsecollSelectTopK, sparsecollCollSparDL, "blocks scattered and reduced, cut before every send",
     "Zhao et al. 2024 (SparDL), arXiv:2304.00737", sparsecollDistributionDefault, 1},
    {"spardl-rsag", sparsecollSelectTopK, sparsecollCollSparDL, "in teams, which meet by recursive doubling",
     "Zhao et al. 2024 (SparDL), arXiv:2304.00737", sparsecollDistributionDefault, 0, sparsecollTeamGatherRecursive},
    {"spardl-bsag", sparsecollSelectTopK, sparsecollCollSparDL, "in teams, which meet with adaptive shares",
     "Zhao et al. 2024 (SparDL), arXiv:2304.00737", sparsecollDistributionDefault, 0, sparsecollTeamGatherBruck},
    {"dgc", sparsecollSelectSampled, sparsecollCollAllGather,
     "threshold from a sample's quantile, momentum in front of the residual", "Lin et al. 2018 (DGC), arXiv:1712.01887",
     sparsecollDistributionDefault, 0, sparsecollTeamGatherDefault, 0.9},
};

template <class Row>
Result<const Row*> findRow(std::span<const Row> rows, int32_t id, const char* what, const char* (*nameOf)(int32_t)) {
  const auto found = std::find_if(rows.begin(), rows.end(), [&](const Row& row) { return row.id == id; });
  if (found != rows.end()) return &*found;
  const char* const name = nameOf(id);
  return unsupported("{} {} is not in this version of the library", what, name != nullptr ? name : "unknown");
}

}  // namespace

std::span<const SelectorRow> selectorRows() { return kSelectors; }
std::span<const CollectiveRow> collectiveRows() { return kCollectives; }
std::span<const PresetRow> presetRows() { return kPresets; }

Result<const SelectorRow*> findSelector(int32_t id) { return findRow(selectorRows(), id, "selector", selectorName); }
Result<const CollectiveRow*> findCollective(int32_t id) {
  return findRow(collectiveRows(), id, "collective", collectiveName);
}

Result<const PresetRow*> findPreset(const char* name) {
  if (name == nullptr) return invalid("the preset's name is NULL");
  std::string known;
  for (const PresetRow& row : kPresets) {
    if (std::string_view(name) == row.name) return &row;
    known += known.empty() ? row.name : std::string(", ") + row.name;
  }
  return invalid("no preset \"{}\"; there are {}", name, known);
}

}  // namespace sparsecoll

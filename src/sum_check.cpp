#include "src/sum_check.h"

#include "core/checked.h"
#include "selectors/rules.h"

namespace sparsecoll {

namespace {

// No entries, but what names NaN and Inf.
constexpr FrameLayout kHeaderAlone{0, sizeof(uint32_t), 0};

}  // namespace

Result<std::unique_ptr<SumCheck>> SumCheck::make(Kernels& kernels, Transport& transport, uint64_t n,
                                                 const std::shared_ptr<MemoryBudget>& budget) {
  const auto ranks = static_cast<uint64_t>(transport.ranks());
  const uint64_t factsAt = alignUp(sizeof(Control), 64);
  const uint64_t poisonAt = factsAt + alignUp(ranks * sizeof(RankFacts), 64);
  std::unique_ptr<SumCheck> check(new SumCheck(kernels));
  SC_TRY(check->control_, kernels.allocate(poisonAt + ranks * kMaxNonFiniteIndices * sizeof(uint32_t), budget));
  SC_TRY(check->round_, FullRound::make(transport, kernels, kHeaderAlone, FullRound::Sends::kSameToAll, budget));
  Control control{};
  control.n = n;
  control.rank = static_cast<uint32_t>(transport.rank());
  control.ranks = static_cast<uint32_t>(ranks);
  control.facts = reinterpret_cast<RankFacts*>(check->control_.as<>() + factsAt);
  control.poison = reinterpret_cast<uint32_t*>(check->control_.as<>() + poisonAt);
  kernels.transfer(check->control(), &control, sizeof control, kernels.stream());
  return check;
}

uint32_t* SumCheck::begin(Stream stream) {
  uint32_t* const count = &control()->nonFinite.count;
  kernels_.fillZero(count, sizeof *count, stream);
  kernels_.fillZero(&control()->anyNonFinite, sizeof control()->anyNonFinite, stream);
  return count;
}

Status SumCheck::tell(Operation& operation, Stream stream) {
  kernels_.fillZero(round_.frame(operation), kFrameHeaderBytes, stream);
  SC_TRY(round_.run(operation, stream, control()));
  return end(operation, true, stream);
}

Status SumCheck::end(const Operation& operation, bool fails, Stream stream) {
  kernels_.apply(kAdvance, control(), stream);
  return kernels_.conclude({control(), operation.identity(), true, fails}, stream);
}

uint64_t SumCheck::stepsMet(Stream stream) const {
  Control control{};
  kernels_.transfer(&control, control_.as<>(), sizeof control, stream);
  return control.totals.nonFinite;
}

}  // namespace sparsecoll

#include "src/dense_tensors.h"

#include <numeric>

#include "core/checked.h"

namespace sparsecoll {

namespace {

std::vector<Range> rangesOf(std::span<const sparsecollSegment_t> segments) {
  std::vector<Range> ranges;
  uint64_t begin = 0;
  for (const sparsecollSegment_t& segment : segments) {
    const uint64_t end = begin + segment.length;
    if (segment.dense != 0 && !ranges.empty() && ranges.back().end == begin)
      ranges.back().end = end;
    else if (segment.dense != 0)
      ranges.push_back({begin, end});
    begin = end;
  }
  return ranges;
}

}  // namespace

Result<std::unique_ptr<Selection>> makeForming(const ReducerSpec& spec, Communicator& comm, Transport& ranks,
                                               const std::shared_ptr<MemoryBudget>& budget) {
  const auto noWindows = [](const SelectionRequest&) -> Result<SelectionPlan> { return SelectionPlan(); };
  SelectionRequest request;
  request.n = spec.n;
  request.accumulateType = spec.accumulateType;
  request.rank = ranks.rank();
  request.ranks = ranks.ranks();
  request.selectNothing = true;
  return Selection::make(noWindows, request, comm.kernels(), budget);
}

Result<DenseTensors> DenseTensors::make(const ReducerSpec& spec, Communicator& comm, Transport& ranks,
                                        const std::shared_ptr<MemoryBudget>& budget) {
  DenseTensors tensors;
  if (spec.sentDense == 0) return tensors;
  Kernels& kernels = comm.kernels();
  tensors.kernels_ = &kernels;
  tensors.transport_ = &ranks;
  tensors.type_ = spec.accumulateType;
  tensors.ranges_ = rangesOf(spec.segments);
  tensors.elements_ = spec.sentDense;
  SC_TRY(tensors.forming_, makeForming(spec, comm, ranks, budget));
  const uint64_t bytes = spec.sentDense * elementBytes(spec.accumulateType);
  tensors.sumAt_ = alignUp(bytes, 64);
  SC_TRY(tensors.window_, ranks.makeWindow(tensors.sumAt_ + bytes, budget, &kernels));
  SC_TRY(tensors.indices_, kernels.allocate(spec.sentDense * sizeof(uint32_t), budget));
  SC_TRY(tensors.count_, kernels.allocate(sizeof(uint32_t), budget));
  if (spec.params.momentum != 0 && !spec.has(SPARSECOLL_MOMENTUM_KEPT)) {
    SC_TRY(tensors.velocity_, kernels.allocate(bytes, budget));
  }
  tensors.lists_.reserve(static_cast<size_t>(ranks.ranks()) + 1);
  std::vector<uint32_t> indices(spec.sentDense);
  tensors.forEachRange([&](uint64_t at, uint64_t packed, uint64_t count) {
    const auto begin = indices.begin() + static_cast<std::ptrdiff_t>(packed);
    std::iota(begin, begin + static_cast<std::ptrdiff_t>(count), static_cast<uint32_t>(at));
  });
  const auto count = static_cast<uint32_t>(spec.sentDense);
  kernels.transfer(tensors.indices_.as<>(), indices.data(), indices.size() * sizeof(uint32_t), kernels.stream());
  kernels.transfer(tensors.count_.as<>(), &count, sizeof count, kernels.stream());
  return tensors;
}

template <class Each>
void DenseTensors::forEachRange(Each each) const {
  uint64_t packed = 0;
  for (const Range& range : ranges_) {
    each(range.begin, packed, range.length());
    packed += range.length();
  }
}

void DenseTensors::cutOut(SelectionInput& input, Stream stream) {
  if (ranges_.empty()) return;
  forming_->pass(input, stream);
  void* const acc = input.out;
  copyOut(own(), acc, stream);
  forEachRange([&](uint64_t at, uint64_t packed, uint64_t count) {
    kernels_->addFinite(placeIn(acc, at), type_, placeIn(own(), packed), type_, count, -1, 1, nullptr, stream);
  });
  input = {};
  input.gradient = input.out = acc;
  input.gradientType = type_;
}

Result<std::span<const ListView>> DenseTensors::sum(Operation& operation, std::span<const ListView> lists,
                                                    Stream stream) {
  if (ranges_.empty()) return lists;
  DenseArgs args;
  args.in = own();
  args.out = summed();
  args.n = elements_;
  args.type = type_;
  SC_TRY(transport_->allReduce(operation, args, stream));
  lists_.assign(lists.begin(), lists.end());
  lists_.push_back({indices_.as<>(), summed(), count_.as<uint32_t>()});
  return std::span<const ListView>(lists_);
}

void DenseTensors::restore(void* acc, const Control* decision, Stream stream) const {
  forEachRange([&](uint64_t at, uint64_t packed, uint64_t count) {
    kernels_->restore(placeIn(acc, at), placeIn(own(), packed), type_, count, decision, stream);
  });
}

void DenseTensors::putBack(void* acc, Stream stream) const {
  if (!ranges_.empty()) copyIn(acc, own(), stream);
}

void DenseTensors::keepVelocity(const void* velocity, Stream stream) const {
  if (velocity_.bytes() != 0) copyOut(velocity_.as<>(), velocity, stream);
}

void DenseTensors::returnVelocity(void* velocity, Stream stream) const {
  if (velocity_.bytes() != 0) copyIn(velocity, velocity_.as<>(), stream);
}

void DenseTensors::copyOut(std::byte* packed, const void* vector, Stream stream) const {
  forEachRange([&](uint64_t at, uint64_t to, uint64_t count) {
    kernels_->copy(placeIn(packed, to), placeIn(vector, at), count * elementBytes(type_), stream);
  });
}

void DenseTensors::copyIn(void* vector, const std::byte* packed, Stream stream) const {
  forEachRange([&](uint64_t at, uint64_t from, uint64_t count) {
    kernels_->copy(placeIn(vector, at), placeIn(packed, from), count * elementBytes(type_), stream);
  });
}

}  // namespace sparsecoll

#include "src/dense_tensors.h"

#include <algorithm>
#include <numeric>

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

// Calls each(where the range begins in a vector of all elements, where in one of the tensors alone, its bytes).
template <class Each>
void forEachRange(std::span<const Range> ranges, sparsecollDataType_t type, Each each) {
  uint64_t packed = 0;
  for (const Range& range : ranges) {
    const uint64_t bytes = range.length() * elementBytes(type);
    each(range.begin * elementBytes(type), packed, bytes);
    packed += bytes;
  }
}

}  // namespace

Result<std::unique_ptr<Selection>> makeForming(const ReducerSpec& spec, Communicator& comm,
                                               const std::shared_ptr<MemoryBudget>& budget) {
  const auto noWindows = [](const SelectionRequest&) -> Result<SelectionPlan> { return SelectionPlan(); };
  SelectionRequest request;
  request.n = spec.n;
  request.accumulateType = spec.accumulateType;
  request.rank = comm.rank();
  request.ranks = comm.ranks();
  request.selectNothing = true;
  return Selection::make(noWindows, request, comm.kernels(), budget);
}

Result<DenseTensors> DenseTensors::make(const ReducerSpec& spec, Communicator& comm,
                                        const std::shared_ptr<MemoryBudget>& budget) {
  DenseTensors tensors;
  if (spec.sentDense == 0) return tensors;
  Kernels& kernels = comm.kernels();
  tensors.kernels_ = &kernels;
  tensors.type_ = spec.accumulateType;
  tensors.ranges_ = rangesOf(spec.segments);
  tensors.elements_ = spec.sentDense;
  SC_TRY(tensors.forming_, makeForming(spec, comm, budget));
  const uint64_t bytes = spec.sentDense * elementBytes(spec.accumulateType);
  SC_TRY(tensors.own_, kernels.allocate(bytes, budget));
  SC_TRY(tensors.sum_, kernels.allocate(bytes, budget));
  SC_TRY(tensors.indices_, kernels.allocate(spec.sentDense * sizeof(uint32_t), budget));
  SC_TRY(tensors.count_, kernels.allocate(sizeof(uint32_t), budget));
  if (spec.params.momentum != 0 && !spec.has(SPARSECOLL_MOMENTUM_KEPT)) {
    SC_TRY(tensors.velocity_, kernels.allocate(bytes, budget));
  }
  std::vector<uint32_t> indices(spec.sentDense);
  auto next = indices.begin();
  for (const Range& range : tensors.ranges_) {
    const auto end = next + static_cast<std::ptrdiff_t>(range.length());
    std::iota(next, end, static_cast<uint32_t>(range.begin));
    next = end;
  }
  const auto count = static_cast<uint32_t>(spec.sentDense);
  kernels.copy(tensors.indices_.as<>(), indices.data(), indices.size() * sizeof(uint32_t), kernels.stream());
  kernels.copy(tensors.count_.as<>(), &count, sizeof count, kernels.stream());
  return tensors;
}

void DenseTensors::cutOut(SelectionInput& input, Stream stream) {
  if (ranges_.empty()) return;
  forming_->pass(input, stream);
  acc_ = static_cast<std::byte*>(input.out);
  forEachRange(ranges_, type_, [&](uint64_t at, uint64_t packed, uint64_t bytes) {
    std::byte* const own = own_.as<>() + packed;
    kernels_->copy(own, acc_ + at, bytes, stream);
    kernels_->addFinite(acc_ + at, type_, own, type_, bytes / elementBytes(type_), -1, 1, nullptr, stream);
  });
  input = {};
  input.gradient = input.out = acc_;
  input.gradientType = type_;
}

Status DenseTensors::sum(Operation& operation, Transport& transport, Stream stream) const {
  DenseArgs args;
  args.in = own_.as<>();
  args.out = sum_.as<>();
  args.n = elements_;
  args.type = type_;
  return transport.allReduce(operation, args, stream);
}

void DenseTensors::restore(const Control* decision, Stream stream) {
  forEachRange(ranges_, type_, [&](uint64_t at, uint64_t packed, uint64_t bytes) {
    kernels_->restore(acc_ + at, own_.as<>() + packed, type_, bytes / elementBytes(type_), decision, stream);
  });
  acc_ = nullptr;
}

void DenseTensors::putBack(Stream stream) {
  if (acc_ == nullptr) return;
  forEachRange(ranges_, type_, [&](uint64_t at, uint64_t packed, uint64_t bytes) {
    kernels_->copy(acc_ + at, own_.as<>() + packed, bytes, stream);
  });
  acc_ = nullptr;
}

void DenseTensors::keepVelocity(const void* velocity, Stream stream) const {
  if (velocity_.bytes() == 0) return;
  forEachRange(ranges_, type_, [&](uint64_t at, uint64_t packed, uint64_t bytes) {
    kernels_->copy(velocity_.as<>() + packed, static_cast<const std::byte*>(velocity) + at, bytes, stream);
  });
}

void DenseTensors::returnVelocity(void* velocity, Stream stream) const {
  if (velocity_.bytes() == 0) return;
  forEachRange(ranges_, type_, [&](uint64_t at, uint64_t packed, uint64_t bytes) {
    kernels_->copy(static_cast<std::byte*>(velocity) + at, velocity_.as<>() + packed, bytes, stream);
  });
}

// One operation, one answer: the tensors are summed in it, behind the rounds of the collective.
class DenseTensors::Joined final : public Collective {
 public:
  Joined(const DenseTensors& tensors, std::unique_ptr<Collective> collective, Transport& transport)
      : tensors_(tensors), collective_(std::move(collective)), transport_(transport) {
    lists_.reserve(static_cast<size_t>(kMostLists) * static_cast<size_t>(transport.ranks()) + 1);
  }

  bool selects() const override { return collective_->selects(); }
  List target(const Operation& operation) override { return collective_->target(operation); }

  Result<Delivered> run(const CollectiveStep& step) override {
    SC_TRY(Delivered delivered, collective_->run(step));
    SC_TRY(tensors_.sum(*step.operation, transport_, step.stream));
    lists_.assign(delivered.lists.begin(), delivered.lists.end());
    lists_.push_back(
        {tensors_.indices_.as<const void>(), tensors_.sum_.as<const void>(), tensors_.count_.as<const uint32_t>()});
    delivered.lists = {lists_.data(), lists_.size() - 1};
    delivered.besides = 1;
    return delivered;
  }

 private:
  static constexpr int kMostLists = 3;  // of a rank, by and large

  const DenseTensors& tensors_;
  std::unique_ptr<Collective> collective_;
  Transport& transport_;
  std::vector<ListView> lists_;  // with room for all that any collective delivers: a step allocates nothing
};

Result<std::unique_ptr<Collective>> DenseTensors::join(std::unique_ptr<Collective> collective, Communicator& comm) {
  if (ranges_.empty()) return collective;
  return std::unique_ptr<Collective>(std::make_unique<Joined>(*this, std::move(collective), comm.transport()));
}

}  // namespace sparsecoll

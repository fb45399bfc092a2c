// SPDX-License-Identifier: Apache-2.0
// torch.hpp - sparse gradient averaging for LibTorch programs; C++17, on top of the C ABI alone.
//
//   sparsecoll::torch::GradientSync sync(model->parameters(), comm, options);   // on every rank
//   loss.backward();
//   sync.step();                                                                // gradients become the ranks' average
//   optimizer.step();
//   sync.zeroGrad();
//
// Works with LibTorch 1.13 and later. CUDA tensors need a LibTorch built with CUDA, whose headers are then found here.
// docs/guide/torch.md has the manual.
#ifndef SPARSECOLL_TORCH_HPP_
#define SPARSECOLL_TORCH_HPP_

#include <sparsecoll/sparsecoll.h>
#include <torch/serialize.h>
#include <torch/types.h>
#include <sparsecoll/torch_detail.hpp>

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace sparsecoll::torch {

/// Owns a communicator.
class Comm {
 public:
  Comm() = default;
  explicit Comm(sparsecollComm_t handle) noexcept : handle_(handle) {}
  Comm(Comm&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  Comm& operator=(Comm&& other) noexcept {
    std::swap(handle_, other.handle_);
    return *this;
  }
  ~Comm() { sparsecollCommDestroy(handle_); }

  /// One communicator for each of so many threads of this process; devices: their CUDA ordinals, none for host memory.
  static std::vector<Comm> threads(int ranks, const std::vector<int>& devices = {},
                                   const sparsecollConfig_t* config = nullptr) {
    if (!devices.empty() && devices.size() != static_cast<std::size_t>(ranks))
      throw std::invalid_argument("Comm::threads: as many devices as ranks, or none");
    std::vector<sparsecollComm_t> handles(static_cast<std::size_t>(std::max(ranks, 0)));
    check(sparsecollCommInitAll(handles.data(), ranks, devices.empty() ? nullptr : devices.data(), config),
          "sparsecollCommInitAll");
    std::vector<Comm> comms;
    for (const auto handle : handles) comms.emplace_back(handle);
    return comms;
  }

  /// Ranks in processes of their own that torchrun, srun or the like has started: as sparsecollCommInitEnv. Collective.
  static Comm fromEnv(int device, const sparsecollConfig_t* config = nullptr) {
    sparsecollComm_t handle = nullptr;
    check(sparsecollCommInitEnv(&handle, device, config), "sparsecollCommInitEnv");
    return Comm(handle);
  }

  /// The same, where they meet at a c10d::Store (or anything else with its set and get). Collective.
  /// Every communicator that is made at one store needs a key of its own: under a used one a rank may find the old id.
  /// device and config: as sparsecollGetUniqueId and sparsecollCommInitRank say.
  template <class Store>
  static Comm fromStore(Store& store, int rank, int ranks, int device, const std::string& key = "sparsecoll",
                        const sparsecollConfig_t* config = nullptr) {
    sparsecollUniqueId_t id{};
    if (rank == 0) {
      check(sparsecollGetUniqueId(&id, config), "sparsecollGetUniqueId");
      store.set(key, std::vector<std::uint8_t>(std::begin(id.bytes), std::end(id.bytes)));
    } else {
      const std::vector<std::uint8_t> bytes = store.get(key);
      if (bytes.size() != sizeof id.bytes)
        throw std::runtime_error("Comm::fromStore: '" + key + "' holds no unique id");
      std::copy(bytes.begin(), bytes.end(), id.bytes);
    }
    sparsecollComm_t handle = nullptr;
    check(sparsecollCommInitRank(&handle, ranks, &id, rank, device, config), "sparsecollCommInitRank");
    return Comm(handle);
  }

  operator sparsecollComm_t() const noexcept { return handle_; }

 private:
  sparsecollComm_t handle_ = nullptr;
};

/// One rank's gradients in flat buckets, and their exchange. All ranks build it over parameters of the same shapes in
/// the same order, with equal options, and call its collective functions in the same order. Threads: one at a time;
/// until step returns nothing else may use the communicator. The parameters' device need not be the current one.
/// Errors: Error.
class GradientSync {
 public:
  /// Collective. Parameters that need no gradient are left out.
  GradientSync(const std::vector<at::Tensor>& parameters, sparsecollComm_t comm, Options options = {})
      : comm_(comm), options_(std::move(options)) {
    plan(parameters);
    if (options_.overlap) {
      side_.emplace(device());
      worker_ = std::make_unique<detail::Worker>();
      hook();
    }
    zeroGrad();
    restart();
  }
  GradientSync(const GradientSync&) = delete;
  GradientSync& operator=(const GradientSync&) = delete;
  ~GradientSync() {
    for (const auto& hooked : hooks_) hooked.accumulator->del_post_hook(hooked.key);
  }

  /// Collective. Replaces every gradient by the ranks' average (or sum) of what was sent. A parameter without a
  /// gradient counts as zero. Afterwards gradients are views of the buckets. On CUDA it only enqueues; wait tells
  /// errors. After an error some buckets may hold averages already and others not: the same gradients cannot be sent
  /// again. Clear them and go on with the next backward. Of sparse buckets that were summed before it this rank takes
  /// its share back, as giveBack does; those sent dense lose their step.
  void step() {
    const Restart restartInAnyCase{*this};
    try {
      while (next_ < buckets_.size()) launch();
      if (!worker_) return;
      worker_->wait();
      side_->join();
    } catch (...) {
      settle();
      for (const auto& bucket : buckets_) {
        [[maybe_unused]] const auto tookBack = takeBack(*bucket, 1);  // the step's error is the one to tell
        bucket->forgetSum();
      }
      throw;
    }
  }

  /// While false, backward only adds to the gradients: for several backward passes a step. Matters with overlap.
  void setLastBackward(bool last) { lastBackward_ = last; }

  /// All gradients = 0, as views of the buckets: what the optimiser's zero_grad is for, in one pass and without copies
  /// in the next step.
  void zeroGrad() {
    for (const auto& bucket : buckets_) bucket->zero();
  }

  /// On every rank, before the same step. Tensors with a density of their own keep it.
  void setDensity(double density) {
    for (const auto& bucket : buckets_)
      if (bucket->followsDensity())
        check(sparsecollReducerSetDensity(bucket->reducer(), density), "sparsecollReducerSetDensity");
  }

  /// From the next step on gradients are multiplied by inputScale, and sums by outputScale: 1 / S and S where the loss
  /// is multiplied by S. On every rank, before the same step.
  void setScales(double inputScale, double outputScale) {
    for (const auto& bucket : buckets_)
      check(sparsecollReducerSetScales(bucket->reducer(), inputScale, outputScale), "sparsecollReducerSetScales");
  }

  /// Collective. The optimiser will not apply the last step: the ranks take back what they sent. factor: what gradients
  /// were multiplied by since then, 1 / S where a loss scaler has divided them by S. Behind a step that threw there is
  /// nothing left to take back.
  void giveBack(double factor = 1) {
    for (const auto& bucket : buckets_) check(takeBack(*bucket, factor), "sparsecollReducerGiveBack");
  }

  /// Forgets residuals, thresholds and iteration. On every rank.
  void reset() {
    for (const auto& bucket : buckets_)
      check(sparsecollReducerReset(bucket->reducer(), stream(*bucket)), "sparsecollReducerReset");
  }

  /// Waits for the device, and throws what went wrong there.
  void wait(std::uint64_t timeoutMs = 0) {
    check(sparsecollCommWait(comm_, stream(*buckets_.front()), timeoutMs), "sparsecollCommWait");
  }

  std::size_t buckets() const { return buckets_.size(); }
  const at::Tensor& gradients(std::size_t bucket) const { return buckets_.at(bucket)->flat(); }
  sparsecollReducerInfo_t info(std::size_t bucket) const {
    auto info = SPARSECOLL_INIT(sparsecollReducerInfo_t);
    check(sparsecollReducerGetInfo(buckets_.at(bucket)->reducer(), &info), "sparsecollReducerGetInfo");
    return info;
  }
  sparsecollStats_t stats(std::size_t bucket) const {
    auto stats = SPARSECOLL_INIT(sparsecollStats_t);
    check(sparsecollReducerGetStats(buckets_.at(bucket)->reducer(), &stats), "sparsecollReducerGetStats");
    return stats;
  }

  /// L2 norm of what this rank keeps for later steps; 0 for methods without a residual. Waits for the device.
  double residualNorm(std::size_t bucket) const {
    void* data = nullptr;
    std::uint64_t n = 0;
    auto type = sparsecollFloat32;
    check(sparsecollReducerGetResidual(buckets_.at(bucket)->reducer(), &data, &n, &type),
          "sparsecollReducerGetResidual");
    if (data == nullptr) return 0;
    const auto scalar = type == sparsecollFloat64 ? at::kDouble : at::kFloat;
    const auto options = at::TensorOptions(scalar).device(device());
    return at::from_blob(data, {static_cast<int64_t>(n)}, options).norm(2, at::kDouble).item<double>();
  }

  /// This rank's state, to be saved beside the model and the optimiser: residuals, velocities, thresholds, iterations.
  void save(::torch::serialize::OutputArchive& archive) const {
    archive.write("buckets", ::torch::tensor(static_cast<int64_t>(buckets_.size())));
    for (std::size_t i = 0; i < buckets_.size(); ++i) {
      std::size_t bytes = 0;
      const auto reducer = buckets_[i]->reducer();
      check(sparsecollReducerExport(reducer, nullptr, &bytes, stream(*buckets_[i])), "sparsecollReducerExport");
      const auto blob = at::empty({static_cast<int64_t>(bytes)}, at::kByte);
      check(sparsecollReducerExport(reducer, blob.data_ptr(), &bytes, stream(*buckets_[i])), "sparsecollReducerExport");
      archive.write("bucket" + std::to_string(i), blob);
    }
  }

  /// Goes on with the state that save of the same rank, with the same buckets and options, wrote.
  void load(::torch::serialize::InputArchive& archive) {
    forEachBlob(archive, [](sparsecollReducer_t reducer, const at::Tensor& blob, sparsecollStream_t stream) {
      const auto bytes = static_cast<std::size_t>(blob.numel());
      check(sparsecollReducerImport(reducer, blob.data_ptr(), bytes, stream), "sparsecollReducerImport");
    });
  }

  /// After a change of the number of ranks: takes over any rank's state, in addition to this one's if add is set.
  void loadFrom(::torch::serialize::InputArchive& archive, bool add) {
    importFrom(archive, add ? 1 : 0);
  }
  /// For ranks that are more than before: takes over any rank's thresholds alone, and nothing of what it kept.
  void loadThresholds(::torch::serialize::InputArchive& archive) { importFrom(archive, 2); }

 private:
  void importFrom(::torch::serialize::InputArchive& archive, int merge) {
    forEachBlob(archive, [merge](sparsecollReducer_t reducer, const at::Tensor& blob, sparsecollStream_t stream) {
      const auto bytes = static_cast<std::size_t>(blob.numel());
      check(sparsecollReducerImportFrom(reducer, blob.data_ptr(), bytes, merge, stream), "sparsecollReducerImportFrom");
    });
  }
  /// The communicator's, too.
  c10::Device device() const { return buckets_.front()->flat().device(); }
  static sparsecollStream_t stream(const detail::Bucket& bucket) {
    return detail::currentStream(bucket.flat().device());
  }

  // Whatever of the step is under way is over, or on the current stream's past.
  void settle() {
    if (!worker_) return;
    try {
      worker_->wait();
    } catch (...) {
    }
    side_->join();
  }

  sparsecollResult_t takeBack(const detail::Bucket& bucket, double factor) const {
    if (!bucket.hasSum() || bucket.isDense() || !options_.errorFeedback) return sparsecollSuccess;
    return sparsecollReducerGiveBack(bucket.reducer(), bucket.flat().data_ptr(), factor, stream(bucket));
  }

  double ownDensity(std::size_t i, const at::Tensor& parameter) const {
    if (options_.densityOf) return options_.densityOf(i, parameter);
    return parameter.dim() <= 1 ? options_.vectorDensity : 0;
  }

  // Parameters of one type and rule share a bucket. Backward fills the last parameters first, so buckets are cut from
  // the end: bucket 0 holds the last ones. Within a bucket they are in order.
  void plan(const std::vector<at::Tensor>& parameters) {
    struct Cut {
      std::vector<at::Tensor> parameters;
      double own;
      std::size_t bytes;
    };
    std::vector<Cut> cuts;
    std::map<std::pair<at::ScalarType, double>, std::size_t> open;
    std::set<const at::TensorImpl*> seen;
    for (std::size_t i = parameters.size(); i-- > 0;) {
      const at::Tensor& parameter = parameters[i];
      if (!parameter.requires_grad() || parameter.numel() == 0) continue;
      if (!seen.insert(parameter.unsafeGetTensorImpl()).second) continue;  // tied weights: one gradient
      if (parameter.device() != parameters.back().device())
        throw Error(sparsecollUnsupported, "parameters on several devices");
      const double own = ownDensity(i, parameter);
      const auto bytes =
          static_cast<std::size_t>(parameter.numel()) * static_cast<std::size_t>(parameter.element_size());
      const auto [entry, isNew] = open.try_emplace({parameter.scalar_type(), own}, cuts.size());
      if (!isNew && options_.bucketBytes > 0 && cuts[entry->second].bytes + bytes > options_.bucketBytes)
        entry->second = cuts.size();
      if (entry->second == cuts.size()) cuts.push_back({{}, own, 0});
      cuts[entry->second].parameters.push_back(parameter);
      cuts[entry->second].bytes += bytes;
    }
    if (cuts.empty()) throw Error(sparsecollInvalidArgument, "no parameter needs a gradient");
    for (auto& cut : cuts) {
      std::reverse(cut.parameters.begin(), cut.parameters.end());
      buckets_.push_back(
          std::make_unique<detail::Bucket>(std::move(cut.parameters), buckets_.size(), cut.own, options_, comm_));
    }
  }

  void hook() {
    for (std::size_t b = 0; b < buckets_.size(); ++b) {
      for (std::size_t i = 0; i < buckets_[b]->size(); ++i) {
        auto accumulator = ::torch::autograd::impl::grad_accumulator(buckets_[b]->parameter(i));
        const auto key =
            accumulator->add_post_hook(std::make_unique<detail::AccumulatedHook>([this, b, i] { filled(b, i); }));
        hooks_.push_back({std::move(accumulator), key});
      }
    }
  }

  // Autograd is done with a gradient. Buckets leave in their order, whatever the order in which they are filled,
  // because that may differ between ranks.
  void filled(std::size_t b, std::size_t i) {
    if (!lastBackward_) return;
    if (buckets_[b]->isGathered(i))
      throw Error(sparsecollInvalidUsage, "a second backward pass before step: see setLastBackward");
    buckets_[b]->gather(i);
    while (next_ < buckets_.size() && buckets_[next_]->isFull()) launch();
  }

  void launch() {
    if (next_ == 0)
      for (const auto& each : buckets_) each->forgetSum();
    detail::Bucket& bucket = *buckets_[next_++];
    bucket.gatherRest();
    if (!worker_) return bucket.run();
    worker_->post([this, &bucket, mark = side_->mark()] { side_->run(mark, [&bucket] { bucket.run(); }); });
  }

  void restart() {
    next_ = 0;
    for (const auto& bucket : buckets_) bucket->restart();
  }

  struct Restart {
    GradientSync& sync;
    ~Restart() { sync.restart(); }
  };

  template <class Import>
  void forEachBlob(::torch::serialize::InputArchive& archive, Import import) {
    at::Tensor count, blob;
    archive.read("buckets", count);
    if (count.item<int64_t>() != static_cast<int64_t>(buckets_.size()))
      throw Error(sparsecollInvalidArgument, "the saved state has " + std::to_string(count.item<int64_t>()) +
                                                 " buckets, not " + std::to_string(buckets_.size()));
    for (std::size_t i = 0; i < buckets_.size(); ++i) {
      archive.read("bucket" + std::to_string(i), blob);
      import(buckets_[i]->reducer(), blob, stream(*buckets_[i]));
    }
  }

  sparsecollComm_t comm_;
  Options options_;
  std::vector<std::unique_ptr<detail::Bucket>> buckets_;
  std::vector<detail::HookedParameter> hooks_;
  std::size_t next_ = 0;  // bucket to leave
  bool lastBackward_ = true;
  std::optional<detail::SideStream> side_;
  std::unique_ptr<detail::Worker> worker_;  // last: ends before what its jobs use
};

/// For torch::save and torch::load.
inline ::torch::serialize::OutputArchive& operator<<(::torch::serialize::OutputArchive& archive,
                                                     const GradientSync& sync) {
  sync.save(archive);
  return archive;
}
inline ::torch::serialize::InputArchive& operator>>(::torch::serialize::InputArchive& archive, GradientSync& sync) {
  sync.load(archive);
  return archive;
}

/// Collective. Gives every rank the values that root has, so that replicas start equal. Floating-point tensors.
inline void broadcast(const std::vector<at::Tensor>& tensors, sparsecollComm_t comm, int root = 0) {
  const at::NoGradGuard noGrad;
  int rank = 0;
  check(sparsecollCommGetInfo(comm, &rank, nullptr, nullptr), "sparsecollCommGetInfo");
  auto params = SPARSECOLL_INIT(sparsecollParams_t);
  check(sparsecollPreset("dense", &params), "sparsecollPreset");
  for (const at::Tensor& tensor : tensors) {
    const auto values = rank == root ? tensor.detach().clone(at::MemoryFormat::Contiguous)
                                     : at::zeros_like(tensor, at::MemoryFormat::Contiguous);
    check(sparsecollAllReduce(values.data_ptr(), values.data_ptr(), static_cast<std::uint64_t>(values.numel()),
                              detail::dataType(values.scalar_type()), &params, comm,
                              detail::currentStream(values.device())),
          "sparsecollAllReduce");
    tensor.detach().copy_(values);
  }
}

}  // namespace sparsecoll::torch

#endif  // SPARSECOLL_TORCH_HPP_

// Checkpoints. A blob is little-endian: magic, version, method, shape, which shard if it is one's, selection state,
// residual, velocity where momentum keeps one, CRC-32C of all before it.
#include <algorithm>
#include <cstring>

#include "core/bytes.h"
#include "src/blob.h"
#include "src/reducer.h"

namespace sparsecoll {

namespace {

constexpr uint32_t kMagic = 0x31425053;       // "SPB1"
constexpr uint32_t kVersion = 4;              // of a whole vector's state
constexpr uint32_t kShardVersion = 6;         // of a shard's, which has three fields more
constexpr uint64_t kMergedPiece = 32 * 1024;  // bytes of a saved vector that are added at once

struct BlobHead {
  uint32_t selector, collective, faithful, accumulateType;
  uint64_t n;
  uint32_t ranks, rank;
  uint32_t velocity;               // 1: the blob has one
  uint32_t shards = 0, shard = 0;  // 0 shards: the vector is whole
  uint32_t averaged = 0;           // ranks by whose number averages divide; of a shard more than those of the exchange
};

BlobHead headOf(const ReducerSpec& spec, int averaged, Transport& exchanging, const NodeLevel* level) {
  const int ranks = exchanging.ranks();
  const int rank = exchanging.rank();
  const auto shards = static_cast<uint32_t>(level != nullptr ? level->shards() : 0);
  const auto shard = static_cast<uint32_t>(level != nullptr ? level->place() : 0);
  return {static_cast<uint32_t>(spec.selector->id),
          static_cast<uint32_t>(spec.collective->id),
          static_cast<uint32_t>(spec.params.faithful),
          static_cast<uint32_t>(spec.accumulateType),
          spec.n,
          static_cast<uint32_t>(ranks),
          static_cast<uint32_t>(rank),
          spec.params.momentum != 0 ? 1u : 0u,
          shards,
          shard,
          static_cast<uint32_t>(averaged)};
}

void writeHead(Writer& to, const BlobHead& head) {
  to.write(kMagic);
  to.write(head.shards != 0 ? kShardVersion : kVersion);
  to.write(head.selector);
  to.write(head.collective);
  to.write(head.faithful);
  to.write(head.accumulateType);
  to.write(head.n);
  to.write(head.ranks);
  to.write(head.rank);
  to.write(head.velocity);
  if (head.shards == 0) return;
  to.write(head.shards);
  to.write(head.shard);
  to.write(head.averaged);
}

Result<BlobHead> readHead(Reader& from) {
  SC_TRY(const auto magic, from.read<uint32_t>());
  SC_TRY(const auto version, from.read<uint32_t>());
  if (magic != kMagic) return invalid("this is not the state of a reducer");
  if (version != kVersion && version != kShardVersion)
    return unsupported("state of version {}, this library reads {} and {}", version, kVersion, kShardVersion);
  BlobHead head{};
  SC_TRY(head.selector, from.read<uint32_t>());
  SC_TRY(head.collective, from.read<uint32_t>());
  SC_TRY(head.faithful, from.read<uint32_t>());
  SC_TRY(head.accumulateType, from.read<uint32_t>());
  SC_TRY(head.n, from.read<uint64_t>());
  SC_TRY(head.ranks, from.read<uint32_t>());
  SC_TRY(head.rank, from.read<uint32_t>());
  SC_TRY(head.velocity, from.read<uint32_t>());
  head.averaged = head.ranks;
  if (version == kShardVersion) {
    SC_TRY(head.shards, from.read<uint32_t>());
    SC_TRY(head.shard, from.read<uint32_t>());
    SC_TRY(head.averaged, from.read<uint32_t>());
  }
  if (head.averaged == 0) return fail(sparsecollCorrupted, "the state is of no ranks");
  return head;
}

Status sameField(const char* name, uint64_t blob, uint64_t here) {
  if (blob != here) return invalid("the state has {} {}, this reducer {}", name, blob, here);
  return {};
}

// No step leaves NaN or Inf in a residual, so a residual that has one is not this library's. factor: what it will be
// multiplied by.
Status checkFinite(std::span<const std::byte> residual, sparsecollDataType_t type, double factor) {
  return withAccumulate(type, [&]<class A>(A element) -> Status {
    for (uint64_t at = 0; at < residual.size(); at += sizeof element) {
      std::memcpy(&element, residual.data() + at, sizeof element);
      if (!isFinite(element)) return fail(sparsecollCorrupted, "the state's residual has NaN or Inf");
      if (!isFinite(static_cast<A>(element * factor)))
        return invalid("the state's residual has {}, which {} makes infinite", element, factor);
    }
    return {};
  });
}

}  // namespace

Result<uint64_t> Reducer::exportState(void* blob, uint64_t room, Stream stream) {
  SC_TRY(notCaptured(stream));
  SC_TRY(comm_->reach(stream));
  Writer writer;
  writeHead(writer, headOf(spec_, comm_->ranks(), exchanging(), level_.get()));
  if (method_.selection != nullptr) {
    method_.selection->use(stream);
    method_.selection->save(writer);
  }
  SC_TRY(comm_->kernels().enqueued());
  uint64_t need = writer.bytes().size() + kBlobSumBytes;
  for (const void* const vector : residual_.vectors()) need += vector != nullptr ? residual_.bytes() : 0;
  if (blob == nullptr) return need;
  SC_TRY(fitsBlob(need, room));
  auto* const begin = static_cast<std::byte*>(blob);
  std::memcpy(begin, writer.bytes().data(), writer.bytes().size());
  std::byte* to = begin + writer.bytes().size();
  for (const void* const vector : residual_.vectors()) {
    if (vector == nullptr) continue;
    comm_->kernels().transfer(to, vector, residual_.bytes(), stream);
    to += residual_.bytes();
  }
  SC_TRY(comm_->kernels().enqueued());  // a sum over what a copy did not bring would vouch for it
  seal(begin, to);
  return need;
}

Status Reducer::importState(std::span<const std::byte> blob, Stream stream) {
  return restore(blob, false, Merge::kReplace, stream);
}

Status Reducer::importStateFrom(std::span<const std::byte> blob, Merge merge, Stream stream) {
  return restore(blob, true, merge, stream);
}

Status Reducer::restore(std::span<const std::byte> blob, bool anyRank, Merge merge, Stream stream) {
  SC_TRY(notCaptured(stream));
  SC_TRY(keepsSchedule());
  SC_TRY(const auto body, bodyOf(blob));
  Reader reader(body);
  SC_TRY(const BlobHead head, readHead(reader));
  const BlobHead here = headOf(spec_, comm_->ranks(), exchanging(), level_.get());
  SC_TRY(sameField("shards", head.shards, here.shards));
  SC_TRY(sameField("shard", head.shard, here.shard));
  SC_TRY(sameField("selector", head.selector, here.selector));
  SC_TRY(sameField("collective", head.collective, here.collective));
  SC_TRY(sameField("faithful", head.faithful, here.faithful));
  SC_TRY(sameField("accumulate type", head.accumulateType, here.accumulateType));
  SC_TRY(sameField("n", head.n, here.n));
  SC_TRY(sameField("velocity", head.velocity, here.velocity));
  if (!anyRank) {
    SC_TRY(sameField("ranks", head.ranks, here.ranks));
    SC_TRY(sameField("rank", head.rank, here.rank));
  }
  const std::array<void*, 2> vectors = residual_.vectors();
  uint64_t vectorBytes = 0;
  for (const void* const vector : vectors) vectorBytes += vector != nullptr ? residual_.bytes() : 0;
  if (reader.left() < vectorBytes) return fail(sparsecollCorrupted, "the state is too short for its residual");
  const auto selectionBytes = reader.left() - vectorBytes;
  SC_TRY(const auto selectionPart, reader.take(selectionBytes));
  SC_TRY(auto vectorPart, reader.take(vectorBytes));
  // The average divides by other many ranks, and is to get from what was kept what it would have got.
  const bool divides = spec_.params.op == sparsecollAvg && !spec_.countsContributors();
  const double factor = divides ? static_cast<double>(here.averaged) / head.averaged : 1;
  SC_TRY(checkFinite(vectorPart, spec_.accumulateType, factor));
  const bool adds = merge == Merge::kAdd || (merge == Merge::kReplace && factor != 1);
  Buffer piece;  // now, because what fails has changed nothing
  if (adds) {
    SC_TRY(piece, comm_->kernels().allocate(kMergedPiece, nullptr));
  }
  if (method_.selection == nullptr && selectionBytes != 0)
    return fail(sparsecollCorrupted, "the state is {} bytes too long", selectionBytes);
  if (method_.selection != nullptr) {
    Reader selectionReader(selectionPart);
    method_.selection->use(stream);
    SC_TRY(method_.selection->load(selectionReader, anyRank));
    schedule_.follow(*method_.selection);
    if (!scheduleEnded()) nextDensity_.reset();
  }
  for (void* const vector : vectors) {
    if (vector == nullptr || merge == Merge::kLeaveOut) continue;
    const std::span<const std::byte> saved = vectorPart.first(residual_.bytes());
    if (!adds)
      comm_->kernels().transfer(vector, saved.data(), saved.size(), stream);
    else if (merge == Merge::kReplace)
      comm_->kernels().fillZero(vector, saved.size(), stream);
    if (adds) addSaved(vector, saved, factor, piece, stream);
    vectorPart = vectorPart.subspan(residual_.bytes());
  }
  residual_.forgetStep();
  owesResidual_ = spec_.keepsResidual();
  return comm_->kernels().enqueued();
}

// What was saved may lie at any address, and not in the kernels' memory.
void Reducer::addSaved(void* vector, std::span<const std::byte> saved, double factor, const Buffer& piece,
                       Stream stream) {
  Kernels& kernels = comm_->kernels();
  const uint64_t element = elementBytes(spec_.accumulateType);
  for (uint64_t at = 0; at < saved.size(); at += kMergedPiece) {
    const uint64_t length = std::min(kMergedPiece, saved.size() - at);
    kernels.transfer(piece.as<>(), saved.data() + at, length, stream);
    kernels.addFinite(static_cast<std::byte*>(vector) + at, spec_.accumulateType, piece.as<>(), spec_.accumulateType,
                      length / element, factor, 1, nullptr, stream);
  }
}

}  // namespace sparsecoll

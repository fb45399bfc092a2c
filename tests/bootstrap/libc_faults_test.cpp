// Calls of libc fail at the i-th call with each errno, or come back one byte short, for every i until there is none
// (T47): where ranks meet, in the file that hands an id on, and where tools and trainers write files. Nothing hangs,
// nothing stays open, whoever fails says why, and what is only interrupted or short is no failure at all.
#include <sys/socket.h>
#include <sys/stat.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <sstream>

#include "bench/common/errors.h"
#include "bench/common/output_file.h"
#include "tests/bootstrap/parties.h"
#include "tests/support/catch.h"
#include "tests/support/folder.h"
#include "tests/support/libc_faults.h"
#include "transports/bootstrap/control.h"
#include "transports/bootstrap/id_file.h"

namespace sparsecoll {
namespace {

using namespace test;
using libc::Call;
using libc::kShort;

struct Row {
  const char* name;
  Call call;
  std::vector<int> passing;  // what nobody notices
  std::vector<int> failing;
};

// Trials run beside each other, as each of them mostly waits.
constexpr int kAtOnce = 8;
constexpr uint64_t kPatienceMs = 300;

const std::vector<Row> kMeeting = {
    {"socket", Call::kSocket, {}, {EMFILE, ENOBUFS}},
    {"bind", Call::kBind, {}, {EADDRINUSE, EACCES}},
    {"listen", Call::kListen, {}, {EADDRINUSE}},
    {"accept", Call::kAccept, {EINTR, EAGAIN, ECONNABORTED}, {EMFILE}},
    {"connect", Call::kConnect, {EINTR}, {ECONNREFUSED, ENETUNREACH}},
    {"send", Call::kSend, {EINTR, EAGAIN, kShort}, {ECONNRESET, EPIPE}},
    {"recv", Call::kRecv, {EINTR, EAGAIN, kShort}, {ECONNRESET}},
    {"poll", Call::kPoll, {EINTR, ENOMEM}, {}},
    {"getsockname", Call::kGetSockName, {}, {ENOBUFS}},
    {"eventfd", Call::kEventFd, {}, {EMFILE}},
};

struct Trial {
  const Row* row;
  int odd;
  int error;
  bool passes;
};

// What a rank does until it watches the other one.
Status meetAll(const Id& id, int rank, uint64_t timeoutMs) {
  const Deadline deadline = Deadline::in(timeoutMs);
  const Invitation invitation = test::read(id);
  SC_TRY(const auto exchange, meet(invitation, rank, 2, deadline));
  const auto show = [&](bool, const Address&) -> Result<std::vector<std::byte>> { return std::vector<std::byte>(8); };
  SC_TRY(Mesh mesh, makeMesh(*exchange, {invitation.key, invitation.job, "", show}, deadline));
  SC_TRY(const auto control, Control::make(std::move(mesh), {}));
  return talk(*exchange, deadline);
}

// One faulty call after the other, until there is none. What is wrong is added to complaints.
uint64_t runTrial(const Trial& trial, std::string& complaints) {
  for (uint64_t skip = 0;; ++skip) {
    bool fired = false;
    const uint64_t timeoutMs = trial.passes ? 60000 : kPatienceMs;
    const Id id = makeId(timeoutMs);
    const std::vector<Status> ended = onRanks(2, [&](int rank) -> Status {
      if (rank == trial.odd) libc::failAfter(trial.row->call, skip, trial.error);
      Status status = meetAll(id, rank, timeoutMs);
      if (rank == trial.odd) fired = libc::failed();
      return status;
    });
    for (size_t r = 0; r < ended.size(); ++r) {
      if (ended[r].ok()) continue;
      const Failure& failure = ended[r].failure();
      const bool late =
          failure.result == sparsecollTimeout || failure.result == sparsecollPeerFailed;  // a busy machine
      if (trial.passes || (!fired && !late) || failure.text.empty() || failure.result == sparsecollInternalError)
        complaints += fmt::format("{} call {} of rank {}, errno {}: rank {}: {} {}\n", trial.row->name, skip, trial.odd,
                                  trial.error, r, static_cast<int>(failure.result), failure.text.view());
    }
    if (!fired) return skip;
  }
}

}  // namespace

TEST_CASE("calls that fail while ranks meet end in a result with a text, and what is short or interrupted in none") {
  std::vector<Trial> trials;
  for (const Row& row : kMeeting)
    for (const int odd : {0, 1}) {
      for (const int error : row.passing) trials.push_back({&row, odd, error, true});
      for (const int error : row.failing) trials.push_back({&row, odd, error, false});
    }
  (void)onRanks(2, [id = makeId()](int rank) { return meetAll(id, rank, 60000); });
  const size_t descriptors = openDescriptors();
  const size_t threads = threadsNow();
  std::atomic<size_t> next{0};
  std::atomic<uint64_t> failures{0};
  std::mutex mutex;
  std::string all;
  std::vector<std::thread> workers;
  for (int worker = 0; worker < kAtOnce; ++worker)
    workers.emplace_back([&] {
      for (size_t t = next++; t < trials.size(); t = next++) {
        std::string complaints;
        failures += runTrial(trials[t], complaints);
        const std::lock_guard lock(mutex);
        all += complaints;
      }
    });
  for (std::thread& worker : workers) worker.join();
  CHECK(all == "");
  CHECK(openDescriptors() == descriptors);
  CHECK(eventually([&] { return threadsNow() <= threads; }));
  std::printf("%llu calls failed\n", static_cast<unsigned long long>(failures.load()));
  CHECK(failures > 300);
}

TEST_CASE("whom a peer blames for its end is heard though the thread that watches has no turn") {
  std::array<Fd, 3> peers;
  Mesh mesh;
  mesh.ranks = 3;
  mesh.links.resize(3);
  mesh.cards.resize(3);
  for (const size_t rank : {1, 2}) {
    int made[2] = {-1, -1};
    REQUIRE(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, made) == 0);
    mesh.links[rank] = Link(Fd(made[0]), static_cast<int>(rank), {});
    peers[rank] = Fd(made[1]);
  }
  Link peer(std::move(peers[1]), 0, {});
  auto made = Control::make(std::move(mesh), ControlTimes{10, 60000});
  REQUIRE(made.ok());
  const libc::Starvation others(1);
  const int32_t about = 2;
  peer.send(FrameType::kAborted, std::as_bytes(std::span(&about, 1)));
  CHECK((*made)->stateOf(1) == engine::PeerState::kHere);
  CHECK(Watch(*made).blameOf(1) == 2);
}

namespace {

std::string contentOf(const std::string& path) {
  std::stringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

const std::vector<Row> kWriting = {
    {"open", Call::kOpen, {}, {EMFILE, EACCES, ENOSPC}},
    {"write", Call::kWrite, {EINTR, kShort}, {ENOSPC, EIO}},
    {"fsync", Call::kFsync, {EINTR}, {EIO, ENOSPC}},
    {"rename", Call::kRename, {}, {EACCES, ENOSPC}},
    {"close", Call::kClose, {EINTR}, {EIO}},
};

// body(path): "" if all is well, else what it says of the failure.
void checkWriting(const char* what, const std::string& content,
                  const std::function<std::string(const std::string&)>& body) {
  for (const Row& row : kWriting)
    for (const bool passes : {true, false})
      for (const int error : passes ? row.passing : row.failing)
        for (uint64_t skip = 0;; ++skip) {
          CAPTURE(what, row.name, error, skip);
          const Folder folder;
          const std::string path = folder.path() / "file";
          std::ofstream(path) << "before";
          libc::failAfter(row.call, skip, error);
          const std::string said = body(path);
          const bool fired = libc::failed();
          if (passes || !fired) CHECK(said == "");
          CHECK(contentOf(path) == (said.empty() ? content : "before"));
          if (!said.empty()) {
            CHECK(said.find(path) != std::string::npos);
            CHECK(said.find(strerror(error)) != std::string::npos);
          }
          size_t files = 0;
          for (const auto& entry : std::filesystem::directory_iterator(folder.path())) files += entry.exists() ? 1 : 0;
          CHECK(files == 1);
          if (!fired) break;
        }
}

sparsecollUniqueId_t someId() {
  sparsecollUniqueId_t id{};
  for (size_t i = 0; i < sizeof id.bytes; ++i) id.bytes[i] = static_cast<uint8_t>(i + 1);
  return id;
}

}  // namespace

TEST_CASE("a file of results is whole or what it was before, and a failure names it and the reason") {
  const std::string content(100000, 'x');
  checkWriting("OutputFile", content, [&](const std::string& path) -> std::string {
    try {
      bench::OutputFile(path).write(content);
    } catch (const bench::EnvironmentError& error) {
      return error.what();
    }
    return "";
  });
}

TEST_CASE("the file of an id is whole or not there, and a failure names it and the reason") {
  const sparsecollUniqueId_t id = someId();
  const std::string content(reinterpret_cast<const char*>(id.bytes), sizeof id.bytes);
  std::vector<std::unique_ptr<bootstrap::IdFile>> written;  // which each of them would remove
  checkWriting("IdFile", content, [&](const std::string& path) -> std::string {
    written.push_back(std::make_unique<bootstrap::IdFile>(path));
    const Status status = written.back()->write(id.bytes);
    return status.ok() ? "" : status.failure().text.c_str();
  });
}

TEST_CASE("an id that cannot be read in time says why") {
  const Folder folder;
  const std::string path = folder.path() / "id";
  const bootstrap::IdFile file(path);
  const auto said = [&] {
    sparsecollUniqueId_t id{};
    const Status status = file.read(id.bytes, Deadline::in(0));
    REQUIRE_FALSE(status.ok());
    CHECK(status.result() == sparsecollTimeout);
    return std::string(status.failure().text.view());
  };
  CHECK(said().find(strerror(ENOENT)) != std::string::npos);
  std::ofstream(path) << "short";
  std::filesystem::permissions(path, std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
  CHECK(said().ends_with("5 bytes of " + std::to_string(sizeof(sparsecollUniqueId_t)) +
                         ": it is of another program, or damaged"));
  libc::failAfter(Call::kRead, 0, EIO);
  CHECK(said().find(strerror(EIO)) != std::string::npos);
  CHECK(libc::failed());
}

TEST_CASE("what others may read or have put there is no id, and is not waited for") {
  const Folder folder;
  const std::string path = folder.path() / "id";
  const std::string whole(sizeof(sparsecollUniqueId_t), 'i');
  const auto failure = [&] {
    sparsecollUniqueId_t id{};
    const Status status = bootstrap::IdFile(path).read(id.bytes, Deadline::in(60000));
    if (!status.ok()) CHECK(status.result() == sparsecollSystemError);
    return std::string(status.failure().text.view());
  };
  folder.write("id", whole);
  REQUIRE(chmod(path.c_str(), 0600) == 0);
  CHECK(failure().empty());
  for (const mode_t others : {0640, 0620, 0610, 0604, 0602, 0601}) {
    CAPTURE(others);
    REQUIRE(chmod(path.c_str(), others) == 0);
    CHECK(failure() == path + " is not a file that this user alone can read, as an id has to be: remove it");
  }
  REQUIRE(chmod(path.c_str(), 0600) == 0);
  if (chown(path.c_str(), 1, 0) == 0) CHECK(failure().find("is not a file that this user") != std::string::npos);
  REQUIRE(unlink(path.c_str()) == 0);
  REQUIRE(mkfifo(path.c_str(), 0600) == 0);
  CHECK(failure().find("is not a file that this user alone can read") != std::string::npos);
  REQUIRE(unlink(path.c_str()) == 0);
  const std::filesystem::path elsewhere = folder.write("elsewhere", whole);
  REQUIRE(chmod(elsewhere.c_str(), 0600) == 0);
  std::filesystem::create_symlink(elsewhere, path);
  CHECK(failure() == "rank 0 has left no id to meet by: " + path + ": " + strerror(ELOOP));
}

TEST_CASE("an id that is written takes the place of what lay there, and goes with its writer") {
  const Folder folder;
  const std::string path = folder.path() / "id";
  folder.write("id", "of a job before");
  folder.write("id.new", "of one that was killed");
  const sparsecollUniqueId_t id = someId();
  {
    bootstrap::IdFile file(path);
    REQUIRE(file.write(id.bytes).ok());
    CHECK(std::filesystem::file_size(path) == sizeof id);
    CHECK((std::filesystem::status(path).permissions() & std::filesystem::perms::all) ==
          (std::filesystem::perms::owner_read | std::filesystem::perms::owner_write));
    const bootstrap::IdFile reader(path);
    sparsecollUniqueId_t read{};
    CHECK(reader.read(read.bytes, Deadline::in(0)).ok());
    CHECK(std::memcmp(&read, &id, sizeof id) == 0);
  }
  CHECK(std::filesystem::is_empty(folder.path()));
}

TEST_CASE("an id that cannot be read at first is read later") {
  const Folder folder;
  const std::string path = folder.path() / "id";
  const sparsecollUniqueId_t id = someId();
  bootstrap::IdFile file(path);
  REQUIRE(file.write(id.bytes).ok());
  for (const auto& [call, error] : {std::pair{Call::kOpen, EMFILE},
                                    {Call::kOpen, EINTR},
                                    {Call::kRead, EINTR},
                                    {Call::kRead, EIO},
                                    {Call::kRead, kShort},
                                    {Call::kClose, EIO}}) {
    sparsecollUniqueId_t read{};
    libc::failAfter(call, 0, error);
    CHECK(file.read(read.bytes, Deadline::in(60000)).ok());
    CHECK(libc::failed());
    CHECK(std::memcmp(&read, &id, sizeof id) == 0);
  }
}

}  // namespace sparsecoll

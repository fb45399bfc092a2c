#include "transports/bootstrap/id_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <span>

#include "core/poll.h"

namespace sparsecoll::bootstrap {

namespace {

constexpr uint64_t kLookMs = 5;

// All of it, whatever interrupts. Returns what is missing; errno tells why, 0: the file ends, or nothing more fits.
template <class Byte, class Call>
size_t moveAll(const Call& call, const Fd& file, std::span<Byte> bytes) {
  while (!bytes.empty()) {
    errno = 0;
    const ssize_t some = call(file.get(), bytes.data(), bytes.size());
    if (some > 0) bytes = bytes.subspan(static_cast<size_t>(some));
    if (some == 0 || (some < 0 && errno != EINTR)) break;
  }
  return bytes.size();
}

}  // namespace

IdFile::~IdFile() {
  if (written_) (void)::unlink(path_.c_str());
}

// Under another name until it is whole.
Status IdFile::write(ConstIdBytes id) {
  const std::string fresh = path_ + ".new";
  const auto failed = [&](const char* what, int error) {
    return fail(sparsecollSystemError, "the file by which ranks meet cannot be {}: {}: {}", what, path_,
                std::strerror(error));
  };
  (void)::unlink(fresh.c_str());
  Fd file(::open(fresh.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (!file.open()) return failed("made", errno);
  written_ = moveAll(::write, file, std::span<const uint8_t>(id)) == 0 && ::rename(fresh.c_str(), path_.c_str()) == 0;
  if (written_) return {};
  Status status = failed("written", errno != 0 ? errno : ENOSPC);
  (void)::unlink(fresh.c_str());
  return status;
}

Status IdFile::read(IdBytes id, const Deadline& deadline) const {
  for (;;) {
    Status missing;
    const Fd file(::open(path_.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK));
    if (file.open()) {
      struct stat about {};
      const bool ours = fstat(file.get(), &about) == 0 && S_ISREG(about.st_mode) && about.st_uid == geteuid() &&
                        (about.st_mode & 077) == 0;
      if (!ours)
        return fail(sparsecollSystemError, "{} is not a file that this user alone can read, as an id has to be: remove it",
                    path_);
      const size_t left = moveAll(::read, file, std::span<uint8_t>(id));
      if (left == 0) return {};
      missing = failBy(0, sparsecollTimeout, "{} holds no id: {} bytes of {}: {}", path_, id.size() - left, id.size(),
                       errno != 0 ? std::strerror(errno) : "it is of another program, or damaged");
    } else {
      const bool never = errno == ELOOP;
      missing = failBy(0, never ? sparsecollSystemError : sparsecollTimeout, "rank 0 has left no id to meet by: {}: {}",
                       path_, std::strerror(errno));
      if (never) return missing;
    }
    if (deadline.expired()) return missing;
    (void)awaitAny({}, Deadline::earlier(deadline, Deadline::in(kLookMs)));
  }
}

bool IdFile::replaced(ConstIdBytes id) const {
  std::array<uint8_t, ConstIdBytes::extent> now{};
  const Wiping wiped(now);
  return read(now, Deadline::in(0)).ok() && !std::ranges::equal(now, id);
}

}  // namespace sparsecoll::bootstrap

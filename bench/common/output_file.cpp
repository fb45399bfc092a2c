#include "bench/common/output_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "bench/common/errors.h"

namespace bench {

namespace {

bool writeAll(int file, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(file, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return false;
    text.remove_prefix(static_cast<size_t>(written));
  }
  return true;
}

bool sync(int file) {
  while (fsync(file) != 0)
    if (errno != EINTR) return false;
  return true;
}

// A rename is safe once the folder is. Not every file system can do that for a folder.
void syncFolderOf(const std::string& path) {
  const size_t slash = path.rfind('/');
  const std::string folder = slash == std::string::npos ? "." : path.substr(0, slash + 1);
  const int handle = open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (handle < 0) return;
  (void)sync(handle);
  close(handle);
}

// What cannot be replaced by a rename: a terminal, a pipe, /dev/null.
bool isSpecial(const std::string& path) {
  struct stat facts {};
  return stat(path.c_str(), &facts) == 0 && !S_ISREG(facts.st_mode);
}

}  // namespace

OutputFile::OutputFile(std::string path) : path_(std::move(path)) {
  if (path_.empty()) return;
  if (!isSpecial(path_)) part_ = path_ + ".part";
  file_ = part_.empty() ? open(path_.c_str(), O_WRONLY | O_CLOEXEC)
                        : open(part_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (file_ < 0) {
    part_.clear();
    fail("cannot be written");
  }
}

OutputFile::~OutputFile() {
  if (file_ >= 0) close(file_);
  if (!part_.empty()) (void)unlink(part_.c_str());
}

void OutputFile::fail(const char* what) {
  const std::string reason = strerror(errno);
  throw EnvironmentError(path_ + ": " + what + ": " + reason);
}

void OutputFile::write(std::string_view text) {
  if (!wanted()) return;
  if (!writeAll(file_, text)) fail("cannot be written");
  if (part_.empty()) return;
  if (!sync(file_)) fail("cannot be written");
  if (rename(part_.c_str(), path_.c_str()) != 0) fail("cannot be replaced");
  part_.clear();
  syncFolderOf(path_);
}

}  // namespace bench

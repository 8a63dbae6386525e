#include "selftest/bait.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/prctl.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "base/sys.h"
#include "base/text.h"

namespace sbx::selftest {
namespace {

constexpr int kBacklog = 64;
constexpr int kInheritedFd = 50;  // from here on; low numbers are the tools' own
constexpr size_t kProgramLimit = size_t{256} << 20;
constexpr const char* kInDirectory[] = {"/secret", "/socket", "/open/written"};

Result<std::string> make_directory(const std::string& parent) {
  std::string path = parent + "/sbx-selftest-XXXXXX";
  if (::mkdtemp(path.data()) == nullptr) return Error::from_errno(errno, "make a directory in '" + parent + "'");
  if (::chmod(path.c_str(), 0755) != 0) return Error::from_errno(errno, "chmod '" + path + "'");
  return path;
}

Result<UniqueFd> listening(int family, const sockaddr* address, socklen_t size) {
  UniqueFd fd(::socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!fd.valid() || ::bind(fd.get(), address, size) != 0 || ::listen(fd.get(), kBacklog) != 0) {
    return Error::from_errno(errno, "listen on a socket");
  }
  return fd;
}

Result<UniqueFd> listening_unix(std::string name, bool abstract) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (abstract) name.insert(name.begin(), '\0');
  if (name.size() >= sizeof address.sun_path) return Error(ErrorKind::system, "the path of a socket is too long");
  std::memcpy(address.sun_path, name.data(), name.size());
  return listening(AF_UNIX, reinterpret_cast<const sockaddr*>(&address),
                   static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + name.size() + (abstract ? 0 : 1)));
}

void remove_all(const Bait& bait, const std::string& program_directory, int segment) {
  for (const char* name : kInDirectory) ::unlink((bait.directory + name).c_str());
  ::rmdir((bait.directory + "/open").c_str());
  ::rmdir(bait.directory.c_str());
  ::unlink(shared_memory_file(bait).c_str());
  ::unlink((program_directory + "/sbx").c_str());
  ::rmdir(program_directory.c_str());
  if (segment >= 0) ::shmctl(segment, IPC_RMID, nullptr);
}

}  // namespace

std::string abstract_name(const Bait& bait) { return "sbx-selftest-" + bait.token; }
std::string process_name(const Bait& bait) { return "bt-" + bait.token; }  // 15 bytes: what the kernel keeps
std::string shared_memory_file(const Bait& bait) { return "/dev/shm/sbx-selftest-" + bait.token; }

std::string identity_of(const std::string& path) {
  const Result<struct stat> info = sys::stat(path);
  return info.ok() ? std::to_string(info.value().st_dev) + ":" + std::to_string(info.value().st_ino) : "";
}

std::string bait_word(const Bait& bait) {
  return join(std::vector<std::string>{bait.token, std::to_string(bait.port), std::to_string(bait.key), std::to_string(bait.pid),
                                       std::to_string(bait.init), bait.proc, bait.directory, bait.home, bait.home_identity}, "\t");
}

Result<Bait> read_bait(std::string_view word) {
  const std::vector<std::string> fields = split(word, '\t');
  const Error wrong(ErrorKind::usage, "not a word of sbx selftest");
  if (fields.size() != 9) return wrong;
  Bait bait;
  bait.token = fields[0];
  int* const targets[] = {&bait.port, &bait.key, &bait.pid, &bait.init};
  for (size_t i = 0; i < 4; ++i) {
    const Result<uint64_t> number = parse_integer(fields[i + 1]);
    if (!number.ok() || number.value() > INT32_MAX) return wrong;
    *targets[i] = static_cast<int>(number.value());
  }
  bait.proc = fields[5];
  bait.directory = fields[6];
  bait.home = fields[7];
  bait.home_identity = fields[8];
  return bait;
}

Result<BaitOwner> BaitOwner::lay(const std::string& home) {
  BaitOwner owner;
  Bait& bait = owner.bait_;
  bait.token = SBX_TRY(sys::random_hex(6));
  bait.home = home.find('\t') == std::string::npos ? home : "";
  bait.home_identity = identity_of(bait.home);
  bait.directory = SBX_TRY(make_directory("/tmp"));
  Result<std::string> place = make_directory("/tmp");
  owner.program_directory_ = place.ok() ? place.take() : "";
  bait.key = static_cast<int>(std::strtol(bait.token.substr(0, 7).c_str(), nullptr, 16)) | 1;
  const int segment = ::shmget(bait.key, 4096, IPC_CREAT | IPC_EXCL | 0666);
  if (segment < 0) bait.key = 0;

  sys::Pipe pipe = SBX_TRY(sys::pipe());
  // The name is what is looked for: a fork has it at once, and the owner alone keeps it.
  owner.owner_ = ::fork();
  if (owner.owner_ < 0) return Error::from_errno(errno, "fork");
  if (owner.owner_ == 0) {
    for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGTSTP}) ::signal(signal, SIG_IGN);
    ::prctl(PR_SET_NAME, process_name(bait).c_str());
    pipe.write.reset();
    char byte = 0;
    while (::read(pipe.read.get(), &byte, 1) < 0 && errno == EINTR) {
    }
    remove_all(bait, owner.program_directory_, segment);
    ::_exit(0);
  }
  bait.pid = owner.owner_;
  owner.alive_ = std::move(pipe.write);

  SBX_TRY(write_file_atomically(bait.directory + "/secret", bait.token, 0644));
  SBX_TRY(sys::mkdirat(AT_FDCWD, bait.directory + "/open", 0777));
  if (::chmod((bait.directory + "/open").c_str(), 0777) != 0) return Error::from_errno(errno, "chmod");
  (void)write_file_atomically(shared_memory_file(bait), bait.token, 0644);
  // Never read from: a connection that is made waits in the backlog, which is all that a try needs.
  SBX_TRY(listening_unix(abstract_name(bait), true)).release();
  SBX_TRY(listening_unix(bait.directory + "/socket", false)).release();
  if (::chmod((bait.directory + "/socket").c_str(), 0777) != 0) return Error::from_errno(errno, "chmod");
  sockaddr_in four{};
  four.sin_family = AF_INET;
  four.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof four;
  // No IPv4 at all is a host's right: port 0 says so.
  if (Result<UniqueFd> tcp = listening(AF_INET, reinterpret_cast<const sockaddr*>(&four), size); tcp.ok()) {
    if (::getsockname(tcp.value().get(), reinterpret_cast<sockaddr*>(&four), &size) == 0) bait.port = ntohs(four.sin_port);
    tcp.take().release();
  }
  UniqueFd root = SBX_TRY(sys::open("/", O_RDONLY | O_DIRECTORY));
  owner.inherited_.reset(::fcntl(root.get(), F_DUPFD, kInheritedFd));
  ::setenv(kTokenVariable, bait.token.c_str(), 1);
  return owner;
}

Result<std::string> BaitOwner::public_program() const {
  if (program_directory_.empty()) return Error(ErrorKind::system, "no directory could be made in '/tmp'");
  std::string path = program_directory_ + "/sbx";
  if (sys::stat(path).ok()) return path;
  const std::string program = SBX_TRY(read_file("/proc/self/exe", kProgramLimit));
  SBX_TRY(write_file_atomically(path, program, 0755));
  return path;
}

BaitOwner::BaitOwner(BaitOwner&& other) noexcept
    : bait_(std::move(other.bait_)), program_directory_(std::move(other.program_directory_)),
      owner_(std::exchange(other.owner_, -1)), alive_(std::move(other.alive_)), inherited_(std::move(other.inherited_)) {}

BaitOwner::~BaitOwner() {
  if (owner_ < 0) return;
  alive_.reset();
  while (::waitpid(owner_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

}  // namespace sbx::selftest

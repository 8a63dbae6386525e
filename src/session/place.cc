#include "session/place.h"

#include <dirent.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <map>

#include "base/sys.h"
#include "base/text.h"

namespace sbx::session {
namespace {

constexpr size_t kLeastDigits = 4;  // of an id, where its beginning stands for it
constexpr size_t kMaxRecord = 4096;

bool is_digits(std::string_view word) { return word.find_first_not_of("0123456789abcdef") == std::string_view::npos; }

bool is_id(std::string_view word) { return word.size() == kIdDigits && is_digits(word); }

bool is_private_directory(const struct stat& info) {
  return S_ISDIR(info.st_mode) && info.st_uid == ::geteuid() && (info.st_mode & 077) == 0;
}

// `name` in `parent`, made if missing, without following a link.
Result<UniqueFd> enter(int parent, const std::string& name) {
  Status made = sys::mkdirat(parent, name, 0700);
  if (!made.ok() && made.error().errnum() != EEXIST) return made.take_error();
  return sys::openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
}

// By a path through the descriptor: the real one may be longer than an address can be.
sockaddr_un address_of(int directory, const std::string& id) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string path = "/proc/self/fd/" + std::to_string(directory) + "/" + id + ".sock";
  std::strncpy(address.sun_path, path.c_str(), sizeof address.sun_path - 1);
  return address;
}

Status wait_for_range(int file, short kind) {
  struct flock range {};
  range.l_type = kind;
  range.l_whence = SEEK_SET;
  while (::fcntl(file, F_OFD_SETLKW, &range) != 0) {
    if (errno != EINTR) return Error::from_errno(errno, "lock the directory of sessions");
  }
  return {};
}

Result<std::string> user_namespace_of(const std::string& process) { return sys::readlink("/proc/" + process + "/ns/user"); }

}  // namespace

Result<SessionPlace> SessionPlace::open() {
  const std::string uid = std::to_string(::geteuid());
  const char* runtime = std::getenv("XDG_RUNTIME_DIR");
  struct Candidate {
    std::string base;
    std::vector<std::string> below;
    bool shared;  // others may write the base: what lies there need not be ours
  };
  std::vector<Candidate> candidates;
  if (runtime != nullptr && runtime[0] == '/') candidates.push_back({runtime, {"sbx", "sessions"}, false});
  candidates.push_back({"/run/user/" + uid, {"sbx", "sessions"}, false});
  if (::geteuid() == 0) candidates.push_back({"/run", {"sbx", "sessions"}, false});
  candidates.push_back({"/tmp", {"sbx-sessions-" + uid}, true});
  std::string last = "no directory for sessions";
  for (const Candidate& candidate : candidates) {
    Result<UniqueFd> at = sys::open(candidate.base, O_RDONLY | O_DIRECTORY);
    if (!at.ok() && at.error().kind() == ErrorKind::resource) return at.take_error();
    if (!at.ok()) continue;
    const struct stat base = SBX_TRY(sys::fstat(at.value().get()));  // what nobody knows is not taken for another user's
    // A runtime directory that others may write, or that is another user's (su keeps the variable), is none of ours.
    if (!candidate.shared && (base.st_uid != ::geteuid() || (base.st_mode & 022) != 0)) continue;
    std::string path = candidate.base;
    for (const std::string& name : candidate.below) {
      path = join_path(path, name);
      if (at.ok()) at = enter(at.value().get(), name);
    }
    if (!at.ok()) {
      // Whoever cannot look here for want of memory, descriptors or space must not look elsewhere: others would not find
      // its session, nor it theirs.
      if (at.error().kind() == ErrorKind::resource) return at.take_error();
      last = at.error().text();
      continue;
    }
    if (!is_private_directory(SBX_TRY(sys::fstat(at.value().get())))) {
      return Error(ErrorKind::permission, quoted_path(path) + " is not yours alone: it must be your directory, mode 0700")
          .with_hint("look who made it; remove it, or set XDG_RUNTIME_DIR to a directory of your own");
    }
    SessionPlace place;
    place.directory_ = at.take();
    place.path_ = path;
    return place;
  }
  return Error(ErrorKind::system, last).with_hint("set XDG_RUNTIME_DIR to a directory of your own");
}

Result<UniqueFd> SessionPlace::open_lock() const { return sys::openat(directory_.get(), "lock", O_RDWR | O_CREAT | O_NOFOLLOW, 0600); }

// On the same file as hold()'s lock, which is of another kind: the two know nothing of each other (flock(2), "Interaction with fcntl").
Result<UniqueFd> SessionPlace::announce() const {
  UniqueFd lock = SBX_TRY(open_lock());
  SBX_TRY(wait_for_range(lock.get(), F_RDLCK));
  return lock;
}

Status SessionPlace::await_announced() const {
  const UniqueFd lock = SBX_TRY(open_lock());
  return wait_for_range(lock.get(), F_WRLCK);
}

Result<UniqueFd> SessionPlace::hold() const {
  UniqueFd lock = SBX_TRY(open_lock());
  while (::flock(lock.get(), LOCK_EX) != 0) {
    if (errno != EINTR) return Error::from_errno(errno, "lock the directory of sessions");
  }
  return lock;
}

std::vector<std::string> SessionPlace::ids() const {
  std::vector<std::string> found;
  const Result<sys::Directory> listing = sys::list(directory_.get());
  if (!listing.ok()) return found;
  while (const dirent* entry = ::readdir(listing.value().get())) {
    const std::string_view name = entry->d_name;
    if (name.ends_with(".lock") && is_id(name.substr(0, name.size() - 5))) found.emplace_back(name.substr(0, kIdDigits));
  }
  return found;
}

bool SessionPlace::is_alive(const std::string& id) const {
  const Result<UniqueFd> lock = sys::openat(directory_.get(), id + ".lock", O_RDWR | O_NOFOLLOW);
  return lock.ok() && ::flock(lock.value().get(), LOCK_EX | LOCK_NB) != 0;
}

void SessionPlace::remove(const std::string& id) const {
  for (const char* suffix : {".sock", ".json", ".lock"}) (void)sys::unlinkat(directory_.get(), id + suffix);
}

Result<SessionRecord> SessionPlace::read(const std::string& id) const {
  const UniqueFd file = SBX_TRY(sys::openat(directory_.get(), id + ".json", O_RDONLY | O_NOFOLLOW));
  const std::string text = SBX_TRY(sys::read_all(file.get(), kMaxRecord));
  const Json json = SBX_TRY(parse_json(text));
  SessionRecord record;
  record.id = id;
  record.name = json.at("name").text();
  record.language = json.at("language").text();
  record.pid = static_cast<pid_t>(json.at("pid").integer());
  record.created = json.at("created").integer();
  record.warm = json.at("warm").text();
  return record;
}

Result<std::vector<SessionRecord>> SessionPlace::list(size_t* reaped) const {
  const UniqueFd held = SBX_TRY(hold());
  std::vector<SessionRecord> records;
  for (const std::string& id : ids()) {
    if (!is_alive(id)) {
      remove(id);
      if (reaped != nullptr) ++*reaped;
      continue;
    }
    if (Result<SessionRecord> record = read(id); record.ok()) records.push_back(record.take());
  }
  std::sort(records.begin(), records.end(), [](const SessionRecord& left, const SessionRecord& right) {
    return left.created != right.created ? left.created < right.created : left.id < right.id;
  });
  return records;
}

Result<SessionRecord> SessionPlace::find(const std::string& word) const {
  const std::vector<SessionRecord> records = SBX_TRY(list());
  std::vector<SessionRecord> near;
  std::vector<std::string> names;
  for (const SessionRecord& record : records) {
    if (record.id == word || (!record.name.empty() && record.name == word)) return record;
    if (word.size() >= kLeastDigits && starts_with(record.id, word)) near.push_back(record);
    names.push_back(record.name.empty() ? record.id : record.name);
  }
  if (near.size() == 1) return near[0];
  if (near.size() > 1) return Error(ErrorKind::usage, "more than one session begins with " + quoted(word));
  const std::string guess = did_you_mean(word, names);
  return Error(ErrorKind::usage, "no session is called " + quoted(word) + (guess.empty() ? "" : ": did you mean " + quoted(guess) + "?"))
      .with_hint(records.empty() ? "there is none; sbx session start makes one, and one that has ended leaves nothing behind"
                                 : "sbx session ls lists them; one that has ended leaves nothing behind");
}

Result<UniqueFd> SessionPlace::connect(const SessionRecord& session) const {
  UniqueFd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!socket.valid()) return Error::from_errno(errno, "make a socket");
  const sockaddr_un address = address_of(directory_.get(), session.id);
  if (::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    return Error(ErrorKind::usage, "the session " + quoted(session.name.empty() ? session.id : session.name) + " has ended")
        .with_hint("sbx session ls lists those that live");
  }
  return socket;
}

Status SessionPlace::check_name(const std::string& name) {
  const auto letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); };
  const auto plain = [&](char c) { return letter(c) || (c >= '0' && c <= '9') || c == '-' || c == '_' || c == '.'; };
  if (name.size() >= kLeastDigits && name.size() <= kIdDigits && is_digits(name)) {
    return Error(ErrorKind::usage, quoted(name) + " could be the beginning of another session's id").with_origin("flag --name").with_hint("a name has a letter behind f, a capital, '.', '_' or '-' in it");
  }
  if (!name.empty() && name.size() <= 64 && letter(name[0]) && std::all_of(name.begin(), name.end(), plain)) return {};
  return Error(ErrorKind::usage, quoted(name) + " is no name for a session")
      .with_origin("flag --name")
      .with_hint("at most 64 letters, digits, '.', '_' and '-', beginning with a letter");
}

Status SessionPlace::check_free(const std::string& name) const {
  if (name.empty()) return {};
  for (const std::string& id : ids()) {
    const Result<SessionRecord> other = read(id);
    if (!other.ok() || other.value().name != name || !is_alive(id)) continue;
    return Error(ErrorKind::usage, "a session is called " + quoted(name) + " already")
        .with_origin("flag --name")
        .with_hint("use it, or end it first: sbx session rm " + shell_quote(name));
  }
  return {};
}

Result<SessionPlace::Entry> SessionPlace::add(const std::string& name, const std::string& language, const std::string& warm) const {
  const UniqueFd held = SBX_TRY(hold());
  SBX_TRY(check_free(name));
  Entry entry;
  SessionRecord& record = entry.record_;
  record.id = SBX_TRY(sys::random_hex(kIdDigits / 2));
  record.name = name;
  record.language = language;
  record.pid = ::getpid();
  record.created = static_cast<int64_t>(::time(nullptr));
  record.warm = warm;
  UniqueFd directory = SBX_TRY(sys::dup(directory_.get()));
  entry.lock_ = SBX_TRY(sys::openat(directory.get(), record.id + ".lock", O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW, 0600));
  entry.directory_ = std::move(directory);  // from here on its destructor takes everything away
  if (::flock(entry.lock_.get(), LOCK_EX | LOCK_NB) != 0) return Error::from_errno(errno, "lock the session's entry");
  UniqueFd listener(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!listener.valid()) return Error::from_errno(errno, "make a socket");
  const sockaddr_un address = address_of(directory_.get(), record.id);
  if (::bind(listener.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 || ::listen(listener.get(), 64) != 0) {
    return Error::from_errno(errno, "open the session's socket in " + quoted_path(path_));
  }
  entry.listener_ = std::move(listener);
  SBX_TRY(entry.write());
  return entry;
}

Status SessionPlace::Entry::write() const {
  Json json = Json::object();
  json.set("name", record_.name).set("language", record_.language).set("pid", static_cast<int64_t>(record_.pid)).set("created", record_.created);
  json.set("warm", record_.warm);
  const std::string name = record_.id + ".json";
  (void)sys::unlinkat(directory_.get(), name);
  const UniqueFd file = SBX_TRY(sys::openat(directory_.get(), name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0600));
  return sys::write_all(file.get(), json.dump() + "\n");
}

Status SessionPlace::Entry::adopt(const SessionPlace& place, const std::string& name) {
  const UniqueFd held = SBX_TRY(place.hold());
  SBX_TRY(place.check_free(name));
  record_.name = name;
  record_.warm.clear();
  record_.created = static_cast<int64_t>(::time(nullptr));
  return write();
}

SessionPlace::Entry::Entry(Entry&& other) noexcept
    : record_(std::move(other.record_)), directory_(std::move(other.directory_)), lock_(std::move(other.lock_)), listener_(std::move(other.listener_)) {}

SessionPlace::Entry::~Entry() {
  if (!directory_.valid()) return;
  for (const char* suffix : {".sock", ".json", ".lock"}) (void)sys::unlinkat(directory_.get(), record_.id + suffix);
}

Result<bool> is_trusted_peer(int socket) {
  ucred peer{};
  socklen_t size = sizeof peer;
  if (::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) return Error::from_errno(errno, "know who asks");
  if (peer.uid != ::geteuid()) return false;
  const std::string ours = SBX_TRY(user_namespace_of("self"));
  return SBX_TRY(user_namespace_of(std::to_string(peer.pid))) == ours;
}

}  // namespace sbx::session

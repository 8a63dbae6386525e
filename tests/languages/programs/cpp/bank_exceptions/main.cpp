// Commands from stdin to accounts: classes, smart pointers, exceptions that unwind, a chosen exit status.
#include <iomanip>
#include <iostream>
#include <map>
#include <memory>
#include <sstream>
#include <stdexcept>

class Account {
 public:
  explicit Account(std::string owner) : owner_(std::move(owner)) {}
  virtual ~Account() = default;
  virtual void withdraw(long cents) {
    if (cents > balance_ + credit()) throw std::runtime_error(owner_ + " has not enough");
    balance_ -= cents;
  }
  void deposit(long cents) { balance_ += cents; }
  long balance() const { return balance_; }
  virtual std::string kind() const { return "plain"; }

 protected:
  virtual long credit() const { return 0; }

 private:
  std::string owner_;
  long balance_ = 0;
};

class GoldAccount final : public Account {
 public:
  using Account::Account;
  std::string kind() const override { return "gold"; }

 protected:
  long credit() const override { return 10000; }
};

struct Trace {
  std::string name;
  ~Trace() { std::cout << "(left " << name << ")\n"; }
};

int main() {
  std::map<std::string, std::unique_ptr<Account>> accounts;
  int failures = 0;
  for (std::string line; std::getline(std::cin, line);) {
    std::istringstream words(line);
    std::string verb, name, other;
    double amount = 0;
    words >> verb >> name;
    try {
      if (verb == "open") accounts[name] = std::make_unique<Account>(name);
      else if (verb == "gold") accounts[name] = std::make_unique<GoldAccount>(name);
      else if (verb == "put" && words >> amount) accounts.at(name)->deposit(static_cast<long>(amount * 100 + 0.5));
      else if (verb == "move" && words >> other >> amount) {
        const Trace trace{"move"};
        const long cents = static_cast<long>(amount * 100 + 0.5);
        Account& to = *accounts.at(other);
        accounts.at(name)->withdraw(cents);
        to.deposit(cents);
      } else throw std::invalid_argument("what is '" + line + "'?");
    } catch (const std::out_of_range&) {
      std::cout << "no such account\n";
      ++failures;
    } catch (const std::exception& error) {
      std::cout << error.what() << '\n';
      ++failures;
    }
  }
  for (const auto& [name, account] : accounts)
    std::cout << std::left << std::setw(6) << name << std::right << std::setw(10) << std::fixed << std::setprecision(2)
              << static_cast<double>(account->balance()) / 100 << ' ' << account->kind() << '\n';
  return failures;
}

// A matrix product shared out to threads with futures, checked against another order of summation.
#include <algorithm>
#include <cstdint>
#include <future>
#include <iostream>
#include <numeric>
#include <vector>

class Matrix {
 public:
  explicit Matrix(size_t n) : n_(n), cells_(n * n) {}
  template <class F> static Matrix from(size_t n, F f) {
    Matrix m(n);
    for (size_t i = 0; i < n; ++i)
      for (size_t j = 0; j < n; ++j) m(i, j) = f(i, j);
    return m;
  }
  int64_t& operator()(size_t i, size_t j) { return cells_[i * n_ + j]; }
  int64_t operator()(size_t i, size_t j) const { return cells_[i * n_ + j]; }
  size_t size() const { return n_; }
  int64_t trace() const {
    int64_t sum = 0;
    for (size_t i = 0; i < n_; ++i) sum += (*this)(i, i);
    return sum;
  }
  int64_t sum() const { return std::accumulate(cells_.begin(), cells_.end(), int64_t{0}); }

 private:
  size_t n_;
  std::vector<int64_t> cells_;
};

Matrix multiply(const Matrix& a, const Matrix& b, unsigned threads) {
  Matrix c(a.size());
  std::vector<std::future<size_t>> parts;
  const size_t rows = (a.size() + threads - 1) / threads;
  for (size_t begin = 0; begin < a.size(); begin += rows) {
    parts.push_back(std::async(std::launch::async, [&, begin] {
      const size_t end = std::min(begin + rows, a.size());
      for (size_t i = begin; i < end; ++i)
        for (size_t k = 0; k < a.size(); ++k)
          for (size_t j = 0; j < a.size(); ++j) c(i, j) += a(i, k) * b(k, j);
      return end - begin;
    }));
  }
  size_t done = 0;
  for (auto& part : parts) done += part.get();
  std::cout << done << " rows by " << parts.size() << " threads\n";
  return c;
}

int main() {
  const size_t n = 300;
  const Matrix a = Matrix::from(n, [](size_t i, size_t j) { return static_cast<int64_t>((i * 7 + j * 3) % 11) - 5; });
  const Matrix b = Matrix::from(n, [](size_t i, size_t j) { return static_cast<int64_t>((i * 5 + j) % 13) - 6; });
  const Matrix c = multiply(a, b, 4);
  int64_t sum = 0;  // the sum of a product needs only the sums of columns and rows
  for (size_t k = 0; k < n; ++k) {
    int64_t column = 0, row = 0;
    for (size_t i = 0; i < n; ++i) { column += a(i, k); row += b(k, i); }
    sum += column * row;
  }
  std::cout << "trace " << c.trace() << ", sum " << c.sum() << (c.sum() == sum ? " as expected\n" : " WRONG\n");
}

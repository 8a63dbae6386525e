/* Factorials in base one billion, and the digits of e, without a library. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

enum { kBase = 1000000000 };

struct number { uint32_t *digit; size_t size, room; };

static void multiply(struct number *n, uint32_t by) {
  uint64_t carry = 0;
  for (size_t i = 0; i < n->size; i++) {
    carry += (uint64_t)n->digit[i] * by;
    n->digit[i] = (uint32_t)(carry % kBase);
    carry /= kBase;
  }
  if (carry) {
    if (n->size == n->room) {
      n->room = n->room ? n->room * 2 : 8;
      n->digit = realloc(n->digit, n->room * sizeof *n->digit);
      if (!n->digit) exit(1);
    }
    n->digit[n->size++] = (uint32_t)carry;
  }
}

static void print(const struct number *n) {
  printf("%" PRIu32, n->digit[n->size - 1]);
  for (size_t i = n->size - 1; i-- > 0;) printf("%09" PRIu32, n->digit[i]);
  putchar('\n');
}

int main(int argc, char **argv) {
  unsigned long of = argc > 1 ? strtoul(argv[1], NULL, 10) : 20;
  struct number n = {calloc(1, sizeof(uint32_t)), 1, 1};
  n.digit[0] = 1;
  for (uint32_t i = 2; i <= of; i++) multiply(&n, i);
  print(&n);
  unsigned long sum = 0;
  for (size_t i = 0; i < n.size; i++)
    for (uint32_t d = n.digit[i]; d; d /= 10) sum += d % 10;
  printf("digit sum %lu\n", sum);
  free(n.digit);

  enum { kDigits = 60 };
  int a[kDigits + 20];
  for (int i = 0; i < kDigits + 20; i++) a[i] = 1;
  printf("2.");
  for (int k = 0; k < kDigits; k++) {
    int carry = 0;
    for (int i = kDigits + 19; i >= 0; i--) {
      int value = a[i] * 10 + carry;
      a[i] = value % (i + 2);
      carry = value / (i + 2);
    }
    printf("%d", carry);
  }
  putchar('\n');
  return 0;
}

/* Sorts a million numbers with qsort and with a radix sort of its own; both must agree. Exits with a chosen status. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { kCount = 1000000 };

static int ascending(const void *a, const void *b) {
  uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
  return (x > y) - (x < y);
}

static void radix_sort(uint32_t *items, size_t count) {
  uint32_t *other = malloc(count * sizeof *other);
  if (!other) exit(1);
  for (int shift = 0; shift < 32; shift += 8) {
    size_t start[257] = {0};
    for (size_t i = 0; i < count; i++) start[((items[i] >> shift) & 255) + 1]++;
    for (int i = 0; i < 256; i++) start[i + 1] += start[i];
    for (size_t i = 0; i < count; i++) other[start[(items[i] >> shift) & 255]++] = items[i];
    uint32_t *swap = items;
    items = other;
    other = swap;
  }
  free(other);
}

int main(void) {
  uint32_t *one = malloc(kCount * sizeof *one), *two = malloc(kCount * sizeof *two), state = 12345;
  if (!one || !two) return 1;
  for (size_t i = 0; i < kCount; i++) one[i] = state = state * 1664525u + 1013904223u;
  memcpy(two, one, kCount * sizeof *one);
  qsort(one, kCount, sizeof *one, ascending);
  radix_sort(two, kCount);
  if (memcmp(one, two, kCount * sizeof *one)) return 1;
  printf("%u %u %u\n", one[0], one[kCount / 2], one[kCount - 1]);
  uint32_t wanted = one[777777];
  const uint32_t *found = bsearch(&wanted, one, kCount, sizeof *one, ascending);
  printf("found at %td\n", found - one);
  free(one);
  free(two);
  return 42;
}

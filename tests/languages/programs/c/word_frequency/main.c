/* Counts words of stdin in a hash table of its own; the most frequent ones first. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct entry { struct entry *next; unsigned count; char word[]; };
static struct entry *buckets[1024];
static unsigned words;

static void add(const char *word) {
  unsigned hash = 2166136261u;
  for (const char *p = word; *p; p++) hash = (hash ^ (unsigned char)*p) * 16777619u;
  struct entry **slot = &buckets[hash % 1024];
  for (struct entry *e = *slot; e; e = e->next)
    if (strcmp(e->word, word) == 0) { e->count++; return; }
  struct entry *e = malloc(sizeof *e + strlen(word) + 1);
  if (!e) { perror("malloc"); exit(1); }
  *e = (struct entry){.next = *slot, .count = 1};
  strcpy(e->word, word);
  *slot = e;
  words++;
}

static int by_count(const void *a, const void *b) {
  const struct entry *x = *(struct entry *const *)a, *y = *(struct entry *const *)b;
  if (x->count != y->count) return x->count < y->count ? 1 : -1;
  return strcmp(x->word, y->word);
}

int main(int argc, char **argv) {
  unsigned most = argc > 1 ? (unsigned)atoi(argv[1]) : 5;
  char word[64];
  size_t length = 0;
  for (int c;;) {
    c = getchar();
    if (c != EOF && isalpha(c)) {
      if (length < sizeof word - 1) word[length++] = (char)tolower(c);
    } else if (length) {
      word[length] = 0;
      add(word);
      length = 0;
    }
    if (c == EOF) break;
  }
  struct entry **all = malloc(words * sizeof *all);
  size_t n = 0;
  for (size_t i = 0; i < 1024; i++)
    for (struct entry *e = buckets[i]; e; e = e->next) all[n++] = e;
  qsort(all, n, sizeof *all, by_count);
  for (size_t i = 0; i < n && i < most; i++) printf("%u %s\n", all[i]->count, all[i]->word);
  for (size_t i = 0; i < n; i++) free(all[i]);
  free(all);
  return 0;
}

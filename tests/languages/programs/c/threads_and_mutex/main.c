/* A bounded queue between producers and consumers: pthreads, a mutex and two conditions. */
#include <pthread.h>
#include <stdio.h>

enum { kProducers = 4, kConsumers = 3, kEach = 20000, kRoom = 16 };
static long queue[kRoom], sum, taken;
static int used, head, producing = kProducers;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t not_full = PTHREAD_COND_INITIALIZER, not_empty = PTHREAD_COND_INITIALIZER;

static void *produce(void *argument) {
  long base = (long)argument * kEach;
  for (long i = 0; i < kEach; i++) {
    pthread_mutex_lock(&lock);
    while (used == kRoom) pthread_cond_wait(&not_full, &lock);
    queue[(head + used++) % kRoom] = base + i;
    pthread_cond_signal(&not_empty);
    pthread_mutex_unlock(&lock);
  }
  pthread_mutex_lock(&lock);
  if (--producing == 0) pthread_cond_broadcast(&not_empty);
  pthread_mutex_unlock(&lock);
  return NULL;
}

static void *consume(void *unused) {
  (void)unused;
  for (;;) {
    pthread_mutex_lock(&lock);
    while (used == 0 && producing > 0) pthread_cond_wait(&not_empty, &lock);
    if (used == 0) { pthread_mutex_unlock(&lock); return NULL; }
    long value = queue[head];
    head = (head + 1) % kRoom;
    used--;
    sum += value;
    taken++;
    pthread_cond_signal(&not_full);
    pthread_mutex_unlock(&lock);
  }
}

int main(void) {
  pthread_t threads[kProducers + kConsumers];
  for (long i = 0; i < kProducers + kConsumers; i++)
    if (pthread_create(&threads[i], NULL, i < kProducers ? produce : consume, (void *)i)) return 1;
  for (int i = 0; i < kProducers + kConsumers; i++) pthread_join(threads[i], NULL);
  printf("%ld taken, sum %ld\n", taken, sum);
  return 0;
}

// Sums in worker threads that share one buffer, and counts with an atomic.
const { Worker, isMainThread, workerData, parentPort } = require('worker_threads');

if (isMainThread) {
  const workers = 3;
  const shared = new SharedArrayBuffer(4 * (workers + 1));
  const cells = new Int32Array(shared);
  const ended = Array.from({ length: workers }, (_, index) => new Promise((resolve, reject) => {
    const worker = new Worker(__filename, { workerData: { shared, index, workers } });
    worker.once('message', resolve);
    worker.once('error', reject);
  }));
  Promise.all(ended).then(messages => {
    console.log(messages.join('; '));
    console.log('cells', [...cells.slice(0, workers)], 'steps', cells[workers]);
    console.log('sum', cells.slice(0, workers).reduce((a, b) => a + b));
  });
} else {
  const { shared, index, workers } = workerData;
  const cells = new Int32Array(shared);
  for (let n = index; n < 30000; n += workers) {
    cells[index] += n;
    Atomics.add(cells, workers, 1);
  }
  parentPort.postMessage(`worker ${index} is done`);
}

// Scoped threads, channels, a shared map behind a lock and an atomic.
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{mpsc, Arc, Mutex, RwLock};
use std::thread;

fn collatz(mut n: u64) -> usize {
    let mut steps = 0;
    while n != 1 {
        n = if n % 2 == 0 { n / 2 } else { 3 * n + 1 };
        steps += 1;
    }
    steps
}

fn main() {
    let (send, receive) = mpsc::channel();
    let next = Arc::new(AtomicUsize::new(1));
    let workers: Vec<_> = (0..4)
        .map(|_| {
            let (send, next) = (send.clone(), Arc::clone(&next));
            thread::spawn(move || loop {
                let n = next.fetch_add(1, Ordering::SeqCst);
                if n > 30_000 {
                    break;
                }
                send.send((collatz(n as u64), n)).unwrap();
            })
        })
        .collect();
    drop(send);
    let (steps, n) = receive.iter().max().unwrap();
    for worker in workers {
        worker.join().unwrap();
    }
    println!("{n} takes {steps} steps");

    let numbers: Vec<u64> = (1..=1_000_000).collect();
    let total: u64 = thread::scope(|scope| {
        let parts: Vec<_> = numbers.chunks(250_000).map(|part| scope.spawn(move || part.iter().sum::<u64>())).collect();
        parts.into_iter().map(|part| part.join().unwrap()).sum()
    });
    println!("{total}");

    let map = RwLock::new(BTreeMap::new());
    let order = Mutex::new(0);
    thread::scope(|scope| {
        for t in 0..8 {
            let (map, order) = (&map, &order);
            scope.spawn(move || {
                for i in 0..100 {
                    *map.write().unwrap().entry(i % 5).or_insert(0) += t;
                }
                *order.lock().unwrap() += 1;
            });
        }
    });
    println!("{:?} {}", map.read().unwrap(), order.lock().unwrap());
    let failed = thread::spawn(|| -> i32 { panic!("on purpose") }).join();
    println!("a panic was caught: {}", failed.is_err());
}

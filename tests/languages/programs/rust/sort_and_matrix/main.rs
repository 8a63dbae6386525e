// A million numbers sorted three ways; a generic matrix; an iterator of one's own.
use std::collections::BinaryHeap;
use std::ops::{AddAssign, Mul};

struct Lcg(u32);
impl Iterator for Lcg {
    type Item = u32;
    fn next(&mut self) -> Option<u32> {
        self.0 = self.0.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        Some(self.0)
    }
}

#[derive(Debug, PartialEq)]
struct Matrix<T, const N: usize>([[T; N]; N]);
impl<T: Copy + Default + AddAssign + Mul<Output = T>, const N: usize> Mul for &Matrix<T, N> {
    type Output = Matrix<T, N>;
    fn mul(self, other: Self) -> Matrix<T, N> {
        let mut cells = [[T::default(); N]; N];
        for i in 0..N {
            for j in 0..N {
                for k in 0..N {
                    cells[i][j] += self.0[i][k] * other.0[k][j];
                }
            }
        }
        Matrix(cells)
    }
}

fn merge_sort<T: Copy + PartialOrd>(items: &mut Vec<T>) {
    let mut width = 1;
    while width < items.len() {
        let mut merged = Vec::with_capacity(items.len());
        for pair in items.chunks(2 * width) {
            let (left, right) = pair.split_at(width.min(pair.len()));
            let (mut i, mut j) = (0, 0);
            while i < left.len() && j < right.len() {
                if right[j] < left[i] {
                    merged.push(right[j]);
                    j += 1;
                } else {
                    merged.push(left[i]);
                    i += 1;
                }
            }
            merged.extend_from_slice(&left[i..]);
            merged.extend_from_slice(&right[j..]);
        }
        *items = merged;
        width *= 2;
    }
}

fn main() {
    let numbers: Vec<u32> = Lcg(12345).take(1_000_000).collect();
    let (mut stable, mut unstable, mut own) = (numbers.clone(), numbers.clone(), numbers.clone());
    stable.sort();
    unstable.sort_unstable();
    merge_sort(&mut own);
    println!("{} {}", stable == unstable, stable == own);
    println!("{} {} {}", own[0], own[500_000], own[999_999]);
    let mut heap: BinaryHeap<u32> = numbers.into_iter().take(1000).collect();
    let top: Vec<String> = (0..3).filter_map(|_| heap.pop()).map(|n| n.to_string()).collect();
    println!("{}", top.join(" "));

    let mut power = Matrix([[1u64, 0], [0, 1]]);
    let step = Matrix([[1, 1], [1, 0]]);
    for _ in 0..80 {
        power = &power * &step;
    }
    println!("{:?}", power);
    let a = Matrix::<f64, 3>([[1.0, 2.0, 0.5], [0.0, 1.0, 0.0], [4.0, 0.0, 1.0]]);
    println!("{:?}", (&a * &a).0[2]);
}

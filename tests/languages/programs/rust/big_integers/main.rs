// Integers without bound in base one billion: operators, Display, FromStr.
use std::fmt;
use std::ops::{Add, Mul};
use std::str::FromStr;

#[derive(Clone, PartialEq, Eq, Debug)]
struct Big(Vec<u32>);
const BASE: u64 = 1_000_000_000;

impl From<u32> for Big {
    fn from(n: u32) -> Self {
        Big(vec![(u64::from(n) % BASE) as u32, (u64::from(n) / BASE) as u32]).trimmed()
    }
}

impl Big {
    fn trimmed(mut self) -> Self {
        while self.0.len() > 1 && self.0.last() == Some(&0) {
            self.0.pop();
        }
        self
    }
    fn pow(&self, exponent: u32) -> Self {
        let mut result = Big::from(1);
        for bit in (0..32).rev() {
            result = &result * &result;
            if exponent >> bit & 1 == 1 {
                result = &result * self;
            }
        }
        result
    }
}

impl Add for &Big {
    type Output = Big;
    fn add(self, other: &Big) -> Big {
        let mut carry = 0u64;
        let mut digits: Vec<u32> = (0..self.0.len().max(other.0.len()))
            .map(|i| {
                let sum = carry + u64::from(*self.0.get(i).unwrap_or(&0)) + u64::from(*other.0.get(i).unwrap_or(&0));
                carry = sum / BASE;
                (sum % BASE) as u32
            })
            .collect();
        digits.push(carry as u32);
        Big(digits).trimmed()
    }
}

impl Mul for &Big {
    type Output = Big;
    fn mul(self, other: &Big) -> Big {
        let mut digits = vec![0u64; self.0.len() + other.0.len() + 1];
        for (i, &a) in self.0.iter().enumerate() {
            let mut carry = 0;
            for (j, &b) in other.0.iter().enumerate() {
                let value = digits[i + j] + u64::from(a) * u64::from(b) + carry;
                digits[i + j] = value % BASE;
                carry = value / BASE;
            }
            digits[i + other.0.len()] += carry;
        }
        Big(digits.into_iter().map(|d| d as u32).collect()).trimmed()
    }
}

impl fmt::Display for Big {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "{}", self.0.last().unwrap())?;
        self.0.iter().rev().skip(1).try_for_each(|digit| write!(f, "{digit:09}"))
    }
}

impl FromStr for Big {
    type Err = std::num::ParseIntError;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let digits: Result<Vec<u32>, _> =
            text.as_bytes().rchunks(9).map(|part| std::str::from_utf8(part).unwrap().parse()).collect();
        Ok(Big(digits?).trimmed())
    }
}

fn main() {
    let (mut a, mut b) = (Big::from(0), Big::from(1));
    for _ in 0..500 {
        (a, b) = (b.clone(), &a + &b);
    }
    println!("{a}");
    println!("{}", Big::from(3).pow(200));
    let text = "123456789012345678901234567890";
    let parsed: Big = text.parse().unwrap();
    println!("{} {}", parsed.to_string() == text, &parsed * &Big::from(9));
    println!("{}", "12x".parse::<Big>().unwrap_err());
    std::process::exit((&Big::from(6) * &Big::from(7)).0[0] as i32);
}

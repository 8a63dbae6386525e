// A recursive descent parser with errors as values and a tree of boxes; lines from stdin.
use std::collections::HashMap;
use std::fmt;
use std::io::{self, BufRead};
use std::iter::Peekable;
use std::str::Chars;

#[derive(Debug)]
enum Tree {
    Number(f64),
    Name(String),
    Binary(char, Box<Tree>, Box<Tree>),
}

#[derive(Debug, PartialEq)]
enum Problem {
    Unexpected(char),
    TooShort,
    Unknown(String),
    DivisionByZero,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Problem::Unexpected(c) => write!(f, "unexpected '{c}'"),
            Problem::TooShort => write!(f, "too short"),
            Problem::Unknown(name) => write!(f, "unknown name {name}"),
            Problem::DivisionByZero => write!(f, "division by zero"),
        }
    }
}

fn skip(input: &mut Peekable<Chars>) -> Option<char> {
    while input.next_if(|c| c.is_whitespace()).is_some() {}
    input.peek().copied()
}

fn operand(input: &mut Peekable<Chars>) -> Result<Tree, Problem> {
    match skip(input) {
        None => Err(Problem::TooShort),
        Some('(') => {
            input.next();
            let inner = sum(input)?;
            match skip(input) {
                Some(')') => Ok(input.next().map(|_| inner).unwrap()),
                Some(c) => Err(Problem::Unexpected(c)),
                None => Err(Problem::TooShort),
            }
        }
        Some(c) if c.is_ascii_digit() => {
            let mut text = String::new();
            while let Some(c) = input.next_if(|c| c.is_ascii_digit() || *c == '.') {
                text.push(c);
            }
            text.parse().map(Tree::Number).map_err(|_| Problem::Unexpected('.'))
        }
        Some(c) if c.is_alphabetic() => {
            let mut name = String::new();
            while let Some(c) = input.next_if(|c| c.is_alphanumeric()) {
                name.push(c);
            }
            Ok(Tree::Name(name))
        }
        Some(c) => Err(Problem::Unexpected(c)),
    }
}

fn chain(input: &mut Peekable<Chars>, operators: &str, next: fn(&mut Peekable<Chars>) -> Result<Tree, Problem>) -> Result<Tree, Problem> {
    let mut left = next(input)?;
    while let Some(operator) = skip(input).filter(|c| operators.contains(*c)) {
        input.next();
        left = Tree::Binary(operator, Box::new(left), Box::new(next(input)?));
    }
    Ok(left)
}

fn product(input: &mut Peekable<Chars>) -> Result<Tree, Problem> {
    chain(input, "*/", operand)
}

fn sum(input: &mut Peekable<Chars>) -> Result<Tree, Problem> {
    chain(input, "+-", product)
}

fn value(tree: &Tree, names: &HashMap<String, f64>) -> Result<f64, Problem> {
    Ok(match tree {
        Tree::Number(n) => *n,
        Tree::Name(name) => *names.get(name).ok_or_else(|| Problem::Unknown(name.clone()))?,
        Tree::Binary(operator, left, right) => match (operator, value(left, names)?, value(right, names)?) {
            ('+', a, b) => a + b,
            ('-', a, b) => a - b,
            ('*', a, b) => a * b,
            (_, _, b) if b == 0.0 => return Err(Problem::DivisionByZero),
            (_, a, b) => a / b,
        },
    })
}

fn main() {
    let mut names = HashMap::new();
    let mut problems = 0;
    for line in io::stdin().lock().lines().map_while(Result::ok) {
        let (name, text) = match line.split_once('=') {
            Some((name, text)) => (Some(name.trim().to_string()), text),
            None => (None, line.as_str()),
        };
        let mut input = text.chars().peekable();
        let result = sum(&mut input).and_then(|tree| match skip(&mut input) {
            Some(c) => Err(Problem::Unexpected(c)),
            None => value(&tree, &names),
        });
        match result {
            Ok(number) => {
                println!("{}", number);
                if let Some(name) = name {
                    names.insert(name, number);
                }
            }
            Err(problem) => {
                println!("{problem}");
                problems += 1;
            }
        }
    }
    std::process::exit(problems);
}

// Words of stdin: frequencies, the longest, an index by first letter. Borrowed slices all the way.
use std::collections::{BTreeMap, HashMap, HashSet};
use std::io::{self, Read};

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty())
}

fn main() -> io::Result<()> {
    let mut text = String::new();
    io::stdin().read_to_string(&mut text)?;
    let lower = text.to_lowercase();
    let mut counts: HashMap<&str, usize> = HashMap::new();
    for word in words(&lower) {
        *counts.entry(word).or_default() += 1;
    }
    let mut ranked: Vec<_> = counts.iter().collect();
    ranked.sort_by(|a, b| b.1.cmp(a.1).then(a.0.cmp(b.0)));
    for (word, count) in ranked.iter().take(3) {
        println!("{count:>3} {word}");
    }
    let longest = words(&lower).max_by_key(|word| word.chars().count()).unwrap_or("");
    println!("longest: {longest} ({} letters, {} bytes)", longest.chars().count(), longest.len());
    let mut index: BTreeMap<char, HashSet<&str>> = BTreeMap::new();
    for word in counts.keys() {
        index.entry(word.chars().next().unwrap()).or_default().insert(word);
    }
    let line: Vec<String> = index.iter().map(|(letter, set)| format!("{letter}:{}", set.len())).collect();
    println!("{}", line.join(" "));
    let reversed: String = lower.lines().next().unwrap_or("").chars().rev().collect();
    println!("{reversed}");
    Ok(())
}

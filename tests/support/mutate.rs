//! Changed copies of good inputs, the same for the same seed: what a test tries on a parser where no fuzzer runs.

use std::path::Path;

/// Gives `take` every file of `fuzz/corpus/NAME` and `count` changed copies.
pub fn each(name: &str, count: usize, mut take: impl FnMut(&[u8])) {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR"));
    let dirs = [dir.join("fuzz/corpus").join(name), dir.join("../fuzz/corpus").join(name)];
    let dir = dirs.iter().find(|dir| dir.is_dir()).unwrap_or_else(|| panic!("no corpus of {name}"));
    let mut paths: Vec<_> =
        std::fs::read_dir(dir).expect("the corpus").map(|one| one.expect("a file").path()).collect();
    paths.sort();
    let seeds: Vec<Vec<u8>> = paths.iter().map(|path| std::fs::read(path).expect("a seed")).collect();
    assert!(!seeds.is_empty(), "the corpus of {name} is empty");
    seeds.iter().for_each(|seed| take(seed));
    let mut random = Random(name.len() as u64 + 1);
    for _ in 0..count {
        let mut data = seeds[random.below(seeds.len())].clone();
        for _ in 0..=random.below(4) {
            change(&mut data, &seeds, &mut random);
        }
        take(&data);
    }
}

fn change(data: &mut Vec<u8>, seeds: &[Vec<u8>], random: &mut Random) {
    const NASTY: [&[u8]; 12] =
        [b"\0", b"\xff", b"-1", b"9223372036854775808", b"/../", b"\r\n", b"\"", b"\\u0000", b"{", b"[", b"%00", b":"];
    let at = random.below(data.len() + 1);
    let end = at + random.below((data.len() - at).min(64) + 1);
    match random.below(7) {
        0 if at < data.len() => data[at] ^= 1 << random.below(8),
        1 if at < data.len() => data[at] = random.below(256) as u8,
        2 => drop(data.drain(at..end)),
        3 => {
            let copy = data[at..end].to_vec();
            data.splice(at..at, copy);
        }
        4 => drop(data.splice(at..at, NASTY[random.below(NASTY.len())].iter().copied())),
        5 => data.truncate(at),
        _ => {
            let other = &seeds[random.below(seeds.len())];
            let from = random.below(other.len() + 1);
            let to = from + random.below((other.len() - from).min(512) + 1);
            data.splice(at..end, other[from..to].iter().copied());
        }
    }
}

struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 33) as usize % limit.max(1)
    }
}

//! A set of descriptors that stay open, a bit each, and the ranges between them.

pub struct OpenSet<'a>(&'a mut [u8]);

impl<'a> OpenSet<'a> {
    /// A set in zeroed memory: eight numbers a byte.
    pub fn new(memory: &'a mut [u8]) -> OpenSet<'a> {
        OpenSet(memory)
    }

    /// Adds a descriptor; a number below 0 means none.
    pub fn add(&mut self, fd: i32) {
        if let Some(byte) = usize::try_from(fd).ok().and_then(|fd| self.0.get_mut(fd / 8)) {
            *byte |= 1 << (fd % 8);
        }
    }

    fn has(&self, fd: u32) -> bool {
        self.0.get(fd as usize / 8).is_some_and(|byte| byte & 1 << (fd % 8) != 0)
    }

    /// Calls `act` with each range (its first and its last number) of numbers from `first` on that are not in the set.
    /// `highest`: the largest number in it. Ends with the first error.
    pub fn each_gap<E>(
        &self,
        first: u32,
        highest: i32,
        mut act: impl FnMut(u32, u32) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut from = first;
        for member in first..u32::try_from(highest).map_or(0, |highest| highest + 1) {
            if self.has(member) {
                if member > from {
                    act(from, member - 1)?;
                }
                from = member + 1;
            }
        }
        act(from, u32::MAX)
    }

    /// Gives the memory back.
    pub fn into_memory(self) -> &'a mut [u8] {
        self.0
    }
}

/// Calls `act` with each range (its first and its last number) of numbers from `first` on that are not among `numbers`,
/// in any order: without memory, for a few numbers. Ends with the first error.
pub fn each_gap_between<I: Iterator<Item = i32>, E>(
    numbers: impl Fn() -> I,
    first: i32,
    mut act: impl FnMut(i32, u32) -> Result<(), E>,
) -> Result<(), E> {
    let mut from = first;
    while let Some(next) = numbers().filter(|number| *number >= from).min() {
        if next > from {
            act(from, next as u32 - 1)?;
        }
        from = next + 1;
    }
    act(from, u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gaps(members: &[i32]) -> Vec<(u32, u32)> {
        let mut memory = [0; 16];
        let mut set = OpenSet::new(&mut memory);
        members.iter().for_each(|&fd| set.add(fd));
        let mut gaps = Vec::new();
        let highest = members.iter().copied().max().unwrap_or(-1);
        let all: Result<(), ()> = set.each_gap(3, highest, |first, last| {
            gaps.push((first, last));
            Ok(())
        });
        assert_eq!(all, Ok(()));
        gaps
    }

    #[test]
    fn everything_between_the_members_is_a_gap() {
        assert_eq!(gaps(&[]), [(3, u32::MAX)]);
        assert_eq!(gaps(&[3]), [(4, u32::MAX)]);
        assert_eq!(gaps(&[5, 9, 10]), [(3, 4), (6, 8), (11, u32::MAX)]);
        assert_eq!(gaps(&[3, 4, 5]), [(6, u32::MAX)]);
    }

    #[test]
    fn the_first_error_ends_it() {
        let mut memory = [0; 16];
        let mut set = OpenSet::new(&mut memory);
        set.add(5);
        set.add(9);
        let mut calls = 0;
        let ended = set.each_gap(3, 9, |first, _| {
            calls += 1;
            Err(first)
        });
        assert_eq!((ended, calls), (Err(3), 1));
    }

    #[test]
    fn a_set_refuses_numbers_beyond_its_range() {
        assert_eq!(gaps(&[-1, 7]), [(3, 6), (8, u32::MAX)]);
        assert_eq!(gaps(&[4, 1000]), [(3, 3), (5, u32::MAX)], "the set has 128 numbers");
        let mut memory = [0; 1];
        let mut set = OpenSet::new(&mut memory);
        set.add(0);
        assert_eq!(set.into_memory(), [1]);
    }

    #[test]
    fn a_few_numbers_need_no_memory() {
        let between = |numbers: &[i32]| {
            let mut gaps = Vec::new();
            let all: Result<(), ()> = each_gap_between(
                || numbers.iter().copied(),
                3,
                |first, last| {
                    gaps.push((first, last));
                    Ok(())
                },
            );
            assert_eq!(all, Ok(()));
            gaps
        };
        assert_eq!(between(&[-1, 0, 2]), [(3, u32::MAX)]);
        assert_eq!(between(&[9, 5, 10, 5]), [(3, 4), (6, 8), (11, u32::MAX)]);
        assert_eq!(between(&[3, 4]), [(5, u32::MAX)]);
        assert_eq!(each_gap_between(|| [7].into_iter(), 3, |first, _| Err(first)), Err(3));
    }
}

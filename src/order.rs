//! Sorts of small lists with one machine code for all types: the standard library's stable sort is 5 kB for each type that it sorts.

use std::cmp::Ordering;

/// Stable sorts of a list, for lists that are not hot: they take a list of numbers as long beside.
pub(crate) trait Order<T> {
    /// Like `sort_by`.
    fn order_by(&mut self, compare: impl FnMut(&T, &T) -> Ordering);

    /// Like `sort`.
    fn order(&mut self)
    where
        T: Ord,
    {
        self.order_by(T::cmp);
    }

    /// Like `sort_by_key`.
    fn order_by_key<K: Ord>(&mut self, mut key: impl FnMut(&T) -> K) {
        self.order_by(|a, b| key(a).cmp(&key(b)));
    }
}

impl<T> Order<T> for [T] {
    fn order_by(&mut self, mut compare: impl FnMut(&T, &T) -> Ordering) {
        let mut places = sorted(self.len(), &mut |a, b| compare(&self[a], &self[b]));
        // Each circle of places is walked once: whatever is at its right place stays there.
        for first in 0..places.len() {
            let mut at = first;
            loop {
                let from = std::mem::replace(&mut places[at], at);
                if from == first {
                    break;
                }
                self.swap(at, from);
                at = from;
            }
        }
    }
}

/// The numbers from 0 to `len` in the order of the elements that have them.
fn sorted(len: usize, compare: &mut dyn FnMut(usize, usize) -> Ordering) -> Vec<usize> {
    let mut places: Vec<usize> = (0..len).collect();
    places.sort_by(|a, b| compare(*a, *b));
    places
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_is_in_the_order_of_the_standard_sort() {
        // Few keys, so that many elements are equal: their order must stay.
        let mut seed = 1_u32;
        let mut next = || {
            seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            seed >> 24
        };
        for len in (0..50).chain([500]) {
            let list: Vec<(u32, String)> = (0..len).map(|at| (next() % 7, format!("{at}"))).collect();
            let (mut ours, mut standard, mut whole) = (list.clone(), list.clone(), list);
            ours.order_by_key(|(key, _)| *key);
            standard.sort_by_key(|(key, _)| *key);
            assert_eq!(ours, standard);
            whole.order();
            standard.sort();
            assert_eq!(whole, standard);
        }
    }
}

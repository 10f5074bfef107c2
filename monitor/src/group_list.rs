//! The list of a process's groups.

/// Sorts groups, as the kernel will, and drops doubles; answers how many are left at the beginning.
///
/// A heap's sort: the sort of the core library is 3 kB of code, which every running container would carry.
pub fn each_once(groups: &mut [u32]) -> usize {
    for root in (0..groups.len() / 2).rev() {
        sift(groups, root);
    }
    for end in (1..groups.len()).rev() {
        groups.swap(0, end);
        sift(&mut groups[..end], 0);
    }
    let mut kept = 0;
    for index in 0..groups.len() {
        if index == 0 || groups[index] != groups[kept - 1] {
            groups[kept] = groups[index];
            kept += 1;
        }
    }
    kept
}

/// Lets the value at `root` sink to its place in the heap.
fn sift(heap: &mut [u32], mut root: usize) {
    loop {
        let left = 2 * root + 1;
        let right = left + 1;
        let larger = if right < heap.len() && heap[right] > heap[left.min(heap.len() - 1)] { right } else { left };
        if larger >= heap.len() || heap[larger] <= heap[root] {
            return;
        }
        heap.swap(root, larger);
        root = larger;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(mut groups: Vec<u32>) {
        let mut expected = groups.clone();
        expected.sort_unstable();
        expected.dedup();
        let count = each_once(&mut groups);
        assert_eq!(groups[..count], expected);
    }

    #[test]
    fn groups_come_in_order_and_each_once() {
        for groups in
            [&[][..], &[7], &[2, 1], &[1, 1], &[3, 1, 2, 3, 0, u32::MAX, 1], &[0; 9], &[9, 8, 7, 6, 5, 4, 3, 2, 1, 0]]
        {
            check(groups.to_vec());
        }
    }

    #[test]
    fn the_longest_list_is_sorted() {
        let mut state = 1u32;
        let mut next = move || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            state >> 16
        };
        check((0..65_536).map(|_| next()).collect());
        check((0..65_536).rev().collect());
        check((0..1000).collect());
    }
}

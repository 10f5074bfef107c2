//! The owners of streams, by number: the container itself, its further processes by their places, and the health check,
//! which has the last place.

/// How many further processes there are at once.
pub const MAX_EXECS: usize = 64;
/// The place of the health check.
pub const CHECK: usize = MAX_EXECS;

/// The container's own streams.
pub const CONTAINER: u32 = 0;
/// The health check's output.
pub const CHECK_OUTPUT: u32 = of_exec(CHECK);
/// So many numbers there are.
pub const OWNERS: usize = MAX_EXECS + 2;

/// The streams of the process in a place.
pub const fn of_exec(place: usize) -> u32 {
    place as u32 + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_container_each_process_and_the_check_have_numbers_of_their_own() {
        let owners: Vec<u32> =
            [CONTAINER].into_iter().chain((0..MAX_EXECS).map(of_exec)).chain([CHECK_OUTPUT]).collect();
        let wanted: Vec<u32> = (0..OWNERS as u32).collect();
        assert_eq!(owners, wanted);
    }
}

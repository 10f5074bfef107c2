//! The monitor of Coracle: the wire format and the operations of plans, shared with the library, and the finished
//! static program as bytes.
//!
//! The program itself stands in `monitor/program/`: `no_std`, no libc, raw system calls; `build.rs` compiles it with
//! one call of the compiler. The library runs it from a sealed memfd, one per running container.

#[cfg(any(test, fuzzing))]
#[cfg_attr(fuzzing, allow(dead_code))]
mod addresses;
#[cfg(any(test, fuzzing))]
mod answers;
pub mod call;
#[cfg(test)]
mod check_output;
#[cfg(test)]
mod checkup;
#[cfg(test)]
mod clients;
#[cfg(any(test, fuzzing))]
mod deflate;
#[cfg(test)]
mod devices;
pub mod encode;
#[cfg(test)]
mod events;
#[cfg(test)]
mod exits;
#[cfg(test)]
mod fault;
pub mod filter;
#[cfg(any(test, fuzzing))]
#[cfg_attr(fuzzing, allow(dead_code))]
mod framed;
#[cfg(any(test, fuzzing))]
#[doc(hidden)]
pub mod fuzz;
#[cfg(test)]
mod group_list;
#[cfg(any(test, fuzzing))]
#[cfg_attr(fuzzing, allow(dead_code))]
mod jsonlog;
#[cfg(any(test, fuzzing))]
#[allow(unused_attributes)]
#[path = "../lines/lib.rs"]
mod lines;
#[cfg(test)]
mod lost;
#[cfg(test)]
#[allow(dead_code)]
mod message;
#[cfg(test)]
mod oom_count;
#[cfg(test)]
mod open_set;
pub mod ops;
#[cfg(test)]
mod ops_tests;
#[cfg(test)]
mod owners;
#[cfg(any(test, fuzzing))]
mod passage;
#[cfg(test)]
mod paths;
#[cfg(test)]
mod permits;
#[cfg(test)]
mod progress;
#[cfg(any(test, fuzzing))]
mod question;
pub mod read_log;
pub mod remount;
#[cfg(any(test, fuzzing))]
mod report;
#[cfg(test)]
mod restart;
#[cfg(test)]
mod ring;
#[cfg(test)]
mod search;
#[cfg(test)]
mod servers;
#[cfg(test)]
mod session;
#[cfg(test)]
mod subjects;
#[cfg(test)]
mod successors;
pub mod text;
#[cfg(test)]
mod timers;
#[cfg(any(test, fuzzing))]
mod users;
pub mod walls;
#[allow(unsafe_code)]
pub mod wire;
#[cfg(test)]
mod worker_life;

/// The static program, an ELF executable.
#[cfg(feature = "programs")]
pub static PROGRAM: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/coracle-monitor"));

/// The static program that is the first process of containers that ask for an init, an ELF executable.
#[cfg(feature = "programs")]
pub static INIT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/coracle-init"));

#[cfg(all(test, feature = "programs"))]
mod tests {
    use super::{INIT, PROGRAM};

    /// A ratchet: each running container has two processes of it, whose pages are touched when they start.
    #[test]
    fn both_programs_are_small() {
        let size = PROGRAM.len() + INIT.len();
        assert!(size <= 165_000, "monitor and init have {size} bytes");
    }

    #[test]
    fn no_part_of_a_program_is_writable_and_executable() {
        const LOAD: u32 = 1;
        const STACK: u32 = 0x6474_e551;
        for program in [PROGRAM, INIT] {
            let number = |at: usize| u32::from_le_bytes(program[at..at + 4].try_into().expect("four bytes"));
            let (from, count) = (number(32) as usize, (number(56) & 0xffff) as usize);
            let segments: Vec<_> = (0..count).map(|i| from + 56 * i).map(|at| (number(at), number(at + 4))).collect();
            assert!(segments.contains(&(LOAD, 5)), "{segments:?}");
            assert!(
                segments.iter().all(|(kind, flags)| ![LOAD, STACK].contains(kind) || flags & 3 != 3),
                "{segments:?}"
            );
            assert!(segments.iter().any(|segment| segment.0 == STACK), "{segments:?}");
        }
    }
}

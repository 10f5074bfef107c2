//! Memory that a burst of requests took goes back to the kernel when they are over.

use crate::Failure;
use crate::session::no_thread;
use coracle::Engine;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering::Relaxed};
use std::thread::Thread;
use std::time::Duration;

/// After this time without requests the memory is probably not needed again.
const QUIET: Duration = Duration::from_secs(1);
/// If requests never end, memory is given back after this many times [`QUIET`].
const PATIENCE: usize = 30;

/// A server that holds more bytes at rest drops its caches: of pages of the database, and of parsed specs.
const MUCH: usize = 4 << 20;

/// No request came since memory was given back.
const CLEAN: u8 = 0;
/// Requests came, none of them in the last moment.
const SEEN: u8 = 1;
/// A request came in the last moment.
const USED: u8 = 2;

/// Notes that requests came.
pub struct Memory {
    state: Arc<AtomicU8>,
    thread: Thread,
}

impl Memory {
    /// Starts a thread that gives memory back, and sleeps while no requests come.
    pub fn watched(engine: Engine) -> Result<Memory, Failure> {
        let state = Arc::new(AtomicU8::new(CLEAN));
        let seen = Arc::clone(&state);
        let spawned = std::thread::Builder::new().name("coracle-memory".into()).stack_size(64 << 10);
        let thread = spawned.spawn(move || watch(&engine, &seen)).map_err(no_thread)?.thread().clone();
        Ok(Memory { state, thread })
    }

    /// A request came.
    pub fn is_used(&self) {
        if self.state.swap(USED, Relaxed) == CLEAN {
            self.thread.unpark();
        }
    }
}

fn watch(engine: &Engine, state: &AtomicU8) {
    loop {
        while state.load(Relaxed) == CLEAN {
            std::thread::park();
        }
        for _ in 0..PATIENCE {
            state.store(SEEN, Relaxed);
            std::thread::sleep(QUIET);
            if state.load(Relaxed) == SEEN {
                break;
            }
        }
        // A request that comes from here on wakes the thread again.
        state.store(CLEAN, Relaxed);
        if coracle::held_memory() > MUCH {
            engine.forget_what_was_read();
        }
        coracle::give_memory_back();
    }
}

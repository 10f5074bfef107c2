//! Handles as tokens.
//!
//! The pointer that C holds is not an address: it is a tag, the handle's type, a slot number and the slot's generation. A
//! handle that was freed, belongs to another type, or never was one is distinguished from a live one without touching
//! memory that is not ours. A call keeps what it uses alive until it returns, so that a `free` in another thread cannot
//! pull it away.
//!
//! Everything is lock-free: a look-up may happen in a signal handler (`coracle_op_cancel`) and in the child of a fork
//! that left another thread in the middle of an insert. This table is the one piece of process-wide state besides the
//! log sink; no engine sees another through it.

use crate::failure::{Failure, Outcome};
#[cfg(test)]
use crate::types::*;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering::*};

/// An object that a handle can refer to.
pub(crate) trait Object: Send + Sync + 'static {
    /// The C type.
    type Opaque;
    /// A number below 16 of its own.
    const KIND: u64;
    /// The name of the type in messages.
    const NAME: &'static str;
    /// Whether the child of a fork may use it: only plain memory.
    const SURVIVES_FORK: bool = false;
}

/// Makes a handle of `value`.
pub(crate) fn give<T: Object>(value: T) -> *mut T::Opaque {
    let index = acquire();
    let slot = slot(index).expect("a slot that was just acquired");
    slot.value.store(Box::into_raw(Box::new(value)).cast(), Relaxed);
    remember_process();
    slot.pid.store(own_pid(), Relaxed);
    let generation = (slot.state.load(Relaxed) >> GENERATION_SHIFT) & GENERATION_MASK;
    // One count is the handle itself; Release publishes the value above to threads that see the slot live.
    slot.state.store(generation << GENERATION_SHIFT | T::KIND << KIND_SHIFT | LIVE | 1, Release);
    (TAG | T::KIND << 52 | generation << 24 | u64::from(index)) as usize as *mut T::Opaque
}

/// The object behind a handle, kept alive until the answer is dropped.
pub(crate) fn get<T: Object>(handle: *const T::Opaque, argument: &str) -> Outcome<Ref<T>> {
    if handle.is_null() {
        return Err(Failure::invalid(format!("{argument} is NULL")));
    }
    let unknown = || Failure::misuse(format!("{argument} is not an open {} handle", T::NAME));
    let found = pin::<T>(handle).ok_or_else(unknown)?;
    match found.forked() && !T::SURVIVES_FORK {
        true => Err(Failure::forked(T::NAME)),
        false => Ok(found),
    }
}

/// The object behind a handle of this process. Async-signal-safe: neither it nor its failure allocates.
pub(crate) fn get_quiet<T: Object>(handle: *const T::Opaque) -> Option<Ref<T>> {
    pin::<T>(handle).filter(|found| !found.forked())
}

/// Ends a handle; what is behind it goes when no call uses it any more. NULL and dead handles do nothing.
pub(crate) fn free<T: Object>(handle: *const T::Opaque) {
    let Some(pinned) = pin::<T>(handle) else { return };
    let state = &pinned.slot.state;
    if state.fetch_and(!LIVE, AcqRel) & LIVE != 0 {
        state.fetch_sub(1, AcqRel);
    }
}

/// A use of an object.
pub(crate) struct Ref<T: Object> {
    slot: &'static Slot,
    index: u32,
    object: PhantomData<T>,
}

impl<T: Object> Ref<T> {
    fn forked(&self) -> bool {
        self.slot.pid.load(Relaxed) != own_pid()
    }
}

impl<T: Object> std::ops::Deref for Ref<T> {
    type Target = T;
    fn deref(&self) -> &T {
        // SAFETY: the slot was live with T's kind when this use was counted, and its value stays until no use is left.
        unsafe { &*self.slot.value.load(Relaxed).cast::<T>() }
    }
}

impl<T: Object> Drop for Ref<T> {
    fn drop(&mut self) {
        if self.slot.state.fetch_sub(1, AcqRel) & (COUNT_MASK | LIVE) != 1 {
            return;
        }
        // The last use of a freed handle: nobody can find the slot until its generation moves on.
        let value = self.slot.value.swap(std::ptr::null_mut(), Relaxed).cast::<T>();
        let forked = self.forked();
        release(self.index, self.slot);
        if !forked || T::SURVIVES_FORK {
            // SAFETY: made by Box::into_raw in `give`, taken out once. In a forked child it is left alone: its locks
            // and descriptors are the parent's business.
            drop(unsafe { Box::from_raw(value) });
        }
    }
}

// A token: tag 8 bits | kind 4 | generation 28 | index 24. The tag makes it a non-canonical address, so that
// code that follows it by mistake faults at once.
const TAG: u64 = 0x43 << 56;
const INDEX_MASK: u64 = (1 << 24) - 1;
// A slot's state: generation 28 bits | kind 4 | live 1 | uses 31.
const GENERATION_SHIFT: u32 = 36;
const GENERATION_MASK: u64 = (1 << 28) - 1;
const KIND_SHIFT: u32 = 32;
const LIVE: u64 = 1 << 31;
const COUNT_MASK: u64 = LIVE - 1;

struct Slot {
    state: AtomicU64,
    value: AtomicPtr<()>,
    pid: AtomicU32,
    next_free: AtomicU32,
}

const CHUNK: u32 = 256;
const CHUNKS: usize = (INDEX_MASK as usize + 1) / CHUNK as usize;
/// Slots in chunks that are made when needed and never given back.
static TABLE: [AtomicPtr<Slot>; CHUNKS] = [const { AtomicPtr::new(std::ptr::null_mut()) }; CHUNKS];
/// How many slots were ever handed out.
static USED: AtomicU32 = AtomicU32::new(0);
/// The freed slots: a counter against ABA (32 bits) | index of the top + 1 (32 bits).
static FREE: AtomicU64 = AtomicU64::new(0);

fn pin<T: Object>(handle: *const T::Opaque) -> Option<Ref<T>> {
    let token = handle as usize as u64;
    let index = (token & INDEX_MASK) as u32;
    let generation = token >> 24 & GENERATION_MASK;
    if token & !(INDEX_MASK | GENERATION_MASK << 24) != TAG | T::KIND << 52 || index >= USED.load(Acquire) {
        return None;
    }
    let slot = slot(index)?;
    let wanted = generation << GENERATION_SHIFT | T::KIND << KIND_SHIFT | LIVE;
    slot.state
        .fetch_update(AcqRel, Acquire, |state| (state & !COUNT_MASK == wanted).then_some(state + 1))
        .ok()
        .map(|_| Ref { slot, index, object: PhantomData })
}

fn slot(index: u32) -> Option<&'static Slot> {
    let chunk = TABLE.get((index / CHUNK) as usize)?.load(Acquire);
    // SAFETY: a chunk that is set is an array of CHUNK slots that lives for ever.
    (!chunk.is_null()).then(|| unsafe { &*chunk.add((index % CHUNK) as usize) })
}

/// This process's id, in a page that is empty in the child of a fork: getpid(2) costs more than reading a line of a log.
static PID: AtomicPtr<AtomicU32> = AtomicPtr::new(std::ptr::null_mut());

/// Async-signal-safe.
pub(crate) fn own_pid() -> u32 {
    let page = PID.load(Acquire);
    if page.is_null() {
        return std::process::id();
    }
    // SAFETY: the page stays for ever.
    let place = unsafe { &*page };
    match place.load(Relaxed) {
        0 => {
            place.store(std::process::id(), Relaxed);
            std::process::id()
        }
        pid => pid,
    }
}

/// Makes the page of [`own_pid`], once; a kernel that cannot empty it goes without.
fn remember_process() {
    if !PID.load(Acquire).is_null() {
        return;
    }
    let (length, access, how) = (4096, libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    // SAFETY: a new mapping of our own; it is given back only where nobody saw it.
    unsafe {
        let page = libc::mmap(std::ptr::null_mut(), length, access, how, -1, 0);
        if page == libc::MAP_FAILED {
            return;
        }
        let wiped = libc::madvise(page, length, libc::MADV_WIPEONFORK) == 0;
        if !wiped || PID.compare_exchange(std::ptr::null_mut(), page.cast(), AcqRel, Acquire).is_err() {
            libc::munmap(page, length);
        }
    }
}

fn acquire() -> u32 {
    let mut head = FREE.load(Acquire);
    while let Some(index) = (head as u32).checked_sub(1) {
        let next = slot(index).map_or(0, |slot| slot.next_free.load(Relaxed));
        let new = (head >> 32).wrapping_add(1) << 32 | u64::from(next);
        match FREE.compare_exchange_weak(head, new, AcqRel, Acquire) {
            Ok(_) => return index,
            Err(now) => head = now,
        }
    }
    let index = USED.load(Relaxed);
    // 16 million handles open at once are a leak; the panic becomes an error at the entry.
    assert!(u64::from(index) <= INDEX_MASK, "too many open handles");
    make_chunk(index);
    match USED.compare_exchange(index, index + 1, AcqRel, Relaxed) {
        Ok(_) => index,
        Err(_) => acquire(),
    }
}

fn make_chunk(index: u32) {
    let place = &TABLE[(index / CHUNK) as usize];
    if !place.load(Acquire).is_null() {
        return;
    }
    let empty = |_| Slot {
        state: AtomicU64::new(0),
        value: AtomicPtr::new(std::ptr::null_mut()),
        pid: AtomicU32::new(0),
        next_free: AtomicU32::new(0),
    };
    let chunk: Box<[Slot]> = (0..CHUNK).map(empty).collect();
    let chunk = Box::into_raw(chunk).cast::<Slot>();
    if place.compare_exchange(std::ptr::null_mut(), chunk, AcqRel, Acquire).is_err() {
        // SAFETY: another thread was first; nobody saw this chunk, made just above with this length.
        drop(unsafe { Box::from_raw(std::ptr::slice_from_raw_parts_mut(chunk, CHUNK as usize)) });
    }
}

fn release(index: u32, slot: &Slot) {
    let generation = (slot.state.load(Relaxed) >> GENERATION_SHIFT).wrapping_add(1) & GENERATION_MASK;
    slot.state.store(generation << GENERATION_SHIFT, Release);
    let mut head = FREE.load(Acquire);
    loop {
        slot.next_free.store(head as u32, Relaxed);
        let new = (head >> 32).wrapping_add(1) << 32 | u64::from(index + 1);
        match FREE.compare_exchange_weak(head, new, AcqRel, Acquire) {
            Ok(_) => return,
            Err(now) => head = now,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::AtomicUsize;

    struct Thing(Arc<AtomicUsize>);
    impl Drop for Thing {
        fn drop(&mut self) {
            self.0.fetch_add(1, SeqCst);
        }
    }
    impl Object for Thing {
        type Opaque = coracle;
        const KIND: u64 = 14;
        const NAME: &'static str = "thing";
    }
    struct Other;
    impl Object for Other {
        type Opaque = coracle;
        const KIND: u64 = 15;
        const NAME: &'static str = "other";
    }

    #[test]
    fn a_handle_lives_until_freed_and_its_last_use_is_over() {
        let gone = Arc::new(AtomicUsize::new(0));
        let handle = give(Thing(gone.clone()));
        let using = get::<Thing>(handle, "t").unwrap();
        free::<Thing>(handle);
        assert_eq!(get::<Thing>(handle, "t").err().map(|f| f.code), Some(CORACLE_EMISUSE));
        assert_eq!(gone.load(SeqCst), 0);
        drop(using);
        assert_eq!(gone.load(SeqCst), 1);
        free::<Thing>(handle);
        assert_eq!(gone.load(SeqCst), 1);
    }

    #[test]
    fn garbage_null_and_foreign_handles_are_told_apart() {
        let handle = give(Other);
        assert_eq!(get::<Thing>(handle, "t").err().map(|f| f.code), Some(CORACLE_EMISUSE));
        assert_eq!(get::<Thing>(std::ptr::null(), "t").err().map(|f| f.code), Some(CORACLE_EINVALID));
        for garbage in [1usize, 0xdead_beef, usize::MAX, handle as usize ^ 0xff_ffff, handle as usize ^ (1 << 30)] {
            assert!(get::<Other>(garbage as *const coracle, "t").is_err());
            free::<Other>(garbage as *const coracle);
        }
        assert!(get::<Other>(handle, "t").is_ok());
        free::<Other>(handle);
    }

    #[test]
    fn threads_that_make_and_free_handles_never_meet_a_stranger() {
        let gone = Arc::new(AtomicUsize::new(0));
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    for _ in 0..2000 {
                        let mine = Arc::new(AtomicUsize::new(0));
                        let handle = give(Thing(mine.clone()));
                        assert!(Arc::ptr_eq(&get::<Thing>(handle, "t").unwrap().0, &mine));
                        free::<Thing>(handle);
                        assert_eq!(mine.load(SeqCst), 1);
                        assert!(get::<Thing>(handle, "t").is_err());
                        gone.fetch_add(1, SeqCst);
                    }
                });
            }
        });
        assert_eq!(gone.load(SeqCst), 16000);
    }
}

// SPDX-License-Identifier: GPL-2.0
//! Tables that are read without a lock: a hash table whose entries are freed after a grace period,
//! and values that are read whole.
//!
//! A reader holds a [`Guard`] and writes nothing that is shared. Writers have a lock of their own,
//! which they prove with a [`Writer`] that it protects.

use super::{
    barrier::{
        smp_rmb,
        smp_wmb, //
    },
    random, //
};
use core::{
    cell::{
        Cell,
        UnsafeCell, //
    },
    marker::PhantomData,
    mem::MaybeUninit, //
};
pub(crate) use kernel::sync::rcu::Guard;
use kernel::{
    bindings,
    prelude::*,
    sync::{
        atomic::{
            ordering::{
                Acquire,
                Relaxed,
                Release, //
            },
            Atomic,
        },
        Arc, //
    },
    types::Opaque, //
};

/// Proof that the lock of the writers is held: it is a part of the data that this protects, and so
/// one thread has it at a time.
pub(crate) struct Writer(PhantomData<Cell<()>>);

impl Writer {
    /// One for the tables that one lock protects.
    pub(crate) const fn new() -> Self {
        Self(PhantomData)
    }
}

extern "C" {
    fn zernel_helper_free_later(
        head: *mut bindings::callback_head,
        free: unsafe extern "C" fn(*mut bindings::callback_head),
    );
    fn zernel_helper_free_wait();
}

/// Waits until readers have seen that something is gone, and until all that was taken out of tables
/// is freed. Sleeps.
pub(crate) fn wait_for_readers() {
    // SAFETY: FFI; in process context.
    unsafe {
        bindings::synchronize_rcu();
        zernel_helper_free_wait();
    }
}

/// A count by which readers see whether several values were changed meanwhile.
pub(crate) struct Sequence(Atomic<u64>);

impl Sequence {
    /// Nothing has changed yet.
    pub(crate) const fn new() -> Self {
        Self(Atomic::new(0))
    }

    /// Changes values that belong together.
    pub(crate) fn change<T>(&self, writer: &mut Writer, f: impl FnOnce(&mut Writer) -> T) -> T {
        self.begin(writer);
        let result = f(writer);
        self.end(writer);
        result
    }

    /// A change begins that does not fit into a closure. No other one does before its [`Self::end`].
    pub(crate) fn begin(&self, _writer: &Writer) {
        let at = self.0.load(Relaxed);
        self.0.store(at.wrapping_add(1), Relaxed);
        smp_wmb();
    }

    /// The end of a change.
    pub(crate) fn end(&self, _writer: &Writer) {
        let at = self.0.load(Relaxed);
        self.0.store(at.wrapping_add(1), Release);
    }

    /// Reads values that belong together. `None`: they changed meanwhile.
    pub(crate) fn read<T>(&self, f: impl FnOnce() -> T) -> Option<T> {
        let before = self.0.load(Acquire);
        if before & 1 != 0 {
            return None;
        }
        let result = f();
        smp_rmb();
        (self.0.load(Relaxed) == before).then_some(result)
    }
}

/// A value that is written by one writer at a time and read whole.
pub(crate) struct Snapshot<T: Copy> {
    sequence: Sequence,
    value: UnsafeCell<T>,
}

// SAFETY: The value is plain data. It is written by one thread at a time, and a reader uses it only
// if it was not written meanwhile.
unsafe impl<T: Copy + Send> Sync for Snapshot<T> {}

impl<T: Copy> Snapshot<T> {
    /// This value.
    pub(crate) const fn new(value: T) -> Self {
        Self {
            sequence: Sequence::new(),
            value: UnsafeCell::new(value),
        }
    }

    /// Another value.
    pub(crate) fn store(&self, writer: &Writer, value: T) {
        self.sequence.begin(writer);
        // SAFETY: Valid; the writer is the only one. Volatile, as readers may look.
        unsafe { self.value.get().write_volatile(value) };
        self.sequence.end(writer);
    }

    /// The value. `None`: it is being written.
    pub(crate) fn load(&self) -> Option<T> {
        // SAFETY: Valid. A value that is torn is not used.
        let read = || unsafe { self.value.get().cast::<MaybeUninit<T>>().read_volatile() };
        // SAFETY: It was not written meanwhile, so it is a value that was stored.
        self.sequence
            .read(read)
            .map(|value| unsafe { value.assume_init() })
    }
}

/// A key of a [`Hash`].
pub(crate) trait Key: Copy + PartialEq + Send + Sync + 'static {
    /// A number that differs between keys that differ, as far as possible.
    fn number(self) -> u64;
}

impl Key for u64 {
    fn number(self) -> u64 {
        self
    }
}

#[repr(C)]
struct Node<K, V> {
    rcu: Opaque<bindings::callback_head>,
    next: Atomic<*mut Node<K, V>>,
    key: K,
    value: V,
}

/// Memory for an entry.
pub(crate) struct Reservation<K, V>(KBox<MaybeUninit<Node<K, V>>>);

impl<K, V> Reservation<K, V> {
    /// Allocates it.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new() -> Result<Self> {
        Ok(Self(KBox::new_uninit(GFP_KERNEL_ACCOUNT)?))
    }
}

/// A hash table. Its values change in place or not at all.
///
/// # Invariants
///
/// The lists of `buckets` consist of nodes from a [`KBox`]. A node that was taken out is freed after
/// a grace period.
pub(crate) struct Hash<K: Key, V: Send + Sync + 'static> {
    seed: u64,
    shift: u32,
    buckets: KVVec<Atomic<*mut Node<K, V>>>,
}

// SAFETY: Readers get `&V`, and writers have a lock.
unsafe impl<K: Key, V: Send + Sync> Send for Hash<K, V> {}
// SAFETY: As above.
unsafe impl<K: Key, V: Send + Sync> Sync for Hash<K, V> {}

impl<K: Key, V: Send + Sync> Hash<K, V> {
    /// One with `1 << bits` lists; `bits` is from 1 to 20.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new(bits: u32) -> Result<Self> {
        let mut buckets = KVVec::with_capacity(1 << bits, GFP_KERNEL)?;
        for _ in 0..1 << bits {
            buckets.push(Atomic::new(core::ptr::null_mut()), GFP_KERNEL)?;
        }
        // INVARIANT: All lists are empty.
        Ok(Self {
            // By chance, so that nobody can choose keys that meet.
            seed: random::number(),
            shift: 64 - bits,
            buckets,
        })
    }

    fn bucket(&self, key: K) -> Option<&Atomic<*mut Node<K, V>>> {
        // The finalizer of MurmurHash3, with a seed before each multiplication.
        let mut mixed = (key.number() ^ self.seed).wrapping_mul(0xff51_afd7_ed55_8ccd);
        mixed = (mixed ^ (mixed >> 33) ^ self.seed).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
        self.buckets.get((mixed >> self.shift) as usize)
    }

    /// The value of a key.
    pub(crate) fn get<'a>(&'a self, key: K, _guard: &'a Guard) -> Option<&'a V> {
        let mut at = self.bucket(key)?.load(Acquire);
        while !at.is_null() {
            // SAFETY: Published whole, and not freed before the guard goes.
            let node = unsafe { &*at };
            if node.key == key {
                return Some(&node.value);
            }
            at = node.next.load(Acquire);
        }
        None
    }

    /// The value of a key, for a writer.
    pub(crate) fn get_locked<'a>(&'a self, key: K, _writer: &'a Writer) -> Option<&'a V> {
        let mut at = self.bucket(key)?.load(Relaxed);
        while !at.is_null() {
            // SAFETY: Only writers take something out.
            let node = unsafe { &*at };
            if node.key == key {
                return Some(&node.value);
            }
            at = node.next.load(Relaxed);
        }
        None
    }

    /// Adds an entry. There must be none with this key.
    pub(crate) fn insert(&self, key: K, value: V, memory: Reservation<K, V>, _writer: &mut Writer) {
        let Some(bucket) = self.bucket(key) else {
            return;
        };
        let node = KBox::write(
            memory.0,
            Node {
                rcu: Opaque::uninit(),
                next: Atomic::new(bucket.load(Relaxed)),
                key,
                value,
            },
        );
        bucket.store(KBox::into_raw(node), Release);
    }

    /// Takes an entry out.
    pub(crate) fn remove(&self, key: K, _writer: &mut Writer) {
        let Some(mut place) = self.bucket(key) else {
            return;
        };
        loop {
            let at = place.load(Relaxed);
            if at.is_null() {
                return;
            }
            // SAFETY: Only writers take something out.
            let node = unsafe { &*at };
            if node.key == key {
                place.store(node.next.load(Relaxed), Release);
                // SAFETY: It was taken out: readers alone can still have it. Its memory is from a
                // `KBox`, and its head comes first.
                unsafe { zernel_helper_free_later(node.rcu.get(), Self::free) };
                return;
            }
            place = &node.next;
        }
    }

    /// # Safety
    ///
    /// Called once readers are through, for a node that was taken out.
    unsafe extern "C" fn free(head: *mut bindings::callback_head) {
        // SAFETY: By the caller: nobody has it any more.
        drop(unsafe { KBox::from_raw(head.cast::<Node<K, V>>()) });
    }
}

impl<K: Key, V: Send + Sync> Drop for Hash<K, V> {
    fn drop(&mut self) {
        for bucket in &self.buckets {
            let mut at = bucket.load(Relaxed);
            while !at.is_null() {
                // SAFETY: By the type invariant; there are no readers, for the table itself goes.
                let node = unsafe { KBox::from_raw(at) };
                at = node.next.load(Relaxed);
            }
        }
    }
}

/// A pointer to something that readers find while it is published.
pub(crate) struct Published<T: Send + Sync + 'static>(Atomic<*mut T>);

// SAFETY: Readers get `&T`.
unsafe impl<T: Send + Sync> Sync for Published<T> {}

impl<T: Send + Sync> Published<T> {
    /// Nothing.
    pub(crate) const fn new() -> Self {
        Self(Atomic::new(core::ptr::null_mut()))
    }

    /// Calls `f` with it; `None`: there is nothing. `f` does not sleep.
    pub(crate) fn with<R>(&self, f: impl FnOnce(&T, &Guard) -> R) -> Option<R> {
        let guard = Guard::new();
        // SAFETY: Null, or published: [`Publication`] waits for this guard before it lets go.
        let found = unsafe { self.0.load(Acquire).as_ref() }?;
        Some(f(found, &guard))
    }
}

/// Keeps something published; one at a time.
pub(crate) struct Publication<T: Send + Sync + 'static> {
    place: &'static Published<T>,
    _value: Arc<T>,
}

impl<T: Send + Sync> Publication<T> {
    /// Publishes it.
    pub(crate) fn new(place: &'static Published<T>, value: Arc<T>) -> Self {
        place
            .0
            .store(core::ptr::from_ref(&*value).cast_mut(), Release);
        Self {
            place,
            _value: value,
        }
    }
}

impl<T: Send + Sync> Drop for Publication<T> {
    fn drop(&mut self) {
        self.place.0.store(core::ptr::null_mut(), Release);
        wait_for_readers();
    }
}

#[cfg(zernel_kunit)]
#[kernel::macros::kunit_tests(zernel_rcu)]
mod tests {
    use crate::glue::rcu::*;

    #[test]
    fn entries_are_found_until_they_are_taken_out() -> Result {
        let (hash, mut writer) = (Hash::<u64, u64>::new(2)?, Writer::new());
        for key in 0..64 {
            hash.insert(key, key * 3, Reservation::new()?, &mut writer);
        }
        for key in (0..64).filter(|key| key % 3 == 0) {
            hash.remove(key, &mut writer);
            // Twice is once.
            hash.remove(key, &mut writer);
        }
        let guard = Guard::new();
        for key in 0..65 {
            let expected = (key % 3 != 0 && key < 64).then_some(key * 3);
            assert_eq!(hash.get(key, &guard).copied(), expected);
            assert_eq!(hash.get_locked(key, &writer).copied(), expected);
        }
        drop(guard);
        wait_for_readers();
        Ok(())
    }

    #[test]
    fn a_value_is_dropped_after_a_grace_period_and_once() -> Result {
        let value = Arc::new(7u32, GFP_KERNEL)?;
        let (hash, mut writer) = (Hash::<u64, Arc<u32>>::new(1)?, Writer::new());
        for key in 0..4 {
            hash.insert(key, value.clone(), Reservation::new()?, &mut writer);
        }
        hash.remove(2, &mut writer);
        wait_for_readers();
        drop(hash);
        // Nobody else has it any more.
        assert!(Arc::into_unique_or_drop(value).is_some());
        Ok(())
    }

    #[test]
    fn a_read_during_a_change_is_none() {
        let (sequence, mut writer) = (Sequence::new(), Writer::new());
        sequence.change(&mut writer, |_| assert!(sequence.read(|| 1).is_none()));
        assert_eq!(sequence.read(|| 1), Some(1));
        let moved = sequence.read(|| sequence.change(&mut Writer::new(), |_| ()));
        assert!(moved.is_none());
        let snapshot = Snapshot::new((1u64, 2u8));
        snapshot.store(&writer, (3, 4));
        assert_eq!(snapshot.load(), Some((3, 4)));
    }
}

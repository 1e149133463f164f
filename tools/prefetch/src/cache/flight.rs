// SPDX-License-Identifier: MIT OR Apache-2.0
//! The duties of those who get a value, or keep one.

use std::sync::Arc;

use super::{Cache, Handle, Key, Look, Value};
use crate::{Fault, Kind};

/// The duty to get the value of an entry. Dropped before, the entry is a fault.
pub struct Flight<K: Key, V: Value>(Option<(Arc<Cache<K, V>>, Handle)>);

impl<K: Key, V: Value> std::fmt::Debug for Flight<K, V> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let handle = self.0.as_ref().map(|(_, handle)| handle);
        f.debug_tuple("Flight").field(&handle).finish()
    }
}

impl<K: Key, V: Value> Flight<K, V> {
    pub(super) fn new(cache: Arc<Cache<K, V>>, handle: Handle) -> Self {
        Self(Some((cache, handle)))
    }

    /// The value is there. It takes so many bytes.
    pub fn ready(self, value: V, bytes: u64) {
        self.settle(Look::Ready(value), bytes);
    }

    /// The value is there, but stands for as long as a fault: it tells of what may come to be.
    pub fn ready_for_now(mut self, value: V, bytes: u64) {
        if let Some((cache, handle)) = self.0.take() {
            cache.settle(handle, Look::Ready(value), bytes, true);
        }
    }

    /// Somebody needs the value. If nobody does, the entry is found by its key no more.
    pub fn is_needed(&self) -> bool {
        let is_needed = |(cache, handle): &(Arc<Cache<K, V>>, Handle)| cache.is_needed(*handle);
        self.0.as_ref().is_some_and(is_needed)
    }

    /// There is none.
    pub fn fail(self, fault: Fault) {
        self.settle(Look::Failed(fault), 0);
    }

    fn settle(mut self, look: Look<V>, bytes: u64) {
        if let Some((cache, handle)) = self.0.take() {
            cache.settle(handle, look, bytes, false);
        }
    }
}

impl<K: Key, V: Value> Drop for Flight<K, V> {
    fn drop(&mut self) {
        if let Some((cache, handle)) = self.0.take() {
            let fault = Fault::new(Kind::Cancelled, "the value was given up");
            cache.settle(handle, Look::Failed(fault), 0, false);
        }
    }
}

/// Keeps an entry.
#[derive(Debug)]
pub struct Pin<K: Key, V: Value> {
    cache: Arc<Cache<K, V>>,
    handle: Handle,
}

impl<K: Key, V: Value> Pin<K, V> {
    pub(super) fn new(cache: Arc<Cache<K, V>>, handle: Handle) -> Self {
        Self { cache, handle }
    }

    /// The entry's handle.
    pub fn handle(&self) -> Handle {
        self.handle
    }
}

impl<K: Key, V: Value> Drop for Pin<K, V> {
    fn drop(&mut self) {
        self.cache.unpin(self.handle);
    }
}

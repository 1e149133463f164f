// SPDX-License-Identifier: GPL-2.0
//! Global locks: C calls the provider ABI, threads come with their records, and files are opened,
//! without a pointer to anything.

use core::marker::PhantomData;
use kernel::prelude::*;

/// Only a module that is being loaded has one.
pub(crate) struct Loading(());

/// A lock around the state of one part of the module: `global!(REGISTRY: KBox<Registry>)` makes
/// `lock()`, and `init_lock()` for [`Locks`]. It is a mutex, or of the kind that follows the type.
macro_rules! global {
    ($name:ident: $owned:ty) => {
        $crate::glue::lock::global!($name: $owned, Mutex);
    };
    ($name:ident: $owned:ty, $kind:ident) => {
        kernel::sync::global_lock! {
            // SAFETY: `init_lock` comes before everything that locks it.
            unsafe(uninit) static $name: $kind<Option<$owned>> = None;
        }

        /// The lock.
        fn lock() -> &'static kernel::sync::GlobalLock<$name> {
            &$name
        }

        /// Makes the lock usable.
        pub(crate) fn init_lock(_: &$crate::glue::lock::Loading) {
            // SAFETY: Called once, by the one list of locks, with nothing registered yet: only
            // `Root` has a `Loading`.
            unsafe { $name.init() };
        }
    };
}
pub(crate) use global;

/// All locks of a module.
pub(crate) trait Locks {
    /// Makes each of them usable, once.
    fn init(loading: &Loading);
}

/// The module's type. Its locks are made usable before everything else.
pub(crate) struct Root<T, L>(T, PhantomData<L>);

impl<T: kernel::Module, L: Locks + Send + Sync> kernel::Module for Root<T, L> {
    fn init(module: &'static ThisModule) -> Result<Self> {
        L::init(&Loading(()));
        Ok(Self(T::init(module)?, PhantomData))
    }
}

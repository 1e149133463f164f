// SPDX-License-Identifier: MIT OR Apache-2.0
//! The contexts that the program makes and ends.

use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::{Relaxed, Release};

use cuda::Context;
use zernel_runtime::TsgsBefore;

use super::{settings, IS_USED, REQUESTS};
use crate::turn::Turn;
use crate::{contexts, sys};

/// The time before a context is made: the TSGs of this process, which no other thread adds to until
/// this ends.
#[derive(Debug)]
pub struct Making {
    before: TsgsBefore,
    turn: Turn,
}

impl Making {
    fn now() -> Self {
        let turn = Turn::take();
        Self {
            before: TsgsBefore::now(),
            turn,
        }
    }
}

/// The program is about to make a context.
pub fn making() -> Option<Making> {
    IS_USED.store(true, Release);
    sys::aside(Making::now)
}

/// The program has made a context.
pub fn made(context: Option<Context>, making: Option<Making>) {
    sys::aside(|| {
        let (before, _turn) = apart(making);
        if let Some(context) = context {
            contexts::made(context, before.unwrap_or_default(), &settings());
        }
    });
}

/// The TSGs, and the turn, which ends later.
fn apart(making: Option<Making>) -> (Option<TsgsBefore>, Option<Turn>) {
    let parts = making.map(|making| (making.before, making.turn));
    parts.unzip()
}

/// Seen references to primary contexts, by device.
static PRIMARIES: [AtomicU32; 64] = [const { AtomicU32::new(0) }; 64];

fn references(device: i32) -> Option<&'static AtomicU32> {
    PRIMARIES.get(usize::try_from(device).ok()?)
}

/// The program is about to retain the primary context of a device: the TSGs before it, unless it is
/// there.
pub fn retaining(device: i32) -> Option<Making> {
    IS_USED.store(true, Release);
    sys::aside(|| contexts::primary(device).is_none().then(Making::now)).flatten()
}

/// It has retained it.
pub fn retained(context: Option<Context>, device: i32, making: Option<Making>) {
    if let Some(references) = references(device) {
        references.fetch_add(1, Relaxed);
    }
    if making.is_none() {
        return;
    }
    sys::aside(|| {
        let (before, _turn) = apart(making);
        // Another thread may have retained it first.
        let before = before.filter(|_| contexts::primary(device).is_none());
        if let Some((context, before)) = context.zip(before) {
            contexts::retained(context, device, before, &settings());
        }
    });
}

/// The program is about to give the primary context of a device back, or to reset it.
pub fn releasing(device: i32, is_reset: bool) {
    let left = references(device).map_or(0, |references| references.load(Relaxed));
    if is_reset || left <= 1 {
        sys::aside(|| {
            if let Some(context) = contexts::primary(device) {
                REQUESTS.drop_all(sys::number(context));
            }
            contexts::end_primary(device);
        });
    }
}

/// It has given it back.
pub fn released(device: i32) {
    let one_less = |left: u32| left.checked_sub(1);
    if let Some(references) = references(device) {
        // None for a reference that was not seen.
        let _ = references.fetch_update(Relaxed, Relaxed, one_less);
    }
}

/// The program is about to destroy a context.
pub fn destroying(context: Option<Context>) {
    let Some(context) = context else {
        return;
    };
    sys::aside(|| {
        REQUESTS.drop_all(sys::number(context));
        contexts::end(context);
    });
}

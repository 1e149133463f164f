// SPDX-License-Identifier: GPL-2.0
//! Items: submitted, waited for, completed.

use super::{
    must_be_zero,
    Arg, //
};
use crate::{
    file::File,
    glue::abi,
    host,
    model::{
        measures::{
            Ns,
            Permille, //
        },
        work::{
            Condition,
            Expect,
            Granularity,
            Order,
            Work, //
        },
    },
    uapi::*, //
};
use kernel::prelude::*;

/// Items of one submission.
pub(super) const MAX_SUBMIT: u32 = 256;
/// Shortest work: an engine has at most so many completions per time.
pub(super) const MIN_WORK: u64 = 1_000;
/// Longest work or hold: a minute.
pub(super) const MAX_WORK: u64 = 60_000_000_000;

/// Completions copied at a time.
const BATCH: usize = 16;

/// The word of an item, below `words`.
fn word(item: &zernel_sim_item, words: usize) -> Result<u16> {
    if item.word as usize >= words {
        return Err(EINVAL);
    }
    u16::try_from(item.word).map_err(|_| EINVAL)
}

fn expect(item: &zernel_sim_item, words: usize) -> Result<Expect> {
    let condition = match item.condition {
        ZERNEL_SIM_COND_EQ => Condition::Equal,
        ZERNEL_SIM_COND_GE => Condition::AtLeast,
        ZERNEL_SIM_COND_NE => Condition::NotEqual,
        _ => return Err(EINVAL),
    };
    Ok(Expect {
        word: word(item, words)?,
        value: item.value,
        condition,
        rung: item.flags & ZERNEL_SIM_ITEM_RUNG != 0,
    })
}

/// The meaning of an item for a context with so many words. A field that its kind does not use must
/// be zero.
fn order(item: &zernel_sim_item, words: usize) -> Result<Order> {
    let flags = match item.kind {
        ZERNEL_SIM_ITEM_WAIT | ZERNEL_SIM_ITEM_HOLD => {
            ZERNEL_SIM_ITEM_NOTIFY | ZERNEL_SIM_ITEM_RUNG
        }
        _ => ZERNEL_SIM_ITEM_NOTIFY,
    };
    must_be_zero(&[item.flags & !flags, item.reserved])?;
    let demand = Permille(item.demand_permille);
    let duration = Ns(item.duration_ns);
    let no_word = [item.word, item.value, item.condition];
    let no_run = [item.demand_permille, item.granularity];
    let no_time = item.duration_ns == 0 && item.block_ns == 0;
    let work = match item.kind {
        ZERNEL_SIM_ITEM_WORK => {
            must_be_zero(&no_word)?;
            let granularity = match (item.granularity, item.block_ns) {
                (ZERNEL_SIM_GRANULARITY_INSTRUCTION, 0) => Granularity::Instruction,
                (ZERNEL_SIM_GRANULARITY_BLOCK, MIN_WORK..) => Granularity::Block(Ns(item.block_ns)),
                _ => return Err(EINVAL),
            };
            if item.duration_ns < MIN_WORK {
                return Err(EINVAL);
            }
            Work::Run {
                alone: duration,
                demand,
                granularity,
            }
        }
        ZERNEL_SIM_ITEM_WAIT if no_time => {
            must_be_zero(&no_run)?;
            Work::Wait(expect(item, words)?)
        }
        ZERNEL_SIM_ITEM_RELEASE if no_time => {
            must_be_zero(&no_run)?;
            must_be_zero(&[item.condition])?;
            Work::Release {
                word: word(item, words)?,
                value: item.value,
            }
        }
        ZERNEL_SIM_ITEM_HOLD if item.block_ns == 0 => {
            must_be_zero(&[item.granularity])?;
            Work::Hold {
                expect: expect(item, words)?,
                bound: duration,
                demand,
            }
        }
        ZERNEL_SIM_ITEM_FENCE if no_time => {
            must_be_zero(&no_run)?;
            must_be_zero(&no_word)?;
            Work::Fence
        }
        _ => return Err(EINVAL),
    };
    if item.duration_ns > MAX_WORK || !work.is_valid() {
        return Err(EINVAL);
    }
    Ok(Order {
        work,
        notify: item.flags & ZERNEL_SIM_ITEM_NOTIFY != 0,
        tag: item.tag,
    })
}

/// Queues items.
pub(super) fn submit(file: &File, arg: Arg) -> Result {
    let mut io: zernel_sim_submit = arg.read()?;
    must_be_zero(&[io.flags])?;
    if io.nr_items == 0 || io.nr_items > MAX_SUBMIT {
        return Err(EINVAL);
    }
    let owned = file.context(io.context)?;
    let words = owned.context.words.count();
    let size = size_of::<zernel_sim_item>();
    let first = usize::try_from(io.items).map_err(|_| EFAULT)?;
    let mut orders = KVec::with_capacity(io.nr_items as usize, GFP_KERNEL_ACCOUNT)?;
    for number in 0..io.nr_items as usize {
        let address = first.checked_add(number * size).ok_or(EFAULT)?;
        orders.push(
            order(&abi::read(address, size)?, words)?,
            GFP_KERNEL_ACCOUNT,
        )?;
    }
    // A submission cannot be taken back: see that the answer can be written.
    arg.write(&io)?;
    file.user
        .items
        .charge(io.nr_items, file.hub.inner().settings.user_items)?;
    let submitted = file.card(owned.gpu)?.submit(owned.tsg, io.channel, &orders);
    if submitted.is_err() {
        file.user.items.release(io.nr_items);
    }
    (io.last_seq, io.submitted_ns) = submitted?;
    arg.write(&io)
}

/// Waits for an item.
pub(super) fn wait(file: &File, io: &mut zernel_sim_wait) -> Result {
    let owned = file.context(io.context)?;
    let card = file.card(owned.gpu)?;
    let wait = || {
        card.wait(
            owned.tsg,
            &owned.context,
            io.channel,
            io.seq,
            io.deadline_ns,
        )
    };
    let stats = host::waiting(wait)?;
    io.completed_seq = stats.completed;
    io.completed_ns = stats.completed_at.0;
    Ok(())
}

/// Looks at the words of a context.
pub(super) fn doorbell(file: &File, io: &zernel_sim_doorbell) -> Result {
    must_be_zero(&[io.reserved])?;
    let owned = file.context(io.context)?;
    file.card(owned.gpu)?
        .with(|model, now, sink| model.doorbell(now, owned.tsg, sink))?;
    Ok(())
}

/// Takes completions.
pub(super) fn completions(file: &File, arg: Arg) -> Result {
    let mut io: zernel_sim_completions = arg.read()?;
    if io.capacity == 0 {
        return Err(EINVAL);
    }
    let size = size_of::<zernel_sim_completion>();
    let first = usize::try_from(io.buffer).map_err(|_| EFAULT)?;
    let mut batch = KVec::from_elem(zernel_sim_completion::default(), BATCH, GFP_KERNEL_ACCOUNT)?;
    let _reader = file.reader.lock();
    let mut taken = 0usize;
    while taken < io.capacity as usize {
        let room = BATCH.min(io.capacity as usize - taken);
        let slots = batch.get_mut(..room).ok_or(EINVAL)?;
        let count = file.inbox.with(|records| records.peek(taken, slots));
        if count == 0 {
            break;
        }
        for completion in slots.iter().take(count) {
            let address = taken
                .checked_mul(size)
                .and_then(|offset| first.checked_add(offset));
            abi::write(address.ok_or(EFAULT)?, size, completion)?;
            taken += 1;
        }
    }
    io.count = taken as u32;
    io.dropped = file.inbox.with(|records| records.dropped());
    arg.write(&io)?;
    file.inbox.with(|records| records.consume(taken));
    Ok(())
}

#[cfg(zernel_kunit)]
#[kernel::macros::kunit_tests(zernel_sim_items)]
mod tests {
    use crate::glue::sim::words::WORDS;
    use crate::ioctl::submit::*;

    fn item(kind: u32) -> zernel_sim_item {
        zernel_sim_item {
            kind,
            ..Default::default()
        }
    }

    fn work() -> zernel_sim_item {
        zernel_sim_item {
            duration_ns: 5_000,
            demand_permille: 1,
            ..item(ZERNEL_SIM_ITEM_WORK)
        }
    }

    #[test]
    fn every_kind_is_understood() {
        assert!(order(&work(), WORDS).is_ok());
        let block = zernel_sim_item {
            granularity: ZERNEL_SIM_GRANULARITY_BLOCK,
            block_ns: 5_000,
            ..work()
        };
        assert!(order(&block, WORDS).is_ok());
        let hold = zernel_sim_item {
            kind: ZERNEL_SIM_ITEM_HOLD,
            word: 1_023,
            value: 7,
            ..work()
        };
        assert!(order(&hold, WORDS).is_ok());
        for kind in [
            ZERNEL_SIM_ITEM_WAIT,
            ZERNEL_SIM_ITEM_RELEASE,
            ZERNEL_SIM_ITEM_FENCE,
        ] {
            assert!(order(&item(kind), WORDS).is_ok());
        }
        for waits in [item(ZERNEL_SIM_ITEM_WAIT), hold] {
            for flags in [0, ZERNEL_SIM_ITEM_RUNG] {
                let order = order(&zernel_sim_item { flags, ..waits }, WORDS);
                assert!(order.is_ok_and(|order| order.work.is_rung() == (flags != 0)));
            }
        }
    }

    #[test]
    fn what_a_kind_does_not_use_must_be_zero() {
        let bad = [
            item(0),
            item(6),
            zernel_sim_item { flags: 2, ..work() },
            zernel_sim_item {
                flags: 2,
                ..item(ZERNEL_SIM_ITEM_RELEASE)
            },
            zernel_sim_item {
                flags: 2,
                ..item(ZERNEL_SIM_ITEM_FENCE)
            },
            zernel_sim_item {
                flags: 4,
                ..item(ZERNEL_SIM_ITEM_WAIT)
            },
            zernel_sim_item {
                reserved: 1,
                ..work()
            },
            zernel_sim_item { word: 1, ..work() },
            zernel_sim_item { value: 1, ..work() },
            zernel_sim_item {
                condition: 1,
                ..work()
            },
            zernel_sim_item {
                kind: ZERNEL_SIM_ITEM_WAIT,
                ..work()
            },
            zernel_sim_item {
                kind: ZERNEL_SIM_ITEM_FENCE,
                ..work()
            },
            zernel_sim_item {
                condition: 1,
                ..item(ZERNEL_SIM_ITEM_RELEASE)
            },
            zernel_sim_item {
                value: 1,
                ..item(ZERNEL_SIM_ITEM_FENCE)
            },
            zernel_sim_item {
                block_ns: 1_000,
                ..work()
            },
        ];
        for item in &bad {
            assert_eq!(order(item, WORDS).err(), Some(EINVAL));
        }
    }

    #[test]
    fn values_out_of_range_are_refused() {
        let bad = [
            zernel_sim_item {
                duration_ns: MIN_WORK - 1,
                ..work()
            },
            zernel_sim_item {
                duration_ns: MAX_WORK + 1,
                ..work()
            },
            zernel_sim_item {
                demand_permille: 0,
                ..work()
            },
            zernel_sim_item {
                demand_permille: 1_001,
                ..work()
            },
            zernel_sim_item {
                granularity: 2,
                ..work()
            },
            zernel_sim_item {
                granularity: 1,
                block_ns: 999,
                ..work()
            },
            zernel_sim_item {
                granularity: 1,
                block_ns: 5_001,
                ..work()
            },
            zernel_sim_item {
                word: 1_024,
                ..item(ZERNEL_SIM_ITEM_WAIT)
            },
            zernel_sim_item {
                condition: 3,
                ..item(ZERNEL_SIM_ITEM_WAIT)
            },
        ];
        for item in &bad {
            assert_eq!(order(item, WORDS).err(), Some(EINVAL));
        }
    }
}

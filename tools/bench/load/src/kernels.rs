// SPDX-License-Identifier: MIT OR Apache-2.0
//! The kernels of a request as work of the software GPU.

use libzernel::sim::Item;
use zernel_workload::Piece;

/// An item for each kernel.
pub fn items(pieces: &[Piece]) -> Vec<Item> {
    let mut items = Vec::new();
    for piece in pieces {
        let each = piece.time / piece.count;
        let rest = piece.time - each * (piece.count - 1);
        for number in 1..=piece.count {
            let time = if number == piece.count { rest } else { each };
            let item = Item::work(time).demand_permille(piece.share_permille);
            items.push(match piece.block {
                Some(block) => item.block_granularity(block.min(time)),
                None => item,
            });
        }
    }
    items
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn each_kernel_is_an_item_and_none_of_their_time_is_lost() {
        let us = Duration::from_micros;
        let pieces = [
            Piece {
                time: Duration::from_nanos(10_001),
                count: 2,
                share_permille: 400,
                block: None,
            },
            Piece {
                time: us(30),
                count: 1,
                share_permille: 1_000,
                block: Some(us(40)),
            },
        ];
        let expected = [
            Item::work(Duration::from_nanos(5_000)).demand_permille(400),
            Item::work(Duration::from_nanos(5_001)).demand_permille(400),
            // The software GPU takes no block that is longer than its kernel.
            Item::work(us(30)).block_granularity(us(30)),
        ];
        assert_eq!(format!("{:?}", items(&pieces)), format!("{expected:?}"));
    }
}

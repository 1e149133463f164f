// SPDX-License-Identifier: MIT OR Apache-2.0
//! Loads rows of an array in a random order: `load FOLDER ARRAY ROWS COLUMNS`.

use std::sync::Arc;

use object_store::local::LocalFileSystem;
use tokio::runtime::Handle;
use zernel_prefetch::loader::{Loader, Settings};
use zernel_prefetch::order::{Order, Position};
use zernel_prefetch::prefetcher::{Options, Prefetcher, Sample};
use zernel_prefetch::region::Region;
use zernel_prefetch::source::{Retries, Source};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let usage = "usage: load FOLDER ARRAY ROWS COLUMNS";
    let [folder, array, rows, columns] = &std::env::args().skip(1).collect::<Vec<_>>()[..] else {
        return Err(usage.into());
    };
    let (array, columns): (Arc<str>, u64) = (array.as_str().into(), columns.parse()?);
    let store = LocalFileSystem::new_with_prefix(folder)?;
    let source = Source::new(Arc::new(store), 64, Retries::default());
    let prefetcher = Prefetcher::new(source, Options::default(), Handle::current())?;
    let order = Order {
        samples: rows.parse()?,
        batch: 16,
        seed: Some(1),
        rank: 0,
        ranks: 1,
    };
    let epoch = order.batches()? as usize;
    let row = move |at: u64| Sample {
        array: Arc::clone(&array),
        region: Region::new(&[at, 0], &[1, columns]),
    };
    let batches = order.from(Position::default())?.take(epoch);
    let batches = batches.map(move |batch| batch.into_iter().map(&row).collect());
    let mut loader = Loader::new(&prefetcher, Settings::default(), batches)?;
    let mut bytes = 0;
    while let Some(loaded) = loader.next().await {
        bytes += loaded?.data.iter().map(Vec::len).sum::<usize>();
    }
    println!("{epoch} batches, {bytes} bytes");
    Ok(())
}

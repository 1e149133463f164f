// SPDX-License-Identifier: MIT OR Apache-2.0
//! Chunks that are decoded together: by a back-end those whose layout is known, and by the threads of
//! this process all others, and those that the back-end gives back.

use std::fmt::Debug;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::Arc;

use bytes::Bytes;
use tokio::sync::oneshot;

use crate::array::ArrayMeta;
use crate::decode::{guarded, Packed, SUBSTREAMS};
use crate::decoders;
use crate::layout::Layout;
use crate::probe::Probes;
use crate::sync::{AtomicU64, Ordering};
use crate::{Fault, Kind};

/// Bounds of decoding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Waves {
    /// The most chunks that are decoded, or wait to be copied, at once. 0 stands for 512; with a
    /// back-end, 65,535 at most.
    pub max_chunks: u32,
    /// The most substreams of a chunk. 0 stands for 4,096. A back-end takes chunks of
    /// [`BACKEND_SUBSTREAMS`] at most.
    pub max_substreams: u32,
}

/// The default of [`Waves::max_chunks`].
const CHUNKS: u32 = 512;

/// The most chunks of a wave of a back-end.
pub const BACKEND_CHUNKS: u32 = 65_535;

/// The most substreams of a chunk that a back-end takes.
pub const BACKEND_SUBSTREAMS: u32 = 32;

impl Waves {
    /// Chunks that are decoded at once.
    pub(crate) fn chunks(self) -> usize {
        match self.max_chunks {
            0 => CHUNKS as usize,
            most => most as usize,
        }
    }

    fn substreams(self) -> u32 {
        match self.max_substreams {
            0 => SUBSTREAMS,
            most => most,
        }
    }
}

/// A chunk for a back-end.
#[derive(Debug, Clone, Copy)]
pub struct Chunk<'a> {
    /// The layout of its bytes.
    pub layout: &'a Layout,
    /// The chunk, packed.
    pub bytes: &'a [u8],
}

/// The size that a wave is expected to have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Hint {
    /// Its chunks.
    pub chunks: u32,
    /// Substreams of each.
    pub substreams: u32,
    /// Bytes of each, unpacked.
    pub bytes: u64,
}

/// A decoder of many chunks at once. Its calls come from threads that decode, one after another for
/// each batch that is read.
pub trait Backend: Debug + Send + Sync {
    /// Unpacks the pieces of each chunk, and puts them together. `None`, or less than there are
    /// chunks: the chunk is to be decoded on the CPU.
    fn unpack(&self, wave: &[Chunk<'_>]) -> Vec<Option<Vec<u8>>>;

    /// Gets room for a wave like this one, so that it waits for none when it comes.
    fn expect(&self, hint: Hint);
}

/// Chunks that were decoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// By the back-end.
    pub backend: u64,
    /// On the CPU, after the back-end had them.
    pub returned: u64,
    /// On the CPU alone.
    pub cpu: u64,
}

#[derive(Debug, Default)]
struct Counters {
    backend: AtomicU64,
    returned: AtomicU64,
    cpu: AtomicU64,
}

/// The way in which chunks are decoded. Copies share their counts, and what they know of arrays.
#[derive(Debug, Clone, Default)]
pub struct Decoding {
    waves: Waves,
    pub(crate) backend: Option<Arc<dyn Backend>>,
    pub(crate) probes: Arc<Probes>,
    counters: Arc<Counters>,
}

impl From<Waves> for Decoding {
    fn from(waves: Waves) -> Self {
        Self {
            waves,
            ..Self::default()
        }
    }
}

impl Decoding {
    /// By a back-end.
    pub fn by(backend: Arc<dyn Backend>) -> Self {
        Self {
            backend: Some(backend),
            ..Self::default()
        }
    }

    /// The same within these bounds.
    ///
    /// # Errors
    ///
    /// [`Kind::Misuse`]: more chunks than a wave of a back-end may have.
    pub fn within(&self, waves: Waves) -> Result<Self, Fault> {
        if self.backend.is_some() && waves.max_chunks > BACKEND_CHUNKS {
            let count = waves.max_chunks;
            let text =
                format!("a wave of {count} chunks: a back-end takes {BACKEND_CHUNKS} at most");
            return Err(Fault::new(Kind::Misuse, text));
        }
        Ok(Self {
            waves,
            ..self.clone()
        })
    }

    /// It has a back-end.
    pub fn has_backend(&self) -> bool {
        self.backend.is_some()
    }

    /// Its bounds.
    pub fn waves(&self) -> Waves {
        self.waves
    }

    /// Chunks that were decoded.
    pub fn counts(&self) -> Counts {
        let counters = &self.counters;
        Counts {
            backend: counters.backend.load(Ordering::Relaxed),
            returned: counters.returned.load(Ordering::Relaxed),
            cpu: counters.cpu.load(Ordering::Relaxed),
        }
    }

    /// Has chunks be decoded; each is sent to one who asked for it.
    pub(crate) fn start(&self, jobs: Vec<Job>) {
        let Some(backend) = &self.backend else {
            for job in jobs {
                self.decode(job, None);
            }
            return;
        };
        let mut wave = Vec::new();
        for job in jobs {
            match job.layout() {
                Some(layout) => wave.push((job, layout)),
                None => self.decode(job, None),
            }
        }
        if wave.is_empty() {
            return;
        }
        let (backend, decoding) = (Arc::clone(backend), self.clone());
        decoders::spawn(move || {
            let chunks: Vec<_> = wave
                .iter()
                .map(|(job, layout)| Chunk {
                    layout,
                    bytes: &job.bytes,
                })
                .collect();
            // Without it, all of them are decoded here.
            let unpacked = catch_unwind(AssertUnwindSafe(|| backend.unpack(&chunks)));
            let mut unpacked = unpacked.unwrap_or_default().into_iter();
            for (job, layout) in wave {
                let unpacked = unpacked.next().flatten();
                decoding.decode(job, Some((layout, unpacked)));
            }
        });
    }

    /// Decodes a chunk, or the rest of it.
    fn decode(&self, job: Job, tried: Option<(Layout, Option<Vec<u8>>)>) {
        let (substreams, counters) = (self.waves.substreams(), Arc::clone(&self.counters));
        decoders::spawn(move || {
            // A panic that left this closure would end the process.
            let decoded = guarded(&job.key, || {
                let (mut count, sharding) = (&counters.cpu, job.sharding());
                if let Some((layout, unpacked)) = tried {
                    count = &counters.returned;
                    let unpacked = unpacked.filter(|bytes| bytes.len() == layout.bytes());
                    if let Some(bytes) = unpacked.and_then(|bytes| layout.finish(bytes)) {
                        let bytes = Packed::Undone(bytes);
                        let rest = job.array.decode_by(sharding, &job.key, bytes, substreams);
                        if rest.is_ok() {
                            counters.backend.fetch_add(1, Ordering::Relaxed);
                            return rest;
                        }
                    }
                }
                count.fetch_add(1, Ordering::Relaxed);
                let bytes = Packed::Whole(&job.bytes);
                job.array.decode_by(sharding, &job.key, bytes, substreams)
            });
            // One who went away needs none.
            let _needed = job.send.send(decoded);
        });
    }
}

/// A chunk that is to be decoded.
#[derive(Debug)]
pub(crate) struct Job {
    pub(crate) array: Arc<ArrayMeta>,
    pub(crate) key: String,
    pub(crate) is_of_shard: bool,
    pub(crate) bytes: Bytes,
    pub(crate) send: oneshot::Sender<Result<Vec<u8>, Fault>>,
}

impl Job {
    fn sharding(&self) -> Option<&crate::array::Sharding> {
        self.array.sharding().filter(|_| self.is_of_shard)
    }

    /// Its layout, if a back-end takes it.
    fn layout(&self) -> Option<Layout> {
        let (sharding, bytes) = (self.sharding(), &self.bytes);
        let layout = || Ok(self.array.layout(sharding, bytes, BACKEND_SUBSTREAMS));
        guarded(&self.key, layout).ok()?
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! A store in memory that takes its time, keeps a log and fails when it is told to; and arrays in it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::stream::BoxStream;
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{
    CopyOptions, Error, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta,
    ObjectStore, ObjectStoreExt, PutMultipartOptions, PutOptions, PutPayload, PutResult, Result,
};
use tokio::runtime::Handle;
use zarrs::array::codec::array_to_bytes::sharding::ShardingCodecBuilder;
use zarrs::array::codec::{BytesToBytesCodecTraits, Codec};
use zarrs::array::{ArrayBuilder, DataType, FillValue};
use zarrs::array_subset::ArraySubset;
use zarrs::metadata::v3::MetadataV3;
use zarrs::storage::store::MemoryStore;
use zarrs::storage::{ListableStorageTraits, ReadableStorageTraits};
use zernel_prefetch::loader::Settings;
use zernel_prefetch::prefetcher::{Options, Prefetcher, Sample};
use zernel_prefetch::region::Region;
use zernel_prefetch::source::{Retries, Source};

/// Runs a test whose time goes on when nothing is left to do.
pub fn in_simulated_time<T>(test: impl std::future::Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .expect("a runtime")
        .block_on(test)
}

/// The time of a request.
pub const ROUND_TRIP: Duration = Duration::from_millis(50);

/// Settings of a loader that nobody else sees. One that is seen writes its counters every second: a clock
/// that is paused would go on to that while chunks are decoded.
pub fn unseen() -> Settings {
    Settings {
        published: false,
        ..Settings::default()
    }
}

/// A fault of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ill {
    Denied,
    /// It is there, but shorter than it says.
    Shorter,
    /// Its bytes are others.
    Other,
}

/// The names that a store gives to versions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tags {
    Strong,
    /// No condition matches them.
    Weak,
    None,
}

#[derive(Debug, Default)]
pub struct Store {
    tags: Mutex<Option<Tags>>,
    pub inner: InMemory,
    log: Mutex<Vec<String>>,
    ill: Mutex<HashMap<String, Ill>>,
    stalls: Mutex<HashMap<String, Duration>>,
    /// Requests of now, and the most that there were.
    at_once: Mutex<(usize, usize)>,
}

/// A request of now.
struct Now<'a>(&'a Store);

impl Drop for Now<'_> {
    fn drop(&mut self) {
        self.0.at_once.lock().expect("a count").0 -= 1;
    }
}

impl std::fmt::Display for Store {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a slow store")
    }
}

impl Store {
    pub fn log(&self) -> Vec<String> {
        std::mem::take(&mut *self.log.lock().expect("a log"))
    }

    pub fn tags(&self, tags: Tags) {
        *self.tags.lock().expect("tags") = Some(tags);
    }

    pub fn fails(&self, path: &str, ill: Ill) {
        self.ill
            .lock()
            .expect("faults")
            .insert(path.to_owned(), ill);
    }

    /// An object has no fault any more.
    pub fn heals(&self, path: &str) {
        self.ill.lock().expect("faults").remove(path);
    }

    /// The next request for an object takes so much more.
    pub fn stalls_once(&self, path: &str, time: Duration) {
        let mut stalls = self.stalls.lock().expect("stalls");
        stalls.insert(path.to_owned(), time);
    }

    /// The most requests that there were at once.
    pub fn at_once(&self) -> usize {
        self.at_once.lock().expect("a count").1
    }

    /// Writes an array of consecutive numbers with shards, at a path.
    pub async fn write(&self, path: &str, shape: &[u64], shard: &[u64], chunk: &[u64]) {
        self.write_packed(path, shape, shard, chunk, None).await;
    }

    /// The same, with chunks that a codec has packed: its description.
    pub async fn write_packed(
        &self,
        path: &str,
        shape: &[u64],
        shard: &[u64],
        chunk: &[u64],
        codec: Option<&str>,
    ) {
        let memory = Arc::new(MemoryStore::new());
        let sides = |shape: &[u64]| shape.to_vec().try_into().expect("no side of 0");
        let mut builder = ArrayBuilder::new(
            shape.to_vec(),
            shard.to_vec(),
            DataType::UInt32,
            FillValue::from(7_u32),
        );
        let packers: Vec<_> = codec.map(packer).into_iter().collect();
        if chunk != shard {
            let mut codec = ShardingCodecBuilder::new(sides(chunk));
            codec.bytes_to_bytes_codecs(packers);
            builder.array_to_bytes_codec(codec.build_arc());
        } else {
            builder.bytes_to_bytes_codecs(packers);
        }
        let array = builder
            .build(Arc::clone(&memory), &format!("/{path}"))
            .expect("an array");
        array.store_metadata().expect("memory");
        let count: u64 = shape.iter().product();
        let numbers: Vec<u32> = (1..=count as u32).collect();
        let whole = ArraySubset::new_with_shape(shape.to_vec());
        array
            .store_array_subset_elements(&whole, &numbers)
            .expect("memory");
        for key in memory.list().expect("memory") {
            let bytes = memory.get(&key).expect("memory").expect("a key of it");
            let place = Path::from(key.as_str());
            self.inner.put(&place, bytes.into()).await.expect("memory");
        }
    }
}

/// A codec by its description.
fn packer(text: &str) -> Arc<dyn BytesToBytesCodecTraits> {
    let metadata: MetadataV3 = serde_json::from_str(text).expect("a description");
    let aliases = zarrs::config::global_config();
    match Codec::from_metadata(&metadata, aliases.codec_aliases_v3()) {
        Ok(Codec::BytesToBytes(codec)) => codec,
        other => panic!("{text}: {other:?}"),
    }
}

#[async_trait::async_trait]
impl ObjectStore for Store {
    async fn put_opts(&self, _: &Path, _: PutPayload, _: PutOptions) -> Result<PutResult> {
        unimplemented!("nothing is written")
    }

    async fn put_multipart_opts(
        &self,
        _: &Path,
        _: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        unimplemented!("nothing is written")
    }

    async fn get_opts(&self, place: &Path, options: GetOptions) -> Result<GetResult> {
        self.log.lock().expect("a log").push(place.to_string());
        let _now = {
            let (now, most) = &mut *self.at_once.lock().expect("a count");
            *now += 1;
            *most = (*most).max(*now);
            Now(self)
        };
        let stall = self.stalls.lock().expect("stalls").remove(place.as_ref());
        tokio::time::sleep(ROUND_TRIP + stall.unwrap_or_default()).await;
        let ill = self
            .ill
            .lock()
            .expect("faults")
            .get(place.as_ref())
            .copied();
        match ill {
            None => {
                let tags = *self.tags.lock().expect("tags");
                let is_asked = options.if_match.is_some();
                if tags == Some(Tags::Weak) && is_asked {
                    return Err(Error::Precondition {
                        path: place.to_string(),
                        source: "a weak tag".into(),
                    });
                }
                let mut result = self.inner.get_opts(place, options).await?;
                let tag = &mut result.meta.e_tag;
                match tags.unwrap_or(Tags::Strong) {
                    Tags::Strong => {}
                    Tags::Weak => *tag = tag.take().map(|tag| format!("W/\"{tag}\"")),
                    Tags::None => *tag = None,
                }
                Ok(result)
            }
            Some(Ill::Denied) => Err(Error::PermissionDenied {
                path: place.to_string(),
                source: "denied".into(),
            }),
            Some(ill) => {
                let result = self.inner.get_opts(place, options).await?;
                let (meta, range) = (result.meta.clone(), result.range.clone());
                let mut bytes = result.bytes().await?.to_vec();
                match ill {
                    Ill::Shorter => drop(bytes.pop()),
                    _ => bytes[0] ^= 1,
                }
                let store = InMemory::new();
                store.put(place, bytes.into()).await?;
                let other = store.get(place).await?;
                Ok(GetResult {
                    meta,
                    range,
                    ..other
                })
            }
        }
    }

    fn delete_stream(
        &self,
        _: BoxStream<'static, Result<Path>>,
    ) -> BoxStream<'static, Result<Path>> {
        unimplemented!("nothing is written")
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.inner.list(prefix)
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.inner.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, _: &Path, _: &Path, _: CopyOptions) -> Result<()> {
        unimplemented!("nothing is written")
    }
}

/// A prefetcher for a store, on the runtime of the test.
pub fn prefetcher(store: &Arc<Store>, in_flight: usize, options: Options) -> Prefetcher {
    let store: Arc<dyn ObjectStore> = Arc::<Store>::clone(store);
    let source = Source::new(store, in_flight, Retries::default());
    Prefetcher::new(source, options, Handle::current()).expect("floors that fit")
}

pub fn sample(array: &str, start: &[u64], shape: &[u64]) -> Sample {
    Sample {
        array: array.into(),
        region: Region::new(start, shape),
    }
}

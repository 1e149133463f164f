// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reads boxes of arrays: `read FOLDER`, `read URL`, or `read s3://BUCKET`, whose place and keys the
//! variables of AWS tell; `consolidated` behind it asks the group there for arrays first. A line of the input is a batch, a list of
//! `[ARRAY, START, SHAPE]` in JSON. For each, a line of the output is `fault` and its sentence, or `ok`
//! and the bytes of each sample; the samples follow.

use std::error::Error;
use std::io::Write as _;
use std::sync::Arc;

use object_store::aws::AmazonS3Builder;
use object_store::http::HttpBuilder;
use object_store::local::LocalFileSystem;
use object_store::ObjectStore;
use tokio::runtime::Handle;
use zernel_prefetch::loader::{Loader, Settings};
use zernel_prefetch::prefetcher::{Options, Prefetcher, Sample};
use zernel_prefetch::region::Region;
use zernel_prefetch::source::{Connector, Retries, Source};

fn store(place: &str) -> Result<Arc<dyn ObjectStore>, Box<dyn Error>> {
    let no_retries = object_store::RetryConfig {
        max_retries: 0,
        ..Default::default()
    };
    if let Some(bucket) = place.strip_prefix("s3://") {
        let builder = AmazonS3Builder::from_env()
            .with_bucket_name(bucket)
            .with_http_connector(Connector)
            .with_retry(no_retries);
        return Ok(Arc::new(builder.build()?));
    }
    if !place.starts_with("http://") && !place.starts_with("https://") {
        return Ok(Arc::new(LocalFileSystem::new_with_prefix(place)?));
    }
    let options = object_store::ClientOptions::new().with_allow_http(true);
    let builder = HttpBuilder::new()
        .with_url(place)
        .with_client_options(options)
        .with_http_connector(Connector)
        .with_retry(no_retries);
    Ok(Arc::new(builder.build()?))
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let usage = "usage: read FOLDER|URL|s3://BUCKET [consolidated], with batches in the input";
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    let arguments: Vec<_> = arguments.iter().map(String::as_str).collect();
    let (place, consolidated) = match arguments[..] {
        [place] => (place, false),
        [place, "consolidated"] => (place, true),
        _ => return Err(usage.into()),
    };
    let options = Options {
        consolidated,
        ..Options::default()
    };
    let mut batches = Vec::new();
    for line in std::io::stdin().lines() {
        let batch: Vec<(String, Vec<u64>, Vec<u64>)> = serde_json::from_str(&line?)?;
        let sample = |(array, start, shape): (String, Vec<u64>, Vec<u64>)| Sample {
            array: array.into(),
            region: Region::new(&start, &shape),
        };
        batches.push(batch.into_iter().map(sample).collect());
    }
    let source = Source::new(store(place)?, 64, Retries::default());
    let prefetcher = Prefetcher::new(source, options, Handle::current())?;
    let mut loader = Loader::new(&prefetcher, Settings::default(), batches.into_iter())?;
    let mut output = std::io::stdout().lock();
    while let Some(loaded) = loader.next().await {
        let loaded = match loaded {
            Ok(loaded) => loaded,
            Err(fault) => {
                let text = fault.to_string().replace(['\n', '\r'], " ");
                writeln!(output, "fault {text}")?;
                continue;
            }
        };
        let sizes = loaded.data.iter().map(|data| format!(" {}", data.len()));
        writeln!(output, "ok{}", sizes.collect::<String>())?;
        for data in loaded.data {
            output.write_all(&data)?;
        }
    }
    Ok(())
}

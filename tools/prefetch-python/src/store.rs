// SPDX-License-Identifier: MIT OR Apache-2.0
//! Stores by their URLs: a folder, HTTP, or S3.

use std::collections::BTreeMap;
use std::sync::Arc;

use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey};
use object_store::http::HttpBuilder;
use object_store::local::LocalFileSystem;
use object_store::prefix::PrefixStore;
use object_store::{ClientConfigKey, ObjectStore, RetryConfig};
use url::Url;
use zernel_prefetch::source::Connector;
use zernel_prefetch::{Fault, Kind};

/// Options of a store, by the names of `object_store`.
pub(crate) type StorageOptions = BTreeMap<String, String>;

fn misuse(text: impl std::fmt::Display) -> Fault {
    Fault::new(Kind::Misuse, text.to_string())
}

/// The prefetcher tries again itself.
fn no_retries() -> RetryConfig {
    RetryConfig {
        max_retries: 0,
        ..RetryConfig::default()
    }
}

fn unknown(key: &str) -> Fault {
    misuse(format!(
        "storage_options: there is no option {key:?} for this store"
    ))
}

/// Opens a store. Nothing is sent to it.
///
/// # Errors
///
/// [`Kind::Missing`]: there is no such folder; [`Kind::Denied`]: it may not be looked at;
/// [`Kind::Misuse`]: a URL or an option that means nothing.
pub(crate) fn open(place: &str, options: &StorageOptions) -> Result<Arc<dyn ObjectStore>, Fault> {
    let Some((scheme, _)) = place.split_once("://") else {
        return folder(place, options);
    };
    let url = Url::parse(place).map_err(|error| misuse(format!("{place}: {error}")))?;
    match scheme.to_ascii_lowercase().as_str() {
        "file" => {
            let path = url.to_file_path();
            let path = path.map_err(|()| misuse(format!("{place} names no folder here")))?;
            folder(&path.to_string_lossy(), options)
        }
        "http" | "https" => http(&url, options),
        "s3" | "s3a" => s3(&url, options),
        other => Err(misuse(format!(
            "{other}:// is none of file, http, https and s3"
        ))),
    }
}

fn folder(path: &str, options: &StorageOptions) -> Result<Arc<dyn ObjectStore>, Fault> {
    if let Some(key) = options.keys().next() {
        return Err(unknown(key));
    }
    // Its error would not tell the two apart.
    let there = std::fs::metadata(path).map_err(|error| {
        let kind = match error.kind() {
            std::io::ErrorKind::PermissionDenied => Kind::Denied,
            _ => Kind::Missing,
        };
        Fault::new(kind, format!("{path}: {error}"))
    })?;
    if !there.is_dir() {
        return Err(misuse(format!("{path} is no folder")));
    }
    let store = LocalFileSystem::new_with_prefix(path).map_err(misuse)?;
    Ok(Arc::new(store))
}

fn http(url: &Url, options: &StorageOptions) -> Result<Arc<dyn ObjectStore>, Fault> {
    let mut builder = HttpBuilder::new()
        .with_url(url.as_str())
        .with_retry(no_retries())
        .with_http_connector(Connector);
    if url.scheme() == "http" {
        // The URL says so.
        builder = builder.with_config(ClientConfigKey::AllowHttp, "true");
    }
    for (key, value) in options {
        let known: ClientConfigKey = key.parse().map_err(|_| unknown(key))?;
        builder = builder.with_config(known, value);
    }
    Ok(Arc::new(builder.build().map_err(misuse)?))
}

fn s3(url: &Url, options: &StorageOptions) -> Result<Arc<dyn ObjectStore>, Fault> {
    // The environment first (AWS_ACCESS_KEY_ID, ...): options of the program stand.
    let mut builder = AmazonS3Builder::from_env()
        .with_url(url.as_str())
        .with_retry(no_retries())
        .with_http_connector(Connector);
    for (key, value) in options {
        let known: AmazonS3ConfigKey = key.parse().map_err(|_| unknown(key))?;
        builder = builder.with_config(known, value);
    }
    let store = builder.build().map_err(misuse)?;
    Ok(match url.path().trim_matches('/') {
        "" => Arc::new(store),
        prefix => Arc::new(PrefixStore::new(store, prefix)),
    })
}

/// Parts of the names of options that say where a store is.
const PLACES: [&str; 4] = ["bucket", "endpoint", "region", "virtual_hosted"];

/// The name of a store among those that a local disk keeps reads of: the whole URL, with its user, its
/// password and what is behind a `?`, and all that options or the environment say of its place. The disk
/// writes a digest of it.
pub(crate) fn name(place: &str, options: &StorageOptions) -> String {
    let is_place = |name: &str| {
        let name = name.to_ascii_lowercase();
        PLACES.iter().any(|part| name.contains(part))
    };
    // A value that is no text is none to a store, either.
    let environment = std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .filter(|(name, _)| name.starts_with("AWS_"));
    let mut all: BTreeMap<_, _> = environment.collect();
    all.extend(options.clone());
    let places = all.into_iter().filter(|(name, _)| is_place(name));
    // Quoted, no value reads as another option.
    places.fold(format!("{place:?}"), |name, (key, value)| {
        format!("{name} {key}={value:?}")
    })
}

/// The URL without a password or what is behind a `?`, for people.
pub(crate) fn shown(place: &str) -> String {
    let Some(mut url) = place
        .contains("://")
        .then(|| Url::parse(place).ok())
        .flatten()
    else {
        return place.to_owned();
    };
    // Neither can fail for a URL with a host; one without has no password.
    let _has_host = url.set_password(None).and_then(|()| url.set_username(""));
    url.set_query(None);
    url.to_string()
}

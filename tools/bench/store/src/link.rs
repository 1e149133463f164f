// SPDX-License-Identifier: MIT OR Apache-2.0
//! The bandwidth that all connections share: bytes go one behind the other.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::{sleep_until, Instant};

/// A link of so many bytes a second.
#[derive(Debug)]
pub struct Link {
    bandwidth: Option<u64>,
    /// It is busy until then.
    free: Mutex<Option<Instant>>,
}

impl Link {
    /// A link; `None`: it takes no time.
    pub fn new(bandwidth: Option<u64>) -> Self {
        Self {
            bandwidth,
            free: Mutex::new(None),
        }
    }

    /// Waits until bytes have passed, behind those that came before.
    pub async fn pass(&self, bytes: u64) {
        let Some(bandwidth) = self.bandwidth else {
            return;
        };
        let takes = Duration::from_secs_f64(bytes as f64 / bandwidth as f64);
        let end = {
            let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
            let now = Instant::now();
            let begin = free.map_or(now, |free| free.max(now));
            *free.insert(begin + takes)
        };
        sleep_until(end).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn all_share_a_link() {
        let link = Link::new(Some(1_000));
        let begin = Instant::now();
        tokio::join!(link.pass(500), link.pass(1_000), async {
            tokio::time::sleep(Duration::from_millis(100)).await;
            link.pass(500).await;
        });
        assert_eq!(begin.elapsed(), Duration::from_secs(2));
        // Time in which nothing is sent is lost.
        tokio::time::sleep(Duration::from_secs(5)).await;
        link.pass(1_000).await;
        assert_eq!(begin.elapsed(), Duration::from_secs(8));
        let begin = Instant::now();
        Link::new(None).pass(u64::MAX).await;
        assert_eq!(begin.elapsed(), Duration::ZERO);
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! A program with contexts on the software GPU, be it one of zernel or of NVIDIA's driver.

use anyhow::{bail, Context as _, Result};
use libzernel::sim::{Attachment, Context, ContextSpec, EngineChoice, Sim};

use crate::abi::{control, engine};
use crate::{Handle, Runtime, Spec};

/// A program. Where the GPUs are those of NVIDIA's driver, it is a client of that, which makes the
/// TSGs; else the software GPU does.
#[derive(Debug)]
pub struct Program {
    sim: Sim,
    gpu: u32,
    client: Option<Runtime>,
}

impl Program {
    /// A program that uses one GPU.
    ///
    /// Errors: [`libzernel::Error`], or those of the driver's client.
    pub fn open(sim: &Sim, gpu: u32) -> Result<Self> {
        let client = match sim.version()?.attach {
            true => {
                let client = Runtime::with(Spec::on(gpu as usize));
                Some(client.context("become a client of NVIDIA's driver")?)
            }
            false => None,
        };
        Ok(Self {
            sim: sim.clone(),
            gpu,
            client,
        })
    }

    /// The client of NVIDIA's driver, if the GPUs are of that.
    pub fn client(&self) -> Option<&Runtime> {
        self.client.as_ref()
    }

    /// Makes a context, which lives as long as the program.
    pub fn context(&self, spec: &ContextSpec<'_>) -> Result<Context> {
        Ok(self.context_with_tsg(spec)?.0)
    }

    /// Makes a context, and tells the client's handle of its TSG, if there is a client.
    pub fn context_with_tsg(&self, spec: &ContextSpec<'_>) -> Result<(Context, Option<Handle>)> {
        if spec.gpu != self.gpu {
            bail!("GPU {} of a program that uses GPU {}", spec.gpu, self.gpu);
        }
        match &self.client {
            None => Ok((self.sim.create_context(spec)?, None)),
            Some(client) => {
                let (context, tsg) = self.attach(client, spec)?;
                Ok((context, Some(tsg)))
            }
        }
    }

    fn attach(&self, client: &Runtime, spec: &ContextSpec<'_>) -> Result<(Context, Handle)> {
        let tsg = client.tsg(engine_of(spec.engine)).context("make a TSG")?;
        for _ in 0..spec.channels {
            client.channel(tsg).context("make a channel")?;
        }
        let context = self.sim.attach(&Attachment {
            client: client.client.0,
            object: tsg.0,
            share_words: spec.share_words,
        })?;
        client
            .control(tsg, control::SCHEDULE, &mut [1u8, 0, 0])
            .context("have it scheduled")?;
        Ok((context, tsg))
    }
}

/// The driver's number of an engine: of the copy engines, any is the first.
fn engine_of(choice: EngineChoice) -> u32 {
    match choice {
        EngineChoice::Compute => engine::GR0,
        EngineChoice::AnyCopy => engine::COPY0,
        EngineChoice::Copy(number) => engine::COPY0 + number.saturating_sub(1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn engines_are_the_driver_s() {
        assert_eq!(engine_of(EngineChoice::Compute), 1);
        assert_eq!(engine_of(EngineChoice::AnyCopy), 9);
        assert_eq!(engine_of(EngineChoice::Copy(1)), 9);
        assert_eq!(engine_of(EngineChoice::Copy(3)), 11);
    }
}

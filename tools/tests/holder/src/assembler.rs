// SPDX-License-Identifier: MIT OR Apache-2.0
//! NVIDIA's assembler and disassembler: the code of the holder for a target.

use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use object::{Object, ObjectSection};
use serde::{Deserialize, Serialize};

/// The variable that names the folder which `scripts/assemblers` prints.
pub const FOLDER: &str = "ZERNEL_ASSEMBLERS";

/// A release of CUDA.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Release {
    /// Its major version, which is the name of its folder, too.
    pub name: &'static str,
    /// The targets that are asked of it, as in `sm_70`.
    pub targets: &'static [u32],
}

/// CUDA 12 knows GPUs that 13 has forgotten, and the other way round.
pub const RELEASES: [Release; 2] = [
    Release {
        name: "12",
        targets: &[70, 72, 75, 80, 86, 87, 89, 90],
    },
    Release {
        name: "13",
        targets: &[75, 80, 86, 87, 88, 89, 90, 100, 103, 107, 110, 120, 121],
    },
];

/// A failure to get the code of a target.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Nobody has said where the assemblers are.
    #[error("{FOLDER} is not set: scripts/holder fetches the assemblers and runs these tests")]
    NoFolder,
    /// A program does not run, or a file cannot be read or written.
    #[error("{0}: {1}")]
    Io(PathBuf, std::io::Error),
    /// A program has ended with a message.
    #[error("{0} failed: {1}")]
    Refused(PathBuf, String),
    /// The result is none.
    #[error("the assembler has made no cubin for sm_{0}")]
    NoCubin(u32),
}

/// A result of both programs.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Assembled {
    /// The text, target and versions that it was made of.
    made_of: (String, u32, String),
    /// `ptxas -v`: registers, stack, spills.
    pub report: String,
    /// `nvdisasm`: the code.
    pub listing: String,
    /// Names and sizes of the sections of the cubin, in bytes.
    pub sections: Vec<(String, u64)>,
}

/// The programs, and a folder for their results.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Assemblers {
    folder: PathBuf,
}

impl Assembled {
    /// The target that it was made for, as in `sm_70`.
    pub fn target(&self) -> u32 {
        self.made_of.1
    }
}

impl Assemblers {
    /// Those that the environment names.
    ///
    /// # Errors
    ///
    /// It names none.
    pub fn find() -> Result<Self, Error> {
        let folder = std::env::var_os(FOLDER).ok_or(Error::NoFolder)?.into();
        Ok(Self { folder })
    }

    /// Those of a folder.
    pub fn at(folder: &Path) -> Self {
        let folder = folder.into();
        Self { folder }
    }

    fn program(&self, release: &Release, name: &str) -> PathBuf {
        self.folder.join(release.name).join(name)
    }

    /// The version of the assembler, as in `release 13.5, V13.5.37`.
    ///
    /// # Errors
    ///
    /// The folder is not as `scripts/assemblers` leaves it.
    pub fn version(&self, release: &Release) -> Result<String, Error> {
        let path = self.program(release, "ptxas.version");
        match fs::read_to_string(&path) {
            Ok(text) => Ok(text.trim().into()),
            Err(error) => Err(Error::Io(path, error)),
        }
    }

    /// The targets from sm_70 on that the assembler knows, without features of single families.
    ///
    /// # Errors
    ///
    /// It does not run.
    pub fn known(&self, release: &Release) -> Result<Vec<u32>, Error> {
        let help = run(&self.program(release, "ptxas"), &["--help"])?;
        let mut found: Vec<_> = help
            .split('\'')
            .filter_map(|word| word.strip_prefix("sm_")?.parse().ok())
            .filter(|&target| target >= 70)
            .collect();
        found.sort_unstable();
        found.dedup();
        Ok(found)
    }

    /// The code of a text for a target: that of an earlier call with the same text and the same
    /// programs, if there was one.
    ///
    /// # Errors
    ///
    /// A program does not run, or refuses the text.
    pub fn assemble(&self, release: &Release, target: u32, text: &str) -> Result<Assembled, Error> {
        let made_of = (text.to_owned(), target, self.version(release)?);
        let mut hasher = DefaultHasher::new();
        made_of.hash(&mut hasher);
        let name = format!("{:016x}.json", hasher.finish());
        let kept = self.folder.join("listings").join(name);
        let before = fs::read(&kept).ok();
        let before = before.and_then(|bytes| serde_json::from_slice::<Assembled>(&bytes).ok());
        if let Some(before) = before.filter(|before| before.made_of == made_of) {
            return Ok(before);
        }
        let fresh = self.assemble_now(release, made_of)?;
        keep(&kept, &fresh).map_err(|error| Error::Io(kept, error))?;
        Ok(fresh)
    }

    fn assemble_now(
        &self,
        release: &Release,
        made_of: (String, u32, String),
    ) -> Result<Assembled, Error> {
        let io = |error| Error::Io(std::env::temp_dir(), error);
        let folder = tempfile::tempdir().map_err(io)?;
        let source = folder.path().join("holder.ptx");
        let cubin = folder.path().join("holder.cubin");
        fs::write(&source, &made_of.0).map_err(io)?;
        let target = made_of.1;
        let (source, output) = (source.to_string_lossy(), cubin.to_string_lossy());
        let architecture = format!("sm_{target}");
        let arguments = ["-v", "-arch", &architecture, &source, "-o", &output];
        let report = run(&self.program(release, "ptxas"), &arguments)?;
        let listing = run(&self.program(release, "nvdisasm"), &["-c", &output])?;
        let bytes = fs::read(&cubin).unwrap_or_default();
        let sections = sections(&bytes).ok_or(Error::NoCubin(target))?;
        Ok(Assembled {
            made_of,
            report,
            listing,
            sections,
        })
    }
}

fn sections(cubin: &[u8]) -> Option<Vec<(String, u64)>> {
    let file = object::File::parse(cubin).ok()?;
    let named = |section: object::Section<'_, '_>| {
        let name = section.name().ok()?.to_owned();
        Some((name, section.size()))
    };
    Some(file.sections().filter_map(named).collect())
}

/// Both of its outputs.
fn run(program: &Path, arguments: &[&str]) -> Result<String, Error> {
    let output = Command::new(program).args(arguments).output();
    let Output {
        status,
        stdout,
        stderr,
    } = output.map_err(|error| Error::Io(program.into(), error))?;
    let said = [stdout, stderr].concat();
    let said = String::from_utf8_lossy(&said).into_owned();
    match status.success() {
        true => Ok(said),
        false => Err(Error::Refused(program.into(), said)),
    }
}

/// As a whole, or not at all: other tests read it.
fn keep(path: &Path, assembled: &Assembled) -> std::io::Result<()> {
    let folder = path.parent().unwrap_or(Path::new("."));
    let file = tempfile::NamedTempFile::new_in(folder)?;
    serde_json::to_writer(&file, assembled)?;
    file.persist(path)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;
    use std::sync::{Mutex, MutexGuard, PoisonError};

    /// A folder whose programs are scripts. One test at a time has one: a file that is open for
    /// writing in a child of another test cannot be executed.
    fn scripts(ptxas: &str) -> (tempfile::TempDir, MutexGuard<'static, ()>) {
        static ONE: Mutex<()> = Mutex::new(());
        let one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
        let folder = tempfile::tempdir().unwrap();
        let release = folder.path().join(RELEASES[0].name);
        fs::create_dir(&release).unwrap();
        fs::create_dir(folder.path().join("listings")).unwrap();
        fs::write(release.join("ptxas.version"), "release 1, V1.0\n").unwrap();
        for name in ["ptxas", "nvdisasm"] {
            let program = release.join(name);
            fs::write(&program, format!("#!/bin/sh\n{ptxas}\n")).unwrap();
            fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        }
        (folder, one)
    }

    #[test]
    fn a_text_that_is_refused_is_an_error_with_the_words_of_the_program() {
        let (folder, _one) = scripts("echo 'line 3: no such thing' >&2; exit 1");
        let assemblers = Assemblers::at(folder.path());
        let error = assemblers.assemble(&RELEASES[0], 70, "x").unwrap_err();
        assert!(
            error.to_string().contains("line 3: no such thing"),
            "{error}"
        );
        let kept = fs::read_dir(folder.path().join("listings")).unwrap();
        assert_eq!(kept.count(), 0);
    }

    #[test]
    fn a_result_that_is_no_cubin_is_an_error() {
        let (folder, _one) = scripts("[ $# = 2 ] || echo text >\"$6\"");
        let assemblers = Assemblers::at(folder.path());
        let error = assemblers.assemble(&RELEASES[0], 70, "x").unwrap_err();
        assert!(matches!(error, Error::NoCubin(70)), "{error}");
    }

    #[test]
    fn a_missing_program_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let assemblers = Assemblers::at(folder.path());
        let error = assemblers.version(&RELEASES[1]).unwrap_err();
        assert!(error.to_string().contains("13/ptxas.version"), "{error}");
        let error = assemblers.known(&RELEASES[1]).unwrap_err();
        assert!(error.to_string().contains("13/ptxas"), "{error}");
    }

    #[test]
    fn a_result_is_kept_for_the_same_text_alone() {
        let (folder, _one) = scripts("exit 1");
        let assemblers = Assemblers::at(folder.path());
        let version = assemblers.version(&RELEASES[0]).unwrap();
        let made = Assembled {
            made_of: ("x".into(), 70, version),
            report: String::new(),
            listing: "code".into(),
            sections: Vec::new(),
        };
        let mut hasher = DefaultHasher::new();
        made.made_of.hash(&mut hasher);
        let name = format!("{:016x}.json", hasher.finish());
        let kept = folder.path().join("listings").join(name);
        keep(&kept, &made).unwrap();
        let found = assemblers.assemble(&RELEASES[0], 70, "x").unwrap();
        assert_eq!(found, made);
        assert!(assemblers.assemble(&RELEASES[0], 70, "y").is_err());
        assert!(assemblers.assemble(&RELEASES[0], 72, "x").is_err());
        // A file of another text, as if two had the same name.
        let other = ("z".into(), 70, String::new());
        let false_friend = Assembled {
            made_of: other,
            ..made
        };
        keep(&kept, &false_friend).unwrap();
        assert!(assemblers.assemble(&RELEASES[0], 70, "x").is_err());
    }

    #[test]
    fn targets_are_read_from_the_help() {
        let (folder, _one) =
            scripts("echo \"'sm_90','sm_52','sm_90a','compute_90','sm_100','sm_90'\"");
        let known = Assemblers::at(folder.path()).known(&RELEASES[0]);
        assert_eq!(known.unwrap(), [90, 100]);
    }
}

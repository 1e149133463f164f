// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reads of a text of PTX the kernels with the sizes of their parameters, and the variables.

use crate::status::{Result, Status};

/// A parameter of a kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Parameter {
    /// Of its first byte, in the memory of all parameters.
    pub(crate) offset: usize,
    /// In bytes.
    pub(crate) size: usize,
}

/// A kernel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) name: String,
    pub(crate) parameters: Vec<Parameter>,
}

/// A variable in the memory of the GPU.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Variable {
    pub(crate) name: String,
    /// In bytes.
    pub(crate) size: u64,
}

/// The content of a text.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Text {
    pub(crate) entries: Vec<Entry>,
    pub(crate) variables: Vec<Variable>,
}

impl Text {
    /// Reads a text.
    ///
    /// # Errors
    ///
    /// [`Status::INVALID_IMAGE`] for something else, [`Status::INVALID_PTX`] without a version or a
    /// target, with a kernel that has no body, or a parameter without a type.
    pub(crate) fn parse(text: &str) -> Result<Self> {
        let text = without_comments(text);
        if !text.trim_start().starts_with(".version") {
            return Err(Status::INVALID_IMAGE);
        }
        if !text.contains(".target") {
            return Err(Status::INVALID_PTX);
        }
        let mut found = Self::default();
        let mut rest = text.as_str();
        while let Some(at) = rest.find(".entry") {
            let (before, after) = (&rest[..at], &rest[at + ".entry".len()..]);
            found.variables.extend(variables(before));
            let (entry, behind) = entry(after).ok_or(Status::INVALID_PTX)?;
            found.entries.push(entry);
            rest = behind;
        }
        found.variables.extend(variables(rest));
        Ok(found)
    }
}

/// The text with blanks in the place of comments.
fn without_comments(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('/') {
        plain.push_str(&rest[..at]);
        let comment = &rest[at..];
        let end = match comment.as_bytes().get(1) {
            Some(b'/') => comment.find('\n').unwrap_or(comment.len()),
            Some(b'*') => comment.find("*/").map_or(comment.len(), |end| end + 2),
            _ => {
                plain.push('/');
                1
            }
        };
        plain.push(' ');
        rest = &comment[end..];
    }
    plain.push_str(rest);
    plain
}

fn is_of_name(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || matches!(letter, '_' | '$' | '%')
}

/// A name at the begin of a text, and the text behind it.
fn name(text: &str) -> Option<(&str, &str)> {
    let text = text.trim_start();
    let end = text
        .find(|letter| !is_of_name(letter))
        .unwrap_or(text.len());
    (end > 0).then(|| text.split_at(end))
}

/// The kernel whose name begins a text, and the text from its body on.
fn entry(text: &str) -> Option<(Entry, &str)> {
    let (name, rest) = name(text)?;
    let rest = rest.trim_start();
    let (list, rest) = match rest.strip_prefix('(') {
        Some(list) => list.split_once(')')?,
        None => ("", rest),
    };
    let body = rest.find('{')?;
    let entry = Entry {
        name: name.to_owned(),
        parameters: parameters(list)?,
    };
    Some((entry, &rest[body..]))
}

fn parameters(list: &str) -> Option<Vec<Parameter>> {
    let mut found = Vec::new();
    let mut end = 0_usize;
    for text in list
        .split(',')
        .map(str::trim)
        .filter(|text| !text.is_empty())
    {
        let (size, align) = size_and_alignment(text)?;
        let offset = end.checked_next_multiple_of(align)?;
        end = offset.checked_add(size)?;
        found.push(Parameter { offset, size });
    }
    Some(found)
}

/// The bytes of a type such as `.u64`.
fn size_of_type(word: &str) -> Option<usize> {
    let bits = word.strip_prefix('.')?.strip_prefix(['b', 'u', 's', 'f'])?;
    match bits {
        "8" => Some(1),
        "16" => Some(2),
        "32" => Some(4),
        "64" => Some(8),
        _ => None,
    }
}

/// Bytes and alignment of a declaration such as `.param .align 8 .b8 name[16]`.
fn size_and_alignment(text: &str) -> Option<(usize, usize)> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let kind = words.iter().position(|word| size_of_type(word).is_some())?;
    let unit = size_of_type(words[kind])?;
    let align = words[..kind].iter().position(|&word| word == ".align");
    let align = align.and_then(|at| words.get(at + 1)?.parse::<usize>().ok());
    let align = align.filter(|align| align.is_power_of_two());
    let count = match text.split_once('[') {
        Some((_, count)) => count.split_once(']')?.0.trim().parse::<usize>().ok()?,
        None => 1,
    };
    Some((unit.checked_mul(count)?, align.unwrap_or(unit)))
}

/// Variables that a part of a text declares outside of kernels.
fn variables(text: &str) -> impl Iterator<Item = Variable> + '_ {
    let declared = text.split(['{', '}', ';']).filter_map(|part| {
        let at = part.find(".global")?;
        // In code it is a part of an instruction such as ld.global.
        let is_alone = part[..at]
            .chars()
            .next_back()
            .is_none_or(char::is_whitespace);
        is_alone.then(|| &part[at + ".global".len()..])
    });
    declared.filter_map(|part| {
        let part = part.split('=').next()?;
        let (size, _) = size_and_alignment(part)?;
        let word = part
            .split_whitespace()
            .rfind(|word| !word.starts_with(['.', '[']))?;
        let (name, _) = name(word)?;
        Some(Variable {
            name: name.to_owned(),
            size: size as u64,
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "// .entry no(\n/* .entry nor() */ .version 6.4\n.target sm_70\n\
        .address_size 64\n.visible .global .align 4 .u32 count[3];\n\
        .global .f64 scale = 0d3FF0000000000000;\n\
        .visible .entry one(.param .u64 a, .param .u32 b,\n\t.param .align 8 .b8 c[12],\n\
        .param .u64 .ptr .global .align 4 d)\n.maxntid 32, 1, 1\n\
        { ld.global.u32 %r, [%a]; @p bra X; }\n.entry two\n{ ret; }\n.entry three() { ret; }";

    #[test]
    fn kernels_parameters_and_variables_are_found() {
        let found = Text::parse(TEXT).unwrap();
        let names: Vec<_> = found
            .entries
            .iter()
            .map(|entry| entry.name.as_str())
            .collect();
        assert_eq!(names, ["one", "two", "three"]);
        let at: Vec<_> = found.entries[0]
            .parameters
            .iter()
            .map(|p| (p.offset, p.size))
            .collect();
        assert_eq!(at, [(0, 8), (8, 4), (16, 12), (32, 8)]);
        assert!(found.entries[1].parameters.is_empty() && found.entries[2].parameters.is_empty());
        let variables: Vec<_> = found
            .variables
            .iter()
            .map(|v| (v.name.as_str(), v.size))
            .collect();
        assert_eq!(variables, [("count", 12), ("scale", 8)]);
    }

    #[test]
    fn other_texts_are_refused() {
        let head = ".version 6.4\n.target sm_70\n";
        let with = |text: &str| Text::parse(&format!("{head}{text}"));
        assert_eq!(Text::parse("\u{7f}ELF"), Err(Status::INVALID_IMAGE));
        assert_eq!(Text::parse(""), Err(Status::INVALID_IMAGE));
        assert_eq!(Text::parse(".version 6.4"), Err(Status::INVALID_PTX));
        for text in [
            ".entry",
            ".entry a(",
            ".entry a()",
            ".entry a(.param a) { }",
        ] {
            assert_eq!(with(text), Err(Status::INVALID_PTX), "{text}");
        }
        let huge = format!(".entry a(.param .b64 x[{}]) {{ }}", usize::MAX);
        assert_eq!(with(&huge), Err(Status::INVALID_PTX));
        assert_eq!(with(""), Ok(Text::default()));
    }

    #[test]
    fn a_comment_without_end_ends_the_text() {
        assert_eq!(without_comments("a / b /* c"), "a /  b  ");
        assert_eq!(without_comments("a // b\nc"), "a  \nc");
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! Instructions: the few that the holder is made of. Any other is an error, as is a modifier that
//! is not known.

pub mod operand;

use crate::listing::{Line, Listing};
use operand::{Address, Place, Predicate, Register, Sign, Source};

/// Bits of a value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Width {
    /// 32 bits, in one register.
    Word,
    /// 64 bits, in two.
    Pair,
}

/// A comparison of two numbers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Relation {
    /// Less.
    Less,
    /// Less or equal.
    LessOrEqual,
    /// Equal.
    Equal,
    /// Not equal.
    NotEqual,
    /// Greater or equal.
    GreaterOrEqual,
    /// Greater.
    Greater,
}

/// The order of an access of memory, and those who see it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Scope {
    /// `STRONG.SYS`: by all, the CPU included; never from a cache of one SM.
    System,
    /// Any other.
    Narrower,
}

/// The effect of an instruction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Effect {
    /// None on values: padding, and registers of convergence, which nothing reads.
    Nothing,
    /// A copy of a value.
    Move {
        to: Option<Register>,
        width: Width,
        from: Source,
    },
    /// The sum of three values and a carry.
    Add {
        to: Option<Register>,
        width: Width,
        of: [Source; 3],
        carry_in: Option<Predicate>,
        carry_out: Option<Register>,
    },
    /// Comparison, and one more condition. `lower` is the result of that of the lower halves: then
    /// these are the upper halves.
    Compare {
        to: Option<Register>,
        width: Width,
        relation: Relation,
        signed: bool,
        of: [Source; 2],
        and: Predicate,
        lower: Option<Predicate>,
    },
    /// The first of two values if a predicate is true, else the second.
    Select {
        to: Option<Register>,
        of: [Source; 2],
        first: Predicate,
    },
    /// The less of two signed values of 64 bits if a predicate is true, else the greater.
    Extreme {
        to: Option<Register>,
        of: [Source; 2],
        least: Predicate,
    },
    /// The number of the thread in its block.
    Thread { to: Option<Register> },
    /// The nanoseconds of the GPU's timer, all 64 bits in one reading.
    Timer { to: Option<Register> },
    /// A load of 32 bits.
    Load {
        to: Option<Register>,
        from: Address,
        scope: Scope,
    },
    /// A store of 32 bits.
    Store {
        to: Address,
        value: Source,
        scope: Scope,
    },
    /// Earlier accesses are performed before later ones, as others see it.
    Fence { scope: Scope },
    /// Forgets the copies of memory in the SM's cache.
    Invalidate,
    /// Waits, for twice these nanoseconds at most.
    Sleep(u32),
    /// Goes on at the instruction of an index.
    Branch(usize),
    /// The thread ends.
    Exit,
}

/// An instruction, and the predicate without which it has no effect.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Instruction {
    pub guard: Predicate,
    pub effect: Effect,
}

/// The instructions that are not known, as text.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("not known: {0}")]
pub struct Unknown(pub String);

/// The instructions of a function.
///
/// # Errors
///
/// Some are not known.
pub fn decode(listing: &Listing) -> Result<Vec<Instruction>, Unknown> {
    let one = |line: &Line| {
        let guard = match line.guard.strip_prefix('@') {
            Some(guard) => Predicate::parse(guard),
            None => Some(Predicate::TRUE),
        };
        let found = guard.and_then(|guard| {
            let effect = effect(line, guard, listing)?;
            Some(Instruction { guard, effect })
        });
        found.ok_or_else(|| line.to_string())
    };
    let mut known = Vec::new();
    let mut unknown = Vec::new();
    for line in &listing.lines {
        match one(line) {
            Ok(instruction) => known.push(instruction),
            Err(text) => unknown.push(text),
        }
    }
    match unknown.is_empty() {
        true => Ok(known),
        false => Err(Unknown(unknown.join("; "))),
    }
}

fn effect(line: &Line, guard: Predicate, listing: &Listing) -> Option<Effect> {
    let operands: Vec<&str> = line.operands.iter().map(String::as_str).collect();
    let never = guard.of.is_none() && guard.negated;
    Some(match (line.operation.as_str(), &operands[..]) {
        ("NOP" | "ERRBAR" | "CGAERRBAR", []) => Effect::Nothing,
        // Registers of convergence get their first values.
        ("BMOV.32" | "BMOV.32.CLEAR", [to, _]) if to.starts_with('B') => Effect::Nothing,
        // An instruction that a defect of early GPUs wants; it never has an effect.
        ("SHFL.IDX", _) if never => Effect::Nothing,
        ("MEMBAR.ALL.SYS" | "MEMBAR.SC.SYS", []) => Effect::Fence {
            scope: Scope::System,
        },
        ("MEMBAR.ALL.CTA" | "MEMBAR.ALL.GPU" | "MEMBAR.SC.GPU", []) => Effect::Fence {
            scope: Scope::Narrower,
        },
        ("CCTL.IVALL", []) => Effect::Invalidate,
        ("EXIT", []) => Effect::Exit,
        ("NANOSLEEP" | "NANOSLEEP.WARP", [time]) => match Source::parse(time)?.place {
            Place::Number(time) => Effect::Sleep(time),
            _ => return None,
        },
        ("BRA", [to]) => {
            let label = to.strip_prefix("`(")?.strip_suffix(')')?;
            Effect::Branch(*listing.labels.get(label)?)
        }
        ("S2R", [to, "SR_TID.X"]) => Effect::Thread {
            to: Register::parse_written(to)?,
        },
        ("CS2R" | "CS2UR", [to, "SR_GLOBALTIMERLO"]) => Effect::Timer {
            to: Register::parse_written(to)?,
        },
        ("STG.E.STRONG.SYS" | "STG.E.STRONG.GPU" | "STG.E", [to, value]) => Effect::Store {
            to: Address::parse(to)?,
            value: Source::parse(value)?,
            scope: scope(&line.operation),
        },
        ("LDG.E.STRONG.SYS" | "LDG.E.STRONG.GPU" | "LDG.E", [to, from]) => Effect::Load {
            to: Register::parse_written(to)?,
            from: Address::parse(from)?,
            scope: scope(&line.operation),
        },
        ("SEL", [to, first, second, predicate]) => Effect::Select {
            to: Register::parse_written(to)?,
            of: [Source::parse(first)?, Source::parse(second)?],
            first: Predicate::parse(predicate)?,
        },
        ("IMNMX.S64", ["PT", "PT", to, first, second, least, "!PT"]) => Effect::Extreme {
            to: Register::parse_written(to)?,
            of: [Source::parse(first)?, Source::parse(second)?],
            least: Predicate::parse(least)?,
        },
        (operation, operands) if operation.starts_with("ISETP.") => {
            compare(operation.strip_prefix("ISETP.")?, operands)?
        }
        (operation, operands) => copy(operation, operands).or_else(|| add(operation, operands))?,
    })
}

fn scope(operation: &str) -> Scope {
    match operation.ends_with(".STRONG.SYS") {
        true => Scope::System,
        false => Scope::Narrower,
    }
}

fn copy(operation: &str, operands: &[&str]) -> Option<Effect> {
    let (width, to, from) = match (operation, operands) {
        ("MOV" | "UMOV" | "IMAD.MOV.U32" | "IMAD.U32", [to, rest @ .., from]) => {
            // Those of a multiplication: 0 · 0 + the value.
            let factors = if operation.starts_with("IMAD") { 2 } else { 0 };
            let zero = rest.iter().all(|factor| *factor == "RZ");
            if rest.len() != factors || !zero {
                return None;
            }
            (Width::Word, to, from)
        }
        ("LDC" | "ULDC" | "LDCU", [to, from]) => (Width::Word, to, from),
        ("LDC.64" | "ULDC.64" | "LDCU.64" | "MOV.64" | "UMOV.64", [to, from]) => {
            (Width::Pair, to, from)
        }
        _ => return None,
    };
    let from = Source::parse(from)?;
    if operation.contains("LDC") && !matches!(from.place, Place::Constant(_)) {
        return None;
    }
    Some(Effect::Move {
        to: Register::parse_written(to)?,
        width,
        from,
    })
}

const ZERO: Source = Source {
    place: Place::Zero,
    sign: Sign::Plain,
};

fn add(operation: &str, operands: &[&str]) -> Option<Effect> {
    let (&to, rest) = operands.split_first()?;
    let to = Register::parse_written(to)?;
    let width = match operation.ends_with(".64") {
        true => Width::Pair,
        false => Width::Word,
    };
    let (of, carry_in, carry_out) = match (operation, rest) {
        // The factor 1: a sum.
        ("IMAD.IADD", [a, "0x1", b]) | ("IADD" | "IADD.64" | "VIADD", [a, b]) => {
            let of = [Source::parse(a)?, Source::parse(b)?, ZERO];
            (of, None, None)
        }
        ("IMAD.X", [a, "0x1", b, carry]) => {
            let of = [Source::parse(a)?, Source::parse(b)?, ZERO];
            (of, Some(Predicate::parse(carry)?), None)
        }
        ("IADD3.X", [a, b, c, carry, "!PT"] | ["PT", "PT", a, b, c, carry, "!PT"]) => (
            [Source::parse(a)?, Source::parse(b)?, Source::parse(c)?],
            Some(Predicate::parse(carry)?),
            None,
        ),
        ("IADD3" | "UIADD3.64", [outs @ .., a, b, c]) => {
            let of = [Source::parse(a)?, Source::parse(b)?, Source::parse(c)?];
            let outs = outs.iter().map(|out| Predicate::parse_written(out));
            let outs = outs.collect::<Option<Vec<_>>>()?;
            let carry = match outs[..] {
                [] => None,
                [carry] | [carry, None] => carry,
                _ => return None,
            };
            // Three values can carry more than one bit.
            if carry.is_some() && (of[2].place != Place::Zero || width == Width::Pair) {
                return None;
            }
            (of, None, carry)
        }
        _ => return None,
    };
    Some(Effect::Add {
        to,
        width,
        of,
        carry_in,
        carry_out,
    })
}

fn compare(modifiers: &str, operands: &[&str]) -> Option<Effect> {
    let mut parts = modifiers.split('.').peekable();
    let relation = match parts.next()? {
        "LT" => Relation::Less,
        "LE" => Relation::LessOrEqual,
        "EQ" => Relation::Equal,
        "NE" => Relation::NotEqual,
        "GE" => Relation::GreaterOrEqual,
        "GT" => Relation::Greater,
        _ => return None,
    };
    let (width, signed) = match parts.next_if(|part| *part != "AND") {
        None => (Width::Word, true),
        Some("U32") => (Width::Word, false),
        Some("S64") => (Width::Pair, true),
        Some("U64") => (Width::Pair, false),
        Some(_) => return None,
    };
    let upper = match (parts.next()?, parts.next(), parts.next()) {
        ("AND", None, None) => false,
        ("AND", Some("EX"), None) => width == Width::Word,
        _ => return None,
    };
    let [to, "PT", a, b, and, lower @ ..] = operands else {
        return None;
    };
    let lower = match (upper, lower) {
        (false, []) => None,
        (true, [lower]) => Some(Predicate::parse(lower)?),
        _ => return None,
    };
    Some(Effect::Compare {
        to: Predicate::parse_written(to)?,
        width,
        relation,
        signed,
        of: [Source::parse(a)?, Source::parse(b)?],
        and: Predicate::parse(and)?,
        lower,
    })
}

#[cfg(test)]
mod tests;

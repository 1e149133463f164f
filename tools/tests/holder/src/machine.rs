// SPDX-License-Identifier: MIT OR Apache-2.0
//! A thread that executes instructions, up to the next one that others can see or that sees others.

use crate::code::operand::{Address, File, Place, Predicate, Register, Sign, Source};
use crate::code::{Effect, Instruction, Relation, Scope, Width};

/// Code and parameters of a thread.
#[derive(Clone, Debug)]
pub struct Program {
    /// Its instructions.
    pub code: Vec<Instruction>,
    /// Where its parameters begin in the bank of constants.
    pub parameters: u16,
    /// The content of UR2 at its begin, if it may be read: code for sm_87 looks there for a mark
    /// that an earlier run has set the registers of convergence.
    pub mark: Option<u32>,
}

/// The register of [`Program::mark`].
const MARK: Register = Register {
    file: File::Warp,
    index: 2,
};

/// The parameters of the holder, as the bank of constants has them: in words.
pub type Parameters = [u32; 8];

/// Parameters of the holder.
pub fn parameters(held: u64, release: u64, number: u32, bound: u64) -> Parameters {
    let halves = |pair: u64| [pair as u32, (pair >> 32) as u32];
    let [held, release, bound] = [held, release, bound].map(halves);
    [
        held[0], held[1], release[0], release[1], number, 0, bound[0], bound[1],
    ]
}

/// The content of a register.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
enum Value {
    /// Nothing has been written to it.
    #[default]
    Unset,
    /// A word of the driver: the top of the stack, or a descriptor of memory. Not for sums.
    Driver,
    /// Known.
    Word(u32),
}

/// The state of a thread.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Machine {
    at: usize,
    thread: u32,
    parameters: Parameters,
    registers: [[Value; Register::COUNT as usize]; 2],
    predicates: [[Option<bool>; 7]; 2],
}

/// A step that others see, or that sees others.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Step {
    /// It loads a word.
    Load { address: u64, scope: Scope },
    /// It stores a word.
    Store {
        address: u64,
        value: u32,
        scope: Scope,
    },
    /// It reads the timer.
    Timer,
    /// It forgets copies of memory.
    Invalidate,
    /// It sleeps.
    Sleep,
    /// It has ended.
    End,
}

/// A way in which code is wrong by itself.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, thiserror::Error)]
pub enum Fault {
    /// A register or predicate is read that has no value, or one of the driver.
    #[error("instruction {0} reads a value that nothing has given")]
    Unset(usize),
    /// A constant that is no parameter, or lies across two.
    #[error("instruction {0} reads a constant that is no parameter")]
    Constant(usize),
    /// It goes on behind its last instruction.
    #[error("it goes on behind its end")]
    Beyond,
    /// It goes on and on without a step that anybody sees.
    #[error("it spins without a look at anything")]
    Spins,
}

/// More instructions than that between two steps are a loop.
const MOST: usize = 200;

impl Machine {
    /// At the first instruction.
    pub fn new(program: &Program, thread: u32, parameters: Parameters) -> Self {
        let mut new = Self {
            at: 0,
            thread,
            parameters,
            registers: Default::default(),
            predicates: Default::default(),
        };
        if let Some(mark) = program.mark {
            *new.register(MARK) = Value::Word(mark);
        }
        new
    }

    /// Executes instructions up to the next step, which it returns and which has not been taken.
    ///
    /// # Errors
    ///
    /// The code is wrong by itself.
    pub fn next(&mut self, program: &Program) -> Result<Step, Fault> {
        for _ in 0..MOST {
            let instruction = program.code.get(self.at).ok_or(Fault::Beyond)?;
            if self.test(instruction.guard)? {
                if let Some(step) = self.step(&instruction.effect)? {
                    return Ok(step);
                }
                self.execute(&instruction.effect, program)?;
            } else {
                self.at += 1;
            }
        }
        Err(Fault::Spins)
    }

    /// Takes the step that [`Machine::next`] has returned; a load or the timer gives `value`.
    ///
    /// # Errors
    ///
    /// The code is wrong by itself.
    pub fn take(&mut self, program: &Program, value: u64) -> Result<(), Fault> {
        let instruction = program.code.get(self.at).ok_or(Fault::Beyond)?;
        match instruction.effect {
            Effect::Load { to, .. } => self.write(to, Width::Word, value)?,
            Effect::Timer { to } => self.write(to, Width::Pair, value)?,
            Effect::Exit => return Ok(()),
            _ => {}
        }
        self.at += 1;
        Ok(())
    }

    fn step(&self, effect: &Effect) -> Result<Option<Step>, Fault> {
        Ok(Some(match *effect {
            Effect::Load { from, scope, .. } => Step::Load {
                address: self.address(from)?,
                scope,
            },
            Effect::Store { to, value, scope } => Step::Store {
                address: self.address(to)?,
                value: self.word(value)?,
                scope,
            },
            Effect::Timer { .. } => Step::Timer,
            Effect::Invalidate => Step::Invalidate,
            Effect::Sleep(_) => Step::Sleep,
            Effect::Exit => Step::End,
            _ => return Ok(None),
        }))
    }

    fn execute(&mut self, effect: &Effect, program: &Program) -> Result<(), Fault> {
        match *effect {
            Effect::Move { to, width, from } => self.copy(to, width, from, program)?,
            Effect::Thread { to } => self.write(to, Width::Word, self.thread.into())?,
            Effect::Add {
                to,
                width,
                of,
                carry_in,
                carry_out,
            } => {
                let mut sum = u128::from(match carry_in {
                    Some(carry) => self.test(carry)?,
                    None => false,
                });
                for source in of {
                    sum += self.term(source, width, program)?;
                }
                if let Some(carry_out) = carry_out {
                    self.set(carry_out, sum >> 32 != 0);
                }
                self.write(to, width, sum as u64)?;
            }
            Effect::Compare {
                to,
                width,
                relation,
                signed,
                of,
                and,
                lower,
            } => {
                let [a, b] = self.two(of, width, program)?;
                let order = match (signed, width) {
                    (false, _) => a.cmp(&b),
                    (true, Width::Word) => (a as i32).cmp(&(b as i32)),
                    (true, Width::Pair) => (a as i64).cmp(&(b as i64)),
                };
                let lower = lower.map(|lower| self.test(lower)).transpose()?;
                let found = relation.holds(order, lower) && self.test(and)?;
                if let Some(to) = to {
                    self.set(to, found);
                }
            }
            Effect::Select { to, of, first } => {
                let [a, b] = self.two(of, Width::Word, program)?;
                let value = if self.test(first)? { a } else { b };
                self.write(to, Width::Word, value)?;
            }
            Effect::Extreme { to, of, least } => {
                let [a, b] = self.two(of, Width::Pair, program)?.map(|x| x as i64);
                let value = if self.test(least)? {
                    a.min(b)
                } else {
                    a.max(b)
                };
                self.write(to, Width::Pair, value as u64)?;
            }
            Effect::Branch(to) => {
                self.at = to;
                return Ok(());
            }
            _ => {}
        }
        self.at += 1;
        Ok(())
    }

    /// A word of the driver stays one.
    fn copy(
        &mut self,
        to: Option<Register>,
        width: Width,
        from: Source,
        program: &Program,
    ) -> Result<(), Fault> {
        if !matches!(from.place, Place::Constant(offset) if offset < program.parameters) {
            let value = self.value(from, width, program)?;
            return self.write(to, width, value);
        }
        let upper = to.filter(|_| width == Width::Pair);
        let upper = upper.and_then(Register::upper);
        for register in [to, upper].into_iter().flatten() {
            *self.register(register) = Value::Driver;
        }
        Ok(())
    }

    fn two(&self, of: [Source; 2], width: Width, program: &Program) -> Result<[u64; 2], Fault> {
        Ok([
            self.value(of[0], width, program)?,
            self.value(of[1], width, program)?,
        ])
    }

    /// A value with its sign, cut to its width.
    fn value(&self, source: Source, width: Width, program: &Program) -> Result<u64, Fault> {
        let term = self.term(source, width, program)? as u64;
        Ok(match width {
            Width::Word => u64::from(term as u32),
            Width::Pair => term,
        })
    }

    /// A value with its sign as an adder takes it: the opposite of 5 is the opposite of all its
    /// bits, and 1 more, so that a carry means that nothing was borrowed.
    fn term(&self, source: Source, width: Width, program: &Program) -> Result<u128, Fault> {
        let (plain, mask) = match width {
            Width::Word => (self.low(source.place, program)?.into(), u32::MAX.into()),
            Width::Pair => (self.pair(source.place, program)?, u64::MAX),
        };
        Ok(match source.sign {
            Sign::Plain => plain.into(),
            Sign::Inverted => (!plain & mask).into(),
            // It is not there.
            Sign::Negated if source.place == Place::Zero => 0,
            Sign::Negated => u128::from(!plain & mask) + 1,
        })
    }

    fn low(&self, place: Place, program: &Program) -> Result<u32, Fault> {
        match place {
            Place::Zero => Ok(0),
            Place::Number(number) => Ok(number),
            Place::Register(register) => self.read(register),
            Place::Constant(offset) => self.constant(offset, program),
        }
    }

    fn pair(&self, place: Place, program: &Program) -> Result<u64, Fault> {
        let upper = match place {
            Place::Zero | Place::Number(_) => 0,
            Place::Register(register) => {
                let upper = register.upper().ok_or(Fault::Unset(self.at))?;
                self.read(upper)?
            }
            Place::Constant(offset) => self.constant(offset.saturating_add(4), program)?,
        };
        Ok(u64::from(upper) << 32 | u64::from(self.low(place, program)?))
    }

    fn constant(&self, offset: u16, program: &Program) -> Result<u32, Fault> {
        let fault = Fault::Constant(self.at);
        let offset = offset.checked_sub(program.parameters).ok_or(fault)?;
        let word = self.parameters.get(usize::from(offset / 4));
        match word {
            Some(&word) if offset % 4 == 0 => Ok(word),
            _ => Err(fault),
        }
    }

    fn word(&self, source: Source) -> Result<u32, Fault> {
        match (source.place, source.sign) {
            (Place::Zero, _) => Ok(0),
            (Place::Register(register), Sign::Plain) => self.read(register),
            _ => Err(Fault::Unset(self.at)),
        }
    }

    fn address(&self, address: Address) -> Result<u64, Fault> {
        if let Some(descriptor) = address.descriptor {
            if self.content(descriptor) != Value::Driver {
                return Err(Fault::Unset(self.at));
            }
        }
        let upper = address.register.upper().ok_or(Fault::Unset(self.at))?;
        let base = u64::from(self.read(upper)?) << 32 | u64::from(self.read(address.register)?);
        Ok(base.wrapping_add(address.offset.into()))
    }

    fn content(&self, register: Register) -> Value {
        let file = &self.registers[file(register)];
        file[usize::from(register.index)]
    }

    fn read(&self, register: Register) -> Result<u32, Fault> {
        match self.content(register) {
            Value::Word(word) => Ok(word),
            Value::Unset | Value::Driver => Err(Fault::Unset(self.at)),
        }
    }

    fn register(&mut self, register: Register) -> &mut Value {
        &mut self.registers[file(register)][usize::from(register.index)]
    }

    fn write(&mut self, to: Option<Register>, width: Width, value: u64) -> Result<(), Fault> {
        let Some(to) = to else { return Ok(()) };
        *self.register(to) = Value::Word(value as u32);
        if width == Width::Pair {
            let upper = to.upper().ok_or(Fault::Unset(self.at))?;
            *self.register(upper) = Value::Word((value >> 32) as u32);
        }
        Ok(())
    }

    fn test(&self, predicate: Predicate) -> Result<bool, Fault> {
        let bit = match predicate.of {
            None => Some(true),
            Some(register) => self.predicates[file(register)][usize::from(register.index)],
        };
        Ok(bit.ok_or(Fault::Unset(self.at))? != predicate.negated)
    }

    fn set(&mut self, register: Register, bit: bool) {
        self.predicates[file(register)][usize::from(register.index)] = Some(bit);
    }
}

fn file(register: Register) -> usize {
    match register.file {
        File::Thread => 0,
        File::Warp => 1,
    }
}

impl Relation {
    /// True for an order of two numbers. With that of their lower halves, the order is that of the
    /// upper ones, and equal ones leave it to them.
    fn holds(self, order: std::cmp::Ordering, lower: Option<bool>) -> bool {
        use std::cmp::Ordering::{Equal, Greater, Less};
        if let (Equal, Some(lower)) = (order, lower) {
            return lower;
        }
        match self {
            Self::Less => order == Less,
            // Equal upper halves have been dealt with.
            Self::LessOrEqual => order != Greater,
            Self::Equal => order == Equal,
            Self::NotEqual => order != Equal,
            Self::GreaterOrEqual => order != Less,
            Self::Greater => order == Greater,
        }
    }
}

#[cfg(test)]
mod tests;

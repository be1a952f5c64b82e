//! A small machine with sixteen registers and a byte array as its memory.

use crate::sys::bug;
use std::cell::RefCell;

const SEED: u64 = 0xd1b5_4a32_d192_ed03;
const MEMORY: usize = 0x8000;
const HOME: u64 = u64::MAX;
const SP: usize = 4;
const ARGUMENTS: [usize; 6] = [7, 6, 2, 1, 8, 9];
static PROGRAM: &[u8] = include_bytes!("lengths.dat");

#[derive(Clone, Copy)]
enum Operand {
    Nothing,
    Register(usize),
    Number(u64),
    Memory { base: usize, index: usize, scale: u64, offset: u64 },
}

#[derive(Clone, Copy)]
struct Instruction {
    operation: u8,
    size: u8,
    /// Size of what is widened, or the instruction that is gone to.
    other: usize,
    to: Operand,
    from: Operand,
}

pub struct Machine {
    /// One more than there are, which is always zero.
    registers: [u64; 17],
    memory: Vec<u8>,
    zero: bool,
    sign: bool,
    carry: bool,
    overflow: bool,
    entries: Vec<usize>,
    program: Vec<Instruction>,
}

thread_local! {
    static MACHINE: RefCell<Machine> = RefCell::new(Machine::new());
}

pub fn with<T>(action: impl FnOnce(&mut Machine) -> T) -> T {
    MACHINE.with(|machine| action(&mut machine.borrow_mut()))
}

/// Bytes of the program, one after the other.
struct Reader {
    bytes: Vec<u8>,
    at: usize,
}

impl Reader {
    fn new() -> Reader {
        let mut state = SEED;
        let bytes = PROGRAM.iter().map(|byte| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            byte ^ (state >> 56) as u8
        });
        Reader { bytes: bytes.collect(), at: 0 }
    }

    fn byte(&mut self) -> u8 {
        self.at += 1;
        self.bytes[self.at - 1]
    }

    fn short(&mut self) -> usize {
        usize::from(self.byte()) | usize::from(self.byte()) << 8
    }

    fn number(&mut self) -> u64 {
        let bytes = [self.byte(), self.byte(), self.byte(), self.byte()];
        i64::from(i32::from_le_bytes(bytes)) as u64
    }

    fn register(&mut self) -> usize {
        usize::from(self.byte()).min(16)
    }

    fn operand(&mut self) -> Operand {
        match self.byte() {
            1 => Operand::Register(self.register()),
            2 => Operand::Number(self.number()),
            _ => Operand::Memory {
                base: self.register(),
                index: self.register(),
                scale: u64::from(self.byte()),
                offset: self.number(),
            },
        }
    }

    fn instruction(&mut self) -> Instruction {
        let (operation, size) = (self.byte(), self.byte());
        let nothing = Operand::Nothing;
        let mut made = Instruction { operation, size, other: 0, to: nothing, from: nothing };
        match operation {
            12 | 13 => made.other = usize::from(self.byte()),
            21 | 22 | 32..=47 => made.other = self.short(),
            _ => {}
        }
        if let 0..=20 | 48.. = operation {
            made.to = self.operand();
        }
        if let 0..=14 | 48..=63 = operation {
            made.from = self.operand();
        }
        made
    }
}

/// The low bytes of a number, widened with zeros.
fn cut(value: u64, size: u8) -> u64 {
    if size < 8 {
        value & ((1 << (8 * size)) - 1)
    } else {
        value
    }
}

/// The low bytes of a number, widened with its sign.
fn widened(value: u64, size: u8) -> u64 {
    let shift = 64 - 8 * u32::from(size);
    (((value << shift) as i64) >> shift) as u64
}

impl Machine {
    fn new() -> Machine {
        let mut reader = Reader::new();
        let count = reader.byte();
        let entries = (0..count).map(|_| reader.short()).collect();
        let mut program = Vec::new();
        while reader.at < reader.bytes.len() {
            program.push(reader.instruction());
        }
        Machine {
            registers: [0; 17],
            memory: vec![0; MEMORY],
            zero: false,
            sign: false,
            carry: false,
            overflow: false,
            entries,
            program,
        }
    }

    pub fn put(&mut self, at: usize, bytes: &[u8]) {
        self.memory[at..at + bytes.len()].copy_from_slice(bytes);
    }

    pub fn get(&self, at: usize, len: usize) -> &[u8] {
        &self.memory[at..at + len]
    }

    pub fn word(&self, at: usize) -> u32 {
        self.load(at as u64, 4) as u32
    }

    /// Runs one of the program's functions.
    pub fn call(&mut self, entry: usize, arguments: &[u64]) {
        self.registers[SP] = MEMORY as u64;
        for &argument in arguments[ARGUMENTS.len().min(arguments.len())..].iter().rev() {
            self.push(argument);
        }
        for (&register, &argument) in ARGUMENTS.iter().zip(arguments) {
            self.registers[register] = argument;
        }
        self.push(HOME);
        let mut at = self.entries[entry] as u64;
        while at != HOME {
            let instruction = self.program[at as usize];
            at = self.step(instruction, at + 1);
        }
    }

    #[inline]
    fn load(&self, at: u64, size: u8) -> u64 {
        let mut bytes = [0; 8];
        let size = usize::from(size);
        bytes[..size].copy_from_slice(&self.memory[at as usize..at as usize + size]);
        u64::from_le_bytes(bytes)
    }

    #[inline]
    fn address(&self, operand: Operand) -> u64 {
        match operand {
            Operand::Memory { base, index, scale, offset } => self.registers[base]
                .wrapping_add(self.registers[index].wrapping_mul(scale))
                .wrapping_add(offset),
            _ => 0,
        }
    }

    #[inline]
    fn value(&self, operand: Operand, size: u8) -> u64 {
        match operand {
            Operand::Nothing => 0,
            Operand::Register(register) => cut(self.registers[register], size),
            Operand::Number(number) => cut(number, size),
            Operand::Memory { .. } => self.load(self.address(operand), size),
        }
    }

    #[inline]
    fn set(&mut self, operand: Operand, size: u8, value: u64) {
        match operand {
            Operand::Register(register) if size >= 4 => self.registers[register] = cut(value, size),
            Operand::Register(register) => {
                let old = self.registers[register];
                self.registers[register] = old ^ cut(old, size) | cut(value, size);
            }
            Operand::Memory { .. } => {
                let (at, size) = (self.address(operand) as usize, usize::from(size));
                self.memory[at..at + size].copy_from_slice(&value.to_le_bytes()[..size]);
            }
            _ => {}
        }
    }

    fn push(&mut self, value: u64) {
        self.registers[SP] -= 8;
        let at = self.registers[SP] as usize;
        self.put(at, &value.to_le_bytes());
    }

    fn pop(&mut self) -> u64 {
        let value = self.load(self.registers[SP], 8);
        self.registers[SP] += 8;
        value
    }

    fn flags(&mut self, result: u64, size: u8, carry: bool, overflow: bool) -> u64 {
        let result = cut(result, size);
        self.zero = result == 0;
        self.sign = widened(result, size) >> 63 != 0;
        self.carry = carry;
        self.overflow = overflow;
        result
    }

    fn difference(&mut self, a: u64, b: u64, size: u8) -> u64 {
        let result = a.wrapping_sub(b);
        let overflow = widened((a ^ b) & (a ^ result), size) >> 63 != 0;
        self.flags(result, size, a < b, overflow)
    }

    fn sum(&mut self, a: u64, b: u64, size: u8) -> u64 {
        let result = a.wrapping_add(b);
        let overflow = widened(!(a ^ b) & (a ^ result), size) >> 63 != 0;
        self.flags(result, size, cut(result, size) < a, overflow)
    }

    fn shifted(&mut self, operation: u8, a: u64, count: u64, size: u8) -> u64 {
        let count = count as u32 & if size == 8 { 63 } else { 31 };
        if count == 0 {
            return a;
        }
        let (result, last) = match operation {
            8 => (a << count, a << (count - 1) >> (8 * u32::from(size) - 1) & 1),
            9 => (a >> count, a >> (count - 1) & 1),
            _ => {
                let wide = widened(a, size) as i64;
                ((wide >> count) as u64, (wide >> (count - 1)) as u64 & 1)
            }
        };
        self.flags(result, size, last != 0, false)
    }

    fn holds(&self, condition: u8) -> bool {
        let less = self.sign != self.overflow;
        match condition {
            0 => self.zero,
            1 => !self.zero,
            2 => less,
            3 => !less,
            4 => less || self.zero,
            5 => !less && !self.zero,
            6 => self.carry,
            7 => !self.carry,
            8 => self.carry || self.zero,
            9 => !self.carry && !self.zero,
            10 => self.sign,
            _ => !self.sign,
        }
    }

    /// What the two-operand arithmetic makes of its operands; None where it only compares.
    fn computed(&mut self, operation: u8, a: u64, b: u64, size: u8) -> Option<u64> {
        match operation {
            0 => Some(b),
            1 => Some(self.sum(a, b, size)),
            2 => Some(self.difference(a, b, size)),
            3 => Some(self.flags(a & b, size, false, false)),
            4 => Some(self.flags(a | b, size, false, false)),
            5 => Some(self.flags(a ^ b, size, false, false)),
            6 => {
                self.difference(a, b, size);
                None
            }
            7 => {
                self.flags(a & b, size, false, false);
                None
            }
            8..=10 => Some(self.shifted(operation, a, b, size)),
            _ => Some(widened(a, size).wrapping_mul(widened(b, size))),
        }
    }

    /// One instruction; the number of the one that follows.
    #[inline]
    fn step(&mut self, i: Instruction, next: u64) -> u64 {
        let size = i.size;
        match i.operation {
            operation @ 0..=11 => {
                let a = if operation == 0 { 0 } else { self.value(i.to, size) };
                let b = self.value(i.from, size);
                if let Some(result) = self.computed(operation, a, b, size) {
                    self.set(i.to, size, result);
                }
            }
            12 => {
                let value = self.value(i.from, i.other as u8);
                self.set(i.to, size, value);
            }
            13 => {
                let value = self.value(i.from, i.other as u8);
                self.set(i.to, size, widened(value, i.other as u8));
            }
            14 => {
                let address = self.address(i.from);
                self.set(i.to, size, address);
            }
            operation @ 15..=18 => {
                let (a, carry) = (self.value(i.to, size), self.carry);
                let result = match operation {
                    15 => self.difference(0, a, size),
                    16 => !a,
                    17 => self.sum(a, 1, size),
                    _ => self.difference(a, 1, size),
                };
                if operation > 16 {
                    self.carry = carry;
                }
                self.set(i.to, size, result);
            }
            19 => {
                let value = self.value(i.to, 8);
                self.push(value);
            }
            20 => {
                let value = self.pop();
                self.set(i.to, 8, value);
            }
            21 => {
                self.push(next);
                return i.other as u64;
            }
            22 => return i.other as u64,
            23 => return self.pop(),
            24 => bug(self.registers[ARGUMENTS[0]] as i32),
            operation @ 32..=47 if self.holds(operation - 32) => return i.other as u64,
            32..=47 => {}
            operation @ 48..=63 => {
                let kept = self.value(i.to, size);
                let chosen = self.value(i.from, size);
                let value = if self.holds(operation - 48) { chosen } else { kept };
                self.set(i.to, size, value);
            }
            operation => {
                let value = u64::from(self.holds(operation - 64));
                self.set(i.to, size, value);
            }
        }
        next
    }
}

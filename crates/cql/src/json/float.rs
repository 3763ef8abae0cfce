//! Floating-point numbers with the digits that the JDK of a node gives them.
//!
//! A node prints what `Float.toString` and `Double.toString` return. Cassandra 4.0 to 5.0 run on the
//! JDKs 8, 11 and 17, whose digits are not always the fewest that give the number back: `2e23` is
//! `1.9999999999999998E23` there. JDK 19 changed that (JDK-4511638). So this follows the conversion
//! that those older JDKs have in `FloatingDecimal`, its oddities included: how it rounds whole
//! numbers, that `E` wants a second digit, and that what decides on the last digit depends on how
//! large the numbers of the calculation become.
//!
//! Both kinds of digits give the number back, so nothing is lost where a node has another JDK.

use std::cmp::Ordering;

use num_bigint::BigUint;

use super::number::place_point;

/// Where a significand has its highest bit, of a float as of a double.
const TOP_BIT: i32 = 52;

/// Appends a double, or `null` for what is no number.
pub(super) fn double(number: f64, out: &mut String) {
    let binary = Binary::unpack(number.abs().to_bits(), 52, 1023);
    write(number.is_finite(), number.is_sign_negative(), binary, out);
}

/// Appends a float, or `null` for what is no number.
pub(super) fn single(number: f32, out: &mut String) {
    let binary = Binary::unpack(number.abs().to_bits().into(), 23, 127);
    write(number.is_finite(), number.is_sign_negative(), binary, out);
}

fn write(is_finite: bool, is_negative: bool, binary: Option<Binary>, out: &mut String) {
    if !is_finite {
        return out.push_str("null");
    }
    if is_negative {
        out.push('-');
    }
    let Some(binary) = binary else {
        return out.push_str("0.0");
    };
    let Digits { value, point } = binary.digits();
    spell(itoa::Buffer::new().format(value), point, out);
}

/// Appends a number given in Rust's `{:e}` form, which has the fewest digits that give it back.
pub(crate) fn shortest(scientific: &str, out: &mut String) {
    let Some((mantissa, exponent)) = scientific.split_once('e') else {
        return out.push_str("null");
    };
    if mantissa.starts_with('-') {
        out.push('-');
    }
    let digits: String = mantissa.chars().filter(char::is_ascii_digit).collect();
    match exponent.parse::<i32>() {
        Ok(exponent) if digits != "0" => spell(&digits, exponent + 1, out),
        _ => out.push_str("0.0"),
    }
}

/// Plain between 10^-3 and 10^7, otherwise one digit before the point and `E`; at least one
/// digit behind the point.
fn spell(digits: &str, point: i32, out: &mut String) {
    if (-2..8).contains(&point) {
        place_point(digits, point, out);
    } else {
        place_point(digits, 1, out);
        out.push('E');
        super::whole(point - 1, out);
    }
}

/// Decimal digits: those of `value`, the point behind the first `point` of them.
#[derive(Debug)]
struct Digits {
    value: u64,
    point: i32,
}

/// A number above zero: `significand` times 2 to the power of `exponent` less [`TOP_BIT`].
#[derive(Debug)]
struct Binary {
    significand: u64,
    exponent: i32,
    /// How many bits of the significand the type has room for at this exponent.
    precision: i32,
}

impl Binary {
    /// Takes the bits of a number without its sign apart; `None` for zero.
    fn unpack(bits: u64, fraction_bits: i32, bias: i32) -> Option<Self> {
        let hidden = 1_u64 << fraction_bits;
        let biased = i32::try_from(bits >> fraction_bits).ok()?;
        let mantissa = (bits & (hidden - 1)) | if biased == 0 { 0 } else { hidden };
        let top = i32::try_from(mantissa.checked_ilog2()?).ok()?;
        Some(Self {
            significand: mantissa << (TOP_BIT - top),
            exponent: biased.max(1) - bias + top - fraction_bits,
            precision: top + 1,
        })
    }

    fn digits(&self) -> Digits {
        let used_bits = TOP_BIT + 1 - self.significand.trailing_zeros().cast_signed();
        let fraction_bits = (used_bits - self.exponent - 1).max(0);
        if fraction_bits == 0 && self.exponent < 63 {
            return self.whole_digits();
        }
        let exponent = self.decimal_exponent();
        let scale = Scale::new(self, used_bits, fraction_bits, exponent);
        // These limits are the JDK's: the digits differ on both sides of them.
        if scale.value_bits < 64 && scale.ten_bits < 64 {
            let is_int = scale.value_bits < 32 && scale.ten_bits < 32;
            return develop(Narrow::new(&scale, is_int), exponent);
        }
        // This one is ours, with room for a margin of fifty times `ten`: half the number is the most
        // that it begins with, and where `E` asks for a second digit it grows twice.
        if scale.value_bits < 120 && scale.ten_bits < 120 {
            return develop(Wide::new(&scale), exponent);
        }
        develop(Large::new(&scale), exponent)
    }

    /// The digits of a whole number below 2^63, without those that its type cannot tell apart.
    fn whole_digits(&self) -> Digits {
        let shift = self.exponent - TOP_BIT;
        let shifted =
            if shift < 0 { self.significand >> -shift } else { self.significand << shift };
        let unknown_bits = (self.exponent - self.precision - 1).max(0);
        let mut point = (1_u64 << unknown_bits).ilog10();
        let unit = 10_u64.pow(point);
        let mut value = shifted / unit;
        if point > 0 && shifted % unit >= unit / 2 {
            value += 1;
        }
        while value.is_multiple_of(10) && value > 0 {
            value /= 10;
            point += 1;
        }
        let count = value.checked_ilog10().unwrap_or(0) + 1;
        Digits { value, point: (point + count).cast_signed() }
    }

    /// The power of ten that the number begins with, or one more.
    ///
    /// The logarithm is that of a tangent at 1.5, with the JDK's constants and order of operations:
    /// where it misses decides on digits.
    #[expect(clippy::approx_constant, reason = "the JDK's constant is not the nearest to log10(2)")]
    fn decimal_exponent(&self) -> i32 {
        let fraction = self.significand & ((1 << TOP_BIT) - 1);
        let mantissa = f64::from_bits(1.0_f64.to_bits() | fraction);
        let logarithm = (mantissa - 1.5) * 0.289_529_654
            + 0.176_091_259
            + f64::from(self.exponent) * 0.301_029_995_663_981;
        // Rounded down. The fraction adds at least 0.03 and at most 0.33 to the exponent's share, and
        // this share of it is less than 0.01 off.
        let share = (self.exponent * 1233) >> 12;
        if f64::from(share + 1) <= logarithm { share + 1 } else { share }
    }
}

/// What the number and half the distance to its neighbours are multiplied with, so that they and
/// the power of ten the first digit counts are whole: powers of five and of two.
#[derive(Debug)]
struct Scale {
    significand: u64,
    value_fives: u32,
    value_twos: u32,
    unit_fives: u32,
    unit_twos: u32,
    margin_twos: u32,
    /// No fewer bits than the number has.
    value_bits: u32,
    /// No fewer bits than ten times the unit has.
    ten_bits: u32,
}

impl Scale {
    fn new(binary: &Binary, used_bits: i32, fraction_bits: i32, exponent: i32) -> Self {
        let value_fives = (-exponent).max(0);
        let unit_fives = exponent.max(0);
        let all_twos = value_fives + fraction_bits + binary.exponent;
        let mut value_twos = all_twos + 1 - used_bits;
        let mut unit_twos = unit_fives + fraction_bits;
        let mut margin_twos = all_twos - binary.precision;
        let common = value_twos.min(unit_twos);
        // The neighbour below a power of two is nearer. The JDK takes that for the one above, too.
        let narrower = i32::from(used_bits == 1);
        margin_twos -= common + narrower;
        // Halves of the margin would not be whole.
        let missing = (-margin_twos).max(0);
        value_twos += missing - common;
        unit_twos += missing - common;
        margin_twos += missing;
        let [value_fives, unit_fives, value_twos, unit_twos, margin_twos, used_bits] =
            [value_fives, unit_fives, value_twos, unit_twos, margin_twos, used_bits]
                .map(i32::unsigned_abs);
        Self {
            significand: binary.significand >> binary.significand.trailing_zeros(),
            value_fives,
            value_twos,
            unit_fives,
            unit_twos,
            margin_twos,
            value_bits: used_bits + value_twos + bits_of_fives(value_fives),
            ten_bits: unit_twos + 1 + bits_of_fives(unit_fives + 1),
        }
    }
}

/// How many bits a power of five adds to a product, or more where that is more than 127.
fn bits_of_fives(power: u32) -> u32 {
    match power {
        0 => 0,
        1..=54 => 5_u128.pow(power).ilog2() + 1,
        _ => 3 * power,
    }
}

/// Whether the digits so far will do: as they are, or with the last one rounded up.
#[derive(Clone, Copy, Debug, Default)]
struct Ends {
    low: bool,
    high: bool,
}

/// What is left of a number while its digits are taken from it.
trait Rest {
    /// Takes the next digit off.
    fn next(&mut self) -> (u64, Ends);

    /// What is left, compared with half of what the last digit counts.
    fn half(&self) -> Ordering;
}

/// Takes digits until they tell the number from its neighbours, and rounds the last one.
fn develop(mut rest: impl Rest, mut exponent: i32) -> Digits {
    let (mut value, mut ends) = rest.next();
    let mut count = 1;
    if value == 0 && !ends.high {
        // The exponent was estimated too high.
        exponent -= 1;
        count = 0;
    }
    // With `E` there are two digits at least; for 10^7 the JDK does not think of that.
    if !(-3..8).contains(&exponent) {
        ends = Ends::default();
    }
    while !ends.low && !ends.high {
        let digit;
        (digit, ends) = rest.next();
        value = value * 10 + digit;
        count += 1;
    }
    let is_up = ends.high
        && (!ends.low
            || match rest.half() {
                Ordering::Less => false,
                Ordering::Equal => value % 2 == 1,
                Ordering::Greater => true,
            });
    if is_up {
        value += 1;
        if value == 10_u64.pow(count) {
            value /= 10;
            exponent += 1;
        }
    }
    // A zero can only come first where the rest is within the margin of a power of ten, and then it
    // was rounded up.
    debug_assert_eq!(value.checked_ilog10().map(|digits| digits + 1), Some(count));
    Digits { value, point: exponent + 1 }
}

/// The calculation that the JDK makes with `int` or `long`. A number at the very end of the margin is
/// outside here and inside with large numbers. The margin may overflow, and what it is then decides.
#[derive(Debug)]
struct Narrow {
    value: i64,
    unit: i64,
    margin: i64,
    unused_bits: u32,
}

impl Narrow {
    fn new(scale: &Scale, is_int: bool) -> Self {
        let fives = 5_i64.pow(scale.value_fives);
        Self {
            value: (scale.significand.cast_signed() * fives) << scale.value_twos,
            unit: 5_i64.pow(scale.unit_fives) << scale.unit_twos,
            margin: fives << scale.margin_twos,
            unused_bits: if is_int { 32 } else { 0 },
        }
    }

    const fn wrap(&self, number: i64) -> i64 {
        (number << self.unused_bits) >> self.unused_bits
    }
}

impl Rest for Narrow {
    fn next(&mut self) -> (u64, Ends) {
        let digit = (self.value / self.unit).unsigned_abs();
        self.value = self.value % self.unit * 10;
        self.margin = self.wrap(self.margin.wrapping_mul(10));
        if self.margin <= 0 {
            return (digit, Ends { low: true, high: true });
        }
        let above = self.wrap(self.value.wrapping_add(self.margin));
        (digit, Ends { low: self.value < self.margin, high: above > self.unit * 10 })
    }

    fn half(&self) -> Ordering {
        self.wrap((self.value << 1).wrapping_sub(self.unit * 10)).cmp(&0)
    }
}

/// The calculation that the JDK makes with large numbers, where they are not that large.
#[derive(Debug)]
struct Wide {
    value: u128,
    unit: u128,
    margin: u128,
}

impl Wide {
    fn new(scale: &Scale) -> Self {
        let fives = 5_u128.pow(scale.value_fives);
        Self {
            value: (u128::from(scale.significand) * fives) << scale.value_twos,
            unit: 5_u128.pow(scale.unit_fives) << scale.unit_twos,
            margin: fives << scale.margin_twos,
        }
    }
}

impl Rest for Wide {
    fn next(&mut self) -> (u64, Ends) {
        let mut digit = 0;
        // Faster than a division of numbers this wide.
        while self.value >= self.unit {
            self.value -= self.unit;
            digit += 1;
        }
        self.value *= 10;
        self.margin *= 10;
        let high = self.value + self.margin >= self.unit * 10;
        (digit, Ends { low: self.value < self.margin, high })
    }

    fn half(&self) -> Ordering {
        self.value.cmp(&(self.unit * 5))
    }
}

/// The calculation that the JDK makes with large numbers.
#[derive(Debug)]
struct Large {
    value: BigUint,
    unit: BigUint,
    ten: BigUint,
    margin: BigUint,
}

impl Large {
    fn new(scale: &Scale) -> Self {
        let fives = BigUint::from(5_u8).pow(scale.value_fives);
        let unit = BigUint::from(5_u8).pow(scale.unit_fives) << scale.unit_twos;
        Self {
            value: (&fives * scale.significand) << scale.value_twos,
            ten: &unit * 10_u8,
            unit,
            margin: fives << scale.margin_twos,
        }
    }
}

impl Rest for Large {
    fn next(&mut self) -> (u64, Ends) {
        let mut digit = 0;
        while self.value >= self.unit {
            self.value -= &self.unit;
            digit += 1;
        }
        self.value *= 10_u8;
        self.margin *= 10_u8;
        let low = self.value < self.margin;
        // To add and to take away again needs no memory, unlike a sum.
        self.value += &self.margin;
        let high = self.value >= self.ten;
        self.value -= &self.margin;
        (digit, Ends { low, high })
    }

    fn half(&self) -> Ordering {
        (&self.value << 1_u8).cmp(&self.ten)
    }
}

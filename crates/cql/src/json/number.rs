//! Numbers as Java spells them.

use crate::value::Decimal;

/// Appends digits with the point behind the first `whole` of them (or that many zeros before).
pub(super) fn place_point(digits: &str, whole: i32, out: &mut String) {
    let Ok(whole) = usize::try_from(whole) else {
        out.push_str("0.");
        out.extend(std::iter::repeat_n('0', usize::try_from(whole.unsigned_abs()).unwrap_or(0)));
        out.push_str(digits);
        return;
    };
    let mut rest = digits.chars();
    if whole == 0 {
        out.push('0');
    }
    out.extend((0..whole).map(|_| rest.next().unwrap_or('0')));
    out.push('.');
    let fraction = rest.as_str();
    out.push_str(if fraction.is_empty() { "0" } else { fraction });
}

/// Appends a decimal.
pub(super) fn decimal(decimal: &Decimal, out: &mut String) {
    let Decimal { unscaled, scale } = decimal;
    match i64::try_from(unscaled) {
        Ok(small) => small_decimal(small, *scale, out),
        Err(_) => {
            let is_negative = unscaled.sign() == num_bigint::Sign::Minus;
            scaled(is_negative, &unscaled.magnitude().to_string(), *scale, out);
        }
    }
}

/// The same for those that fit, which are most: large numbers take long to read and to write.
pub(crate) fn small_decimal(unscaled: i64, scale: i32, out: &mut String) {
    let mut digits = itoa::Buffer::new();
    scaled(unscaled < 0, digits.format(unscaled.unsigned_abs()), scale, out);
}

/// Appends digits by their scale: plain unless it is negative or the number smaller than 10^-6,
/// otherwise one digit before the point and `E` with a sign.
fn scaled(is_negative: bool, digits: &str, scale: i32, out: &mut String) {
    if is_negative {
        out.push('-');
    }
    let count = i64::try_from(digits.len()).unwrap_or(i64::MAX);
    let scale = i64::from(scale);
    let exponent = count.saturating_sub(1) - scale;
    if scale >= 0 && exponent >= -6 {
        plain_decimal(digits, count - scale, out);
        return;
    }
    let mut rest = digits.chars();
    out.extend(rest.next());
    if !rest.as_str().is_empty() {
        out.push('.');
        out.push_str(rest.as_str());
    }
    if exponent != 0 {
        out.push_str(if exponent > 0 { "E+" } else { "E" });
        out.push_str(&exponent.to_string());
    }
}

/// Digits with `whole` of them before the point; here the scale is at most six more than there
/// are digits, so no more than seven zeros are added.
fn plain_decimal(digits: &str, whole: i64, out: &mut String) {
    let whole = usize::try_from(whole).map_err(|_| whole.unsigned_abs());
    match whole {
        Ok(whole) if whole == digits.len() => out.push_str(digits),
        Ok(0) => {
            out.push_str("0.");
            out.push_str(digits);
        }
        Ok(whole) => {
            let (before, after) = digits.split_at_checked(whole).unwrap_or((digits, ""));
            out.push_str(before);
            out.push('.');
            out.push_str(after);
        }
        Err(zeros) => {
            out.push_str("0.");
            out.extend(std::iter::repeat_n('0', usize::try_from(zeros).unwrap_or(0)));
            out.push_str(digits);
        }
    }
}

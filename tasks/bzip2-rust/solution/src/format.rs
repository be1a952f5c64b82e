//! Fixed-point printing with the rounding of printf.

/// Formats like `%{width}.{decimals}f`: the exact value, ties to even.
pub fn fixed(value: f64, width: usize, decimals: u32) -> String {
    if !value.is_finite() {
        let text = if value.is_nan() { "nan" } else { "inf" };
        let sign = if value.is_sign_negative() { "-" } else { "" };
        return format!("{:>width$}", format!("{}{}", sign, text), width = width);
    }
    let scale = 10u128.pow(decimals);
    let scaled = scaled_magnitude(value.abs(), scale);
    let sign = if value.is_sign_negative() { "-" } else { "" };
    let text = format!(
        "{}{}.{:0digits$}",
        sign,
        scaled / scale,
        scaled % scale,
        digits = decimals as usize
    );
    format!("{:>width$}", text, width = width)
}

/// `magnitude * scale` rounded to an integer, ties to even.
fn scaled_magnitude(magnitude: f64, scale: u128) -> u128 {
    let bits = magnitude.to_bits();
    let exponent_field = (bits >> 52) as i32 & 0x7ff;
    let fraction = bits & ((1 << 52) - 1);
    let (mantissa, exponent) = match exponent_field {
        0 => (fraction, -1074),
        e => (fraction | 1 << 52, e - 1075),
    };
    let product = u128::from(mantissa) * scale;
    if exponent >= 0 {
        return product << exponent.min(60);
    }
    let shift = -exponent as u32;
    if shift > 100 {
        return 0;
    }
    let quotient = product >> shift;
    let remainder = product & ((1 << shift) - 1);
    let half = 1u128 << (shift - 1);
    let up = remainder > half || (remainder == half && quotient & 1 == 1);
    quotient + u128::from(up)
}

#[cfg(test)]
mod tests {
    use super::fixed;

    #[test]
    fn rounds_like_printf() {
        assert_eq!(fixed(0.125, 5, 2), " 0.12");
        assert_eq!(fixed(0.375, 5, 2), " 0.38");
        assert_eq!(fixed(-0.001, 5, 2), "-0.00");
        assert_eq!(fixed(1234.5678, 6, 3), "1234.568");
        assert_eq!(fixed(100.0, 4, 1), "100.0");
    }
}

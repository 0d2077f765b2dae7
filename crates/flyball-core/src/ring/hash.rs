//! FNV in 64 bits, both orders: the hashes by which all members of a cluster place keys.
//!
//! Old and weak: FNV-1 hardly lets the last byte of its input reach the high bits, so keys that differ only
//! there nearly always land on one peer. It stays because every member of a cluster must agree.

const OFFSET_BASIS: u64 = 14_695_981_039_346_656_037;
const PRIME: u64 = 1_099_511_628_211;

/// Which of the two orders.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Hash {
    /// Multiply, then xor.
    #[default]
    Fnv1,
    /// Xor, then multiply: mixes better.
    Fnv1a,
}

impl Hash {
    /// The hash of the parts one after the other, without putting them together.
    ///
    /// A multiplication a byte, each waiting for the one before: with an even ring, this is half of what finding an
    /// owner costs. Nothing shortens the chain, since even the lowest byte depends on all before it; what the text
    /// is cut into adds nothing.
    #[inline]
    pub fn of(self, parts: &[&[u8]]) -> u64 {
        let bytes = parts.iter().copied().flatten();
        match self {
            Self::Fnv1 => bytes.fold(OFFSET_BASIS, |hash, &byte| hash.wrapping_mul(PRIME) ^ u64::from(byte)),
            Self::Fnv1a => {
                bytes.fold(OFFSET_BASIS, |hash, &byte| (hash ^ u64::from(byte)).wrapping_mul(PRIME))
            }
        }
    }
}

/// FNV-1 of `bytes`.
#[inline]
pub fn fnv1(bytes: &[u8]) -> u64 {
    Hash::Fnv1.of(&[bytes])
}

/// FNV-1a of `bytes`.
#[inline]
pub fn fnv1a(bytes: &[u8]) -> u64 {
    Hash::Fnv1a.of(&[bytes])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_values() {
        for (input, one, one_a) in [
            ("", 0xcbf2_9ce4_8422_2325, 0xcbf2_9ce4_8422_2325),
            ("a", 0xaf63_bd4c_8601_b7be, 0xaf63_dc4c_8601_ec8c),
            ("foobar", 0x340d_8765_a4dd_a9c2, 0x8594_4171_f739_67e8),
            ("requests_per_sec_account:12345", 0x7d5f_1dbb_c8f3_5476, 0x279e_0892_06eb_fe50),
        ] {
            assert_eq!(fnv1(input.as_bytes()), one, "FNV-1 of {input:?}");
            assert_eq!(fnv1a(input.as_bytes()), one_a, "FNV-1a of {input:?}");
        }
    }

    #[test]
    fn parts_hash_like_the_whole() {
        for hash in [Hash::Fnv1, Hash::Fnv1a] {
            assert_eq!(hash.of(&[b"foo", b"", b"b", b"ar"]), hash.of(&[b"foobar"]));
            assert_eq!(hash.of(&[]), hash.of(&[b""]));
        }
    }
}

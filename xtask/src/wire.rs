//! Just enough protobuf to write a `GetRateLimitsReq`: the chores know nothing of the product's crates.

/// One item of a call. Fields that are 0 or absent are not written, as in any proto3 encoder.
#[derive(Clone, Debug, Default)]
pub struct Item {
    pub name: String,
    pub unique_key: String,
    pub hits: i64,
    pub limit: i64,
    pub duration: i64,
    pub algorithm: i64,
    pub behavior: i64,
    pub burst: i64,
    pub created_at: Option<i64>,
    pub max_wait: i64,
}

/// The message with these items.
pub fn message<'a>(items: impl IntoIterator<Item = &'a Item>) -> Vec<u8> {
    let mut out = Vec::new();
    for item in items {
        bytes(&mut out, 1, &item.encoded());
    }
    out
}

/// The message as gRPC sends it: not compressed, with its length in front.
pub fn grpc_frame(message: &[u8]) -> Vec<u8> {
    let length = u32::try_from(message.len()).unwrap_or(u32::MAX);
    [&[0], length.to_be_bytes().as_slice(), message].concat()
}

impl Item {
    fn encoded(&self) -> Vec<u8> {
        let mut out = Vec::new();
        bytes(&mut out, 1, self.name.as_bytes());
        bytes(&mut out, 2, self.unique_key.as_bytes());
        let numbers = [self.hits, self.limit, self.duration, self.algorithm, self.behavior, self.burst];
        for (field, value) in (3..).zip(numbers) {
            if value != 0 {
                number(&mut out, field, value);
            }
        }
        if let Some(created_at) = self.created_at {
            number(&mut out, 10, created_at);
        }
        if self.max_wait != 0 {
            number(&mut out, 11, self.max_wait);
        }
        out
    }
}

fn bytes(out: &mut Vec<u8>, field: u64, value: &[u8]) {
    varint(out, field << 3 | 2);
    varint(out, value.len() as u64);
    out.extend_from_slice(value);
}

fn number(out: &mut Vec<u8>, field: u64, value: i64) {
    varint(out, field << 3);
    varint(out, value.cast_unsigned());
}

fn varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_has_the_bytes_that_protobuf_says() {
        let item = Item {
            name: "n".into(),
            unique_key: "k".into(),
            hits: 1,
            limit: 300,
            created_at: Some(0),
            max_wait: -1,
            ..Item::default()
        };
        let mut expected =
            vec![0x0a, 24, 0x0a, 1, b'n', 0x12, 1, b'k', 0x18, 1, 0x20, 0xac, 0x02, 0x50, 0, 0x58];
        expected.extend([0xff; 9]);
        expected.push(1);
        expected[1] = u8::try_from(expected.len() - 2).unwrap();
        assert_eq!(message([&item]), expected);
        assert_eq!(grpc_frame(&[7, 8]), [0, 0, 0, 0, 2, 7, 8]);
    }
}

//! The wire: messages and services of `pb.gubernator`, generated from the files in `proto/` and committed, so
//! that nobody needs a protobuf compiler. `tests/generated.rs` regenerates them and compares.

pub mod answers;
pub mod convert;

/// The generated code.
#[allow(missing_docs, unreachable_pub, clippy::all, unused_qualifications, missing_debug_implementations)]
#[rustfmt::skip]
mod generated {
    pub mod pb {
        include!("generated/pb.gubernator.rs");
    }
}

pub use generated::pb;

/// The compiled `.proto` files with their imports, for server reflection.
pub const FILE_DESCRIPTOR_SET: &[u8] = include_bytes!("generated/descriptors.bin");

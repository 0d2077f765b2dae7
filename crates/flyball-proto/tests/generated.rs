//! The committed code is what the `.proto` files say. Run with `FLYBALL_BLESS=1` (or `cargo xtask codegen`)
//! to write it anew.

use std::path::Path;

use prost_types::FileDescriptorSet;

fn compile(root: &Path) -> FileDescriptorSet {
    let proto = root.join("proto");
    protox::compile([proto.join("gubernator.proto"), proto.join("peers.proto")], [&proto])
        .expect("the .proto files compile")
}

#[test]
fn generated_code_is_current() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let committed = root.join("src/generated");
    let set = compile(root);
    let out = tempfile::tempdir().expect("a folder for temporary files");
    tonic_prost_build::configure()
        .build_transport(false)
        .btree_map(".")
        .file_descriptor_set_path(out.path().join("descriptors.bin"))
        .out_dir(out.path())
        .compile_fds(set.clone())
        .expect("code can be generated");
    // Source positions are left out: they are half of the size and reflection does not need them.
    let mut plain = set;
    for file in &mut plain.file {
        file.source_code_info = None;
    }
    std::fs::write(out.path().join("descriptors.bin"), prost::Message::encode_to_vec(&plain)).unwrap();
    for name in ["pb.gubernator.rs", "descriptors.bin"] {
        let fresh = std::fs::read(out.path().join(name)).unwrap_or_else(|e| panic!("{name}: {e}"));
        let path = committed.join(name);
        if std::env::var_os("FLYBALL_BLESS").is_some() {
            std::fs::write(&path, &fresh).expect("the source folder is writable");
        }
        let kept = std::fs::read(&path).unwrap_or_default();
        assert!(kept == fresh, "{} is out of date: run `cargo xtask codegen`", path.display());
    }
}

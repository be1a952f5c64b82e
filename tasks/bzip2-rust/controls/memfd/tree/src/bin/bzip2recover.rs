fn main() {
    bz2::memory::become_program(include_bytes!("../bzip2recover.dat"))
}

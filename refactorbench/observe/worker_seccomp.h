/* The system call filter of a checked program. Two lists: what no check may do, and, unless the task is for a just-in-time
 * compiled stack, all ways to executable memory other than a file on an executable mount. Refusals are EPERM, so that an
 * honest program goes on; calls of another architecture are killed, since their numbers mean other things. */
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/personality.h>
#include <sys/shm.h>

#if defined(__x86_64__)
#define THIS_ARCH AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define THIS_ARCH AUDIT_ARCH_AARCH64
#else
#error "the filter knows x86_64 and aarch64"
#endif
#define X32_BIT 0x40000000u
#define NEW_NAMESPACES 0x7e020000u /* CLONE_NEWNS, CGROUP, UTS, IPC, USER, PID, NET */

static const unsigned refused_always[] = {
    SYS_mount, SYS_umount2, SYS_pivot_root, SYS_move_mount, SYS_open_tree, SYS_fsopen, SYS_fsconfig, SYS_fsmount,
    SYS_fspick, SYS_mount_setattr, SYS_chroot, SYS_unshare, SYS_setns, SYS_ptrace, SYS_process_vm_readv,
    SYS_process_vm_writev, SYS_process_madvise, SYS_kcmp, SYS_pidfd_getfd, SYS_userfaultfd, SYS_bpf, SYS_keyctl,
    SYS_add_key, SYS_request_key, SYS_io_uring_setup, SYS_io_uring_enter, SYS_io_uring_register, SYS_perf_event_open,
    SYS_open_by_handle_at, SYS_name_to_handle_at, SYS_kexec_load, SYS_kexec_file_load, SYS_init_module,
    SYS_finit_module, SYS_delete_module, SYS_reboot, SYS_swapon, SYS_swapoff, SYS_acct, SYS_syslog, SYS_quotactl,
    SYS_fanotify_init,
};
static const unsigned refused_memory[] = {SYS_memfd_create, SYS_memfd_secret};

#define FILTER_MAX 256
static struct sock_filter filter_code[FILTER_MAX];
static struct sock_fprog filter = {0, filter_code};

static void emit(unsigned short code, unsigned k, unsigned char yes, unsigned char no) {
  if (filter.len < FILTER_MAX) filter_code[filter.len++] = (struct sock_filter){code, yes, no, k};
}

#define LOAD(field) emit(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, field), 0, 0)
#define ARG(n) LOAD(args[n]) /* the low half: all machines here are little-endian */
#define ANSWER(what) emit(BPF_RET | BPF_K, what, 0, 0)
#define IS(value, yes, no) emit(BPF_JMP | BPF_JEQ | BPF_K, value, yes, no)
#define HAS(bits, yes, no) emit(BPF_JMP | BPF_JSET | BPF_K, bits, yes, no)
#define REFUSE (SECCOMP_RET_ERRNO | EPERM)

static void refuse(unsigned call) {
  IS(call, 0, 1);
  ANSWER(REFUSE);
}

/* Refuse `call` when argument `n` has one of `bits`. */
static void refuse_bits(unsigned call, int n, unsigned bits) {
  IS(call, 0, 4);
  ARG(n);
  HAS(bits, 0, 1);
  ANSWER(REFUSE);
  ANSWER(SECCOMP_RET_ALLOW);
}

static void refuse_memory(void) {
  for (size_t i = 0; i < sizeof refused_memory / sizeof *refused_memory; i++) refuse(refused_memory[i]);
  refuse_bits(SYS_execveat, 4, AT_EMPTY_PATH);
  refuse_bits(SYS_mprotect, 2, PROT_EXEC);
  refuse_bits(SYS_pkey_mprotect, 2, PROT_EXEC);
  refuse_bits(SYS_shmat, 2, SHM_EXEC);
  IS(SYS_mmap, 0, 7);
  ARG(2);
  HAS(PROT_EXEC, 0, 4);
  HAS(PROT_WRITE, 2, 0);
  ARG(3);
  HAS(MAP_ANONYMOUS, 0, 1);
  ANSWER(REFUSE);
  ANSWER(SECCOMP_RET_ALLOW);
  IS(SYS_personality, 0, 5);
  ARG(0);
  IS(0xffffffffu, 2, 0); /* asks, changes nothing */
  HAS(READ_IMPLIES_EXEC, 0, 1);
  ANSWER(REFUSE);
  ANSWER(SECCOMP_RET_ALLOW);
}

/* `shared` allows SysV shared memory, which only a cgroup can bound. */
static void build_filter(int deny_memory, int shared) {
  LOAD(arch);
  IS(THIS_ARCH, 1, 0);
  ANSWER(SECCOMP_RET_KILL_PROCESS);
  LOAD(nr);
#ifdef __x86_64__
  emit(BPF_JMP | BPF_JGE | BPF_K, X32_BIT, 0, 1);
  ANSWER(SECCOMP_RET_KILL_PROCESS);
#endif
  for (size_t i = 0; i < sizeof refused_always / sizeof *refused_always; i++) refuse(refused_always[i]);
  if (!shared) refuse(SYS_shmget);
  if (deny_memory) refuse_memory();
  IS(SYS_clone3, 0, 1); /* its flags lie in memory; the C libraries then use clone */
  ANSWER(SECCOMP_RET_ERRNO | ENOSYS);
  refuse_bits(SYS_clone, 0, NEW_NAMESPACES);
  ANSWER(SECCOMP_RET_ALLOW);
}

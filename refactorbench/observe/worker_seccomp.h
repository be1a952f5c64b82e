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

#define FILTER_MAX 512
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

struct rule {
  unsigned call;
  enum { NEVER, UNKNOWN, WITHOUT_BITS, MAPPING, PERSONALITY } kind;
  int arg;
  unsigned bits; /* for WITHOUT_BITS: refused when argument `arg` has one of them */
};

#define RULES_MAX 96
static struct rule rules[RULES_MAX];
static int rule_count;

static void rule(unsigned call, int kind, int arg, unsigned bits) {
  if (rule_count < RULES_MAX) rules[rule_count++] = (struct rule){call, kind, arg, bits};
}

static int by_call(const void *a, const void *b) {
  unsigned x = ((const struct rule *)a)->call, y = ((const struct rule *)b)->call;
  return x < y ? -1 : x > y;
}

static void decide(const struct rule *r) {
  switch (r->kind) {
    case NEVER: ANSWER(REFUSE); return;
    case UNKNOWN: ANSWER(SECCOMP_RET_ERRNO | ENOSYS); return;
    case WITHOUT_BITS:
      ARG(r->arg);
      HAS(r->bits, 0, 1);
      break;
    case MAPPING: /* executable, and writable or not of a file */
      ARG(2);
      HAS(PROT_EXEC, 0, 4);
      HAS(PROT_WRITE, 2, 0);
      ARG(3);
      HAS(MAP_ANONYMOUS, 0, 1);
      break;
    case PERSONALITY: /* all bits set only asks */
      ARG(0);
      IS(0xffffffffu, 2, 0);
      HAS(READ_IMPLIES_EXEC, 0, 1);
  }
  ANSWER(REFUSE);
  ANSWER(SECCOMP_RET_ALLOW);
}

/* A binary search over the rules: on installing a filter the kernel runs it once for every call there is. */
static void search(int from, int to) {
  if (to - from == 1) {
    unsigned short jump = filter.len;
    IS(rules[from].call, 0, 0);
    decide(&rules[from]);
    filter_code[jump].jf = filter.len - jump - 1;
    ANSWER(SECCOMP_RET_ALLOW);
    return;
  }
  int middle = (from + to) / 2;
  unsigned short jump = filter.len;
  emit(BPF_JMP | BPF_JGE | BPF_K, rules[middle].call, 0, 0);
  search(from, middle);
  filter_code[jump].jt = filter.len - jump - 1;
  search(middle, to);
}

static void memory_rules(void) {
  rule(SYS_memfd_create, NEVER, 0, 0);
  rule(SYS_memfd_secret, NEVER, 0, 0);
  rule(SYS_execveat, WITHOUT_BITS, 4, AT_EMPTY_PATH);
  rule(SYS_mprotect, WITHOUT_BITS, 2, PROT_EXEC);
  rule(SYS_pkey_mprotect, WITHOUT_BITS, 2, PROT_EXEC);
  rule(SYS_shmat, WITHOUT_BITS, 2, SHM_EXEC);
  rule(SYS_mmap, MAPPING, 0, 0);
  rule(SYS_personality, PERSONALITY, 0, 0);
}

/* `shared` allows SysV shared memory, which only a cgroup can bound. */
static void build_filter(int deny_memory, int shared) {
  for (size_t i = 0; i < sizeof refused_always / sizeof *refused_always; i++) rule(refused_always[i], NEVER, 0, 0);
  rule(SYS_clone3, UNKNOWN, 0, 0); /* its flags lie in memory; the C libraries then use clone */
  rule(SYS_clone, WITHOUT_BITS, 0, NEW_NAMESPACES);
  if (!shared) rule(SYS_shmget, NEVER, 0, 0);
  if (deny_memory) memory_rules();
  qsort(rules, rule_count, sizeof *rules, by_call);
  LOAD(arch);
  IS(THIS_ARCH, 1, 0);
  ANSWER(SECCOMP_RET_KILL_PROCESS);
  LOAD(nr);
#ifdef __x86_64__
  emit(BPF_JMP | BPF_JGE | BPF_K, X32_BIT, 0, 1);
  ANSWER(SECCOMP_RET_KILL_PROCESS);
#endif
  search(0, rule_count);
}

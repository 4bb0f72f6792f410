/* A plug-in for qemu-user 7.2: counts the instructions that a program for ARM executes between two marks, by class.
 *
 * The program sets a mark with a hint instruction that does nothing on a processor: `hint #96` begins, `hint #97`
 * ends (`nop {96}` and `nop {97}` in ARM code of 32 bits, of which only all instructions are counted). Jumps have to separate both from what is counted (marks.h), because whole blocks are counted. For every block of instructions that ran in between one line goes to the file of the argument `out`:
 *
 *   address, executions, instructions, SIMD arithmetic, CNT, FMLA, SIMD loads and stores, other loads and stores,
 *   branches and system instructions
 *
 * The classes are those of one pass through the block. SIMD arithmetic holds CNT and FMLA, too; FMLA is every
 * floating-point multiply-add of vectors.
 *
 *   cc -shared -fPIC -O2 -o count.so count_instructions.c
 *   qemu-aarch64 -plugin ./count.so,out=counts.txt PROGRAM
 *
 * Debian's qemu-user brings no header, so the part of the interface (version 1) that is used is declared here. One
 * thread is counted: the counters are added to without locks. */
#include <inttypes.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

typedef uint64_t qemu_plugin_id_t;
struct qemu_plugin_tb;
struct qemu_plugin_insn;
enum { INLINE_ADD_U64 = 0 };   /* of qemu_plugin_op */
enum { CB_NO_REGS = 0 };       /* of qemu_plugin_cb_flags */

typedef void (*tb_translated)(qemu_plugin_id_t id, struct qemu_plugin_tb* tb);
typedef void (*executed)(unsigned int cpu, void* data);
typedef void (*finished)(qemu_plugin_id_t id, void* data);

void qemu_plugin_register_vcpu_tb_trans_cb(qemu_plugin_id_t id, tb_translated call);
void qemu_plugin_register_vcpu_tb_exec_inline(struct qemu_plugin_tb* tb, int op, void* counter, uint64_t add);
void qemu_plugin_register_vcpu_insn_exec_cb(struct qemu_plugin_insn* insn, executed call, int flags, void* data);
void qemu_plugin_register_atexit_cb(qemu_plugin_id_t id, finished call, void* data);
size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb* tb);
struct qemu_plugin_insn* qemu_plugin_tb_get_insn(const struct qemu_plugin_tb* tb, size_t index);
const void* qemu_plugin_insn_data(const struct qemu_plugin_insn* insn);
uint64_t qemu_plugin_insn_vaddr(const struct qemu_plugin_insn* insn);
void qemu_plugin_outs(const char* text);

EXPORT int qemu_plugin_version = 1;

enum { ALL, SIMD, CNT, FMLA, SIMD_MEMORY, MEMORY, BRANCH, CLASSES };

struct block {
  struct block* next;
  uint64_t address;
  uint64_t executions;
  uint64_t before; /* executions when the beginning was marked */
  uint32_t count[CLASSES];
};

static struct block* blocks;
static FILE* out;
static bool ended;
static bool is_aarch64;

/* Classes by the fields of "C4.1 A64 instruction set encoding" of the Arm Architecture Reference Manual. */
static void classify(uint32_t insn, uint32_t* count) {
  const uint32_t op0 = insn >> 25 & 0xf;
  ++count[ALL];
  if (!is_aarch64) return;
  if ((op0 & 0x5) == 0x4) { /* x1x0: loads and stores; bit 26 says that the registers are vectors */
    ++count[insn >> 26 & 1 ? SIMD_MEMORY : MEMORY];
  } else if ((op0 & 0x7) == 0x7) { /* x111: SIMD and floating point */
    ++count[SIMD];
    if ((insn & 0xbf3ffc00) == 0x0e205800) ++count[CNT];
    const bool same = (insn & 0xbf20fc00) == 0x0e20cc00;        /* FMLA, three vectors; bit 23: FMLS */
    const bool half = (insn & 0xbf60fc00) == 0x0e400c00;        /* the same of half precision */
    const bool element = (insn & 0xbf80b400) == 0x0f801000;     /* by element; bit 14: FMLS */
    const bool half_element = (insn & 0xbfc0b400) == 0x0f001000;
    if (same || half || element || half_element) ++count[FMLA];
  } else if ((op0 & 0xe) == 0xa) {
    ++count[BRANCH];
  }
}

static void begin(unsigned int cpu, void* data) {
  (void)cpu, (void)data;
  for (struct block* b = blocks; b; b = b->next) b->before = b->executions;
}

static void end(unsigned int cpu, void* data) {
  (void)cpu, (void)data;
  if (ended) return;
  ended = true;
  for (const struct block* b = blocks; b; b = b->next) {
    if (b->executions == b->before) continue;
    fprintf(out, "%" PRIx64 " %" PRIu64, b->address, b->executions - b->before);
    for (int i = 0; i < CLASSES; ++i) fprintf(out, " %" PRIu32, b->count[i]);
    fputc('\n', out);
  }
  fclose(out);
}

static void translated(qemu_plugin_id_t id, struct qemu_plugin_tb* tb) {
  (void)id;
  struct block* b = calloc(1, sizeof *b);
  if (!b) abort();
  const size_t length = qemu_plugin_tb_n_insns(tb);
  for (size_t i = 0; i < length; ++i) {
    struct qemu_plugin_insn* insn = qemu_plugin_tb_get_insn(tb, i);
    uint32_t bits;
    memcpy(&bits, qemu_plugin_insn_data(insn), sizeof bits);
    if (i == 0) b->address = qemu_plugin_insn_vaddr(insn);
    classify(bits, b->count);
    const uint32_t first = is_aarch64 ? 0xd5032c1f : 0xe320f060, last = is_aarch64 ? 0xd5032c3f : 0xe320f061;
    if (bits == first) qemu_plugin_register_vcpu_insn_exec_cb(insn, begin, CB_NO_REGS, NULL);
    if (bits == last) qemu_plugin_register_vcpu_insn_exec_cb(insn, end, CB_NO_REGS, NULL);
  }
  b->next = blocks;
  blocks = b;
  qemu_plugin_register_vcpu_tb_exec_inline(tb, INLINE_ADD_U64, &b->executions, 1);
}

static void check(qemu_plugin_id_t id, void* data) {
  (void)id, (void)data;
  if (!ended) qemu_plugin_outs("count_instructions: the program did not reach its end mark\n");
}

/* The description that qemu hands over begins with the processor's name. */
EXPORT int qemu_plugin_install(qemu_plugin_id_t id, const char* const* info, int argc, char** argv) {
  is_aarch64 = strcmp(*info, "aarch64") == 0;
  if (argc != 1 || strncmp(argv[0], "out=", 4) != 0 || !(out = fopen(argv[0] + 4, "w"))) {
    fprintf(stderr, "count_instructions: give a file that can be written: -plugin count.so,out=FILE\n");
    return 1;
  }
  qemu_plugin_register_vcpu_tb_trans_cb(id, translated);
  qemu_plugin_register_atexit_cb(id, check, NULL);
  return 0;
}
